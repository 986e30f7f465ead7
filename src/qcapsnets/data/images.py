"""Images as bytes with their labels, and what a network is given of them.

A pixel is kept as the byte p that it was recorded with, and a network sees p / 256. So a pixel
*is* an unsigned fixed-point number with 8 fractional bits: the first number of the pipeline is
on the grid already and nothing is rounded on the way in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.errors import DataError

PIXEL_FRACTION = 8


def to_inputs(images: Tensor) -> Tensor:
    """Bytes as a network's input: float32, images / 2^8, exact."""
    if images.dtype != torch.uint8:
        raise DataError(f"pixels are {images.dtype}: a network's input is made from torch.uint8")
    return images.to(torch.float32).div(2**PIXEL_FRACTION)


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """Labelled images: uint8 `images` [N, C, H, W], int64 `labels` [N] within 0..classes-1."""

    images: Tensor
    labels: Tensor
    classes: int

    def __post_init__(self) -> None:
        _check_images(self.images)
        _check_labels(self.labels, len(self.images), self.classes)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        size = f"{self.channels}x{self.height}x{self.width}"
        return f"ImageSet({len(self)} images of {size}, {self.classes} classes)"

    @property
    def channels(self) -> int:
        return self.images.shape[1]

    @property
    def height(self) -> int:
        return self.images.shape[2]

    @property
    def width(self) -> int:
        return self.images.shape[3]

    def inputs(self) -> Tensor:
        """All images as a network's input; for large sets convert batch by batch instead."""
        return to_inputs(self.images)

    def select(self, indices: Tensor | Sequence[int]) -> "ImageSet":
        """The images at `indices`, in that order."""
        chosen = torch.as_tensor(indices, device=self.images.device)
        if chosen.ndim != 1 or chosen.numel() == 0:
            raise DataError(
                f"a selection of shape {list(chosen.shape)}: give a list of one index or more"
            )
        if chosen.dtype != torch.int64:
            raise DataError(f"a selection of {chosen.dtype}: give indices as torch.int64")
        if chosen.min() < 0 or chosen.max() >= len(self):
            raise DataError(
                f"a selection reaches from {int(chosen.min())} to {int(chosen.max())}: "
                f"there are images 0..{len(self) - 1}"
            )
        return ImageSet(self.images[chosen], self.labels[chosen], self.classes)


def _check_images(images: Tensor) -> None:
    if images.ndim != 4:
        raise DataError(
            f"images of shape {list(images.shape)}: give [images, channels, height, width]"
        )
    if images.numel() == 0:
        raise DataError(f"images of shape {list(images.shape)} are empty: give one image or more")
    if images.dtype != torch.uint8:
        raise DataError(f"images are {images.dtype}: give bytes, torch.uint8")


def _check_labels(labels: Tensor, images: int, classes: int) -> None:
    if labels.shape != (images,):
        raise DataError(
            f"labels of shape {list(labels.shape)} for {images} images: give one label per image"
        )
    if labels.dtype != torch.int64:
        raise DataError(f"labels are {labels.dtype}: give torch.int64")
    if classes < 2:
        raise DataError(f"classes = {classes}: there must be 2 or more")
    low, high = (int(bound) for bound in labels.aminmax())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise DataError(
            f"label {wrong} is outside 0..{classes - 1}: correct the label or the classes"
        )
