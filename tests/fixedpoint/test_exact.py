"""Sums of products: the bounds, the ways of splitting, and what devices might do to them."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixedpoint.whole import integers, whole
from torch import Tensor

from qcapsnets.fixedpoint import FixedPoint, exact
from qcapsnets.fixedpoint.exact import (
    FLOAT32,
    FLOAT64,
    Accumulation,
    Range,
    Split,
    Sums,
    accumulate,
    accumulation,
    addition,
)
from qcapsnets.models import (
    Agree,
    Combine,
    Contraction,
    Convolution,
    Scale,
    SharedConvolution,
    Vote,
)

OPERANDS: list[tuple[Contraction, tuple[int, ...], tuple[int, ...]]] = [
    (Convolution(2, 1), (3, 8, 3, 3), (2, 8, 5, 6)),
    (Convolution(1, 0), (2, 20, 5, 5), (2, 20, 7, 7)),
    (SharedConvolution(1, 1), (4, 8, 3, 3), (2, 3, 8, 4, 4)),
    (Vote(), (3, 5, 8, 4), (2, 5, 8)),
    (Combine(), (2, 40, 3, 4), (2, 40, 3)),
    (Combine(), (2, 40, 3, 4), (1, 40, 3)),
    (Agree(), (2, 5, 3, 16), (2, 3, 16)),
    (Scale(), (6,), (2, 6, 3, 3)),
]
NAMES = [f"{type(c).__name__}{own}" for c, own, _ in OPERANDS]


def sums_of(contraction: Contraction, own: Tensor) -> Sums:
    if isinstance(contraction, Combine | Agree):
        low, high = (int(extreme) for extreme in own.aminmax())
        return Sums.of_range(contraction.terms(own), contraction.length(own), Range(low, high, 0))
    return Sums.of_codes(contraction, own, 0)


def sizes_of(how: Accumulation) -> tuple[int, ...]:
    return () if how.split is None else how.split.sizes


@pytest.mark.parametrize(("contraction", "own", "other"), OPERANDS, ids=NAMES)
@pytest.mark.parametrize(
    ("own_bits", "other_bits"),
    [(2, 2), (8, 8), (10, 12), (8, 16), (16, 16), (12, 26), (26, 12)],
)
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bias", [None, 0, 7, -7])
def test_every_way_is_the_integer_sum(
    contraction: Contraction,
    own: tuple[int, ...],
    other: tuple[int, ...],
    own_bits: int,
    other_bits: int,
    signed: bool,
    bias: int | None,
) -> None:
    """Operands as values, with a bias whose fraction is `bias` places finer than the sum's."""
    weights, source = FixedPoint(own_bits, 3), FixedPoint(other_bits, 5, signed)
    w = integers(weights.min_code, weights.max_code, *own)
    x = integers(source.min_code, source.max_code, *other, seed=1)
    expected, plus, term = whole(contraction, w, x), None, None
    fraction = 8
    if bias is not None:
        b = integers(-100, 100, *_bias_shape(contraction, own), seed=2)
        fraction = max(8, 8 + bias)
        expected = (expected << (fraction - 8)) + (b.long() << (fraction - 8 - bias))
        plus, term = Range(-100, 100, 8 + bias), b * 2.0 ** -(8 + bias)
    sums = replace(sums_of(contraction, w), fraction=3)
    how = accumulation(contraction, sums, Range.of(source), plus)
    assert how.exact
    values = weights.values(w, narrowest(weights)), source.values(x, narrowest(source))
    result = accumulate(how, contraction, *values, term)
    assert result.dtype == how.dtype
    assert how.result.fraction == fraction
    assert torch.equal(result.double() * 2.0**fraction, expected.double())
    assert how.result.low <= int(expected.min())
    assert int(expected.max()) <= how.result.high


def _bias_shape(contraction: Contraction, own: tuple[int, ...]) -> tuple[int, ...]:
    return (own[0], 1, 1) if isinstance(contraction, Convolution | Scale) else (1,)


def narrowest(format: FixedPoint) -> torch.dtype:
    return torch.float32 if format.fits(torch.float32) else torch.float64


