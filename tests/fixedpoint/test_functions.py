"""Integer squash and softmax: torch against the oracle, with ==."""

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.fixedpoint import strategies
from tests.fixedpoint.strategies import SCHEMES
from tests.oracle import functions as oracle
from tests.oracle.numbers import Format, parse
from torch import Tensor

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import FixedPoint, Softmax, Squash, draws, roundings
from qcapsnets.fixedpoint.functions import IntegerFunction, exponentials, isqrt
from qcapsnets.fixedpoint.rounding import PIECE

KINDS: list[type[IntegerFunction]] = [Squash, Softmax]
S8, V8, C8 = FixedPoint(8, 5), FixedPoint(8, 7), FixedPoint(8, 8, signed=False)


def plain(number: FixedPoint) -> Format:
    return parse(str(number))


def expected(
    function: IntegerFunction, codes: Tensor, scheme: str, draw: Tensor
) -> list[list[int]]:
    """The oracle on every row of codes [rows, size]."""
    apply = oracle.squash if isinstance(function, Squash) else oracle.softmax
    formats = plain(function.source), plain(function.target)
    rows = zip(codes.tolist(), draw.expand(codes.shape).tolist(), strict=True)
    return [apply(row, *formats, scheme, u) for row, u in rows]


@st.composite
def calls(draw: st.DrawFn, kind: type[IntegerFunction]) -> tuple[IntegerFunction, Tensor, Tensor]:
    """A function whose formats have an integer form, rows of codes, and draws."""
    size = draw(st.integers(1, 9) | st.sampled_from([10, 16, 32]))
    longest, fractions = (18, (-18, 28)) if kind is Squash else (16, (-20, 40))
    source = draw(strategies.formats(longest, fractions))
    target = draw(strategies.formats(20, (-2, 32)))
    function = kind(source, target, size)
    assume(function.exact)
    rows = draw(st.integers(1, 3))
    codes = draw(
        st.lists(strategies.codes(source), min_size=rows * size, max_size=rows * size)
        | st.sampled_from([source.min_code, source.max_code]).map(lambda c: [c] * rows * size)
    )
    u = draw(st.lists(strategies.draws, min_size=size, max_size=size))
    return function, torch.tensor(codes).view(rows, size), torch.tensor(u)


@settings(deadline=None, max_examples=400)
@given(calls(Squash), strategies.schemes)
def test_squash_is_the_oracle(call: tuple[IntegerFunction, Tensor, Tensor], scheme: str) -> None:
    function, codes, u = call
    result = function(codes, roundings[scheme], u)
    assert result.dtype == torch.int64
    assert result.tolist() == expected(function, codes, scheme, u)


@settings(deadline=None, max_examples=400)
@given(calls(Softmax), strategies.schemes)
def test_softmax_is_the_oracle(call: tuple[IntegerFunction, Tensor, Tensor], scheme: str) -> None:
    function, codes, u = call
    result = function(codes, roundings[scheme], u)
    assert result.tolist() == expected(function, codes, scheme, u)


