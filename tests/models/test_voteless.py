"""The two contractions that replace the votes, and their hand-written gradients."""

from functools import partial

import torch
from torch import Tensor

from qcapsnets.models.voteless import Workspace, agree, combine


def random(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).double().requires_grad_()


BATCH, INPUTS, LENGTH, OUTPUTS, DIMENSION = 2, 4, 5, 3, 6


def operands() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """c, v, u, weight."""
    return (
        random(OUTPUTS, BATCH, INPUTS, seed=0),
        random(OUTPUTS, BATCH, DIMENSION, seed=1),
        random(BATCH, INPUTS, LENGTH, seed=2),
        random(OUTPUTS, INPUTS * LENGTH, DIMENSION, seed=3),
    )


def votes(u: Tensor, weight: Tensor) -> Tensor:
    return torch.einsum("bik,jikd->bijd", u, weight.view(OUTPUTS, INPUTS, LENGTH, DIMENSION))


def test_combine_is_the_sum_over_coupled_votes() -> None:
    c, _, u, weight = operands()
    expected = torch.einsum("jbi,bijd->jbd", c, votes(u, weight))
    assert torch.allclose(combine(c, u, weight, Workspace()), expected)


def test_agree_is_the_product_of_outputs_and_votes() -> None:
    _, v, u, weight = operands()
    expected = torch.einsum("jbd,bijd->jbi", v, votes(u, weight))
    assert torch.allclose(agree(v, u, weight, Workspace()), expected)


def test_gradients_of_combine() -> None:
    c, _, u, weight = operands()
    assert torch.autograd.gradcheck(partial(combine, workspace=Workspace()), (c, u, weight))


def test_gradients_of_agree() -> None:
    _, v, u, weight = operands()
    assert torch.autograd.gradcheck(partial(agree, workspace=Workspace()), (v, u, weight))
