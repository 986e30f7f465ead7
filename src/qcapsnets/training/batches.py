"""Which images a step sees, and in which shape: functions of (seed, epoch) and (seed, step) only.

Nothing random has a state that must be saved, so a training that was killed sees what it would
have seen anyway.
"""

import zlib
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from torch import Tensor

from qcapsnets.data import Augmentation, ImageSet, to_inputs
from qcapsnets.errors import TrainingError
from qcapsnets.training.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Batch:
    """This process's share of a step's images.

    Gradients are averaged over processes; `weight` makes that the mean over all images.
    """

    images: Tensor
    labels: Tensor
    weight: float


class Batches:
    """The batches of a training, by step; every process takes its share of each."""

    def __init__(
        self, images: ImageSet, recipe: Recipe, augmentation: Augmentation, fabric: Fabric
    ) -> None:
        self.images, self.recipe = images, recipe
        self.augmentation, self.fabric = augmentation, fabric
        self.per_epoch = steps_per_epoch(len(images), recipe.batch_size, fabric.world_size)

    def at(self, step: int) -> Batch:
        """The images of `step`, on this process's device."""
        epoch, index = divmod(step, self.per_epoch)
        order = _generator(self.recipe.seed, "order", epoch)
        shuffled = torch.randperm(len(self.images), generator=order)
        size, rank, world = self.recipe.batch_size, self.fabric.global_rank, self.fabric.world_size
        together = shuffled[index * size : (index + 1) * size]
        chosen = together[rank::world]
        device = self.fabric.device
        images = to_inputs(self.images.images[chosen].to(device))
        if self.recipe.augment:
            generator = _generator(self.recipe.seed, f"augment {rank}", step, device)
            images = self.augmentation(images, generator=generator)
        labels = self.images.labels[chosen].to(device)
        return Batch(images, labels, len(chosen) * world / len(together))


def steps_per_epoch(images: int, batch_size: int, processes: int) -> int:
    """A last batch too small to give every process an image is left out, others each epoch."""
    if batch_size < processes:
        raise TrainingError(
            f"batch_size is {batch_size}, but there are {processes} processes: "
            "choose a larger one, so that each has an image"
        )
    whole, rest = divmod(images, batch_size)
    return whole + (rest >= processes)


def seed_of(seed: int, purpose: str, index: int) -> int:
    """All of it in the low 32 bits, since PyTorch's generator on a CPU sees no others."""
    return zlib.crc32(f"{seed} {purpose} {index}".encode())


def fingerprint(images: ImageSet) -> str:
    """A short name for exactly these images and labels."""
    check = zlib.crc32(images.images.cpu().numpy().tobytes())
    return f"{len(images)}-{zlib.crc32(images.labels.cpu().numpy().tobytes(), check):08x}"


def _generator(
    seed: int, purpose: str, index: int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Random numbers that depend on nothing but their purpose and place."""
    return torch.Generator(device).manual_seed(seed_of(seed, purpose, index))
