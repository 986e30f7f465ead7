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
from qcapsnets.fixedpoint.exact import Accumulation, Range, Split, Sums, accumulate, accumulation
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


def codes(own: Range, other: Range) -> tuple[ByteCodes, ...]:
    sums = Sums.of_codes(Convolution(), torch.ones(OWN), own.fraction)
    how = accumulation(Convolution(), sums, other, None, own)
    return () if how.in_bytes is None else how.in_bytes.codes


def test_which_codes_are_bytes() -> None:
    weights, byte = Range(-128, 127, 3), Range(0, 255, 5)
    assert codes(weights, byte) == (ByteCodes(3, 5, 0),)
    assert codes(weights, Range(-128, 127, 5)) == (ByteCodes(3, 5, 128),)
    assert codes(weights, Range(-64, 63, 5)) == (ByteCodes(3, 5, 64),)
    assert codes(Range(-129, 0, 3), byte) == ()
    assert codes(Range(0, 128, 3), byte) == ()
    assert codes(weights, Range(0, 256, 5)) == ()
    assert codes(weights, Range(1, 200, 5)) == ()


WEIGHTS = integers(80, 127, 8, 64, 3, 3, seed=7)


def in_digits(other: Range, weights: Tensor = WEIGHTS) -> Accumulation:
    sums = Sums.of_codes(Convolution(), weights, 3)
    low, high = (int(extreme) for extreme in weights.aminmax())
    return accumulation(Convolution(), sums, other, None, Range(low, high, 3))


def test_longer_codes_are_two_bytes_where_floats_would_take_several_sums() -> None:
    unsigned, signed = in_digits(Range(0, 4095, 5)), in_digits(Range(-2048, 2047, 5))
    assert unsigned.in_bytes == Split((64, 64), 2.0, (ByteCodes(3, -1, 0), ByteCodes(3, 5, 0)))
    assert signed.in_bytes == Split((64, 64), 2.0, (ByteCodes(3, -1, 32), ByteCodes(3, 5, 0)))
    assert unsigned.split == Split((4,))
    assert signed.split == Split((8,))
    assert in_digits(Range(0, 65535, 5)).in_bytes is not None
    assert in_digits(Range(0, 65536, 5)).in_bytes is None
    assert in_digits(Range(0, 4095, 5), WEIGHTS + 1).in_bytes is None
    short = in_digits(Range(0, 4095, 5), WEIGHTS // 64)
    assert short.split == Split((64,))
    assert short.in_bytes is None


@given(
    bits=st.integers(9, 16),
    signed=st.booleans(),
    channels=st.sampled_from([4, 32, 64]),
    fractions=st.tuples(st.integers(-4, 20), st.integers(-4, 20)),
    extreme=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_sums_of_two_bytes_are_those_of_integers(
    bits: int,
    signed: bool,
    channels: int,
    fractions: tuple[int, int],
    extreme: bool,
    seed: int,
) -> None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    own = integers(100 if extreme else -128, 127, 5, channels, 3, 3, seed=seed)
    other = integers(high - 9 if extreme else low, high, 2, channels, 4, 5, seed=seed + 1)
    bias = integers(-1000, 1000, 5, 1, 1, seed=seed + 2)
    sums = Sums.of_codes(Convolution(1, 1), own, fractions[0])
    weights = Range(int(own.min()), int(own.max()), fractions[0])
    how = accumulation(
        Convolution(1, 1), sums, Range(low, high, fractions[1]), Range(-1000, 1000, 0), weights
    )
    scales = [2.0**-f for f in fractions]
    scale = scales[0] * scales[1]
    operands = (own * scales[0]).float(), (other * scales[1]).float()
    result = accumulate(how, Convolution(1, 1), *operands, bias.double() * scale)
    assert result.dtype == how.dtype
    expected = oracle(Convolution(1, 1), own, other, bias.flatten())
    assert torch.equal(result.double() / scale, expected)


@needs_bytes
def test_weights_are_packed_once_for_both_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = []
    pack = ByteConvolution._pack

    def counted(self: ByteConvolution, *operands: Tensor) -> Tensor:
        packed.append(self.codes)
        return pack(self, *operands)

    how, own, other = in_digits(Range(0, 4095, 0)), WEIGHTS / 8, torch.ones(1, 64, 5, 5)
    accumulate(how, Convolution(), own, other, None)  # a trial packs too
    monkeypatch.setattr(ByteConvolution, "_pack", counted)
    own = own.clone()
    for _ in range(3):
        accumulate(how, Convolution(), own, other, None)
    assert how.in_bytes is not None
    assert tuple(packed) == how.in_bytes.codes


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
    assert how.in_bytes is not None
    assert float(accumulate(how, Convolution(), own, other, None).max()) == 127 * 127 * 72
    wide, ones = in_digits(Range(0, 4095, 0)), torch.full((1, 64, 3, 3), 4095.0)
    total = accumulate(wide, Convolution(), WEIGHTS / 8, ones, None)
    assert torch.equal(total.flatten() * 8, 4095.0 * WEIGHTS.double().sum((1, 2, 3)))
