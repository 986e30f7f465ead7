"""Quantities: every unit, and nothing without one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcapsnets.cli.errors import CommandError
from qcapsnets.cli.units import MEMORY, memory, tolerance


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("45Mbit", 45_000_000),
        ("45 Mbit", 45_000_000),
        ("5.6MB", 44_800_000),
        ("5.4MiB", int(5.4 * 8 * 2**20)),
        ("1KiB", 8192),
        ("1kB", 8000),
        ("3kbit", 3000),
        ("7bit", 7),
        ("7B", 56),
        (".5Gbit", 500_000_000),
        ("2GiB", 2**34),
        ("1.7bit", 1),
    ],
)
def test_memory(text: str, bits: int) -> None:
    assert memory(text) == bits


@given(st.integers(1, 10**9), st.sampled_from(sorted(MEMORY)))
def test_memory_is_exact(number: int, unit: str) -> None:
    assert memory(f"{number}{unit}") == number * MEMORY[unit]


@pytest.mark.parametrize("text", ["45", "5.6", "0"])
def test_a_bare_number_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match=r"has no unit: add one of bit, kbit, Mbit.*45Mbit"):
        memory(text)
    with pytest.raises(CommandError, match=r"has no unit: add one of %, pp, as in 0.2% or 0.2pp"):
        tolerance(text)


@pytest.mark.parametrize(
    "text", ["45Mb", "45mb", "45MBit", "45 M bit", "45%", "45Mbit!", "1e6bit", "1,000bit"]
)
def test_an_unknown_unit_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match=r"unknown unit .*: the units are bit, kbit"):
        memory(text)


@pytest.mark.parametrize("text", ["", "Mbit", "-4Mbit", "nanMbit", "٤Mbit"])
def test_no_number_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not an amount of memory"):
        memory(text)


@pytest.mark.parametrize("text", ["0bit", "0.5bit", "0MB"])
def test_no_memory_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="less than one bit"):
        memory(text)


@pytest.mark.parametrize(
    ("text", "absolute", "lost_of_98"),
    [
        ("0.2%", False, Fraction("0.98") * Fraction("0.002")),
        ("0.2pp", True, Fraction("0.002")),
        ("0%", False, Fraction(0)),
        ("100%", False, Fraction("0.98")),
        ("1 %", False, Fraction("0.0098")),
    ],
)
def test_tolerance(text: str, absolute: bool, lost_of_98: Fraction) -> None:
    found = tolerance(text)
    assert found.absolute is absolute
    assert found.loss(Fraction("0.98")) == lost_of_98


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("101%", "at most 100%"),
        ("-1%", "is not a tolerance"),
        ("0.2 percent", "unknown unit 'percent': the units are %, pp"),
    ],
)
def test_other_tolerances_are_refused(text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        tolerance(text)
