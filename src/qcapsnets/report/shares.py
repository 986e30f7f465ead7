"""Which blocks of a network its memory goes to, in float and quantized."""

from dataclasses import dataclass

from qcapsnets.accounting import FLOAT_BITS, Inventory, Memory
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.models import CapsNet

ROWS = ("weights, float", "weights, quantized", "activations, float", "activations, quantized")


@dataclass(frozen=True)
class Share:
    """Bits, and the part of all of them in percent."""

    bits: int
    percent: float


def shares_of(model: CapsNet, plan: Plan) -> dict[str, tuple[Share, ...]]:
    """For each block, its share of each of the `ROWS`; the parts of a block are added up."""
    granularity = Inventory.of(model).granularity(plan)
    before = Memory.of(model, Plan.uniform(model, FLOAT_BITS, granularity))
    after = Memory.of(model, plan)
    bits: dict[str, list[int]] = {}
    for old, new in zip(before.layers, after.layers, strict=True):
        block = bits.setdefault(new.name.partition(".")[0], [0] * len(ROWS))
        own = old.weight_bits, new.weight_bits, old.activation_bits, new.activation_bits
        block[:] = (a + b for a, b in zip(block, own, strict=True))
    totals = [sum(column) for column in zip(*bits.values(), strict=True)]
    return {
        name: tuple(Share(b, 100 * b / total) for b, total in zip(own, totals, strict=True))
        for name, own in bits.items()
    }
