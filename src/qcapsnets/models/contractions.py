"""Sums of products: all the linear algebra of a capsule network, as plain named values.

Each contraction multiplies what a layer owns (weights, or votes) with something else (its input,
couplings, activations) and sums. It knows the axis over which it sums, so that a sum can be
bounded, and split into partial sums, by arithmetic that must be exact.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from qcapsnets.models.convolve import convolve


@dataclass(frozen=True)
class Contraction(ABC):
    """`summed` are the axes of `own` that are summed; the first is where sums are split.

    In more than `most_parts`, a sum takes longer in float32 than in one piece in float64.
    """

    summed: ClassVar[tuple[int, ...]] = ()
    other_axis: ClassVar[int] = 0
    most_parts: ClassVar[int] = 1

    @abstractmethod
    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        """The sum of products."""

    def plus(self, own: Tensor, other: Tensor, bias: Tensor) -> Tensor:
        """The sum of products and a bias."""
        return self(own, other).add_(bias)

    def terms(self, own: Tensor) -> int:
        """How many products each sum has."""
        count = 1
        for axis in self.summed:
            count *= own.shape[axis]
        return count

    def length(self, own: Tensor) -> int:
        """Into how many parts a sum can be split at most."""
        return own.shape[self.summed[0]] if self.summed else 1

    def parts(self, own: Tensor, other: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Operands of partial sums over `size` consecutive terms of the split axis."""
        if size >= self.length(own):
            return iter([(own, other)])
        return zip(own.split(size, self.summed[0]), other.split(size, self.other_axis), strict=True)


@dataclass(frozen=True)
class Convolution(Contraction):
    """own [out, in, kh, kw] with other [batch, in, h, w].

    `by_matrix` asks for patches and a matrix product whatever the size.
    """

    stride: int = 1
    padding: int = 0
    by_matrix: bool = False
    summed: ClassVar[tuple[int, ...]] = (1, 2, 3)
    other_axis: ClassVar[int] = 1
    most_parts: ClassVar[int] = 16

    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        return self._convolve(own, other, None)

    def plus(self, own: Tensor, other: Tensor, bias: Tensor) -> Tensor:
        return self._convolve(own, other, bias.flatten())

    def _convolve(self, own: Tensor, other: Tensor, bias: Tensor | None) -> Tensor:
        return convolve(own, other, bias, self.stride, self.padding, self.by_matrix)


@dataclass(frozen=True)
class SharedConvolution(Convolution):
    """own [out, in, kh, kw] with each capsule of other [batch, capsules, in, h, w]."""

    other_axis: ClassVar[int] = 2

    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        maps = super().__call__(own, other.flatten(0, 1))
        return maps.view(*other.shape[:2], *maps.shape[1:])

    def plus(self, own: Tensor, other: Tensor, bias: Tensor) -> Tensor:
        maps = super().plus(own, other.flatten(0, 1), bias)
        return maps.view(*other.shape[:2], *maps.shape[1:])


@dataclass(frozen=True)
class Vote(Contraction):
    """u_hat[j|i] = W[i,j] u[i]: own [j, i, k, d] with other [batch, i, k] -> [batch, i, j, d]."""

    summed: ClassVar[tuple[int, ...]] = (2,)
    other_axis: ClassVar[int] = 2

    @staticmethod
    def arranged(own: Tensor) -> Tensor:
        """The same weights in the order in memory that suits: worth it before several calls."""
        return own.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3)

    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        outputs, inputs, length, dimension = own.shape
        weights = own.permute(1, 2, 0, 3).reshape(inputs, length, outputs * dimension)
        votes = torch.matmul(other.transpose(0, 1), weights)
        return votes.transpose(0, 1).reshape(-1, inputs, outputs, dimension)


@dataclass(frozen=True)
class Combine(Contraction):
    """s[j] = sum_i c[i,j] u_hat[j|i]: own [batch, i, j, d] with other [batch, i, j].

    Written as products and their sum: as a matrix product it has one row a matrix and is ten
    times slower. The same holds for Agree.
    """

    summed: ClassVar[tuple[int, ...]] = (1,)
    other_axis: ClassVar[int] = 1
    most_parts: ClassVar[int] = 16

    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        return (own * other.unsqueeze(-1)).sum(1)


@dataclass(frozen=True)
class Agree(Contraction):
    """a[i,j] = v[j] . u_hat[j|i]: own [batch, i, j, d] with other [batch, j, d]."""

    summed: ClassVar[tuple[int, ...]] = (3,)
    other_axis: ClassVar[int] = 2

    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        return (own * other.unsqueeze(1)).sum(-1)


@dataclass(frozen=True)
class Scale(Contraction):
    """One factor per channel: own [channels] with other [batch, channels, h, w]."""

    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        return other * own[:, None, None]
