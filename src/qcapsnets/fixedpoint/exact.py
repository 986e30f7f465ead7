"""Sums of products without a rounding error, in floating-point units.

A float32 holds every integer up to 2^24, so a sum of products of codes is exact if no partial sum,
in whatever order a library adds them, can pass that. The bound is taken from the actual weight
codes, positive and negative ones apart, and the largest codes that the other operand can have.

Where a bound is too large, the sum is split: first into sums over fewer terms, which costs nothing
but an addition in float64; then the other operand into two digits of half the bits; else float64
does it all, exact up to 2^53. Beyond that a sum is inexact, and says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.models import Contraction

FLOAT32, FLOAT64 = 1 << 24, 1 << 53
MOST_PARTS = 16
"""In more parts than this, float32 is no faster than float64 on the whole."""


@dataclass(frozen=True)
class Range:
    """Whole numbers `low..high`, in steps of 2^-fraction: what a place can hold."""

    low: int
    high: int
    fraction: int

    @classmethod
    def of(cls, format: FixedPoint) -> "Range":
        """Every code of a format."""
        return cls(format.min_code, format.max_code, format.fraction)

    @property
    def magnitude(self) -> int:
        """The largest code without its sign."""
        return max(self.high, -self.low, 0)

    def aligned(self, fraction: int) -> "Range":
        """The same values in finer steps."""
        shift = fraction - self.fraction
        return Range(self.low << shift, self.high << shift, fraction)

    def __add__(self, other: "Range") -> "Range":
        fraction = max(self.fraction, other.fraction)
        a, b = self.aligned(fraction), other.aligned(fraction)
        return Range(a.low + b.low, a.high + b.high, fraction)

    def __or__(self, other: "Range") -> "Range":
        fraction = max(self.fraction, other.fraction)
        a, b = self.aligned(fraction), other.aligned(fraction)
        return Range(min(a.low, b.low), max(a.high, b.high), fraction)

    def digits(self) -> tuple[int, "Range", "Range"]:
        """How to cut codes in two: the weight of the upper digit in codes, and both ranges."""
        bits = (self.magnitude.bit_length() + 1) // 2
        base = 1 << bits
        upper = Range(self.low >> bits, self.high >> bits, self.fraction - bits)
        return base, upper, Range(0, base - 1, self.fraction)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the positive and over the negative codes of an operand, for every sum it is in.

    Both are [sums, length]: the last axis is the one along which a contraction can be split.
    """

    positive: Tensor
    negative: Tensor
    fraction: int

    @classmethod
    def of_codes(cls, contraction: Contraction, codes: Tensor, fraction: int) -> "Sums":
        """From the actual codes (whole numbers in float64)."""
        return cls(
            _collect(contraction, codes.clamp(min=0)),
            _collect(contraction, codes.clamp(max=0).neg_()),
            fraction,
        )

    @classmethod
    def of_range(cls, terms: int, length: int, range_: Range) -> "Sums":
        """From the largest codes that an operand could have, with `terms` products a sum."""
        each = torch.full((1, length), terms // max(1, length), dtype=torch.float64)
        return cls(each * max(0, range_.high), each * max(0, -range_.low), range_.fraction)

    @property
    def length(self) -> int:
        """Into how many parts the sums can be split at most."""
        return self.positive.shape[1]

    def bounds(self, other: Range, size: int) -> tuple[int, int]:
        """Lowest and highest partial sum over any `size` consecutive places along the length."""
        up, down = max(other.high, 0), max(-other.low, 0)
        starts = range(0, self.length, size)
        highest = lowest = 0.0
        for start in starts:
            positive = self.positive[:, start : start + size].sum(1)
            negative = self.negative[:, start : start + size].sum(1)
            highest = max(highest, float((positive * up + negative * down).max()))
            lowest = max(lowest, float((positive * down + negative * up).max()))
        return -int(lowest), int(highest)


def _collect(contraction: Contraction, codes: Tensor) -> Tensor:
    """[..., the split axis and the other summed axes, ...] -> [sums, length]."""
    if not contraction.summed:
        return codes.flatten().unsqueeze(1)
    split, *others = contraction.summed
    summed = codes.sum(others, keepdim=True) if others else codes
    return summed.movedim(split, -1).flatten(0, -2)


@dataclass(frozen=True)
class Accumulation:
    """How a sum of products is computed exactly, and what it can come to.

    `sizes` has the length of the partial sums in float32, for each digit of the other operand;
    without any, all is done in float64. `cut` is the value of one unit of the upper digit.
    """

    sizes: tuple[int, ...]
    cut: float
    result: Range
    exact: bool

    @property
    def dtype(self) -> torch.dtype:
        """What holds the result, with its bias, exactly."""
        fits = self.sizes and self.result.magnitude <= FLOAT32
        return torch.float32 if fits else torch.float64


def accumulation(sums: Sums, other: Range, plus: Range | None) -> Accumulation:
    """The cheapest exact way for these operands."""
    total = Range(*sums.bounds(other, sums.length), sums.fraction + other.fraction)
    result = total if plus is None else total + plus
    exact = max(result.magnitude, total.magnitude) <= FLOAT64
    sizes, cut = _split(sums, other) if exact else ((), 0.0)
    return Accumulation(sizes, cut, result, exact)


def _split(sums: Sums, other: Range) -> tuple[tuple[int, ...], float]:
    """Sizes of partial sums that float32 holds, with the other operand whole or in two digits."""
    size = _part_size(sums, other)
    if size:
        return (size,), 0.0
    base, upper, lower = other.digits()
    sizes = _part_size(sums, upper), _part_size(sums, lower)
    return (sizes, base * 2.0**-other.fraction) if all(sizes) else ((), 0.0)


def _part_size(sums: Sums, other: Range) -> int:
    """Terms along the split axis whose sum stays within float32; 0 if too few do."""
    parts = 1
    while parts <= min(sums.length, MOST_PARTS):
        size = -(-sums.length // parts)
        low, high = sums.bounds(other, size)
        if max(high, -low) <= FLOAT32:
            return size
        parts *= 2
    return 0


def accumulate(
    how: Accumulation, contraction: Contraction, own: Tensor, other: Tensor, bias: Tensor | None
) -> Tensor:
    """The sum of products, and a bias, as `how` says; the result is of type `how.dtype`."""
    if not how.sizes:
        result = contraction(own.double(), other.double())
        return result if bias is None else result.add_(bias)
    whole = len(how.sizes) == 1 and how.sizes[0] >= contraction.length(own)
    if whole and bias is not None and how.dtype == torch.float32:
        return contraction.plus(own.float(), other.float(), bias.float())
    terms = _terms(how, contraction, own.float(), other.float())
    total = next(terms).to(how.dtype)
    for term in terms:
        total = total.add_(term)
    return total if bias is None else total.add_(bias)


def _terms(
    how: Accumulation, contraction: Contraction, own: Tensor, other: Tensor
) -> Iterator[Tensor]:
    for size, digit in zip(how.sizes, _digits(how, other), strict=True):
        if size >= contraction.length(own):
            yield contraction(own, digit)
        else:
            for part in contraction.parts(own, digit, size):
                yield contraction(*part)


def _digits(how: Accumulation, other: Tensor) -> tuple[Tensor, ...]:
    """The digits of the other operand, as values that add up to it."""
    if len(how.sizes) == 1:
        return (other,)
    upper = other.div(how.cut).floor_().mul_(how.cut)
    return upper, other - upper
