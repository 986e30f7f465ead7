"""Training, validation and test images.

Validation is drawn from the training images, with each class in the same proportion, by a fixed
seed. Training and search see the first two; the test images pass through untouched.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.data.images import ImageSet
from qcapsnets.errors import DataError


@dataclass(frozen=True, eq=False)
class Splits:
    """Three disjoint sets of images of the same size and the same classes."""

    train: ImageSet
    validation: ImageSet
    test: ImageSet

    def __post_init__(self) -> None:
        for name, other in (("validation", self.validation), ("test", self.test)):
            if _kind(other) != _kind(self.train):
                raise DataError(
                    f"{name} is {other!r} but train is {self.train!r}: "
                    "all splits need the same image size, channels and classes"
                )


def split(train: ImageSet, test: ImageSet, validation: int, seed: int = 0) -> Splits:
    """Draw `validation` images from `train`; both parts keep the order that they came in."""
    if not 0 < validation < len(train):
        raise DataError(
            f"validation = {validation} of {len(train)} training images leaves an empty split: "
            f"choose 1..{len(train) - 1}"
        )
    if not 0 <= seed < 2**63:
        raise DataError(f"seed = {seed}: choose 0..2^63-1")
    drawn = _draw(train.labels.cpu(), validation, seed)
    return Splits(
        train=train.select(torch.nonzero(~drawn).flatten()),
        validation=train.select(torch.nonzero(drawn).flatten()),
        test=test,
    )


def _kind(images: ImageSet) -> tuple[int, int, int, int]:
    return images.channels, images.height, images.width, images.classes


def _draw(labels: Tensor, count: int, seed: int) -> Tensor:
    """A mask [N] with `count` labels drawn, each class by its share."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    drawn = torch.zeros(len(labels), dtype=torch.bool)
    for label, quota in enumerate(_quotas(labels.bincount(), count)):
        drawn[order[labels[order] == label][:quota]] = True
    return drawn


def _quotas(sizes: Tensor, count: int) -> list[int]:
    """Share `count` out in proportion to `sizes`; what is left goes to the largest remainders."""
    total = int(sizes.sum())
    quotas = sizes * count // total
    by_remainder = (sizes * count % total).argsort(descending=True, stable=True)
    quotas[by_remainder[: count - int(quotas.sum())]] += 1
    return [int(quota) for quota in quotas]