@pytest.mark.parametrize("size", [1, 2, 8, 32])
def test_squash_chooses_k_as_specified(size: int) -> None:
    for source in (FixedPoint(n, f) for n in (2, 3, 8, 15, 16, 18, 20) for f in range(-24, 40, 3)):
        for target in (FixedPoint(n, g) for n in (4, 16) for g in range(-10, 50, 4)):
            squash = Squash(source, target, size)
            k = oracle.norm_bits(plain(source), plain(target), size)
            assert squash.exact == (k is not None)
            if k is not None:
                assert squash.k == k


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (Squash(S8, V8, 8), (4, 50, 8)),
        (Squash(FixedPoint(16, 11), FixedPoint(16, 15), 16), (4, 20, 16)),
        (Squash(FixedPoint(16, 8), FixedPoint(16, 21), 4), (4, 20, 4)),
        (Softmax(FixedPoint(8, 4), C8, 10), (4, 50, 10)),
        (Softmax(FixedPoint(16, 11), FixedPoint(16, 16, signed=False), 10), (4, 20, 10)),
        (Softmax(FixedPoint(12, 8), FixedPoint(8, 16, signed=False), 2048), (1, 2048)),
    ],
    ids=str,
)
def test_int64_float64_codes_and_values_agree(
    function: IntegerFunction, shape: tuple[int, ...], scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, rounding = function.source, function.target, roundings[scheme]
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(source.min_code, source.max_code + 1, shape, generator=generator)
    u = draws(1, "site", 0, shape[1:])
    result = function(codes, rounding, u)
    assert result.flatten(0, -2).tolist() == expected(
        function, codes.flatten(0, -2), scheme, u.expand(shape).flatten(0, -2)
    )
    for dtype in (torch.float32, torch.float64):
        values = function.on_values(source.values(codes, dtype), rounding, u)
        assert values.dtype == dtype
        assert torch.equal(values, target.values(result, dtype))
    monkeypatch.setattr(type(function), "_dtype", torch.int64)
    assert torch.equal(function(codes, rounding, u), result)
    assert torch.equal(function.on_values(source.values(codes), rounding, u), target.values(result))


def test_narrow_formats_divide_in_float64() -> None:
    assert Squash(S8, V8, 8)._dtype is torch.float64
    assert Softmax(S8, C8, 10)._dtype is torch.float64
    assert Squash(FixedPoint(16, 8), FixedPoint(16, 21), 4)._dtype is torch.int64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_dimension_and_any_place_in_a_batch(kind: type[IntegerFunction], scheme: str) -> None:
    function = kind(S8, V8, 4)
    codes = torch.randint(-128, 128, (3, 5, 4, 7), generator=torch.Generator().manual_seed(0))
    u = draws(9, "block4", 2, (5, 4, 7))
    result = function(codes, roundings[scheme], u, dim=2)
    moved = function(codes.movedim(2, -1), roundings[scheme], u.movedim(1, -1))
    assert torch.equal(moved.movedim(-1, 2), result)
    assert torch.equal(function(codes[1], roundings[scheme], u, dim=1), result[1])
    assert torch.equal(function(codes.flip(0), roundings[scheme], u, dim=-2), result.flip(0))
    first = function(codes.movedim(2, 0), roundings[scheme], u.movedim(1, 0).unsqueeze(1), dim=0)
    assert torch.equal(first.movedim(0, 2), result)


@pytest.mark.parametrize("kind", KINDS)
def test_large_batches_are_worked_on_in_pieces(kind: type[IntegerFunction]) -> None:
    function = kind(S8, V8, 8)
    shape = (5, PIECE // 16, 8)
    codes = torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(0))
    u = draws(0, "site", 0, shape[1:])
    result = function(codes, roundings["stochastic"], u)
    for image, alone in zip(result, codes, strict=True):
        assert torch.equal(image, function(alone, roundings["stochastic"], u))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("draw", [0, 2**24 - 1])
def test_squash_of_zero_is_zero(scheme: str, draw: int) -> None:
    for source in (S8, FixedPoint(16, 25), FixedPoint(4, -5)):
        squash = Squash(source, FixedPoint(8, 15), 8)
        zero = squash(torch.zeros(2, 8, dtype=torch.int64), roundings[scheme], torch.tensor(draw))
        assert zero.tolist() == [[0] * 8] * 2


def test_squash_saturates() -> None:
    codes = torch.tensor([[32767], [-32768]])
    near_one = Squash(FixedPoint(16, 5), FixedPoint(8, 7), 1)
    assert near_one(codes, roundings["nearest"]).tolist() == [[127], [-128]]
    small_target = Squash(FixedPoint(16, 5), FixedPoint(8, 9), 1)
    assert small_target(codes, roundings["nearest"]).tolist() == [[127], [-128]]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_softmax_of_one_class_saturates(scheme: str) -> None:
    for b in (-128, 0, 127):
        codes = torch.tensor([[b]])
        assert Softmax(S8, C8, 1)(codes, roundings[scheme], torch.tensor(0)).tolist() == [[255]]
    with_room = Softmax(S8, FixedPoint(8, 7, signed=False), 1)
    assert with_room(torch.tensor([5]), roundings[scheme], torch.tensor(0)).tolist() == [128]


def test_softmax_of_equal_logits() -> None:
    codes = torch.full((1, 10), -7)
    assert set(Softmax(S8, C8, 10)(codes, roundings["nearest"]).flatten().tolist()) == {26}
    assert set(Softmax(S8, C8, 10)(codes, roundings["truncation"]).flatten().tolist()) == {25}


@pytest.mark.parametrize(("size", "bits"), [(1, 30), (10, 30), (512, 30), (513, 29), (2048, 28)])
def test_softmax_sums_fit(size: int, bits: int) -> None:
    softmax = Softmax(FixedPoint(16, 8), FixedPoint(16, 16, signed=False), size)
    assert softmax.exact
    assert softmax.bits == bits
    codes = torch.zeros(1, size, dtype=torch.int64)
    u = draws(0, "site", 0, (size,))
    assert softmax(codes, roundings["stochastic"], u).tolist() == expected(
        softmax, codes, "stochastic", u
    )


class TestTable:
    @pytest.mark.parametrize("fraction", [-64, -3, 0, 4, 8])
    def test_entries_are_correctly_rounded(self, fraction: int) -> None:
        table = exponentials(fraction, 12, 30).tolist()
        assert table == [oracle.exponential(i, fraction, 30) for i in range(len(table))]

    @pytest.mark.parametrize("fraction", [31, 33, 64])
    def test_entries_next_to_a_half_are_correctly_rounded(self, fraction: int) -> None:
        table = exponentials(fraction, 9, 30).tolist()
        assert table == [oracle.exponential(i, fraction, 30) for i in range(512)]

    def test_a_poor_exp_does_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = exponentials(11, 16, 30)
        exp_ = torch.Tensor.exp_
        monkeypatch.setattr(Tensor, "exp_", lambda x: exp_(x).add_(2.0**-43))
        assert torch.equal(exponentials.__wrapped__(11, 16, 30), expected)

    def test_ends_after_the_first_zero(self) -> None:
        table = exponentials(2, 8, 30).tolist()
        assert len(table) == 87
        assert table[-2:] == [1, 0]
        assert len(exponentials(8, 8, 30)) == 256
        assert exponentials(-5, 8, 30).tolist() == [2**30, 0]


class TestTooWide:
    """Formats that 64-bit integers do not hold: float64, declared inexact."""

    WIDE = FixedPoint(32, 20), FixedPoint(32, 31)

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_squash(self, scheme: str) -> None:
        squash = Squash(*self.WIDE, 8)
        assert not squash.exact
        values = torch.linspace(-3, 3, 8, dtype=torch.float64).mul(2**20).round().div(2**20)
        u = draws(0, "site", 0, (8,))
        result = squash.on_values(values, roundings[scheme], u)
        norm = values.norm()
        assert (result - values * norm / (1 + norm**2)).abs().max() <= 2.0**-31
        codes = squash(self.WIDE[0].codes(values), roundings[scheme], u)
        assert torch.equal(self.WIDE[1].codes(result), codes)

    def test_softmax(self) -> None:
        softmax = Softmax(FixedPoint(17, 8), C8, 3)
        assert not softmax.exact
        codes = torch.tensor([[256, 0, -65536], [0, 0, 0]])
        assert softmax(codes, roundings["nearest"]).tolist() == [[187, 69, 0], [85, 85, 85]]

    def test_k_of_no_integer_squash_is_an_error(self) -> None:
        with pytest.raises(FixedPointError, match="squash from s32f20 to s32f31 over 8 components"):
            print(Squash(*self.WIDE, 8).k)

    @pytest.mark.parametrize(
        "function",
        [
            Squash(FixedPoint(16, -10), FixedPoint(16, 15), 8),
            Squash(S8, FixedPoint(8, 60), 8),
            Softmax(S8, FixedPoint(8, 33, signed=False), 10),
            Softmax(S8, FixedPoint(8, -20, signed=False), 10),
            Softmax(S8, FixedPoint(16, 16, signed=False), 1 << 16),
            Softmax(S8, C8, 1 << 40),
        ],
        ids=str,
    )
    def test_inexact(self, function: IntegerFunction) -> None:
        assert not function.exact


def test_every_ordinary_format_is_exact() -> None:
    for n in range(2, 17):
        for size in (1, 4, 8, 16, 32):
            assert all(
                Squash(FixedPoint(n, f), FixedPoint(n, n - 1), size).exact for f in range(4, 20)
            )
            assert Softmax(FixedPoint(n, 4), FixedPoint(n, n, signed=False), 64 * size).exact


@pytest.mark.parametrize("size", [0, -1, 1.0, True, "8"])
def test_bad_size(size: Any) -> None:
    with pytest.raises(FixedPointError, match="give a whole number from 1"):
        Squash(S8, V8, size)


@pytest.mark.parametrize(("shape", "dim"), [((3, 7), -1), ((8, 3), 1), ((8,), 1), ((8,), -2)])
def test_bad_shape(shape: tuple[int, ...], dim: int) -> None:
    with pytest.raises(FixedPointError, match=r"dimension .* of shape .* has not the size 8"):
        Squash(S8, V8, 8)(torch.zeros(shape, dtype=torch.int64), roundings["nearest"], dim=dim)


def test_isqrt() -> None:
    roots = torch.cat([torch.arange(1000), 2**31 - torch.arange(1000), torch.tensor([3**19])])
    squares = roots.square()
    assert torch.equal(isqrt(squares), roots)
    assert torch.equal(isqrt((squares - 1).clamp(min=0)), (roots - 1).clamp(min=0))
    inside = (squares > 0) & (squares < 2**62)
    assert torch.equal(isqrt(squares[inside] + 1), roots[inside])
