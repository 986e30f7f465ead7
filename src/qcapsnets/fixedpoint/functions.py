"""Squash and softmax on integer codes, to the bit as docs/arithmetic.md specifies them.

Each is a numerator and a denominator, both integers, and one division that the rounding scheme
rounds on its exact remainder. The shifts and widths depend on the formats alone and are fields
here, for an exporter to write the same arithmetic in C. Formats too wide for 64-bit integers
are computed in float64 instead, and say so: `exact` is then False.
"""

import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.rounding import Rounding, in_pieces

MAX_ERROR = 0.5
_INTEGER = 1 << 62
_DIVISOR = 1 << 39
_FLOAT64 = 1 << 53

Whole = TypeVar("Whole", int, Tensor)


class Widths(NamedTuple):
    """Bits, without a sign, that hold the largest intermediates; the radicand is squash's."""

    radicand: int
    numerator: int
    denominator: int


@dataclass(frozen=True)
class IntegerFunction(ABC):
    """A function of the codes along one dimension, from one format to another.

    Called on codes (int64, in the range of `source`) it gives codes of `target`; `on_values` is the
    same for float tensors that hold exactly those values. `draw` broadcasts against them. Results
    carry no gradient.
    """

    source: FixedPoint
    target: FixedPoint
    size: int

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise FixedPointError(f"size {self.size!r} is not allowed: give a whole number from 1")

    @property
    def exact(self) -> bool:
        """Whether 64-bit integers do, with an `error` of at most half a step."""
        return self.widths is not None

    @property
    @abstractmethod
    def widths(self) -> Widths | None: ...

    @property
    @abstractmethod
    def error(self) -> float:
        """How far, in steps, the quotient may be from the real function before it is rounded."""

    @torch.no_grad()
    def __call__(
        self, codes: Tensor, rounding: Rounding, draw: Tensor | None = None, dim: int = -1
    ) -> Tensor:
        def function(codes: Tensor) -> Tensor:
            return self._rounded(codes, rounding, draw, dim)

        return self._in_pieces(function, codes.to(torch.int64), draw, dim)

    @torch.no_grad()
    def on_values(
        self, values: Tensor, rounding: Rounding, draw: Tensor | None = None, dim: int = -1
    ) -> Tensor:
        def function(values: Tensor) -> Tensor:
            codes = values.mul(2.0**self.source.fraction)
            result = self._rounded(codes, rounding, draw, dim).to(torch.float64)
            return result.mul_(self.target.step)

        return self._in_pieces(function, values, draw, dim)

    def _in_pieces(
        self, function: Callable[[Tensor], Tensor], x: Tensor, draw: Tensor | None, dim: int
    ) -> Tensor:
        if not -x.ndim <= dim < x.ndim or x.shape[dim] != self.size:
            raise FixedPointError(
                f"dimension {dim} of shape {tuple(x.shape)} has not the size {self.size} "
                "that the function was made for: make another, or name the right dimension"
            )
        return function(x).to(x.dtype) if dim in (0, -x.ndim) else in_pieces(function, x, draw)

    def _rounded(self, codes: Tensor, rounding: Rounding, draw: Tensor | None, dim: int) -> Tensor:
        if self.exact:
            return self.target.saturate(rounding.on_quotients(*self._fraction(codes, dim), draw))
        real = self._real(codes.to(torch.float64).mul(self.source.step), dim)
        return self.target.saturate(rounding.on_floats(real.mul_(2.0**self.target.fraction), draw))

    @property
    def _dtype(self) -> torch.dtype:
        """float64 divides faster, and is exact under the bound of `Rounding.on_quotients`."""
        widths = self.widths
        if widths is None or (2 << widths.numerator) + (1 << widths.denominator) >= _FLOAT64:
            return torch.int64
        return torch.float64

    @abstractmethod
    def _fraction(self, codes: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """Numerator and denominator of the result, in steps, as integers of type `_dtype`."""

    @abstractmethod
    def _real(self, values: Tensor, dim: int) -> Tensor:
        """The real function in float64."""


@dataclass(frozen=True)
class Squash(IntegerFunction):
    """v = |s|^2/(1 + |s|^2) s/|s| = s |s| / (1 + |s|^2)  [Sabour 2017, eq. 1]

    numerator    S * isqrt(n2 << 2k) << shift          n2 = sum of S^2
    denominator  one + (n2 << square_shift)            shifted left by -shift if shift < 0
    """

    @cached_property
    def widths(self) -> Widths | None:
        return None if self._fitting_k is None else self._widths(self._fitting_k)

    @property
    def k(self) -> int:
        """Fractional bits of the norm beyond those of s."""
        if self._fitting_k is None:
            raise FixedPointError(
                f"squash from {self.source} to {self.target} over {self.size} components does not "
                "fit 64-bit integers: use shorter wordlengths or fewer integer bits"
            )
        return self._fitting_k

    @property
    def one(self) -> int:
        """1.0 in the units of the denominator."""
        return 1 << 2 * self._unit

    @property
    def square_shift(self) -> int:
        """How far n2 moves left (right, dropping bits, if negative) to those units."""
        return 2 * (self._unit - self.source.fraction)

    @property
    def shift(self) -> int:
        """How far the numerator moves left (the denominator, if negative) for the target."""
        return self._shift(self.k)

    @property
    def error(self) -> float:
        dropped = 2.0**-14 if self.square_shift < 0 else 0.0
        return 2.0 ** (self._gain - self.k) + dropped if self.exact else math.inf

    @property
    def _unit(self) -> int:
        return min(max(self.source.fraction, 0), 19)

    @property
    def _largest(self) -> int:
        return max(self.source.max_code, -self.source.min_code)

    @property
    def _gain(self) -> int:
        """log2 of the steps that one unit too few in the norm can make, for k = 0."""
        f, g = self.source.fraction, self.target.fraction
        norm_bits = ((self.size * self._largest**2 - 1).bit_length() + 1) // 2
        return min(g - f - 1, g - 2 * f + norm_bits)

    @cached_property
    def _fitting_k(self) -> int | None:
        """The k for an error of 2^-10 steps, or the next below that fits, down to half a step."""
        wanted, least = max(2, self._gain + 10), max(0, self._gain + 1)
        return next((k for k in range(wanted, least - 1, -1) if self._fits(k)), None)

    def _fits(self, k: int) -> bool:
        radicand, numerator, denominator = self._bounds(k)
        return max(radicand, numerator) <= _INTEGER and denominator <= _DIVISOR

    def _widths(self, k: int) -> Widths:
        return Widths(*(bound.bit_length() for bound in self._bounds(k)))

    def _bounds(self, k: int) -> tuple[int, int, int]:
        n2, shift = self.size * self._largest**2, self._shift(k)
        radicand = n2 << 2 * k
        numerator = self._largest * math.isqrt(radicand) << max(shift, 0)
        denominator = self.one + _shifted(n2, self.square_shift) << max(-shift, 0)
        return radicand, numerator, denominator

    def _shift(self, k: int) -> int:
        return self.target.fraction - k + self.square_shift

    def _fraction(self, codes: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        s = codes.to(self._dtype)
        n2 = s.square().sum(dim, keepdim=True).to(torch.int64)
        norm = isqrt(n2 << 2 * self.k) << max(self.shift, 0)
        denominator = self.one + _shifted(n2, self.square_shift) << max(-self.shift, 0)
        return s * norm.to(s.dtype), denominator.to(s.dtype)

    def _real(self, values: Tensor, dim: int) -> Tensor:
        n2 = values.square().sum(dim, keepdim=True)
        return values * n2.sqrt().div_(1 + n2)


@dataclass(frozen=True)
class Softmax(IntegerFunction):
    """c_j = exp(b_j) / sum of exp(b)  [Sabour 2017, eq. 3]

    numerator    e_j << shift                          e_j = table[max(B) - B_j], 0 beyond it
    denominator  sum of e                              shifted left by -shift if shift < 0
    """

    @property
    def bits(self) -> int:
        """Fractional bits of the table: 30, or fewer so that a sum of `size` fits 39 bits."""
        return max(0, min(30, 39 - (self.size - 1).bit_length()))

    @property
    def shift(self) -> int:
        return self.target.fraction

    @property
    def table(self) -> Tensor:
        """exp(-i 2^-fraction) for i = 0, 1, ..., up to the first that is 0 (int64)."""
        return exponentials(self.source.fraction, self.source.wordlength, self.bits)

    @cached_property
    def widths(self) -> Widths | None:
        numerator = 1 << self.bits + max(self.shift, 0)
        denominator = self.size << self.bits + max(-self.shift, 0)
        fits = numerator <= _INTEGER and denominator <= _DIVISOR and self.error <= MAX_ERROR
        if self.source.wordlength > 16 or not fits:
            return None
        return Widths(0, numerator.bit_length(), denominator.bit_length())

    @property
    def error(self) -> float:
        largest = min(1.0, self.target.max + self.target.step)
        return (1 + (self.size - 1) * largest) * 2.0 ** (self.shift - self.bits - 1)

    def _fraction(self, codes: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        table = self.table.to(codes.device, self._dtype)
        below = codes.amax(dim, keepdim=True).sub(codes).clamp_(max=len(table) - 1)
        e = table.index_select(0, below.to(torch.int64).flatten()).view(below.shape)
        total = e.sum(dim, keepdim=True)
        return e.mul_(1 << max(self.shift, 0)), total.mul_(1 << max(-self.shift, 0))

    def _real(self, values: Tensor, dim: int) -> Tensor:
        return values.softmax(dim)


def isqrt(n: Tensor) -> Tensor:
    """floor(sqrt(n)) of int64 n in [0, 2^62]: float64 is at most one off, which is mended."""
    root = n.to(torch.float64).sqrt_().to(torch.int64)
    root -= (root.square() > n).to(torch.int64)
    root += ((root + 1).square() <= n).to(torch.int64)
    return root


@lru_cache(maxsize=64)
def exponentials(fraction: int, wordlength: int, bits: int) -> Tensor:
    """2^bits exp(-i 2^-fraction), rounded half up, for i from 0 to 2^wordlength - 1 or the first 0.

    The same on every machine: where float64, whose error is far below 2^-12 here, comes
    that near to a half, the entry is made in decimal arithmetic instead.
    """
    end = math.ceil((bits + 2) * math.log(2) * 2.0**fraction) + 1  # exp is under 1/4 from there on
    index = torch.arange(min(1 << wordlength, end + 1))
    entry = index.to(torch.float64).mul_(-(2.0**-fraction)).exp_().mul_(2.0**bits).add_(0.5)
    table = entry.floor().to(torch.int64)
    for i in ((entry - entry.round()).abs() < 2.0**-12).nonzero().flatten().tolist():
        table[i] = _exponential(i, fraction, bits)
    zeros = (table == 0).nonzero()
    return table[: int(zeros[0]) + 1] if len(zeros) else table


def _exponential(i: int, fraction: int, bits: int) -> int:
    with decimal.localcontext(decimal.Context(prec=100)):
        x = -i * decimal.Decimal(2) ** -fraction
        return int(x.exp() * 2**bits + decimal.Decimal("0.5"))


def _shifted(n: Whole, left: int) -> Whole:
    return n << left if left >= 0 else n >> -left
