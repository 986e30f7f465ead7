"""Formats, rounding and saturation (docs/arithmetic.md, "Formats" to "Saturation")."""

from typing import NamedTuple


class Format(NamedTuple):
    wordlength: int
    fraction: int
    signed: bool


def parse(text: str) -> Format:
    """`s8f5` -> Format(8, 5, True)"""
    wordlength, fraction = text[1:].split("f")
    return Format(int(wordlength), int(fraction), text[0] == "s")


def code_range(number: Format) -> tuple[int, int]:
    if number.signed:
        return -(1 << (number.wordlength - 1)), (1 << (number.wordlength - 1)) - 1
    return 0, (1 << number.wordlength) - 1


def saturate(code: int, number: Format) -> int:
    least, largest = code_range(number)
    return min(max(code, least), largest)


def rounded(scheme: str, n: int, d: int, draw: int = 0) -> int:
    """n/d as a whole number, by the scheme of that name."""
    q, r = divmod(n, d)
    if scheme == "truncation":
        return q
    if scheme == "nearest":
        return q + 1 if 2 * r >= d else q
    if scheme == "nearest-even":
        return q + 1 if 2 * r > d or (2 * r == d and q % 2 == 1) else q
    if scheme == "stochastic":
        return q + 1 if draw * d < r * 2**24 else q
    raise ValueError(scheme)


def to_format(n: int, d: int, target: Format, scheme: str, draw: int = 0) -> int:
    """The quotient n/d, in steps of the target, rounded and then saturated."""
    return saturate(rounded(scheme, n, d, draw), target)


def rescaled(code: int, fraction: int, target: Format, scheme: str, draw: int = 0) -> int:
    """A code of any width and the given fraction, such as an accumulator, in the target."""
    places = fraction - target.fraction
    if places >= 0:
        return to_format(code, 1 << places, target, scheme, draw)
    return to_format(code << -places, 1, target, scheme, draw)


def aligned_sum(terms: list[tuple[int, int]]) -> tuple[int, int]:
    """The exact sum of (code, fraction) pairs, and its fraction, the largest of theirs."""
    most = max(fraction for _, fraction in terms)
    return sum(code << (most - fraction) for code, fraction in terms), most