def test_bias_is_aligned_upwards_too() -> None:
    """A bias of fewer fractional bits than the sum, and of many more."""
    w, x = torch.full((1, 1, 1, 1), 3.0), torch.full((1, 1, 1, 1), 5.0)
    for fraction in (-20, -3, 0, 4, 30, 45):
        plus = Range(-1, 1, fraction)
        how = accumulation(Convolution(), Sums.of_codes(Convolution(), w, 0), Range(0, 7, 0), plus)
        result = accumulate(how, Convolution(), w, x, torch.tensor([2.0**-fraction]))
        assert how.exact
        assert result.item() == 15 + 2.0**-fraction
    too_fine = Range(-1, 1, 60)
    assert not accumulation(
        Convolution(), Sums.of_codes(Convolution(), w, 0), Range(0, 7, 0), too_fine
    ).exact


class TestBounds:
    @settings(deadline=None)
    @given(
        st.lists(st.integers(-9, 9), min_size=1, max_size=6),
        st.integers(-9, 0),
        st.integers(0, 9),
    )
    def test_no_partial_sum_passes_them_and_some_reach_them(
        self, codes: list[int], low: int, high: int
    ) -> None:
        own = torch.tensor(codes).double().view(1, -1, 1, 1)
        sums = Sums.of_codes(Convolution(), own, 0)
        bounds = sums.bounds(Range(low, high, 0), len(codes))
        partial = [0]
        for subset in itertools.product([0, 1], repeat=len(codes)):
            chosen = [code for code, taken in zip(codes, subset, strict=True) if taken]
            partial.append(sum(max(code * low, code * high) for code in chosen))
            partial.append(sum(min(code * low, code * high) for code in chosen))
        assert bounds == (min(partial), max(partial))

    def test_positive_and_negative_weights_apart(self) -> None:
        """With an unsigned operand, only weights of one sign add up."""
        own = torch.tensor([100.0, -100.0]).repeat(500).view(1, -1, 1, 1)
        sums = Sums.of_codes(Convolution(), own, 0)
        assert sums.bounds(Range(0, 255, 0), 1000) == (-500 * 25500, 500 * 25500)
        assert accumulation(Convolution(), sums, Range(0, 255, 0), None).split == Split((1000,))
        assert FLOAT32 < 1000 * 100 * 255

    def test_over_any_part(self) -> None:
        own = torch.tensor([1.0, 2, 3, -4, 5]).view(1, 5, 1, 1)
        sums = Sums.of_codes(Convolution(), own, 0)
        assert sums.bounds(Range(0, 1, 0), 2) == (-4, 5)
        assert sums.bounds(Range(-1, 1, 0), 2) == (-7, 7)

    def test_of_a_range_covers_those_of_codes(self) -> None:
        own = integers(-8, 7, 2, 12, 3, 4)
        actual = Sums.of_codes(Combine(), own, 0)
        general = Sums.of_range(12, 12, Range(-8, 7, 0))
        for size in (1, 5, 12):
            (a, b), (c, d) = (sums.bounds(Range(-3, 9, 0), size) for sums in (actual, general))
            assert c <= a
            assert b <= d

    def test_wide_codes_are_summed_in_float64(self) -> None:
        own = torch.full((1, 2, 3, 3), 2.0**30 + 1, dtype=torch.float64)
        assert Sums.of_codes(Convolution(), own, 0).bounds(Range(0, 1, 0), 2) == (
            0,
            18 * (2**30 + 1),
        )

    def test_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        own = integers(-8, 7, 5, 4, 3, 3)
        expected = Sums.of_codes(Convolution(), own, 0)
        monkeypatch.setattr(exact, "PIECE", 1)
        pieces = Sums.of_codes(Convolution(), own, 0)
        assert torch.equal(pieces.positive, expected.positive)
        assert torch.equal(pieces.negative, expected.negative)


