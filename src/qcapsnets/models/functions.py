"""The two costly functions of a capsule network, in float.

squash(s)  = |s|^2 / (1 + |s|^2) * s / |s|         [Sabour 2017, eq. 1]
softmax(b) = exp(b_j) / sum_k exp(b_k)              [Sabour 2017, eq. 3]
"""

import torch
from torch import Tensor


def squash(s: Tensor, dim: int = -1) -> Tensor:
    """Shrink the vectors along `dim` to a length in [0, 1), keeping their direction.

    The length is taken from a squared norm that is never zero: a capsule of zeros is common
    once numbers are rounded, and the gradient of a square root is infinite there.
    """
    squared = s.square().sum(dim, keepdim=True)
    tiny = torch.finfo(s.dtype).tiny
    return s * (squared.clamp_min(tiny).sqrt() / (1 + squared))


def softmax(b: Tensor, dim: int = -1) -> Tensor:
    """Coupling coefficients: positive, and one in sum along `dim`."""
    return b.softmax(dim)


def lengths(v: Tensor) -> Tensor:
    """Lengths of capsules [..., dimension]: the scores of the classes.

    Like squash, it has a finite gradient at zero.
    """
    return v.square().sum(-1).clamp_min(torch.finfo(v.dtype).tiny).sqrt()
