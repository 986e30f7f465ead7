"""Integer squash and softmax against the real functions, and the table that documents it."""

import pytest
import torch
from benchmarks.function_error import all_inputs, real
from tests.fixedpoint.strategies import SCHEMES
from torch import Tensor

from qcapsnets.fixedpoint import FixedPoint, Softmax, Squash, draws, roundings
from qcapsnets.fixedpoint.functions import IntegerFunction

ROUNDING_ERROR = {"truncation": 1.0, "nearest": 0.5, "nearest-even": 0.5, "stochastic": 1.0}
SLACK = 1e-6  # float64 of the real function, in steps


def largest_error(function: IntegerFunction, codes: Tensor, scheme: str) -> float:
    draw = draws(0, "error", 0, codes.shape)
    return float((function(codes, roundings[scheme], draw) - real(function, codes)).abs().max())


def check(function: IntegerFunction, codes: Tensor) -> None:
    assert function.exact
    for scheme in SCHEMES:
        bound = ROUNDING_ERROR[scheme] + function.error + SLACK
        assert largest_error(function, codes, scheme) <= bound, (scheme, function)


def some_inputs(source: FixedPoint, size: int, rows: int = 1000) -> Tensor:
    """Rows of all magnitudes, and the extremes."""
    generator = torch.Generator().manual_seed(source.wordlength)
    codes = torch.randint(source.min_code, source.max_code + 1, (rows, size), generator=generator)
    shifts = torch.randint(0, source.wordlength, (rows, 1), generator=generator)
    extremes = torch.tensor([source.min_code, source.max_code, 0]).unsqueeze(1).expand(3, size)
    return torch.cat([codes >> shifts, extremes])


@pytest.mark.parametrize("fraction", [-2, 0, 2, 4, 6])
def test_squash_over_all_inputs(fraction: int) -> None:
    for n, size in ((2, 4), (3, 3), (4, 3), (5, 2), (6, 2)):
        source = FixedPoint(n, fraction)
        for g in (n - 1, n + 2):
            check(Squash(source, FixedPoint(n, g), size), all_inputs(source, size))


@pytest.mark.parametrize("fraction", [-2, 0, 2, 4])
def test_softmax_over_all_inputs(fraction: int) -> None:
    for n, size in ((2, 4), (3, 3), (4, 3), (5, 2), (6, 2)):
        source = FixedPoint(n, fraction)
        for g in (n, n + 2):
            check(Softmax(source, FixedPoint(n, g, signed=False), size), all_inputs(source, size))


@pytest.mark.parametrize("wordlength", range(2, 17))
def test_squash_at_every_wordlength(wordlength: int) -> None:
    for fraction in (4, wordlength // 2 + 2, 21):
        source = FixedPoint(wordlength, fraction)
        for size in (1, 8):
            g = max(wordlength - 1, 2 * fraction - wordlength)
            check(Squash(source, FixedPoint(wordlength, g), size), some_inputs(source, size))


@pytest.mark.parametrize("wordlength", range(2, 17))
def test_softmax_at_every_wordlength(wordlength: int) -> None:
    for fraction in (-1, wordlength // 2, 14):
        source = FixedPoint(wordlength, fraction)
        for size, g in ((1, wordlength), (10, wordlength), (512, wordlength + 5)):
            target = FixedPoint(wordlength, g, signed=False)
            check(Softmax(source, target, size), some_inputs(source, size, 1000 // size))


def test_ordinary_formats_are_as_good_as_rounding() -> None:
    """What the documentation promises: 2^-10 of a step before rounding."""
    for n in range(4, 17):
        for fraction in range(max(-6, 2 * n - 22), 20):
            assert Squash(FixedPoint(n, fraction), FixedPoint(n, n - 1), 8).error <= 2.0**-10
        assert Softmax(FixedPoint(n, 4), FixedPoint(n, n, signed=False), 10).error <= 2.0**-11
