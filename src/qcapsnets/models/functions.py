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
    squared = _widened(s).square().sum(dim, keepdim=True)
    return s * (_root(squared) / (1 + squared)).to(s.dtype)


def softmax(b: Tensor, dim: int = -1) -> Tensor:
    """Coupling coefficients: positive, and one in sum along `dim`."""
    return b.softmax(dim)


def lengths(v: Tensor) -> Tensor:
    """Lengths of capsules [..., dimension]: the scores of the classes.

    Like squash, it has a finite gradient at zero.
    """
    return _root(_widened(v).square().sum(-1)).to(v.dtype)


def _widened(x: Tensor) -> Tensor:
    """At least float32: squares leave the range of a half-precision number soon."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _root(squared: Tensor) -> Tensor:
    return squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt()
