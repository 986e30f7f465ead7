"""Number formats: text, range, and the way between codes and values."""

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.fixedpoint.strategies import codes, formats

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import FixedPoint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s8f5", FixedPoint(8, 5)),
        ("u8f8", FixedPoint(8, 8, signed=False)),
        ("s4f-3", FixedPoint(4, -3)),
        ("u32f64", FixedPoint(32, 64, signed=False)),
        ("s2f0", FixedPoint(2, 0)),
    ],
)
def test_text_form(text: str, expected: FixedPoint) -> None:
    assert FixedPoint.parse(text) == expected
    assert str(expected) == text


@given(formats())
def test_text_survives_json(number: FixedPoint) -> None:
    assert FixedPoint.parse(json.loads(json.dumps(str(number)))) == number


@pytest.mark.parametrize(
    "text", ["", "8f5", "s8", "s8f", "S8f5", "s08f5", "s8f05", "s8f-0", "s8f+5", " s8f5", "s٨f5"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(FixedPointError, match="is not a number format: write s or u"):
        FixedPoint.parse(text)


@pytest.mark.parametrize("wordlength", [0, 1, 33, -8, 8.0, "8", True, None])
def test_wordlength_is_checked(wordlength: Any) -> None:
    with pytest.raises(FixedPointError, match="give a whole number from 2 to 32"):
        FixedPoint(wordlength, 0)


@pytest.mark.parametrize("fraction", [-65, 65, 0.5, False])
def test_fraction_is_checked(fraction: Any) -> None:
    with pytest.raises(FixedPointError, match="give a whole number from -64 to 64"):
        FixedPoint(8, fraction)


def test_sign_is_checked() -> None:
    sign: Any = "s"
    with pytest.raises(FixedPointError, match="give True or False"):
        FixedPoint(8, 5, sign)


def test_range_and_step() -> None:
    signed, unsigned = FixedPoint(8, 5), FixedPoint(8, 8, signed=False)
    assert (signed.min_code, signed.max_code) == (-128, 127)
    assert (signed.min, signed.max, signed.step) == (-4.0, 3.96875, 0.03125)
    assert (unsigned.min_code, unsigned.max_code) == (0, 255)
    assert (unsigned.min, unsigned.max, unsigned.step) == (0.0, 1 - 2**-8, 2**-8)


def test_formats_are_ordered_by_wordlength_first() -> None:
    assert sorted(map(FixedPoint.parse, ["s8f5", "u4f9", "s4f9"])) == [
        FixedPoint(4, 9, False),
        FixedPoint(4, 9),
        FixedPoint(8, 5),
    ]


@given(formats(), st.data())
def test_codes_and_values_are_inverse(number: FixedPoint, data: st.DataObject) -> None:
    given_codes = torch.tensor(data.draw(st.lists(codes(number), max_size=9)), dtype=torch.int64)
    dtypes = [dtype for dtype in (torch.float32, torch.float64) if number.fits(dtype)]
    for dtype in dtypes:
        values = number.values(given_codes, dtype)
        assert values.tolist() == [math.ldexp(c, -number.fraction) for c in given_codes.tolist()]
        assert torch.equal(number.codes(values), given_codes)


@given(formats())
def test_narrowest_dtype_holds_every_code(number: FixedPoint) -> None:
    extremes = torch.tensor([number.min_code, number.max_code])
    assert torch.equal(extremes.to(number.narrowest_dtype).to(torch.int64), extremes)


def test_narrowest_dtype_is_narrow() -> None:
    names = ("s8f0", "u8f0", "s9f0", "u15f0", "u16f0", "s16f0", "s17f0", "u32f0", "u7f0")
    assert [str(FixedPoint.parse(name).narrowest_dtype).split(".")[1] for name in names] == [
        *("int8", "uint8", "int16", "int16", "int32", "int16", "int32", "int64", "int8")
    ]


@pytest.mark.parametrize("value", [0.3, 4.0, -4.03125, math.nan, math.inf, -math.inf, 1e300])
def test_a_value_off_the_grid_is_named(value: float) -> None:
    values = torch.tensor([[0.5, 1.0], [value, 0.3]], dtype=torch.float64)
    with pytest.raises(FixedPointError, match=r"at index \(1, 0\) is not in s8f5") as caught:
        FixedPoint(8, 5).codes(values)
    assert repr(value) in str(caught.value)


def test_float32_is_refused_where_it_does_not_hold_the_codes() -> None:
    assert FixedPoint(25, 0).fits(torch.float32)
    assert not FixedPoint(26, 0).fits(torch.float32)
    assert not FixedPoint(25, 0, signed=False).fits(torch.float32)
    with pytest.raises(FixedPointError, match=r"float32 does not hold every value of s26f0: use"):
        FixedPoint(26, 0).values(torch.tensor([1]))
    with pytest.raises(FixedPointError, match=r"use torch\.float64 or float32"):
        FixedPoint(8, 0).values(torch.tensor([1]), torch.float16)


def test_saturation() -> None:
    beyond = torch.tensor([-1000, -8, 7, 8])
    assert FixedPoint(4, 2).saturate(beyond).tolist() == [-8, -8, 7, 7]
    assert FixedPoint(4, 2, signed=False).saturate(beyond.float()).tolist() == [0, 0, 7, 8]
    assert FixedPoint(32, 2).saturate(torch.tensor([2.0**40]).double()).tolist() == [2**31 - 1]
    with pytest.raises(FixedPointError, match="does not hold every value"):
        FixedPoint(32, 2).saturate(torch.tensor([2.0**40]))
