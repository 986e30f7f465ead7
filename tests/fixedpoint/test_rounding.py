"""Rounding schemes: one definition, the same answer on integers, int64 and floats."""

import math
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixedpoint import strategies
from tests.fixedpoint.strategies import SCHEMES
from tests.oracle.numbers import rounded
from torch import Tensor

from qcapsnets.errors import FixedPointError, RegistryError
from qcapsnets.fixedpoint import FixedPoint, Squash, draws, register_rounding, roundings
from qcapsnets.fixedpoint.rounding import PIECE, in_pieces

CORNERS = [
    *(0.0, 0.5, 1.5, 2.5, 0.25, 0.49999997, 0.50000006, 0.99999994, 1.0000001, 1.4999999),
    *(2.0**-149, 2.0**-30, 2.0**-25, 2.0**-24, 1 - 2.0**-24, 0.5 - 2.0**-25, 0.5 - 2.0**-26),
    *(2.0**22 - 0.5, 2.0**22 - 0.25, 2.0**22 + 0.5, 8388607.5, 8388608.0, 8388609.0, 1e30),
]


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roundings, "_values", dict(roundings._values))


def exactly(name: str, x: float, draw: int) -> int:
    fraction = Fraction(x)
    return rounded(name, fraction.numerator, fraction.denominator, draw)


def test_names_in_order_of_simplicity() -> None:
    assert tuple(roundings) == SCHEMES
    assert [roundings[name].simplicity for name in SCHEMES] == [0, 1, 2, 3]


def test_unknown_scheme_says_which_exist() -> None:
    with pytest.raises(RegistryError, match=r"'bankers': known are truncation, nearest, nearest-e"):
        roundings["bankers"]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("draw", [0, 1, 2**23, 2**24 - 1])
def test_corner_values(name: str, dtype: torch.dtype, draw: int) -> None:
    x = torch.tensor([*CORNERS, *(-x for x in CORNERS)], dtype=dtype)
    result = roundings[name].on_floats(x, torch.tensor(draw))
    assert result.dtype == dtype
    assert result.tolist() == [exactly(name, each, draw) for each in x.tolist()]


@settings(deadline=None, max_examples=300)
@given(strategies.schemes, st.floats(-(2.0**24), 2.0**24, width=32), strategies.draws)
def test_any_float(name: str, x: float, draw: int) -> None:
    for dtype in (torch.float32, torch.float64):
        result = roundings[name].on_floats(torch.tensor([x], dtype=dtype), torch.tensor([draw]))
        assert result.item() == exactly(name, x, draw)


