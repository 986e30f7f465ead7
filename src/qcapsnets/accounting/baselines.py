"""Networks without capsules, as plain shapes, to compare with: memory, and work for each bit of it.

LeNet-5 is the form in use today: its second convolution sees all maps, its pooling has no weights
and its output is a plain layer (LeCun 1998 has 60,000 weights, this one 61,706). AlexNet is that
of Krizhevsky 2012, with the two groups that it ran on two processors.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from qcapsnets.accounting.inventory import FLOAT_BITS
from qcapsnets.accounting.memory import bits_in_words, parameters_of
from qcapsnets.accounting.operations import Operations
from qcapsnets.models import CapsNet


@dataclass(frozen=True)
class Shape:
    """A convolution onto a square map; a fully connected layer is one of 1x1 on a map of 1x1."""

    name: str
    inputs: int
    outputs: int
    kernel: int = 1
    map_size: int = 1
    groups: int = 1

    @property
    def parameters(self) -> int:
        """Weights and one bias for each output."""
        return self.outputs * (self._terms + 1)

    @property
    def macs(self) -> int:
        return self.outputs * self.map_size**2 * self._terms

    @property
    def _terms(self) -> int:
        return self.inputs // self.groups * self.kernel**2


@dataclass(frozen=True)
class Footprint:
    """What a network weighs, and how much it computes with that."""

    name: str
    parameters: int
    macs: int

    @property
    def bits(self) -> int:
        """Memory of weights and biases in FP32."""
        return FLOAT_BITS * self.parameters

    @property
    def macs_per_bit(self) -> float:
        """Multiply-accumulates for each bit of memory."""
        return self.macs / self.bits

    @classmethod
    def of(cls, model: CapsNet) -> "Footprint":
        """That of a capsule network."""
        return cls(model.name, sum(parameters_of(model).values()), Operations.of(model).macs)


LENET5 = (
    Shape("conv1", 1, 6, kernel=5, map_size=28),
    Shape("conv2", 6, 16, kernel=5, map_size=10),
    Shape("full1", 16 * 5 * 5, 120),
    Shape("full2", 120, 84),
    Shape("full3", 84, 10),
)

ALEXNET = (
    Shape("conv1", 3, 96, kernel=11, map_size=55),
    Shape("conv2", 96, 256, kernel=5, map_size=27, groups=2),
    Shape("conv3", 256, 384, kernel=3, map_size=13),
    Shape("conv4", 384, 384, kernel=3, map_size=13, groups=2),
    Shape("conv5", 384, 256, kernel=3, map_size=13, groups=2),
    Shape("full6", 256 * 6 * 6, 4096),
    Shape("full7", 4096, 4096),
    Shape("full8", 4096, 1000),
)

BASELINES = {"LeNet-5": LENET5, "AlexNet": ALEXNET}


def footprint(name: str) -> Footprint:
    """That of one of the `BASELINES`."""
    shapes = BASELINES[name]
    return Footprint(name, sum(s.parameters for s in shapes), sum(s.macs for s in shapes))


@dataclass(frozen=True)
class Comparison:
    """Footprints side by side: the paper's first figure."""

    footprints: tuple[Footprint, ...]

    @classmethod
    def of(cls, models: Iterable[CapsNet]) -> "Comparison":
        """The baselines, then these networks."""
        return cls((*map(footprint, BASELINES), *map(Footprint.of, models)))

    def __rich__(self) -> Table:
        table = Table("network")
        for column in ("parameters", "FP32", "multiply-accumulates", "MACs per bit"):
            table.add_column(column, justify="right")
        for f in self.footprints:
            numbers = f"{f.parameters:,}", bits_in_words(f.bits), f"{f.macs:,}"
            table.add_row(f.name, *numbers, f"{f.macs_per_bit:.2f}")
        return table
