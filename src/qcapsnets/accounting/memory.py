"""Memory: exact bits of weights, of layer outputs, and of what is needed at the same time.

Weights are every stored bit of weights and biases: sum over the layers of P * N. Binary points are
counted apart, one for each tensor. A reduction is 32 * sum(P) / sum(P * N), and the same over the
layer outputs for activations. Sizes are for one image, and in bits: 1 Mbit is 1,000,000 of them.
"""

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from qcapsnets.accounting.inventory import FLOAT_BITS, Inventory
from qcapsnets.fixedpoint.format import FRACTIONS
from qcapsnets.fixedpoint.plan import RULED, Granularity, Plan
from qcapsnets.models import CapsNet, Kind

BINARY_POINT_BITS = (len(FRACTIONS) - 1).bit_length()
"""Bits that tell one binary point from all others: 8, for fractions from -64 to 64."""

_UNITS = ((1_000_000, "Mbit"), (1_000, "kbit"))


def parameters_of(model: CapsNet, granularity: Granularity = "block") -> dict[str, int]:
    """Weights and biases of each part; a batch norm counts as scale and shift."""
    return Inventory.of(model).parameters(granularity)


def outputs_of(model: CapsNet, granularity: Granularity = "block") -> dict[str, int]:
    """How many numbers each part hands on for one image.

    A block's output is its own alone. By `layer`, each convolution in a block hands on its own,
    and the last one the sum as well.
    """
    return Inventory.of(model).outputs(granularity)


def votes_of(model: CapsNet, granularity: Granularity = "block") -> dict[str, int]:
    """Votes of the parts that route, on top of their outputs."""
    return Inventory.of(model).votes(granularity)


def weight_bits(model: CapsNet, plan: Plan | None = None) -> int:
    """Bits of all weights and biases; without a plan, of the float network."""
    return Inventory.of(model).weight_bits(plan)


def activation_bits(model: CapsNet, plan: Plan | None = None) -> int:
    """Bits of all layer outputs for one image; without a plan, of the float network."""
    return Inventory.of(model).activation_bits(plan)


def binary_points_of(model: CapsNet) -> int:
    """How many binary points a quantized network has: one for each site that a plan rules."""
    arrays = Inventory.of(model).arrays.values()
    return sum(array.kind in RULED for array in arrays)


def bits_in_words(bits: int) -> str:
    """Bits with the unit that suits: `45.0 Mbit`."""
    for size, unit in _UNITS:
        if bits >= size:
            return f"{bits / size:,.1f} {unit}"
    return f"{bits} bit"


@dataclass(frozen=True)
class Item:
    """An array in memory."""

    name: str
    numbers: int
    wordlength: int

    @property
    def bits(self) -> int:
        return self.numbers * self.wordlength


@dataclass(frozen=True)
class WorkingSet:
    """Arrays that are needed at the same time, at the fullest moment of one layer."""

    layer: str
    items: tuple[Item, ...]

    @property
    def bits(self) -> int:
        return sum(item.bits for item in self.items)

    def __rich__(self) -> Table:
        table = Table("array", title=f"Working set of {self.layer}", title_justify="left")
        for column in ("numbers", "wordlength", "memory"):
            table.add_column(column, justify="right")
        for item in sorted(self.items, key=lambda item: -item.bits):
            row = f"{item.numbers:,}", str(item.wordlength), bits_in_words(item.bits)
            table.add_row(item.name, *row)
        table.add_section()
        table.add_row("at the same time", "", "", bits_in_words(self.bits), style="bold")
        return table


def working_sets(model: CapsNet, plan: Plan | None = None) -> tuple[WorkingSet, ...]:
    """The fullest moment of each layer, weights apart: they are never written.

    Arrays are formed whole, in the order in which the network computes. A value is needed from
    when it is written until it was last read; an update in place needs its array once. Without
    a plan, these arrays in 32 bits (our own float network forms no votes).
    """
    inventory = Inventory.of(model)
    wordlengths = inventory.wordlengths(plan)
    owners = {s: p.name for p in inventory.parts["block"].values() for s in p.sites}
    fullest: dict[str, WorkingSet] = {}
    for moment in inventory.moments:
        items = (Item(n, inventory.arrays[n].numbers, wordlengths[n]) for n in moment.arrays)
        found = WorkingSet(owners[moment.site], tuple(items))
        known = fullest.get(found.layer)
        if known is None or found.bits > known.bits:
            fullest[found.layer] = found
    return tuple(fullest.values())