class TestAtTheLimit:
    """One below 2^24, at it, and beyond it, where float32 would give another number."""

    @pytest.mark.parametrize("total", [FLOAT32 - 1, FLOAT32])
    def test_under(self, total: int) -> None:
        own, other = torch.tensor([[[[total - 1.0]], [[1.0]]]]), torch.ones(1, 2, 1, 1)
        how = accumulation(
            Convolution(), Sums.of_codes(Convolution(), own.double(), 0), Range(0, 1, 0), None
        )
        assert how.split == Split((2,))
        assert how.dtype == torch.float32
        assert accumulate(how, Convolution(), own, other, None).item() == total

    def test_over(self) -> None:
        """2^24 + 1 = 2^24 - 1 + 2, in parts: float32 would say 2^24."""
        own = torch.tensor([2.0**24 - 1, 2.0]).view(1, 2, 1, 1)
        other = torch.ones(1, 2, 1, 1)
        assert Convolution()(own, other).item() == FLOAT32 != FLOAT32 + 1
        sums = Sums.of_codes(Convolution(), own, 0)
        assert sums.bounds(Range(0, 1, 0), 2)[1] == FLOAT32 + 1
        how = accumulation(Convolution(), sums, Range(0, 1, 0), None)
        assert how.split == Split((1,))
        assert how.dtype == torch.float64
        assert accumulate(how, Convolution(), own, other, None).item() == FLOAT32 + 1

    @pytest.mark.parametrize("seed", range(3))
    def test_a_convolution_over_it(self, seed: int) -> None:
        """As the primary convolution at 8 bits: 20,736 products of positive codes."""
        own = integers(90, 127, 2, 256, 9, 9, seed=seed)
        other = integers(200, 255, 1, 256, 9, 9, seed=seed + 10)
        right = whole(Convolution(), own, other)
        assert right.min() > FLOAT32
        assert not torch.equal(Convolution()(own.float(), other.float()).long(), right)
        sums = Sums.of_codes(Convolution(), own, 0)
        how = accumulation(Convolution(), sums, Range(0, 255, 0), None)
        assert len(sizes_of(how)) == 2  # 81 * 16 products are too many for one of 16 parts
        small = accumulation(Convolution(), sums, Range(0, 31, 0), None)
        assert sizes_of(small)[0] < 256
        assert len(sizes_of(small)) == 1
        for way, x in ((how, other), (small, other.sub(200).clamp(max=31))):
            result = accumulate(way, Convolution(), own, x, None)
            assert torch.equal(result.long(), whole(Convolution(), own, x))

    def test_agreement_over_it(self) -> None:
        own = torch.tensor([2.0**24 - 1, 2.0]).view(1, 1, 1, 2)
        other = torch.ones(1, 1, 2)
        assert Agree()(own, other).item() != FLOAT32 + 1
        how = accumulation(
            Agree(), Sums.of_range(2, 2, Range(0, 2**24 - 1, 0)), Range(0, 1, 0), None
        )
        assert accumulate(how, Agree(), own, other, None).item() == FLOAT32 + 1

    def test_float64_ends_at_2_to_the_53(self) -> None:
        def way(high: int) -> Accumulation:
            sums = Sums.of_range(1, 1, Range(0, high, 0))
            return accumulation(Scale(), sums, Range(0, 2**22, 0), None)

        assert way(2**31 - 1).exact
        assert way(2**31 - 1).split is None
        assert not way(2**31).exact
        assert not way(2**32).exact

    @pytest.mark.parametrize("excess", [0, 1, 2, 3, 1000])
    def test_a_bound_of_2_to_the_53_and_more_is_never_exact(self, excess: int) -> None:
        """float64 itself cannot tell 2^53 + 1 from 2^53: both are refused."""
        sums = Sums.of_range(1, 1, Range(0, 1, 0))
        assert not accumulation(Scale(), sums, Range(0, FLOAT64 + excess, 0), None).exact
        assert accumulation(Scale(), sums, Range(0, FLOAT64 - 1, 0), None).exact
        assert not addition(Range(0, FLOAT64 - 1, 0), Range(0, 1 + excess, 0)).exact

    def test_32_bits_are_inexact(self) -> None:
        format = FixedPoint(32, 31)
        own = integers(format.min_code, format.max_code, 1, 4, 3, 3)
        sums = Sums.of_codes(Convolution(), own, 31)
        how = accumulation(Convolution(), sums, Range.of(format), None)
        assert not how.exact
        assert how.dtype == torch.float64


