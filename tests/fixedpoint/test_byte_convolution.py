"""Convolutions of bytes: the same sums as in int64, or not used at all."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from qcapsnets.fixedpoint.byte_convolution import (
    ByteCodes,
    ByteConvolution,
    adds_exactly,
    by_bytes,
)
from qcapsnets.fixedpoint.exact import Range, Sums, accumulate, accumulation
from qcapsnets.models import Agree, Convolution, SharedConvolution

OWN, OTHER = torch.Size([16, 8, 3, 3]), torch.Size([8, 6, 6])
UNSIGNED, SIGNED = ByteCodes(0, 0, 0), ByteCodes(0, 0, 128)


def works_here() -> bool:
    return adds_exactly(ByteConvolution(Convolution(1, 1), SIGNED), OWN, OTHER)


needs_bytes = pytest.mark.skipif(not works_here(), reason="this processor has no sums of bytes")


@pytest.fixture
def no_memory() -> Iterator[None]:
    adds_exactly.cache_clear()
    yield
    adds_exactly.cache_clear()


def integers(low: int, high: int, *shape: int, seed: int) -> Tensor:
    return torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(seed))


def oracle(way: Convolution, own: Tensor, other: Tensor, bias: Tensor) -> Tensor:
    """Sums of int64, which are exact in float64 at these sizes."""
    exact = Convolution(way.stride, way.padding, by_matrix=True)
    return exact.plus(own.double(), other.double(), bias.double())


@needs_bytes
@given(
    channels=st.sampled_from([4, 8, 17, 32]),
    out=st.sampled_from([1, 8, 19]),
    kernel=st.sampled_from([1, 3, 5]),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    bits=st.integers(2, 8),
    signed=st.booleans(),
    fractions=st.tuples(st.integers(-4, 20), st.integers(-4, 20)),
    seed=st.integers(0, 2**20),
)
def test_sums_are_those_of_integers(
    channels: int,
    out: int,
    kernel: int,
    stride: int,
    padding: int,
    bits: int,
    signed: bool,
    fractions: tuple[int, int],
    seed: int,
) -> None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    own = integers(-128, 127, out, channels, kernel, kernel, seed=seed)
    other = integers(low, high, 2, channels, 6, 7, seed=seed + 1)
    bias = integers(-1000, 1000, out, seed=seed + 2)
    scales = [2.0**-f for f in fractions]
    convolution = Convolution(stride, padding)
    way = by_bytes(ByteCodes(*fractions, -low), convolution, own.float(), other.float())
    assert way is not None
    scale = scales[0] * scales[1]
    result = way.plus(own * scales[0], other * scales[1], bias * scale)
    assert torch.equal(result.double() / scale, oracle(convolution, own, other, bias))


@needs_bytes
@pytest.mark.parametrize("zero", [0, 1, 64, 128, 255])
def test_the_largest_bytes_do_not_saturate(zero: int) -> None:
    """Two products of 255 x 127 are more than 16 bits hold."""
    own, other = torch.full((8, 16, 1, 1), 127.0), torch.full((1, 16, 2, 2), 255.0 - zero)
    own[1::2] = -128
    way = by_bytes(ByteCodes(0, 0, zero), Convolution(), own, other)
    assert way is not None
    expected = oracle(Convolution(), own, other, torch.zeros(8))
    assert torch.equal(way(own, other).double(), expected)


@needs_bytes
def test_a_convolution_that_capsules_share() -> None:
    own, other = integers(-128, 127, 12, 8, 3, 3, seed=0), integers(-8, 7, 2, 5, 8, 4, 4, seed=1)
    shared = SharedConvolution(1, 1)
    way = by_bytes(ByteCodes(0, 0, 8), shared, own.float(), other.float())
    assert way is not None
    assert torch.equal(way(own.float(), other.float()), shared(own.float(), other.float()))


@needs_bytes
def test_weights_that_change_are_packed_again() -> None:
    own, other = torch.ones(OWN), torch.ones(1, *OTHER)
    way = by_bytes(UNSIGNED, Convolution(), own, other)
    assert way is not None
    before = way(own, other)
    own.mul_(2)
    assert torch.equal(way(own, other), 2 * before)


@needs_bytes
def test_in_inference_mode() -> None:
    with torch.inference_mode():
        own, other = torch.ones(OWN), torch.ones(1, *OTHER)
        way = by_bytes(UNSIGNED, Convolution(), own, other)
        assert way is not None
        assert float(way(own, other).max()) == 72


def ways(own: Range, other: Range) -> ByteCodes | None:
    sums = Sums.of_codes(Convolution(), torch.ones(OWN), own.fraction)
    return accumulation(Convolution(), sums, other, None, own).bytes


def test_which_codes_are_bytes() -> None:
    weights, byte = Range(-128, 127, 3), Range(0, 255, 5)
    assert ways(weights, byte) == ByteCodes(3, 5, 0)
    assert ways(weights, Range(-128, 127, 5)) == ByteCodes(3, 5, 128)
    assert ways(weights, Range(-64, 63, 5)) == ByteCodes(3, 5, 64)
    assert ways(Range(-129, 0, 3), byte) is None
    assert ways(Range(0, 128, 3), byte) is None
    assert ways(weights, Range(0, 256, 5)) is None
    assert ways(weights, Range(1, 200, 5)) is None


def test_what_is_left_to_floats() -> None:
    own, other = torch.ones(OWN), torch.ones(1, *OTHER)
    assert by_bytes(UNSIGNED, Agree(), own, other) is None
    assert by_bytes(UNSIGNED, Convolution(by_matrix=True), own, other) is None
    assert by_bytes(UNSIGNED, Convolution(), own[:, :3], other[:, :3]) is None
    assert by_bytes(UNSIGNED, Convolution(), own, other[:0]) is None
    assert by_bytes(UNSIGNED, Convolution(), own.requires_grad_(), other) is None


class Faulty:
    """Operators of a machine that adds pairs of products in 16 bits."""

    def __init__(self, onednn: Any) -> None:
        self.qconv_prepack = onednn.qconv_prepack
        self._pointwise = onednn.qconv2d_pointwise

    def qconv2d_pointwise(self, *arguments: object) -> Tensor:
        sums: Tensor = self._pointwise(*arguments)
        return sums.clamp(-(2**15), 2**15 - 1)


@pytest.mark.parametrize("fault", ["saturating", "missing", "another signature"])
def test_a_machine_without_exact_sums_uses_floats(
    no_memory: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    operators = {
        "saturating": Faulty(torch.ops.onednn),
        "missing": SimpleNamespace(),
        "another signature": SimpleNamespace(qconv_prepack=lambda weight: weight),
    }
    monkeypatch.setattr(torch.ops, "onednn", operators[fault])
    own, other = torch.full(OWN, 127.0), torch.full((1, *OTHER), 127.0)
    assert by_bytes(SIGNED, Convolution(), own, other) is None
    weights, images = Range(-128, 127, 0), Range(-128, 127, 0)
    sums = Sums.of_codes(Convolution(), own, 0)
    how = accumulation(Convolution(), sums, images, None, weights)
    assert how.bytes is not None
    assert float(accumulate(how, Convolution(), own, other, None).max()) == 127 * 127 * 72