def peak_working_set(model: CapsNet, plan: Plan | None = None) -> WorkingSet:
    """The fullest moment of all."""
    return max(working_sets(model, plan), key=lambda found: found.bits)


@dataclass(frozen=True)
class LayerMemory:
    """One row of the account."""

    name: str
    parameters: int
    weight: int
    outputs: int
    activation: int
    routing: int | None = None

    @property
    def weight_bits(self) -> int:
        return self.parameters * self.weight

    @property
    def activation_bits(self) -> int:
        return self.outputs * self.activation


@dataclass(frozen=True)
class Memory:
    """The whole account of a network under a plan."""

    layers: tuple[LayerMemory, ...]
    weight_tensors: int
    other_arrays: int
    peak: WorkingSet

    @classmethod
    def of(cls, model: CapsNet, plan: Plan | None = None) -> "Memory":
        """Count; without a plan, the float network."""
        inventory = Inventory.of(model)
        granularity = inventory.granularity(plan)
        outputs = inventory.outputs(granularity)
        rows = (
            LayerMemory(name, count, weight, outputs[name], activation, routing)
            for name, count in inventory.parameters(granularity).items()
            for weight, activation, routing in [_wordlengths(plan, name)]
        )
        tensors = sum(array.kind is Kind.WEIGHT for array in inventory.arrays.values())
        points = 0 if plan is None else binary_points_of(model)
        return cls(
            layers=tuple(rows),
            weight_tensors=0 if plan is None else tensors,
            other_arrays=0 if plan is None else points - tensors,
            peak=peak_working_set(model, plan),
        )

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def outputs(self) -> int:
        return sum(layer.outputs for layer in self.layers)

    @property
    def weight_bits(self) -> int:
        return sum(layer.weight_bits for layer in self.layers)

    @property
    def activation_bits(self) -> int:
        return sum(layer.activation_bits for layer in self.layers)

    @property
    def binary_point_bits(self) -> int:
        """One binary point for each tensor of weights and each other array; a float has its own."""
        return BINARY_POINT_BITS * (self.weight_tensors + self.other_arrays)

    @property
    def weight_reduction(self) -> float:
        """32 * sum(P) / sum(P * N)."""
        return FLOAT_BITS * self.parameters / self.weight_bits

    @property
    def activation_reduction(self) -> float:
        """The same over the layer outputs."""
        return FLOAT_BITS * self.outputs / self.activation_bits

    def to_json(self) -> dict[str, Any]:
        """Plain values, totals included."""
        totals = {
            "weight_bits": self.weight_bits,
            "weight_reduction": self.weight_reduction,
            "activation_bits": self.activation_bits,
            "activation_reduction": self.activation_reduction,
            "binary_point_bits": self.binary_point_bits,
            "peak_working_set_bits": self.peak.bits,
        }
        return totals | asdict(self)

    def __rich__(self) -> Table:
        table = Table("layer", caption=self._caption(), caption_justify="left")
        for column in ("parameters", "bits", "weights", "outputs", "bits", "activations"):
            table.add_column(column, justify="right")
        for layer in self.layers:
            table.add_row(
                layer.name,
                f"{layer.parameters:,}",
                str(layer.weight),
                bits_in_words(layer.weight_bits),
                f"{layer.outputs:,}",
                str(layer.activation) + (f" / {layer.routing}" if layer.routing else ""),
                bits_in_words(layer.activation_bits),
            )
        table.add_section()
        weights, activations = bits_in_words(self.weight_bits), bits_in_words(self.activation_bits)
        counts = f"{self.parameters:,}", "", weights, f"{self.outputs:,}", "", activations
        table.add_row("all", *counts, style="bold")
        return table

    def _caption(self) -> str:
        peak = (
            f"At most {bits_in_words(self.peak.bits)} are needed at a time, in {self.peak.layer}."
        )
        if not self.weight_tensors:
            return peak
        points = self.weight_tensors + self.other_arrays
        return (
            f"Weights {self.weight_reduction:.2f}x smaller than in FP32, activations "
            f"{self.activation_reduction:.2f}x; {points} binary points of {BINARY_POINT_BITS} bits "
            f"on top. {peak}"
        )


def _wordlengths(plan: Plan | None, name: str) -> tuple[int, int, int | None]:
    if plan is None:
        return FLOAT_BITS, FLOAT_BITS, None
    q = plan[name]
    return q.weight, q.activation, q.routing
