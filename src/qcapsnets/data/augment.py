"""Augmentation of training batches, and resizing.

All images of a batch are changed at once, on the device that holds them, each by draws of its
own from an explicit generator.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from qcapsnets.errors import DataError

RESIZE_CHUNK = 100


@dataclass(frozen=True)
class Augmentation:
    """Rotate by up to +-`rotate` degrees, mirror with probability `flip`, then shift by up to
    +-`shift` whole pixels in each direction. What comes in from outside is 0. The default
    changes nothing.
    """

    shift: int = 0
    rotate: float = 0.0
    flip: float = 0.0

    def __post_init__(self) -> None:
        if self.shift < 0:
            raise DataError(f"shift = {self.shift}: give 0 pixels or more")
        if not 0 <= self.rotate <= 180:
            raise DataError(f"rotate = {self.rotate}: give 0..180 degrees")
        if not 0 <= self.flip <= 1:
            raise DataError(f"flip = {self.flip}: give a probability, 0..1")

    def __call__(self, images: Tensor, *, generator: torch.Generator) -> Tensor:
        """Change float `images` [B, C, H, W]; the result has the same shape, type and device."""
        self._check(images)
        if self.rotate:
            images = _rotate(images, self._angles(images, generator))
        if self.flip:
            images = _flip(images, self._draw(images, generator) < self.flip)
        if self.shift:
            images = _shift(images, self._offsets(images, generator), self.shift)
        return images

    def _check(self, images: Tensor) -> None:
        if images.ndim != 4 or not images.is_floating_point():
            raise DataError(
                f"images are {images.dtype} of shape {list(images.shape)}: "
                "augment floats [batch, channels, height, width]"
            )
        if self.shift >= min(images.shape[2:]):
            raise DataError(
                f"shift = {self.shift} would push images of shape {list(images.shape[2:])} "
                "out of sight: give less than their size"
            )

    def _draw(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """One number in [0, 1) per image. A CPU generator serves images on any device."""
        draws = torch.rand(len(images), generator=generator, device=generator.device)
        return draws.to(images.device)

    def _angles(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return (2 * self._draw(images, generator) - 1) * math.radians(self.rotate)

    def _offsets(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Rows and columns, [2, B], each in -shift..shift."""
        size = (2, len(images))
        bounds = (-self.shift, self.shift + 1)
        offsets = torch.randint(*bounds, size, generator=generator, device=generator.device)
        return offsets.to(images.device)


def _rotate(images: Tensor, angles: Tensor) -> Tensor:
    """Turn about the centre, bilinearly."""
    height, width = images.shape[2:]
    y, x = _centred(height, images)[:, None], _centred(width, images)
    cos, sin = (f(angles).to(images.dtype)[:, None, None] for f in (torch.cos, torch.sin))
    # Written out: affine_grid does it by many tiny matrix products, in twice the time.
    columns, rows = (cos * x - sin * y) * (2 / width), (sin * x + cos * y) * (2 / height)
    grid = torch.stack((columns, rows), dim=-1)  # grid_sample counts from -1 to 1 on each axis
    return functional.grid_sample(images, grid, padding_mode="zeros", align_corners=False)


def _centred(size: int, like: Tensor) -> Tensor:
    """Pixel centres, counted from the middle of the image."""
    return torch.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2


def _flip(images: Tensor, chosen: Tensor) -> Tensor:
    return torch.where(chosen.view(-1, 1, 1, 1), images.flip(-1), images)


def _shift(images: Tensor, offsets: Tensor, largest: int) -> Tensor:
    """Move by whole pixels: indexing into a padded copy, so that no pixel changes its value."""
    batch, _, height, width = images.shape
    padded = functional.pad(images, [largest] * 4)
    down, right = offsets
    rows = torch.arange(height, device=images.device) + (largest - down)[:, None]
    columns = torch.arange(width, device=images.device) + (largest - right)[:, None]
    which = torch.arange(batch, device=images.device)[:, None, None]
    shifted = padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]]
    return shifted.permute(0, 3, 1, 2).contiguous()


def resize(images: Tensor, size: int) -> Tensor:
    """Bytes [N, C, H, W] as bytes [N, C, size, size], bilinearly, rounded to the nearest byte."""
    if size < 1:
        raise DataError(f"size = {size}: give 1 pixel or more")
    if images.shape[2:] == (size, size):
        return images
    resized = images.new_empty((*images.shape[:2], size, size))
    smooth = size < max(images.shape[2:])  # pixels that fall between samples count when shrinking
    # In chunks that stay in the processor's cache: four times as fast as large ones.
    for source, target in zip(images.split(RESIZE_CHUNK), resized.split(RESIZE_CHUNK), strict=True):
        floats = functional.interpolate(
            source.float(), (size, size), mode="bilinear", align_corners=False, antialias=smooth
        )
        target.copy_(floats.round_())  # an average of bytes is within 0..255
    return resized
