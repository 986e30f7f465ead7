"""What a user asks of a search, as one frozen value."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from qcapsnets.errors import SearchError
from qcapsnets.evaluation.cache import DEFAULT_BYTES
from qcapsnets.fixedpoint.calibration import Points
from qcapsnets.fixedpoint.plan import Granularity
from qcapsnets.fixedpoint.rounding import roundings

Mode = Literal["fast", "literal"]
Split = Literal["validation", "test"]

STEP_1_SHARE = Fraction(5, 100)
"""How much of the tolerated loss step 1 may use."""

DIGITS = 12
"""Significant digits of a tolerance."""


@dataclass(frozen=True)
class Tolerance:
    """How much accuracy may be lost: a share of the float accuracy, or an absolute difference."""

    value: float
    absolute: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise SearchError(
                f"the tolerance is {self.value * 100:.10g} %: it must lie between 0 % and 100 %"
            )

    @property
    def exact(self) -> Fraction:
        """The decimal number that was meant: 0.7 / 100 is not 0.007 in binary, but this is."""
        return Fraction(f"{self.value:.{DIGITS}g}")

    def loss(self, accuracy: Fraction) -> Fraction:
        """The accuracy that may be lost, exactly."""
        return self.exact if self.absolute else accuracy * self.exact

    def __str__(self) -> str:
        number = f"{float(self.exact * 100):.{DIGITS}g}"
        return f"{number}pp" if self.absolute else f"{number}%"


CHOICES = {"mode": Mode, "search_split": Split, "points": Points, "granularity": Granularity}
NUMBERS = {
    "seed": range(1 << 64),
    "calibration_images": range(1, 1 << 62),
    "cache_bytes": range(1 << 62),
}


@dataclass(frozen=True)
class Settings:
    """Constraints, the schemes to try, and how to search.

    `mode` is `fast`, or `literal`, which follows the paper's descent with full evaluations.
    """

    tolerance: Tolerance
    budget: int
    roundings: tuple[str, ...] = ("truncation", "nearest", "nearest-even", "stochastic")
    points: Points = "output"
    granularity: Granularity = "block"
    strategy: str = "paper"
    mode: Mode = "fast"
    search_split: Split = "validation"
    seed: int = 0
    calibration_images: int = 500
    cache_bytes: int = DEFAULT_BYTES

    def __post_init__(self) -> None:
        if type(self.budget) is not int or self.budget < 1:
            raise SearchError(
                f"the budget is {self.budget!r} bits: it must be a whole number over 0"
            )
        if not self.roundings:
            raise SearchError(f"no rounding scheme was given: known are {', '.join(roundings)}")
        for name in self.roundings:
            roundings[name]
        if len(set(self.roundings)) < len(self.roundings):
            raise SearchError(
                f"a rounding scheme is given twice in {', '.join(self.roundings)}: give each once"
            )
        for field, kind in CHOICES.items():
            if getattr(self, field) not in get_args(kind):
                allowed = ", ".join(get_args(kind))
                raise SearchError(f"{field} is {getattr(self, field)!r}: choose one of {allowed}")
        for field, numbers in NUMBERS.items():
            value = getattr(self, field)
            if type(value) is not int or value not in numbers:
                raise SearchError(
                    f"{field} is {value!r}: "
                    f"give a whole number from {numbers.start} to {numbers.stop - 1}"
                )

    def to_json(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        values = asdict(self) | {"tolerance": str(self.tolerance)}
        return {key: value for key, value in values.items() if key != "cache_bytes"}
