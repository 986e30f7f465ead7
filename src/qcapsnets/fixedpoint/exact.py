"""Sums of products without a rounding error, in floating-point units.

A float32 holds every integer up to 2^24, so a sum of products of codes is exact if no partial sum,
in whatever order a library adds them, can pass that. The bound is taken from the actual weight
codes, positive and negative ones apart, and the largest codes that the other operand can have.

Where a bound is too large, the sum is split: first into sums over fewer terms, which costs nothing
but an addition in float64; then the other operand into two digits of half the bits; else float64
does it all, exact up to 2^53. Beyond that a sum is inexact, and says so.

Codes, or digits of them, that fit bytes are convolved as such where that is faster
(`byte_convolution`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.fixedpoint.byte_convolution import SIGNED, UNSIGNED, ByteCodes, by_bytes
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.precision import full_precision, trusted
from qcapsnets.models import Contraction

FLOAT32, FLOAT64 = 1 << 24, 1 << 53
FRACTIONS = range(-96, 121)
"""Of sums in float32: with others, 24 bits would leave the range of its normal numbers."""
PIECE = 1 << 18
"""How many codes are summed at a time: what that takes beside them stays small."""


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
        """From the actual codes (floats that hold whole numbers)."""
        dtype = torch.float32 if _short(contraction, codes) else torch.float64
        rows = len(codes) if 0 in contraction.summed else PIECE * len(codes) // codes.numel()
        parts = [part.to(dtype) for part in codes.split(max(1, rows))]
        positive = [_collect(contraction, part.clamp(min=0)) for part in parts]
        negative = [_collect(contraction, part.clamp(max=0).neg_()) for part in parts]
        return cls(torch.cat(positive), torch.cat(negative), fraction)

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
        """Lowest and highest partial sum over any `size` consecutive places along the length.

        Exact below 2^53, and not below it if the true bounds are not.
        """
        up, down = max(other.high, 0), max(-other.low, 0)
        highest = lowest = 0.0
        for start in range(0, self.length, size):
            positive = self.positive[:, start : start + size].sum(1, dtype=torch.float64)
            negative = self.negative[:, start : start + size].sum(1, dtype=torch.float64)
            highest = max(highest, float((positive * up + negative * down).max()))
            lowest = max(lowest, float((positive * down + negative * up).max()))
        return -int(lowest), int(highest)


def _short(contraction: Contraction, codes: Tensor) -> bool:
    """Whether float32 holds the sums over the axes along which nothing is split."""
    each = contraction.terms(codes) // max(1, contraction.length(codes))
    low, high = codes.aminmax()
    return each * max(abs(float(low)), abs(float(high))) <= FLOAT32


def _collect(contraction: Contraction, codes: Tensor) -> Tensor:
    """[..., the split axis and the other summed axes, ...] -> [sums, length]."""
    if not contraction.summed:
        return codes.flatten().unsqueeze(1)
    split, *others = contraction.summed
    summed = codes.sum(others, keepdim=True) if others else codes
    return summed.movedim(split, -1).flatten(0, -2)


@dataclass(frozen=True)
class Split:
    """Partial sums that float32 holds: how long they are, for each digit of the other operand.

    `cut` is the value of one unit of the upper digit. `codes` say how the operands become bytes,
    digit by digit, if they fit.
    """

    sizes: tuple[int, ...]
    cut: float = 0.0
    codes: tuple[ByteCodes, ...] = ()


@dataclass(frozen=True)
class Accumulation:
    """How a sum of products is computed exactly, and what it can come to.

    Without a `split`, all is done in float64. `in_bytes` is the split that is taken instead where
    bytes can be convolved.
    """

    split: Split | None
    result: Range
    exact: bool
    in_bytes: Split | None = None

    @property
    def dtype(self) -> torch.dtype:
        """What holds the result, with its bias, exactly."""
        fits = self.split is not None and _in_float32(self.result)
        return torch.float32 if fits else torch.float64


def accumulation(
    contraction: Contraction,
    sums: Sums,
    other: Range,
    plus: Range | None,
    own: Range | None = None,
) -> Accumulation:
    """The cheapest exact way for these operands; `own` are the codes behind the `sums`."""
    total = Range(*sums.bounds(other, sums.length), sums.fraction + other.fraction)
    result = total if plus is None else total + plus
    exact = max(result.magnitude, total.magnitude) < FLOAT64
    if not exact or total.fraction not in FRACTIONS:
        return Accumulation(None, result, exact)
    most = contraction.most_parts
    whole = _undivided(sums, other, own, most)
    if not contraction.summed or _is_best(whole, sums):
        return Accumulation(whole, result, exact, whole if whole and whole.codes else None)
    halves = _divided(sums, other, own, most)
    return Accumulation(whole or halves, result, exact, halves if halves and halves.codes else None)


def _is_best(split: Split | None, sums: Sums) -> bool:
    """Whether nothing is gained by digits: bytes, or a single sum."""
    return split is not None and (bool(split.codes) or split.sizes[0] == sums.length)


def _undivided(sums: Sums, other: Range, own: Range | None, most: int) -> Split | None:
    size = _part_size(sums, other, most)
    return Split((size,), codes=_as_bytes(own, other)) if size else None


def _divided(sums: Sums, other: Range, own: Range | None, most: int) -> Split | None:
    """With the other operand in two digits."""
    base, upper, lower = other.digits()
    sizes = _part_size(sums, upper, most), _part_size(sums, lower, most)
    codes = _as_bytes(own, upper, lower)
    return Split(sizes, base * 2.0**-other.fraction, codes) if all(sizes) else None


def _as_bytes(own: Range | None, *digits: Range) -> tuple[ByteCodes, ...]:
    """How the digits become bytes beside the weights `own`; nothing if any of them is larger."""
    if own is None or own.low not in SIGNED or own.high not in SIGNED:
        return ()
    if not all(d.low <= 0 <= d.high and d.high - d.low in UNSIGNED for d in digits):
        return ()
    return tuple(ByteCodes(own.fraction, digit.fraction, -digit.low) for digit in digits)


def addition(a: Range, b: Range) -> Accumulation:
    """How two numbers are added exactly."""
    total = a + b
    return Accumulation(Split((1,)), total, total.magnitude < FLOAT64)


def _in_float32(range_: Range) -> bool:
    return range_.magnitude <= FLOAT32 and range_.fraction in FRACTIONS


def _part_size(sums: Sums, other: Range, most: int) -> int:
    """Terms along the split axis whose sum stays within float32; 0 if that takes too many parts."""
    parts = 1
    while parts <= min(sums.length, most):
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
    with full_precision(other.device.type):
        split = how.split
        if how.in_bytes and by_bytes(how.in_bytes.codes[0], contraction, own, other):
            split = how.in_bytes
        if split is None:
            own, other = own.double(), other.double()
            total = trusted(contraction, own, other)(own, other)
            return total if bias is None else total.add_(bias)
        return _in_parts(split, how.dtype, contraction, own.float(), other, bias)


def _in_parts(
    split: Split,
    dtype: torch.dtype,
    contraction: Contraction,
    own: Tensor,
    other: Tensor,
    bias: Tensor | None,
) -> Tensor:
    whole = len(split.sizes) == 1 and split.sizes[0] >= contraction.length(own)
    if whole and bias is not None and dtype == torch.float32:
        other = other.float()
        operator = _operator(split.codes[:1], contraction, own, other)
        return operator.plus(own, other, bias.float())
    terms = _terms(split, contraction, own, other)
    total = next(terms).to(dtype)
    for term in terms:
        total = total.add_(term)
    return total if bias is None else total.add_(bias)


def _terms(split: Split, contraction: Contraction, own: Tensor, other: Tensor) -> Iterator[Tensor]:
    for index, digit in enumerate(_digits(split, other)):
        codes = split.codes[index : index + 1]
        for operands in contraction.parts(own, digit.float(), split.sizes[index]):
            yield _operator(codes, contraction, *operands)(*operands)


def _operator(
    codes: tuple[ByteCodes, ...], contraction: Contraction, own: Tensor, other: Tensor
) -> Contraction:
    """What computes it: bytes if they do, else floats that can be trusted."""
    fast = by_bytes(codes[0], contraction, own, other) if codes else None
    return fast or trusted(contraction, own, other)


def _digits(split: Split, other: Tensor) -> tuple[Tensor, ...]:
    """The digits of the other operand, as values that add up to it; the lower has its gradient."""
    if len(split.sizes) == 1:
        return (other,)
    upper = other.detach().div(split.cut).floor_().mul_(split.cut)
    return upper, other - upper
