"""Draws: the published Philox, keyed by seed, site, step and element, uniform and independent."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import generator as oracle
from torch import Tensor

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import draws, roundings
from qcapsnets.fixedpoint.generator import philox

ZEROS, ONES = "00000000", "ffffffff"
KNOWN_ANSWERS = [  # Random123, kat_vectors, philox4x32 10: counter, key, answer
    (f"{ZEROS} " * 4, f"{ZEROS} " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (f"{ONES} " * 4, f"{ONES} " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]

COUNT = 1 << 18


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter: str, key: str, expected: str) -> None:
    c0, c1, c2, c3 = (torch.tensor([word]) for word in words(counter))
    k0, k1 = words(key)
    assert [word.item() for word in philox((c0, c1, c2, c3), (k0, k1))] == words(expected)
    assert oracle.philox(words(counter), words(key)) == words(expected)


@settings(deadline=None)
@given(
    st.integers(0, 2**64 - 1),
    st.text(max_size=20),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 5), max_size=3),
)
def test_same_as_the_oracle(seed: int, site: str, step: int, shape: list[int]) -> None:
    result = draws(seed, site, step, shape)
    assert result.shape == tuple(shape)
    assert result.dtype == torch.int32
    elements = range(result.numel())
    assert result.flatten().tolist() == [oracle.draw(seed, site, step, e) for e in elements]


def test_shape_only_arranges_the_elements() -> None:
    flat = draws(3, "conv", 0, (24,))
    assert torch.equal(draws(3, "conv", 0, (2, 3, 4)).flatten(), flat)
    assert torch.equal(draws(3, "conv", 0, (10,)), flat[:10])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((-1, "site", 0, (3,)), r"seed -1 is not allowed: give a whole number from 0 to 2\^64 - 1"),
        ((2**64, "site", 0, (3,)), "seed"),
        ((True, "site", 0, (3,)), "seed True"),
        ((0, "site", 2**32, (3,)), r"step 4294967296 .* 2\^32 - 1"),
        ((0, "site", 0, (2**17, 2**17)), r"count of elements .* 2\^34 - 1"),
    ],
)
def test_bad_keys(given: Any, message: str) -> None:
    with pytest.raises(FixedPointError, match=message):
        draws(*given)


def chi_squared(counts: Tensor) -> float:
    expected = counts.sum() / counts.numel()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("low_bit", [0, 8, 16])
def test_every_byte_is_uniform(low_bit: int) -> None:
    values = draws(2020, "digit.votes", 1, (COUNT,)) >> low_bit & 0xFF
    degrees = 255
    excess = chi_squared(torch.bincount(values, minlength=256).double()) - degrees
    assert abs(excess) < 4 * (2 * degrees) ** 0.5


@pytest.mark.parametrize(
    "other", [(1, "conv", 0), (0, "conv2", 0), (0, "conv", 1), (2**32, "conv", 0)]
)
def test_keys_are_independent(other: tuple[int, str, int]) -> None:
    """Joint chi-squared over 16 x 16 cells, against the draws of (0, "conv", 0)."""
    pair = [draws(*key, (COUNT,)).long() >> 20 for key in ((0, "conv", 0), other)]
    counts = torch.bincount(pair[0] * 16 + pair[1], minlength=256).double()
    assert abs(chi_squared(counts) - 255) < 4 * (2 * 255) ** 0.5


def test_neighbours_are_independent() -> None:
    values = draws(0, "conv", 0, (COUNT,)).long() >> 20
    counts = torch.bincount(values[:-1] * 16 + values[1:], minlength=256).double()
    assert abs(chi_squared(counts) - 255) < 4 * (2 * 255) ** 0.5


@pytest.mark.parametrize("x", [0.3, -0.3, 17.0625, -3.999, 2.0**-10])
def test_stochastic_rounding_is_unbiased(x: float) -> None:
    values = torch.full((COUNT,), x)
    result = roundings["stochastic"].on_floats(values, draws(5, "conv", 0, (COUNT,)))
    assert set(result.unique().tolist()) == {float(int(x // 1)), float(int(x // 1) + 1)}
    part = x - x // 1
    deviation = (part * (1 - part) / COUNT) ** 0.5
    assert abs(float(result.double().mean()) - x) < 4 * deviation
