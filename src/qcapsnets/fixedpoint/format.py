"""Number formats: a code of N bits and a binary point that may stand anywhere.

The value of a code is `code * 2^-fraction`. The text form (`s8f5`, `u8f8`, `s4f-3`) is the one
that JSON, file metadata and C comments carry; `FixedPoint.parse` reads it back.
"""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.errors import FixedPointError

WORDLENGTHS = range(2, 33)
FRACTIONS = range(-64, 65)

_TEXT = re.compile(r"([su])([1-9][0-9]*)f(0|-?[1-9][0-9]*)")
_SIGNIFICAND = {torch.float32: 24, torch.float64: 53}
_CONTAINERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True, order=True)
class FixedPoint:
    """Codes of `wordlength` bits, in two's complement if signed, in steps of `2^-fraction`."""

    wordlength: int
    fraction: int
    signed: bool = True

    def __post_init__(self) -> None:
        _check_whole("wordlength", self.wordlength, WORDLENGTHS)
        _check_whole("fraction", self.fraction, FRACTIONS)
        if not isinstance(self.signed, bool):
            raise FixedPointError(f"signed is {self.signed!r}: give True or False")

    @classmethod
    def parse(cls, text: str) -> "FixedPoint":
        """The format that `str` writes as `text`."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise FixedPointError(
                f"{text!r} is not a number format: write s or u, the wordlength, f and "
                "the fractional bits, as in s8f5, u8f8 or s4f-3"
            )
        sign, wordlength, fraction = match.groups()
        return cls(int(wordlength), int(fraction), sign == "s")

    def __str__(self) -> str:
        return f"{'s' if self.signed else 'u'}{self.wordlength}f{self.fraction}"

    @property
    def min_code(self) -> int:
        return -(1 << (self.wordlength - 1)) if self.signed else 0

    @property
    def max_code(self) -> int:
        return (1 << (self.wordlength - self.signed)) - 1

    @property
    def step(self) -> float:
        return 2.0**-self.fraction

    @property
    def min(self) -> float:
        return self.min_code * self.step

    @property
    def max(self) -> float:
        return self.max_code * self.step

    @property
    def narrowest_dtype(self) -> torch.dtype:
        """The smallest torch integer type that holds every code."""
        return next(
            dtype
            for dtype in _CONTAINERS
            if torch.iinfo(dtype).min <= self.min_code and self.max_code <= torch.iinfo(dtype).max
        )

    def fits(self, dtype: torch.dtype) -> bool:
        """Whether a floating-point `dtype` (float32 or float64) holds every value exactly."""
        return self.wordlength - self.signed <= _SIGNIFICAND.get(dtype, 0)

    def saturate(self, codes: Tensor) -> Tensor:
        """Codes (integers, or floats that hold integers) brought into the range of the format."""
        if codes.is_floating_point():
            self._check_fits(codes.dtype)
        return codes.clamp(self.min_code, self.max_code)

    def values(self, codes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """`code * 2^-fraction`, exactly; a `dtype` that cannot hold the format is an error."""
        self._check_fits(dtype)
        return codes.to(dtype).mul(self.step)

    def codes(self, values: Tensor) -> Tensor:
        """The int64 codes of values that are on the grid; any other value is an error."""
        scaled = values.to(torch.float64).mul(2.0**self.fraction)
        codes = scaled.to(torch.int64)
        wrong = (codes != scaled) | (codes < self.min_code) | (codes > self.max_code)
        if wrong.any():
            index = tuple(wrong.nonzero()[0].tolist())
            raise FixedPointError(
                f"value {values[index].item()!r} at index {index} is not in {self} (multiples of "
                f"{self.step:g} from {self.min:g} to {self.max:g}): round and saturate it first"
            )
        return codes

    def _check_fits(self, dtype: torch.dtype) -> None:
        if not self.fits(dtype):
            raise FixedPointError(
                f"{dtype} does not hold every value of {self}: use torch.float64"
                + (" or float32" if self.fits(torch.float32) else "")
            )


def _check_whole(name: str, value: object, allowed: range) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise FixedPointError(
            f"{name} {value!r} is not allowed: "
            f"give a whole number from {allowed[0]} to {allowed[-1]}"
        )
