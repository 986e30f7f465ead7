"""Small networks and data that the tests, and the processes that they start, have in common."""

from typing import Any

import torch
from torch import Tensor

from qcapsnets.data import Splits, load
from qcapsnets.models import CapsNet, Storage, build, sites_of

TINY: dict[str, Any] = {
    "size": 14,
    "conv_channels": 16,
    "conv_kernel": 5,
    "primary_capsules": 4,
    "primary_kernel": 5,
    "class_dimension": 8,
}
TINY_DEEP: dict[str, Any] = {
    "size": 14,
    "conv_channels": 8,
    "capsules": 2,
    "first_dimension": 2,
    "dimension": 4,
    "class_dimension": 4,
}


def tiny(seed: int = 0, **options: Any) -> CapsNet:
    """conv -> primary -> digit for 14x14 digits."""
    torch.manual_seed(seed)
    return build("shallowcaps", **(TINY | options))


def tiny_deep(seed: int = 0, **options: Any) -> CapsNet:
    """All six layers of DeepCaps, batch norm and routed convolution among them."""
    torch.manual_seed(seed)
    return build("deepcaps", **(TINY_DEEP | options))


def small_digits(train: int = 600, others: int = 200) -> Splits:
    """The first of the bundled digits, at 14x14."""
    digits = load("mnist-mini", size=14)
    return Splits(
        digits.train.select(range(train)),
        digits.validation.select(range(others)),
        digits.test.select(range(others)),
    )


class Recorder(Storage):
    """Stores numbers as they are and remembers them, so that nothing is left unformed."""

    keeps_all = False

    def __init__(self) -> None:
        self.stored: list[Tensor] = []

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        self.stored.append(x)
        return x


def record(model: torch.nn.Module) -> dict[str, Recorder]:
    """Fill every site with a recorder."""
    recorders = {}
    for name, site in sites_of(model):
        site.storage = recorders[name] = Recorder()
    return recorders