class TestSplitting:
    """Parts and digits give what float64 gives, and are taken in that order."""

    OWN = integers(-128, 127, 3, 32, 3, 3)
    OTHER = integers(0, 255, 2, 32, 5, 5, seed=1)

    @pytest.mark.parametrize("size", [1, 5, 16, 32, 40])
    @pytest.mark.parametrize("base", [None, 2, 16, 128])
    def test_all_give_the_same(self, size: int, base: int | None) -> None:
        sizes = (size,) if base is None else (size, 7)
        how = Accumulation(Split(sizes, float(base or 0)), Range(-(2**30), 2**30, 0), True)
        result = accumulate(how, Convolution(), self.OWN.float(), self.OTHER.float(), None)
        assert result.dtype == torch.float64
        assert torch.equal(result.long(), whole(Convolution(), self.OWN, self.OTHER))

    def test_negative_codes_have_digits_too(self) -> None:
        other = self.OTHER - 128
        how = Accumulation(Split((32, 32), 16.0), Range(-(2**30), 2**30, 0), True)
        result = accumulate(how, Convolution(), self.OWN.float(), other.float(), None)
        assert torch.equal(result.long(), whole(Convolution(), self.OWN, other))

    def test_digits_of_what_float32_does_not_hold(self) -> None:
        """An operand of 30 bits is cut before, not after, it becomes float32."""
        own = torch.tensor([[[[1.0]], [[-1.0]]]])
        other = torch.tensor([2.0**30 - 1, 2.0**29 + 1], dtype=torch.float64).view(1, 2, 1, 1)
        sums = Sums.of_codes(Convolution(), own, 0)
        how = accumulation(Convolution(), sums, Range(0, 2**30 - 1, 0), None)
        assert len(sizes_of(how)) == 2
        assert accumulate(how, Convolution(), own, other, None).item() == 2**29 - 2

    def test_order_of_preference(self) -> None:
        def sizes(weight: int, other: int) -> tuple[int, ...]:
            own = torch.full((1, 256, 3, 3), float(weight), dtype=torch.float64)
            sums = Sums.of_codes(Convolution(), own, 0)
            return sizes_of(accumulation(Convolution(), sums, Range(0, other, 0), None))

        assert sizes(31, 63) == (256,)
        assert sizes(127, 255) == (32,)
        assert len(sizes(127, 2**14 - 1)) == 2
        assert sizes(2**15, 2**16) == ()
        assert 256 // sizes(127, 255)[0] <= Convolution.most_parts

    def test_a_scale_has_no_digits(self) -> None:
        """Nothing is summed: float64 does it in one go."""
        sums = Sums.of_codes(Scale(), torch.full((4,), 100.0), 0)
        assert accumulation(Scale(), sums, Range(0, 2**20, 0), None).split is None

    @pytest.mark.parametrize("fraction", [128, 100, -100, -128])
    def test_fractions_beyond_float32(self, fraction: int) -> None:
        own, other = torch.full((1, 2, 1, 1), 3.0), torch.full((1, 2, 1, 1), 5.0)
        half = fraction // 2
        how = accumulation(
            Convolution(), Sums.of_codes(Convolution(), own, half), Range(0, 7, half), None
        )
        result = accumulate(
            how, Convolution(), own.double() * 2.0**-half, other.double() * 2.0**-half, None
        )
        assert result.double().item() == 30 * 2.0**-fraction

    def test_gradients_are_those_of_one_sum(self) -> None:
        expected = []
        for sizes in [(), (32,), (5,), (32, 32), (7, 9)]:
            own, other = self.OWN.float().requires_grad_(), self.OTHER.float().requires_grad_()
            split = Split(sizes, 16.0) if sizes else None
            how = Accumulation(split, Range(-(2**30), 2**30, 0), True)
            accumulate(how, Convolution(), own, other, None).square().sum().backward()
            assert own.grad is not None
            assert other.grad is not None
            expected.append((own.grad, other.grad))
        for own_grad, other_grad in expected[1:]:
            torch.testing.assert_close(own_grad, expected[0][0], rtol=1e-3, atol=1.0)
            torch.testing.assert_close(other_grad, expected[0][1], rtol=1e-3, atol=1000.0)

    def test_votes_and_agreements_are_not_summed_in_parts(self) -> None:
        """Their axes are short, and parts of them slower than float64: at most digits."""
        for contraction, shape in ((Vote(), (3, 5, 8, 4)), (Agree(), (2, 5, 3, 16))):
            sums = Sums.of_range(16, 16, Range(-2048, 2047, 0))
            assert contraction.length(torch.empty(shape)) > 1
            for bits in range(8, 24):
                how = accumulation(contraction, sums, Range(0, (1 << bits) - 1, 0), None)
                assert set(sizes_of(how)) <= {16}
