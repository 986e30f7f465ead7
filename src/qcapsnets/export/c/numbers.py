"""Which C types hold what, and how sums are brought to a target: decided by exact bounds."""

from dataclasses import dataclass

from torch import Tensor

from qcapsnets.errors import ExportError
from qcapsnets.fixedpoint.exact import Range
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.storage import Fixed
from qcapsnets.models import Contraction

CONTAINERS = {
    "int8_t": (-(1 << 7), (1 << 7) - 1),
    "uint8_t": (0, (1 << 8) - 1),
    "int16_t": (-(1 << 15), (1 << 15) - 1),
    "uint16_t": (0, (1 << 16) - 1),
    "int32_t": (-(1 << 31), (1 << 31) - 1),
    "uint32_t": (0, (1 << 32) - 1),
    "int64_t": (-(1 << 63), (1 << 63) - 1),
}
SIZES = {name: int(name.strip("uint_")) // 8 for name in CONTAINERS}
FARTHEST = 62
"""A sum is not shifted right by more than this: the divisor is an int64_t."""


def container(low: int, high: int, *, among: tuple[str, ...] = tuple(CONTAINERS)) -> str:
    """The narrowest C type that holds low..high."""
    for name in among:
        least, largest = CONTAINERS[name]
        if least <= low and high <= largest:
            return name
    raise ExportError(f"{low}..{high} does not fit 64 bits: use shorter wordlengths")


def code_type(format: FixedPoint) -> str:
    """What an array of codes is made of."""
    return container(format.min_code, format.max_code)


def operand_type(*ranges: Range) -> str:
    """What both factors of a product are widened to: 16 bits where they fit, for speed."""
    low, high = min(r.low for r in ranges), max(r.high for r in ranges)
    return container(low, high, among=("int16_t", "int32_t", "int64_t"))


@dataclass(frozen=True)
class Sum:
    """A sum of products and a bias, aligned at one fraction, and what it can come to.

    `factor` and `bias_factor` are the powers of two that align the products and the bias.
    """

    range: Range
    factor: int
    bias_factor: int
    operand: str
    products: str
    total: str

    @property
    def fraction(self) -> int:
        return self.range.fraction

    @property
    def bits(self) -> int:
        """Of the widest number on the way, with its sign."""
        return self.range.magnitude.bit_length() + 1


def sum_of(
    storage: Fixed, contraction: Contraction, own: Tensor, other: Range, plus: Range | None
) -> Sum:
    """From the actual weight codes, or the formats: no partial sum leaves the types chosen."""
    sums = storage.sums(contraction, own)
    low, high = sums.bounds(other, max(1, sums.length))
    products = Range(low, high, storage.range.fraction + other.fraction)
    return _aligned(products, plus, operand_type(storage.range, other))


def _aligned(products: Range, plus: Range | None, operand: str) -> Sum:
    bias = Range(0, 0, products.fraction) if plus is None else plus
    fraction = max(products.fraction, bias.fraction)
    factors = [_factor(part, fraction) for part in (products, bias)]
    # sums without the bias, and the bias alone, must fit too
    parts = [
        Range(min(r.low * f, 0), max(r.high * f, 0), fraction)
        for r, f in zip((products, bias), factors, strict=True)
    ]
    total = parts[0] + parts[1]
    first = container(products.low, products.high, among=("int32_t", "int64_t"))
    if operand != "int16_t":
        first = "int64_t"  # a single product does not fit 32 bits
    second = container(total.low, total.high, among=("int32_t", "int64_t"))
    return Sum(total, factors[0], factors[1], operand, first, max(first, second))


def _factor(part: Range, fraction: int) -> int:
    """The power of two that aligns; 0 for what is always zero, however far it would move."""
    return 1 << (fraction - part.fraction) if part.magnitude else 0


def scaled(accumulator: Range, scales: Range, shifts: Range) -> Sum:
    """A sum of products, times a factor, plus an offset: a folded batch norm."""
    corners = [max(x, 0) * y for x in (accumulator.high,) for y in (scales.low, scales.high)]
    products = Range(min(0, *corners), max(0, *corners), accumulator.fraction + scales.fraction)
    return _aligned(products, shifts, "int64_t")


def added(a: Range, b: Range) -> Sum:
    """A sum of two codes."""
    return _aligned(a, b, "int64_t")


@dataclass(frozen=True)
class Store:
    """How a sum of some fraction becomes a code of a site: one rounding, then saturation."""

    format: FixedPoint
    site: str
    shift: int
    narrow: bool
    draws: bool

    @classmethod
    def of(cls, storage: Fixed, sum_: Sum) -> "Store":
        shift = sum_.fraction - storage.format.fraction
        if shift > FARTHEST:
            raise ExportError(
                f"{storage.name} ({storage.format}) is {shift} bits coarser than the sum that it "
                f"stores, and at most {FARTHEST} can be shifted: move its binary point"
            )
        rounding = storage.way.rounding
        narrow = sum_.total == "int32_t" and shift <= 29 and rounding.name in NARROW
        return cls(storage.format, storage.name, shift, narrow, rounding.draws and shift > 0)

    @property
    def note(self) -> str:
        """In words, for a comment."""
        return f"by 2^{self.shift}" if self.shift >= 0 else f"exact, times 2^{-self.shift}"

    def code(self, n: str, draw: str) -> str:
        """C: the code of the sum `n`; `draw` is what `q_draw` is given."""
        low, high = self.format.min_code, self.format.max_code
        if self.shift < 0:
            edge = -self.shift
            least, most = (low >> edge) - 1, (high >> edge) + 1
            wide = f"q_saturate({n}, {least}, {most}) * ((int64_t)1 << {min(edge, 40)})"
            return f"q_saturate({wide}, {low}, {high})"
        u = f"q_draw({draw})" if self.draws else "0"
        if self.narrow:
            return f"q_saturate32(q_rounded32({n}, {self.shift}), {low}, {high})"
        return f"q_saturate(q_rounded({n}, {self.shift}, {u}), {literal(low)}, {literal(high)})"


NARROW = ("truncation", "nearest", "nearest-even")
"""Schemes whose condition is known to fit 32 bits when the sum does."""


def literal(value: int) -> str:
    """A C constant; the least int32 has no literal of its own."""
    return f"(-{-value - 1} - 1)" if value == -(1 << 31) else str(value)
