"""Convolutions of bytes: integer products, added in 32-bit integers.

Where the codes of both operands fit a byte, oneDNN convolves two to three times as fast as in
float32 on processors that multiply and add bytes (VNNI, AMX). On others it adds pairs of products
in 16 bits, which saturate; and its operators are PyTorch's internal ones, which may be missing or
change. So each kind of convolution is tried once, on the largest codes that there are, and is not
used if anything is wrong with the result. Nothing else depends on it: the sums are the same.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from qcapsnets.models import Contraction, Convolution
from qcapsnets.models.convolve import FEW_CHANNELS

SIGNED, UNSIGNED = range(-128, 128), range(256)
EXACT = 1 << 24
"""Sums come as float32."""
TRIED_IMAGES = 2


@dataclass(frozen=True)
class ByteCodes:
    """How codes become bytes: weights are signed; `zero` is added to the other operand's."""

    own_fraction: int
    other_fraction: int
    zero: int


@dataclass(frozen=True)
class ByteConvolution(Contraction):
    """A convolution, float32 in and out, of which both operands are whole bytes in between."""

    convolution: Convolution
    codes: ByteCodes

    def __call__(self, own: Tensor, other: Tensor) -> Tensor:
        return self._convolve(own, other, None)

    def plus(self, own: Tensor, other: Tensor, bias: Tensor) -> Tensor:
        return self._convolve(own, other, bias.flatten())

    def _convolve(self, own: Tensor, other: Tensor, bias: Tensor | None) -> Tensor:
        images = other.flatten(0, -4)  # a shared convolution has an axis more
        codes = images.mul(2.0**self.codes.other_fraction).add_(self.codes.zero)
        maps: Tensor = torch.ops.onednn.qconv2d_pointwise(
            codes.to(torch.uint8, memory_format=torch.channels_last),
            2.0**-self.codes.other_fraction,
            self.codes.zero,
            self._packed(own, images),
            self._scales(own),
            torch.zeros(len(own), dtype=torch.int32),
            bias,
            *self._geometry,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return maps.contiguous().view(*other.shape[:-3], *maps.shape[1:])

    @property
    def _geometry(self) -> tuple[list[int], list[int], list[int], int]:
        """Stride, padding, dilation, groups."""
        stride, padding = self.convolution.stride, self.convolution.padding
        return [stride, stride], [padding, padding], [1, 1], 1

    def _scales(self, own: Tensor) -> Tensor:
        return torch.full((len(own),), 2.0**-self.codes.own_fraction)

    def _packed(self, own: Tensor, images: Tensor) -> Tensor:
        """The weights as bytes in oneDNN's order; they are kept until the weights change."""
        version = 0 if own.is_inference() else own._version
        if _PACKED.get(own, (None, {}))[0] != version:
            _PACKED[own] = version, {}
        kept: dict[Hashable, Tensor] = _PACKED[own][1]
        key = self, images.shape[1:]
        if key not in kept:
            kept[key] = self._pack(own, images)
        return kept[key]

    def _pack(self, own: Tensor, images: Tensor) -> Tensor:
        packed: Tensor = torch.ops.onednn.qconv_prepack(
            own.mul(2.0**self.codes.own_fraction).to(torch.int8),
            self._scales(own),
            2.0**-self.codes.other_fraction,
            self.codes.zero,
            *self._geometry,
            list(images.shape),
        )
        return packed


_PACKED: Any = WeakTensorKeyDictionary()


def by_bytes(
    codes: ByteCodes, contraction: Contraction, own: Tensor, other: Tensor
) -> ByteConvolution | None:
    """The contraction in bytes, where that is possible, exact and faster."""
    learns = torch.is_grad_enabled() and (own.requires_grad or other.requires_grad)
    if learns or other.device.type != "cpu" or not isinstance(contraction, Convolution):
        return None
    if contraction.by_matrix or own.shape[1] <= FEW_CHANNELS or not other.numel():
        return None
    # the fractions are only factors of the result, so they need no trial of their own
    whole = replace(codes, own_fraction=0, other_fraction=0)
    if not adds_exactly(ByteConvolution(contraction, whole), own.shape, other.shape[1:]):
        return None
    return ByteConvolution(contraction, codes)


@lru_cache(maxsize=1024)
def adds_exactly(way: ByteConvolution, own: torch.Size, other: torch.Size) -> bool:
    """Whether a convolution of these shapes is there and exact, shown on the largest bytes."""
    weights, images = _operands(own, torch.Size([TRIED_IMAGES, *other]), way.codes.zero)
    bias = torch.arange(len(weights), dtype=torch.float32)
    expected = replace(way.convolution, by_matrix=True).plus(
        weights.double(), images.double(), bias.double()
    )
    try:
        with torch.no_grad():
            result = way.plus(weights, images, bias)
    except (AttributeError, RuntimeError, TypeError):  # not in this PyTorch, or not as it was
        return False
    return torch.equal(result.double(), expected)


def _operands(own: torch.Size, other: torch.Size, zero: int) -> tuple[Tensor, Tensor]:
    """Bytes, most of them the extremes, few enough of which are not 0 for sums in float32."""
    generator = torch.Generator().manual_seed(0)
    extremes = torch.tensor([SIGNED[0], SIGNED[-1], SIGNED[-1], 1])
    chosen = torch.randint(len(extremes), own, generator=generator)
    most = EXACT // (2 * len(UNSIGNED) * len(SIGNED))
    kept = torch.rand(own, generator=generator) * math.prod(own[1:]) < most
    ends = torch.tensor([-zero, UNSIGNED[-1] - zero, UNSIGNED[-1] - zero, 0])
    images = ends[torch.randint(len(ends), other, generator=generator)]
    return (extremes[chosen] * kept).float(), images.float()
