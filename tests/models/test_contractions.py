"""Sums of products: what they are, and that their parts add up to them."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qcapsnets.models import (
    Agree,
    Combine,
    Contraction,
    Convolution,
    Scale,
    SharedConvolution,
    Vote,
)
from qcapsnets.models import convolve as module


def some(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 10, shape, generator=generator).double()


@dataclass(frozen=True)
class Case:
    """A contraction with operands; `terms` and `length` as counted by hand."""

    contraction: Contraction
    own: tuple[int, ...]
    other: tuple[int, ...]
    terms: int
    length: int

    def operands(self) -> tuple[Tensor, Tensor]:
        return some(*self.own), some(*self.other, seed=1)


CASES = {
    "convolution": Case(Convolution(), (4, 3, 2, 2), (2, 3, 5, 6), 12, 3),
    "strided": Case(Convolution(2, 1), (4, 20, 3, 3), (2, 20, 5, 6), 180, 20),
    "shared": Case(SharedConvolution(1, 1), (4, 3, 3, 3), (2, 5, 3, 4, 4), 27, 3),
    "vote": Case(Vote(), (3, 5, 4, 2), (2, 5, 4), 4, 4),
    "combine": Case(Combine(), (2, 5, 3, 4), (2, 5, 3), 5, 5),
    "combine, one coupling for all": Case(Combine(), (2, 5, 3, 4), (1, 5, 3), 5, 5),
    "agree": Case(Agree(), (2, 5, 3, 4), (2, 3, 4), 4, 4),
    "scale": Case(Scale(), (3,), (2, 3, 4, 4), 1, 1),
}
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@ALL
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_parts_add_up_to_the_whole(case: Case, size: int) -> None:
    own, other = case.operands()
    parts = list(case.contraction.parts(own, other, size))
    assert len(parts) == -(-case.length // size)
    total = torch.stack([case.contraction(*part) for part in parts]).sum(0)
    assert torch.equal(total, case.contraction(own, other))


@ALL
def test_terms_and_length_count_the_products_of_a_sum(case: Case) -> None:
    own, other = case.operands()
    assert case.contraction.terms(own) == case.terms
    assert case.contraction.length(own) == case.length
    ones = case.contraction(torch.ones_like(own), torch.ones_like(other))
    assert ones.max() == case.terms


@ALL
def test_a_bias_is_added_to_the_sum_and_no_operand_changes(case: Case) -> None:
    own, other = case.operands()
    whole = case.contraction(own, other)
    axis = {4: -3, 5: -3, 3: -1}[whole.dim()]
    shape = [1] * (-axis)
    shape[0] = whole.shape[axis]
    bias = some(*shape, seed=2)
    assert torch.equal(case.contraction.plus(own, other, bias), whole + bias)
    assert torch.equal(own, case.operands()[0])
    assert torch.equal(other, case.operands()[1])


@pytest.mark.parametrize("few", [0, 10**6], ids=["PyTorch's", "by matrix"])
@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 0), (1, 1), (2, 1), (3, 2)])
def test_convolutions_are_those_of_pytorch(
    monkeypatch: pytest.MonkeyPatch, few: int, stride: int, padding: int
) -> None:
    monkeypatch.setattr(module, "FEW_CHANNELS", few)
    weight, images, bias = some(4, 2, 3, 3), some(3, 2, 7, 10, seed=1), some(4, seed=2)
    expected = F.conv2d(images, weight, bias, stride, padding)
    convolution = Convolution(stride, padding)
    assert torch.equal(convolution.plus(weight, images, bias[:, None, None]), expected)
    without = F.conv2d(images, weight, None, stride, padding)
    assert torch.equal(convolution(weight, images), without)


def test_both_ways_to_convolve_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    by_matrix = module._by_matrix

    def spy(weight: Tensor, *others: Any) -> Tensor:
        taken.append(weight[0].numel())
        return by_matrix(weight, *others)

    monkeypatch.setattr(module, "_by_matrix", spy)
    for channels in (module.FEW_CHANNELS, module.FEW_CHANNELS + 1):
        Convolution()(some(1, channels, 3, 3), some(1, channels, 4, 4))
    assert taken == [9 * module.FEW_CHANNELS]


def test_gradients_of_a_convolution_by_matrix() -> None:
    weight, images, bias = some(2, 1, 3, 3), some(1, 1, 4, 5, seed=1), some(2, 1, 1, seed=2)
    operands = [t.requires_grad_() for t in (weight, images, bias)]
    assert torch.autograd.gradcheck(Convolution(2, 1).plus, operands)


@pytest.mark.parametrize("few", [0, 10**6], ids=["by phase", "by matrix"])
@pytest.mark.parametrize(("stride", "padding"), [(2, 0), (2, 2), (3, 1), (6, 0)])
@pytest.mark.parametrize("shape", [(17, 2, 9, 9), (2, 2, 10, 13)])
def test_gradients_of_a_large_kernel_are_those_of_pytorch(
    monkeypatch: pytest.MonkeyPatch, few: int, stride: int, padding: int, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(module, "FEW_CHANNELS", few)
    operands = some(3, 2, 5, 5), some(*shape, seed=1), some(3, seed=2)

    def ours(weight: Tensor, x: Tensor, bias: Tensor) -> Tensor:
        return module.convolve(weight, x, bias, stride, padding, by_matrix=False)

    def pytorchs(weight: Tensor, x: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(x, weight, bias, stride, padding)

    results = []
    for convolve in (ours, pytorchs):
        leaves = [t.clone().requires_grad_() for t in operands]
        y = convolve(*leaves)
        y.backward(some(*y.shape, seed=3))
        results.append([leaf.grad for leaf in leaves])
    for gradient, expected in zip(*results, strict=True):
        assert gradient is not None
        assert expected is not None
        assert torch.equal(gradient, expected)


def test_the_gradient_by_phase_is_what_a_strided_large_kernel_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = []
    by_phase = module._for_weight_by_phase

    def spy(g: Tensor, x: Tensor, weight: Tensor, *others: Any) -> Tensor:
        taken.append((weight.shape[2], others[0]))
        return by_phase(g, x, weight, *others)

    monkeypatch.setattr(module, "_for_weight_by_phase", spy)
    for kernel, stride in ((5, 1), (3, 2), (5, 2)):
        weight = some(1, 20, kernel, kernel).requires_grad_()
        y = Convolution(stride)(weight, some(1, 20, 7, 7))
        y.backward(torch.ones_like(y))
    assert taken == [(5, 2)]


def test_an_empty_batch_gives_empty_maps() -> None:
    assert Convolution()(some(4, 1, 3, 3), some(0, 1, 5, 6)).shape == (0, 4, 3, 4)


def test_a_shared_convolution_treats_every_capsule_alike() -> None:
    weight, capsules = some(4, 3, 3, 3), some(2, 5, 3, 4, 4, seed=1)
    together = SharedConvolution(1, 1)(weight, capsules)
    for i in range(5):
        assert torch.equal(together[:, i], F.conv2d(capsules[:, i], weight, None, 1, 1))


def test_a_vote_is_the_matrix_of_its_pair_times_its_capsule() -> None:
    weight, u = some(3, 5, 4, 2), some(2, 5, 4, seed=1)
    votes = Vote()(weight, u)
    assert votes.shape == (2, 5, 3, 2)
    for b, i, j in ((0, 0, 0), (1, 4, 2), (0, 3, 1)):
        assert torch.equal(votes[b, i, j], weight[j, i].T @ u[b, i])
