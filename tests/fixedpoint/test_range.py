"""Ranges of values: what sums, products and shifts of them can be."""

from hypothesis import given
from hypothesis import strategies as st

from qcapsnets.fixedpoint import FixedPoint
from qcapsnets.fixedpoint.exact import (
    Range,
)

CODES = st.integers(-(2**20), 2**20)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    low, high = sorted([draw(CODES), draw(CODES)])
    return Range(low, high, draw(st.integers(-20, 20)))


def in_units(range_: Range, fraction: int) -> tuple[int, int]:
    shift = fraction - range_.fraction
    return range_.low << shift, range_.high << shift


class TestRange:
    @given(ranges(), ranges())
    def test_sum_and_union(self, a: Range, b: Range) -> None:
        fine = max(a.fraction, b.fraction)
        (a_low, a_high), (b_low, b_high) = in_units(a, fine), in_units(b, fine)
        assert a + b == Range(a_low + b_low, a_high + b_high, fine)
        assert a | b == Range(min(a_low, b_low), max(a_high, b_high), fine)

    @given(ranges(), st.data())
    def test_digits_add_up(self, range_: Range, data: st.DataObject) -> None:
        code = data.draw(st.integers(range_.low, range_.high))
        base, upper, lower = range_.digits()
        high, low = divmod(code, base)
        assert upper.low <= high <= upper.high
        assert lower.low <= low <= lower.high
        assert max(upper.magnitude, lower.magnitude) <= base

    def test_of_a_format(self) -> None:
        assert Range.of(FixedPoint(8, 5)) == Range(-128, 127, 5)
        assert Range.of(FixedPoint(8, -5, signed=False)) == Range(0, 255, -5)
        assert Range(-3, 2, 0).magnitude == 3
