"""Two-dimensional convolution with gradients that are fast on a CPU.

PyTorch's own convolution is fast forward, but on a CPU its gradient of the weights takes twice the
time of as many products elsewhere. That gradient is itself a convolution, of the input with the
output's gradient, images taking the place of channels:

    gW[o,c,p,q] = sum_b,y,x g[b,o,y,x] x[b,c, s y + p, s x + q]

With stride s, only every s-th row and column meets a given (p mod s, q mod s), so it falls apart
into s * s dense convolutions, which are as fast as those forward. With few channels (an image's
first convolution), patches and a matrix product are faster still, both ways. Under mixed precision
PyTorch's convolution is taken, which chooses its own types.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input

FEW_CHANNELS = 3
"""Up to so many channels of the input, patches and a matrix product are faster."""
LARGE_KERNEL = 5
"""From this size on, with a stride, the gradient of the weights is taken as dense convolutions."""
IMAGES_AT_A_TIME = 16
"""Whose patches are formed for a gradient at a time."""


def convolve(
    weight: Tensor, x: Tensor, bias: Tensor | None, stride: int, padding: int, by_matrix: bool
) -> Tensor:
    """weight [out, in, k, k] with x [batch, in, h, w]; `by_matrix` asks for a matrix product."""
    few = by_matrix or weight.shape[1] <= FEW_CHANNELS
    strided = stride > 1 and weight.shape[2] >= LARGE_KERNEL and x.device.type == "cpu"
    if (few or strided) and not torch.is_autocast_enabled(x.device.type):
        result: Tensor = _Convolve.apply(weight, x, bias, stride, padding, few)  # type: ignore[no-untyped-call]
        return result
    return F.conv2d(x, weight, bias, stride, padding)


def _by_matrix(weight: Tensor, x: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """As a matrix product with the patches of the images."""
    patches = F.unfold(x, weight.shape[2:], 1, padding, stride)
    sizes = zip(x.shape[2:], weight.shape[2:], strict=True)
    maps = x.new_empty(
        len(x), len(weight), *((size + 2 * padding - k) // stride + 1 for size, k in sizes)
    )
    torch.matmul(weight.flatten(1), patches, out=maps.flatten(2))
    return maps if bias is None else maps.add_(bias[:, None, None])


def _for_weight_by_matrix(
    g: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int
) -> Tensor:
    """The gradient of the weights, from the patches of a few images at a time."""
    result = torch.zeros_like(weight.flatten(1))
    pairs = zip(g.split(IMAGES_AT_A_TIME), x.split(IMAGES_AT_A_TIME), strict=True)
    for of_output, images in pairs:
        patches = F.unfold(images, weight.shape[2:], 1, padding, stride)
        result += torch.bmm(of_output.flatten(2), patches.transpose(1, 2)).sum(0)
    return result.view_as(weight)


def _for_weight_by_phase(g: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """The gradient of the weights, as one dense convolution for each phase of the stride."""
    result = torch.empty_like(weight)
    as_kernel = g.transpose(0, 1).contiguous()
    by_channel = (F.pad(x, [padding] * 4) if padding else x).transpose(0, 1)
    for row in range(min(stride, weight.shape[2])):
        for column in range(min(stride, weight.shape[3])):
            part = result[:, :, row::stride, column::stride]
            height, width = (
                size + n - 1 for size, n in zip(g.shape[2:], part.shape[2:], strict=True)
            )
            phase = by_channel[:, :, row::stride, column::stride][:, :, :height, :width]
            part.copy_(F.conv2d(phase.contiguous(), as_kernel).transpose(0, 1))
    return result


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        x: Tensor,
        bias: Tensor | None,
        stride: int,
        padding: int,
        by_matrix: bool,
    ) -> Tensor:
        ctx.save_for_backward(weight, x)
        ctx.how = stride, padding, by_matrix
        if by_matrix:
            return _by_matrix(weight, x, bias, stride, padding)
        return F.conv2d(x, weight, bias, stride, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, x = ctx.saved_tensors
        stride, padding, by_matrix = ctx.how
        g = gradients[0].contiguous()
        needed = ctx.needs_input_grad
        for_weight = for_x = for_bias = None
        if needed[0]:
            how = _for_weight_by_matrix if by_matrix else _for_weight_by_phase
            for_weight = how(g, x, weight, stride, padding)
        if needed[1]:
            for_x = conv2d_input(x.shape, weight, g, stride, padding)
        if needed[2]:
            for_bias = g.sum((0, 2, 3))
        return for_weight, for_x, for_bias, None, None, None
