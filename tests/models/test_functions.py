"""Squash, softmax and lengths, value and gradient."""

import pytest
import torch
from tests.models import literal

from qcapsnets.models import lengths, softmax, squash


def some(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_squash_is_the_equation_along_its_axis(dim: int) -> None:
    s = 3 * some(3, 4, 5)
    v = squash(s, dim).movedim(dim, -1).flatten(0, 1)
    for given, got in zip(s.movedim(dim, -1).flatten(0, 1), v, strict=True):
        assert got.tolist() == pytest.approx(literal.squash(given.tolist()), abs=1e-14)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_is_the_equation_along_its_axis(dim: int) -> None:
    b = 4 * some(3, 4, 5)
    c = softmax(b, dim).movedim(dim, -1).flatten(0, 1)
    for given, got in zip(b.movedim(dim, -1).flatten(0, 1), c, strict=True):
        assert got.tolist() == pytest.approx(literal.softmax(given.tolist()), abs=1e-14)


def test_squash_keeps_directions_and_stays_below_one() -> None:
    s = torch.tensor([[3e4, 4e4], [3e-6, 4e-6], [0.0, 0.0]])
    v = squash(s)
    assert (lengths(v) <= 1).all()
    assert torch.allclose(v[0], torch.tensor([0.6, 0.8]))
    assert torch.allclose(v[1], 5e-6 * s[1])
    assert v[2].tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_gradients_are_finite_at_zero_and_near_it(dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).tiny
    s = torch.tensor([[0.0, 0.0], [tiny, 0.0], [tiny**0.5, 0.0], [1.0, 2.0]], dtype=dtype)
    s.requires_grad_()
    (squash(s).sum() + lengths(s).sum()).backward()
    assert s.grad is not None
    assert s.grad.isfinite().all()
    assert s.grad[0].tolist() == pytest.approx([0, 0], abs=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_neither_overflows_nor_vanishes(dtype: torch.dtype) -> None:
    s = torch.tensor([[3000.0, 4000.0], [0.003, 0.004]], dtype=dtype)
    v, norms = squash(s), lengths(s)
    assert v.dtype == norms.dtype == dtype
    assert v[0].tolist() == pytest.approx([0.6, 0.8], rel=1e-2)
    assert v[1].tolist() == pytest.approx([1.5e-5, 2e-5], rel=2e-2)
    assert norms.tolist() == pytest.approx([5000, 0.005], rel=1e-2)


def test_gradients_are_those_of_the_equations() -> None:
    s = some(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(squash, (s,))
    assert torch.autograd.gradcheck(lengths, (s,))


def test_lengths_are_euclidean() -> None:
    assert lengths(torch.tensor([[[3.0, 4.0], [0.0, -2.0]]])).tolist() == [[5, 2]]
