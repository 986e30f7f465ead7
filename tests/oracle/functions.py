"""Squash and softmax of one vector (docs/arithmetic.md, "Squash" and "Softmax")."""

import decimal
from functools import cache
from math import isqrt

from tests.oracle.numbers import Format, code_range, to_format


def squash(
    codes: list[int], source: Format, target: Format, scheme: str, draws: list[int] | None = None
) -> list[int]:
    f, g, k = source.fraction, target.fraction, norm_bits(source, target, len(codes))
    if k is None:
        raise ValueError("no integer squash for these formats")
    c = min(max(f, 0), 19)
    x = g - k + 2 * (c - f)
    n2 = sum(code * code for code in codes)
    norm = isqrt(n2 << 2 * k)
    denominator = ((1 << 2 * c) + shifted(n2, 2 * (c - f))) << max(-x, 0)
    return [
        to_format(code * norm << max(x, 0), denominator, target, scheme, u)
        for code, u in zip(codes, draws or [0] * len(codes), strict=True)
    ]


@cache
def norm_bits(source: Format, target: Format, size: int) -> int | None:
    """k, or None where the formats have no integer squash."""
    f, g = source.fraction, target.fraction
    n2 = size * largest(source) ** 2
    h = 0
    while n2 > 1 << 2 * h:
        h += 1
    a = min(g - f - 1, g - 2 * f + h)
    k = max(2, a + 10)
    while k >= max(0, a + 1):
        if squash_fits(source, target, size, k):
            return k
        k -= 1
    return None


def squash_fits(source: Format, target: Format, size: int, k: int) -> bool:
    f, g = source.fraction, target.fraction
    c = min(max(f, 0), 19)
    x = g - k + 2 * (c - f)
    n2 = size * largest(source) ** 2
    radicand = n2 << 2 * k
    numerator = largest(source) * isqrt(radicand) << max(x, 0)
    denominator = ((1 << 2 * c) + shifted(n2, 2 * (c - f))) << max(-x, 0)
    return radicand <= 2**62 and numerator <= 2**62 and denominator <= 2**39


def softmax(
    codes: list[int], source: Format, target: Format, scheme: str, draws: list[int] | None = None
) -> list[int]:
    bits, g = table_bits(len(codes)), target.fraction
    e = [exponential(max(codes) - code, source.fraction, bits) for code in codes]
    denominator = sum(e) << max(-g, 0)
    return [
        to_format(each << max(g, 0), denominator, target, scheme, u)
        for each, u in zip(e, draws or [0] * len(codes), strict=True)
    ]


def table_bits(classes: int) -> int:
    """T = max(0, min(30, 39 - ceil(log2 J)))"""
    log2 = 0
    while 1 << log2 < classes:
        log2 += 1
    return max(0, min(30, 39 - log2))


@cache
def exponential(i: int, fraction: int, bits: int) -> int:
    """floor(2^T exp(-i 2^-f) + 1/2), in 60 digits."""
    with decimal.localcontext() as context:
        context.prec = 60
        exact = (decimal.Decimal(-i) * decimal.Decimal(2) ** -fraction).exp() * 2**bits
        return int((exact + decimal.Decimal("0.5")).to_integral_value(decimal.ROUND_FLOOR))


def largest(number: Format) -> int:
    least, most = code_range(number)
    return max(-least, most)


def shifted(n: int, left: int) -> int:
    return n << left if left >= 0 else n >> -left
