"""Dynamic routing in float that never forms the votes.

Votes are linear in the input, so both sums over them can be taken through the weights instead:

    s[j]   = sum_i c[i,j] u_hat[j|i] = sum_ik (c[i,j] u[i,k]) W[j,i,k]
    a[i,j] = v[j] . u_hat[j|i]       = sum_k u[i,k] (W[j,i,k] . v[j])

Each is a matrix product over all images of a few hundred kilobytes an image, of half the size of
the votes or less. The two are adjoint to each other, so each one's gradient is made of the other's
parts; nothing of that size is kept for the backward pass, but formed again.

Shapes: u [batch, i, k], weight [j, i * k, d], c and a [j, batch, i], s and v [j, batch, d].
"""

from typing import Any

import torch
from torch import Tensor

from qcapsnets.models.functions import squash


def route_without_votes(u: Tensor, weight: Tensor, bias: Tensor | None, iterations: int) -> Tensor:
    """u [batch, i, k], weight [j, i, k, d], bias [j, d] -> capsules [batch, j, d].

    In the precision of the weights: under mixed precision routing stays in float32, since three
    iterations of softmax multiply what half precision loses.
    """
    with torch.autocast(u.device.type, enabled=False):
        return _route(u.to(weight.dtype), weight, bias, iterations)


def _route(u: Tensor, weight: Tensor, bias: Tensor | None, iterations: int) -> Tensor:
    outputs, inputs, _, _ = weight.shape
    by_output = weight.flatten(1, 2)
    offset = 0 if bias is None else bias.unsqueeze(1)
    s = torch.einsum("bx,jxd->jbd", u.flatten(1), by_output) / outputs + offset
    v = squash(s)
    b = u.new_zeros(outputs, len(u), inputs)
    for _ in range(iterations - 1):
        b = b + agree(v, u, by_output)
        s = combine(b.softmax(0), u, by_output) + offset
        v = squash(s)
    return v.transpose(0, 1)


def combine(c: Tensor, u: Tensor, weight: Tensor) -> Tensor:
    """s[j] = sum_i c[i,j] u_hat[j|i]"""
    result: Tensor = _Combine.apply(c, u, weight)  # type: ignore[no-untyped-call]
    return result


def agree(v: Tensor, u: Tensor, weight: Tensor) -> Tensor:
    """a[i,j] = v[j] . u_hat[j|i]"""
    result: Tensor = _Agree.apply(v, u, weight)  # type: ignore[no-untyped-call]
    return result


def _spread(c: Tensor, u: Tensor) -> Tensor:
    """c[i,j] u[i,k] -> [j, batch, i * k]."""
    return (c.unsqueeze(-1) * u).flatten(2)


def _pull(v: Tensor, weight: Tensor) -> Tensor:
    """W[j,i,k] . v[j] -> [j, batch, i * k]."""
    return torch.bmm(v, weight.transpose(1, 2))


def _along(pulled: Tensor, u: Tensor) -> Tensor:
    """sum_k u[i,k] pulled[j,i,k] -> [j, batch, i]."""
    return (pulled.view(len(pulled), *u.shape) * u).sum(-1)


def _gather(c: Tensor, pulled: Tensor, u: Tensor) -> Tensor:
    """sum_j c[i,j] pulled[j,i,k] -> [batch, i, k]."""
    return torch.einsum("jbi,jbik->bik", c, pulled.view(len(pulled), *u.shape))


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, u: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(c, u, weight)
        return torch.bmm(_spread(c, u), weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c, u, weight = ctx.saved_tensors
        (for_s,) = gradients
        pulled = _pull(for_s, weight)
        for_weight = torch.bmm(_spread(c, u).transpose(1, 2), for_s)
        return _along(pulled, u), _gather(c, pulled, u), for_weight


class _Agree(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, u: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(v, u, weight)
        return _along(_pull(v, weight), u)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        v, u, weight = ctx.saved_tensors
        (for_a,) = gradients
        spread = _spread(for_a, u)
        for_weight = torch.bmm(spread.transpose(1, 2), v)
        return torch.bmm(spread, weight), _gather(for_a, _pull(v, weight), u), for_weight
