"""Work: multiply-accumulates and function evaluations of each layer, and what they cost in energy.

Energies are for 45 nm [Horowitz, ISSCC 2014], between the wordlengths measured there by the fit
that QKeras uses. They are estimates of the arithmetic alone.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from qcapsnets.accounting.inventory import Inventory
from qcapsnets.accounting.trace import Call
from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.plan import Granularity
from qcapsnets.models import CapsNet

DRAM_PICOJOULES_PER_BIT = 20.0
FP32_ADD_PICOJOULES = 0.9
FP32_MULTIPLY_PICOJOULES = 3.7
FP32_MAC_PICOJOULES = FP32_ADD_PICOJOULES + FP32_MULTIPLY_PICOJOULES


@dataclass(frozen=True)
class Evaluations:
    """A function of `rows` vectors of `size` numbers, in each of some iterations."""

    function: str
    rows: int
    size: int
    iterations: int

    @property
    def total(self) -> int:
        """How many vectors in all."""
        return self.rows * self.iterations

    def __str__(self) -> str:
        times = f"{self.iterations} x " if self.iterations > 1 else ""
        return f"{times}{self.rows:,} of {self.size}"


@dataclass(frozen=True)
class LayerOperations:
    """The work of one layer: multiply-accumulates by what they are for, and its functions."""

    name: str
    macs_by_operation: dict[str, int]
    functions: tuple[Evaluations, ...]

    @property
    def macs(self) -> int:
        return sum(self.macs_by_operation.values())

    def evaluations(self, function: str) -> tuple[Evaluations, ...]:
        """Those of `squash` or of `softmax`."""
        return tuple(found for found in self.functions if found.function == function)

    def in_words(self, function: str) -> str:
        """Those of one function, alike ones together, a line each."""
        rows: Counter[tuple[int, int]] = Counter()
        for found in self.evaluations(function):
            rows[found.size, found.iterations] += found.rows
        together = (Evaluations(function, n, size, times) for (size, times), n in rows.items())
        return "\n".join(map(str, together))


@dataclass(frozen=True)
class Operations:
    """The work of a network on one image. Routing counts every iteration, the first included."""

    layers: tuple[LayerOperations, ...]

    @classmethod
    def of(cls, model: CapsNet, granularity: Granularity = "block") -> "Operations":
        """Count."""
        inventory = Inventory.of(model)
        return cls(
            tuple(
                _layer(inventory, name, frozenset(part.sites))
                for name, part in inventory.parts[granularity].items()
            )
        )

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    def total(self, function: str) -> int:
        """How many vectors are squashed, or rows normalised, in all."""
        return sum(found.total for layer in self.layers for found in layer.evaluations(function))

    def to_json(self) -> dict[str, Any]:
        """Plain values, totals included."""
        totals = {name: self.total(name) for name in ("squash", "softmax")}
        return {"macs": self.macs} | totals | asdict(self)

    def __rich__(self) -> Table:
        table = Table("layer")
        for column in ("multiply-accumulates", "squash", "softmax"):
            table.add_column(column, justify="right")
        for layer in self.layers:
            calls = (layer.in_words(name) for name in ("squash", "softmax"))
            table.add_row(layer.name, f"{layer.macs:,}", *calls)
        table.add_section()
        totals = (f"{self.total(name):,}" for name in ("squash", "softmax"))
        table.add_row("all", f"{self.macs:,}", *totals, style="bold")
        return table


def _layer(inventory: Inventory, name: str, sites: frozenset[str]) -> LayerOperations:
    macs: Counter[str] = Counter()
    for products in inventory.products:
        if products.site in sites:
            macs[products.operation] += products.macs
    calls: Counter[Call] = Counter(call for call in inventory.calls if call.site in sites)
    evaluations = (Evaluations(c.function, c.rows, c.size, n) for c, n in calls.items())
    return LayerOperations(name, dict(macs), tuple(evaluations))


def add_energy(bits: int) -> float:
    """Picojoules of an addition of two integers of `bits`."""
    return 0.003125 * _checked(bits)


def multiply_energy(bits: int) -> float:
    """Picojoules of a multiplication of two integers of `bits`."""
    return 0.0029948 * _checked(bits) ** 2 + 0.0010417 * bits


def mac_energy(bits: int) -> float:
    """Picojoules of a multiply-accumulate of integers of `bits`."""
    return multiply_energy(bits) + add_energy(bits)


def _checked(bits: int) -> int:
    if type(bits) is not int or bits < 1:
        raise FixedPointError(f"wordlength {bits!r} is not allowed: give a whole number from 1 up")
    return bits
