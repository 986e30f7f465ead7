"""Sums of products in whole numbers, each axis by hand: what every contraction is held to."""

import torch
import torch.nn.functional as F
from torch import Tensor

from qcapsnets.models import (
    Combine,
    Contraction,
    Convolution,
    Scale,
    SharedConvolution,
    Vote,
)


def integers(low: int, high: int, *shape: int, seed: int = 0) -> Tensor:
    """Whole numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high + 1, shape, generator=generator).double()


def whole(contraction: Contraction, own: Tensor, other: Tensor) -> Tensor:
    """The sum of products in int64: each axis by hand, no library's convolution."""
    own, other = own.long(), other.long()
    if isinstance(contraction, SharedConvolution):
        plain = Convolution(contraction.stride, contraction.padding)
        return torch.stack([whole(plain, own, other[:, i]) for i in range(other.shape[1])], 1)
    if isinstance(contraction, Convolution):
        return _whole_convolution(contraction, own, other)
    if isinstance(contraction, Scale):
        return other * own[:, None, None]
    if isinstance(contraction, Vote):
        return torch.einsum("jikd,bik->bijd", own, other)
    if isinstance(contraction, Combine):
        return (own * other[..., None]).sum(1)
    return (own * other[:, None]).sum(-1)


def _whole_convolution(contraction: Convolution, own: Tensor, other: Tensor) -> Tensor:
    padding, stride = contraction.padding, contraction.stride
    padded = F.pad(other, (padding,) * 4)
    windows = padded.unfold(2, own.shape[2], stride).unfold(3, own.shape[3], stride)
    return (windows[:, None] * own[None, :, :, None, None]).sum((2, 5, 6))