def test_a_million_float32_bit_patterns() -> None:
    """Below 2^22 in magnitude; float64 has room for an exact reference."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(0x4A800000, (1_000_000,), generator=generator, dtype=torch.int32)
    x = bits.view(torch.float32) * torch.tensor([1.0, -1.0]).repeat(500_000)
    draw = torch.randint(2**24, (1_000_000,), generator=generator)
    expected = {
        "truncation": x.double().floor(),
        "nearest": (x.double() + 0.5).floor(),
        "nearest-even": x.double().round(),
        "stochastic": (x.double() - draw * 2.0**-24).ceil(),
    }
    assert x.abs().max() < 2**22
    for name, values in expected.items():
        assert torch.equal(roundings[name].on_floats(x, draw).double(), values), name


@settings(deadline=None, max_examples=300)
@given(
    strategies.schemes,
    st.integers(-(2**62), 2**62),
    st.integers(1, 2**39) | st.integers(0, 39).map(lambda s: 2**s),
    strategies.draws,
)
def test_int64_quotients(name: str, n: int, d: int, draw: int) -> None:
    result = roundings[name].on_quotients(*map(torch.tensor, ([n], [d], [draw])))
    assert result.dtype == torch.int64
    assert result.item() == rounded(name, n, d, draw)


@st.composite
def narrow_quotients(draw: st.DrawFn) -> tuple[int, int]:
    """2|n| + d < 2^53, often one unit from a multiple of d/2, where a float quotient may slip."""
    d = draw(st.integers(1, 2**39))
    most = (2**53 - 1 - d) // 2
    half_steps = draw(st.integers(-(2 * most // d), 2 * most // d))
    n = half_steps * d // 2 + draw(st.integers(-1, 1))
    return max(-most, min(most, n)), d


@settings(deadline=None, max_examples=400)
@given(strategies.schemes, narrow_quotients(), strategies.draws)
def test_float64_quotients(name: str, quotient: tuple[int, int], draw: int) -> None:
    n, d = (torch.tensor([part], dtype=torch.float64) for part in quotient)
    result = roundings[name].on_quotients(n, d, torch.tensor([draw]))
    assert result.item() == rounded(name, *quotient, draw)


def test_float64_quotients_next_to_the_bound() -> None:
    generator = torch.Generator().manual_seed(1)
    d = torch.randint(1, 2**39, (200_000,), generator=generator)
    most = (2**53 - 1 - d) // 2
    n = (most // d * d - torch.randint(2, d.shape, generator=generator)).clamp(-most, most)
    n *= torch.tensor([1, -1]).repeat(100_000)
    draw = draws(0, "bound", 0, d.shape)
    for name in SCHEMES:
        floats = roundings[name].on_quotients(n.double(), d.double(), draw)
        assert torch.equal(floats.long(), roundings[name].on_quotients(n, d, draw)), name


@settings(deadline=None)
@given(strategies.schemes, st.integers(-(2**24), 2**24), st.integers(0, 39), strategies.draws)
def test_floats_and_quotients_agree(name: str, n: int, places: int, draw: int) -> None:
    u = torch.tensor([draw])
    floats = roundings[name].on_floats(torch.tensor([math.ldexp(n, -places)]), u)
    quotients = roundings[name].on_quotients(torch.tensor([n]), torch.tensor([2**places]), u)
    assert floats.item() == quotients.item()


def test_draws_are_asked_for() -> None:
    with pytest.raises(FixedPointError, match=r"'stochastic' needs draws .*=draws\(seed"):
        roundings["stochastic"].on_floats(torch.tensor([0.5]))
    with pytest.raises(FixedPointError, match="needs draws"):
        roundings["stochastic"].on_quotients(torch.tensor([1]), torch.tensor([2]))


def test_input_is_left_alone_and_no_gradient_comes_out() -> None:
    x = torch.linspace(-3, 3, 50, requires_grad=True)
    before = x.detach().clone()
    for name in SCHEMES:
        assert not roundings[name].on_floats(x, draws(0, "site", 0, (50,))).requires_grad
        assert torch.equal(x, before)


def half_down(q: Any, r: Any, d: Any, u: Any) -> Any:
    return 2 * r > d


@pytest.mark.usefixtures("own_registry")
class TestOwnScheme:
    def test_comes_last_and_works_everywhere(self) -> None:
        scheme = register_rounding("half-down", half_down)
        assert roundings["half-down"] is scheme
        assert scheme.simplicity == 4
        assert register_rounding("half-down-too", half_down).simplicity == 5
        x = torch.tensor([0.5, 1.5, -0.5, 0.75, -0.25, 0.49999997])
        assert scheme.on_floats(x).tolist() == [0, 1, -1, 1, 0, 0]
        n, d = torch.tensor([2, 6, -2, 3, -1]), torch.tensor(4)
        assert scheme.on_quotients(n, d).tolist() == [0, 1, -1, 1, 0]
        assert scheme.on_quotients(n.double(), d.double()).tolist() == [0, 1, -1, 1, 0]
        squash = Squash(FixedPoint(8, 5), FixedPoint(8, 7), 2)
        assert squash(torch.tensor([24, -7]), scheme).tolist() == [47, -14]

    def test_may_draw(self) -> None:
        def coin(q: Any, r: Any, d: Any, u: Any) -> Any:
            return (r > 0) & (u < 2**23)

        scheme = register_rounding("coin", coin, draws=True)
        u = torch.tensor([0, 2**23, 0])
        assert scheme.on_floats(torch.tensor([0.1, 0.1, 2.0]), u).tolist() == [1, 0, 2]

    def test_name_is_taken(self) -> None:
        with pytest.raises(RegistryError, match="'nearest' is registered already"):
            register_rounding("nearest", half_down)

    @pytest.mark.parametrize(
        ("up", "message"),
        [
            (lambda q, r, d, u: 2 * r > d or r > d, "fails on trial.*no if"),
            (lambda q, r, d, u: r > 3, "differs between integers, int64 tensors and floats"),
            (lambda q, r, d, u: r >= 0, "moves whole numbers"),
        ],
    )
    def test_definition_is_tried(self, up: Any, message: str) -> None:
        with pytest.raises(FixedPointError, match=message):
            register_rounding("wrong", up)
        assert "wrong" not in roundings


class TestInPieces:
    @staticmethod
    def pieces(shape: tuple[int, ...], draw: Tensor | None = None) -> list[int]:
        seen: list[int] = []

        def function(x: Tensor) -> Tensor:
            seen.append(len(x))
            return x * 2.0

        x = torch.arange(math.prod(shape)).view(shape)
        assert torch.equal(in_pieces(function, x, draw), x * 2)
        return seen

    def test_rows_are_kept_whole(self) -> None:
        assert self.pieces((5, PIECE // 2)) == [2, 2, 1]
        assert self.pieces((2, PIECE + 1)) == [1, 1]

    def test_small_or_flat_tensors_stay_whole(self) -> None:
        assert self.pieces((3, 4)) == [3]
        assert self.pieces((0, 4)) == [0]
        assert self.pieces((2 * PIECE,)) == [2 * PIECE]

    def test_draws_that_differ_between_rows_stay_whole(self) -> None:
        assert self.pieces((4, PIECE), torch.zeros(4, PIECE)) == [4]
        assert self.pieces((4, PIECE), torch.zeros(1, PIECE)) == [1, 1, 1, 1]

    def test_stochastic_is_the_same_in_pieces(self) -> None:
        x = torch.randn(3, PIECE, generator=torch.Generator().manual_seed(0))
        draw = draws(0, "site", 0, (PIECE,))
        whole = torch.stack([roundings["stochastic"].on_floats(row, draw) for row in x])
        assert torch.equal(roundings["stochastic"].on_floats(x, draw), whole)


C_PROGRAM = """
#include <inttypes.h>
#include <stdio.h>
int main(void) {{
    int64_t q, r, d;
    uint32_t u;
    while (scanf("%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNu32, &q, &r, &d, &u) == 4)
        printf("{formats}\\n", {answers});
}}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_expressions_are_the_same_conditions(tmp_path: Path) -> None:
    schemes = [roundings[name] for name in SCHEMES]
    answers = ", ".join(f"!!({scheme.c})" for scheme in schemes)
    program = C_PROGRAM.format(formats=" ".join("%d" for _ in schemes), answers=answers)
    (tmp_path / "up.c").write_text(program)
    subprocess.run(["cc", "-o", tmp_path / "up", tmp_path / "up.c"], check=True)
    cases = [
        (q, r, d, u)
        for d in (1, 2, 7, 8, 2**39 - 1, 2**39)
        for r in sorted({0, d // 3, d // 2, d - d // 2, d - 1} - {d})
        for q in (-3, -2, 0, 1)
        for u in (0, 2**23 - 1, 2**23, 2**24 - 1)
    ]
    lines = "\n".join(" ".join(map(str, case)) for case in cases)
    result = subprocess.run(
        [tmp_path / "up"], input=lines, capture_output=True, text=True, check=True
    )
    expected = [" ".join(str(int(s.up(*case))) for s in schemes) for case in cases]
    assert result.stdout.splitlines() == expected
