"""What a user may ask for, and what is refused with the reason."""

import json
from fractions import Fraction
from typing import Any

import pytest

from qcapsnets.errors import QCapsNetsError, SearchError
from qcapsnets.search import Settings, Tolerance


@pytest.mark.parametrize("value", [-0.001, 1.001, -5, float("nan"), float("inf")])
def test_tolerances_outside_0_to_100_percent(value: float) -> None:
    with pytest.raises(SearchError, match="must lie between 0 % and 100 %"):
        Tolerance(value)


def test_a_small_negative_tolerance_is_shown_as_it_is() -> None:
    with pytest.raises(SearchError, match=r"is -1e-07 %"):
        Tolerance(-1e-9)


@pytest.mark.parametrize(
    ("value", "absolute", "text", "exact"),
    [
        (0.002, False, "0.2%", Fraction(2, 1000)),
        (0.7 / 100, False, "0.7%", Fraction(7, 1000)),
        (0.1 + 0.2, True, "30pp", Fraction(3, 10)),
        (1e-7, False, "1e-05%", Fraction(1, 10**7)),
        (0, False, "0%", Fraction(0)),
        (1, True, "100pp", Fraction(1)),
    ],
)
def test_a_tolerance_means_the_decimal_number(
    value: float, absolute: bool, text: str, exact: Fraction
) -> None:
    tolerance = Tolerance(value, absolute)
    assert str(tolerance) == text
    assert tolerance.exact == exact


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0}, "budget is 0 bits"),
        ({"budget": -1}, "budget is -1 bits"),
        ({"budget": 45.0}, "budget is 45.0 bits: it must be a whole number"),
        ({"budget": "45Mbit"}, "budget is '45Mbit' bits"),
        ({"roundings": ()}, "no rounding scheme was given: known are truncation, nearest"),
        ({"roundings": ("up",)}, "unknown rounding scheme 'up'"),
        ({"roundings": ("nearest", "nearest")}, "given twice"),
        ({"mode": "slow"}, "mode is 'slow': choose one of fast, literal"),
        ({"search_split": "train"}, "search_split is 'train': choose one of validation, test"),
        ({"points": "best"}, "points is 'best': choose one of output, mse, max, unit"),
        ({"granularity": "net"}, "granularity is 'net': choose one of block, layer"),
        ({"calibration_images": 0}, "calibration_images is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1 << 64}, "seed is 18446744073709551616"),
        ({"seed": True}, "seed is True"),
        ({"cache_bytes": -1}, "cache_bytes is -1"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    chosen: dict[str, Any] = {"tolerance": Tolerance(0.01), "budget": 1000}
    with pytest.raises(QCapsNetsError) as caught:
        Settings(**(chosen | changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_as_json() -> None:
    settings = Settings(Tolerance(0.002), 45_000_000, cache_bytes=1)
    value = settings.to_json()
    assert json.loads(json.dumps(value))["tolerance"] == "0.2%"
    assert value["budget"] == 45_000_000
    assert "cache_bytes" not in value  # it changes how long a search takes, nothing else
