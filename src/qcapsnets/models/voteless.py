"""Dynamic routing in float that never forms the votes.

Votes are linear in the input, so both sums over them can be taken through the weights instead:

    s[j]   = sum_i c[i,j] u_hat[j|i] = sum_ik (c[i,j] u[i,k]) W[j,i,k]
    a[i,j] = v[j] . u_hat[j|i]       = sum_k u[i,k] (W[j,i,k] . v[j])

Each is a matrix product over all images of a few hundred kilobytes an image, of half the size of
the votes or less. The two are adjoint to each other, so each one's gradient is made of the other's
parts; nothing of that size is kept for the backward pass, but formed again, always in the same two
arrays: a fresh one for each would leave holes in the heap that the small results then break up.

Shapes: u [batch, i, k], weight [j, i * k, d], c and a [j, batch, i], s and v [j, batch, d].
"""

import math
from typing import Any

import torch
from torch import Tensor

from qcapsnets.models.functions import squash


class Workspace:
    """The two large arrays in which all images of a layer are routed, a few at a time.

    A graph and its gradient are worked through by one thread, one step after the other, so what
    one step leaves here is never needed by another.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Tensor] = {}

    def array(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An array of that name and shape, whatever it holds."""
        size = math.prod(shape)
        kept = self._arrays.get(name)
        if kept is None or kept.numel() < size or kept.dtype != like.dtype:
            kept = self._arrays[name] = like.new_empty(size)
        return kept[:size].view(shape)


def route_without_votes(
    u: Tensor, weight: Tensor, bias: Tensor | None, iterations: int, workspace: Workspace
) -> Tensor:
    """u [batch, i, k], weight [j, i, k, d], bias [j, d] -> capsules [batch, j, d].

    In the precision of the weights: under mixed precision routing stays in float32, since three
    iterations of softmax multiply what half precision loses.
    """
    with torch.autocast(u.device.type, enabled=False):
        return _route(u.to(weight.dtype), weight, bias, iterations, workspace)


def _route(
    u: Tensor, weight: Tensor, bias: Tensor | None, iterations: int, workspace: Workspace
) -> Tensor:
    outputs, inputs, _, _ = weight.shape
    by_output = weight.flatten(1, 2)
    offset = 0 if bias is None else bias.unsqueeze(1)
    s = torch.einsum("bx,jxd->jbd", u.flatten(1), by_output) / outputs + offset
    v = squash(s)
    b = u.new_zeros(outputs, len(u), inputs)
    for _ in range(iterations - 1):
        b = b + agree(v, u, by_output, workspace)
        s = combine(b.softmax(0), u, by_output, workspace) + offset
        v = squash(s)
    return v.transpose(0, 1)


def combine(c: Tensor, u: Tensor, weight: Tensor, workspace: Workspace) -> Tensor:
    """s[j] = sum_i c[i,j] u_hat[j|i]"""
    result: Tensor = _Combine.apply(c, u, weight, workspace)  # type: ignore[no-untyped-call]
    return result


def agree(v: Tensor, u: Tensor, weight: Tensor, workspace: Workspace) -> Tensor:
    """a[i,j] = v[j] . u_hat[j|i]"""
    result: Tensor = _Agree.apply(v, u, weight, workspace)  # type: ignore[no-untyped-call]
    return result


def _spread(c: Tensor, u: Tensor, workspace: Workspace) -> Tensor:
    """c[i,j] u[i,k] -> [j, batch, i * k]."""
    spread = workspace.array("spread", (len(c), *u.shape), u)
    return torch.mul(c.unsqueeze(-1), u, out=spread).flatten(2)


def _pull(v: Tensor, weight: Tensor, workspace: Workspace) -> Tensor:
    """W[j,i,k] . v[j] -> [j, batch, i * k]."""
    pulled = workspace.array("pulled", (*v.shape[:2], weight.shape[1]), v)
    return torch.bmm(v, weight.transpose(1, 2), out=pulled)


def _along(pulled: Tensor, u: Tensor) -> Tensor:
    """sum_k u[i,k] pulled[j,i,k] -> [j, batch, i]; `pulled` is used up."""
    return pulled.view(len(pulled), *u.shape).mul_(u).sum(-1)


def _gather(c: Tensor, pulled: Tensor, u: Tensor) -> Tensor:
    """sum_j c[i,j] pulled[j,i,k] -> [batch, i, k]."""
    result = torch.zeros_like(u)
    for of_output, pulled_of_output in zip(c, pulled.view(len(pulled), *u.shape), strict=True):
        result.addcmul_(of_output.unsqueeze(-1), pulled_of_output)
    return result


Gradients = tuple[Tensor, Tensor, Tensor, None]


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, u: Tensor, weight: Tensor, workspace: Workspace) -> Tensor:
        ctx.save_for_backward(c, u, weight)
        ctx.workspace = workspace
        return torch.bmm(_spread(c, u, workspace), weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Gradients:
        c, u, weight = ctx.saved_tensors
        (for_s,) = gradients
        for_weight = torch.bmm(_spread(c, u, ctx.workspace).transpose(1, 2), for_s)
        pulled = _pull(for_s, weight, ctx.workspace)
        for_u = _gather(c, pulled, u)
        return _along(pulled, u), for_u, for_weight, None


class _Agree(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, u: Tensor, weight: Tensor, workspace: Workspace) -> Tensor:
        ctx.save_for_backward(v, u, weight)
        ctx.workspace = workspace
        return _along(_pull(v, weight, workspace), u)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Gradients:
        v, u, weight = ctx.saved_tensors
        (for_a,) = gradients
        spread = _spread(for_a, u, ctx.workspace)
        for_weight = torch.bmm(spread.transpose(1, 2), v)
        for_v = torch.bmm(spread, weight)
        return for_v, _gather(for_a, _pull(v, weight, ctx.workspace), u), for_weight, None
