"""What hypothesis draws for the arithmetic: formats, codes with their extremes, schemes."""

from hypothesis import strategies as st

from qcapsnets.fixedpoint import FixedPoint

SCHEMES = ("truncation", "nearest", "nearest-even", "stochastic")

schemes = st.sampled_from(SCHEMES)
draws = st.integers(0, 2**24 - 1)


def formats(
    longest: int = 32, fractions: tuple[int, int] = (-64, 64), signed: bool | None = None
) -> st.SearchStrategy[FixedPoint]:
    return st.builds(
        FixedPoint,
        wordlength=st.integers(2, longest),
        fraction=st.integers(*fractions),
        signed=st.booleans() if signed is None else st.just(signed),
    )


def codes(number: FixedPoint) -> st.SearchStrategy[int]:
    """Codes of a format; the extremes and the smallest are as likely as all others together."""
    special = [number.min_code, number.min_code + 1, number.max_code, 0, 1, -1]
    in_range = [code for code in special if number.min_code <= code <= number.max_code]
    return st.sampled_from(in_range) | st.integers(number.min_code, number.max_code)
