"""Devices that must not be cleverer than asked: sums of products have to be just that.

Two things can stand in the way. A session may allow float32 to be computed in fewer bits (TF32,
bfloat16, autocast): that is switched off for the time of a sum. And a library may choose a
convolution that is not a sum of products (Winograd, FFT), which is rounded on the way: where that
cannot be ruled out, each convolution is tried once on numbers whose sums are known.
"""

import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from qcapsnets.errors import FixedPointError
from qcapsnets.models import Contraction, Convolution

X86 = platform.machine() in ("x86_64", "AMD64")
SIGNIFICAND = {torch.float32: 24, torch.float64: 53}

Switch = tuple[Any, str, object]
"""An object, the name of its attribute, and the value that asks for all bits."""


@lru_cache(maxsize=8)
def _switches(device: str) -> tuple[Switch, ...]:
    backends: Any = torch.backends
    if not hasattr(backends.cudnn, "conv"):  # before PyTorch 2.9
        return (backends.cuda.matmul, "allow_tf32", False), (backends.cudnn, "allow_tf32", False)
    on_cpu = backends.mkldnn.conv, backends.mkldnn.matmul
    holders = on_cpu if device == "cpu" else (backends.cudnn.conv, backends.cuda.matmul)
    return tuple((holder, "fp32_precision", "ieee") for holder in holders)


@contextmanager
def full_precision(device: str) -> Iterator[None]:
    """float32 with all its bits, whatever the session allows elsewhere."""
    states = [(*switch, getattr(*switch[:2])) for switch in _switches(device)]
    reduced = [state for state in states if state[3] not in (state[2], "none")]
    autocast = torch.is_autocast_enabled(device)
    try:
        for holder, name, full, _ in reduced:
            setattr(holder, name, full)
        torch.set_autocast_enabled(device, False)
        yield
    finally:
        torch.set_autocast_enabled(device, autocast)
        for holder, name, _, before in reduced:
            setattr(holder, name, before)


def trusted(contraction: Contraction, own: Tensor, other: Tensor) -> Contraction:
    """The contraction, or a matrix product in place of a convolution that is not exact."""
    if not isinstance(contraction, Convolution) or known_to_sum(other.device):
        return contraction
    if sums_exactly(contraction, own.shape, other.shape, own.dtype, other.device):
        return contraction
    plain = replace(contraction, by_matrix=True)
    if sums_exactly(plain, own.shape, other.shape, own.dtype, other.device):
        return plain
    raise FixedPointError(
        f"{other.device} does not add {own.dtype} exactly, neither in a convolution nor in a "
        "matrix product: quantized networks must run on another device"
    )


def known_to_sum(device: torch.device) -> bool:
    """Whether no convolution here is anything but a sum, as is so of oneDNN's on x86.

    Without oneDNN, PyTorch's CPU convolutions may be NNPACK's, which are not exact.
    """
    return device.type == "cpu" and X86 and bool(torch.backends.mkldnn.enabled)


@lru_cache(maxsize=1024)
def sums_exactly(
    contraction: Convolution,
    own: torch.Size,
    other: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
) -> bool:
    """Whether a convolution of these shapes is exact, shown on sums that come near the limit."""
    weights, images = _operands(own, other, SIGNIFICAND[dtype])
    with torch.no_grad():
        result = contraction(weights.to(device, dtype), images.to(device, dtype))
        expected = replace(contraction, by_matrix=True)(weights, images[-1:])
    return torch.equal(result[-1:].cpu().double(), expected)


def _operands(own: torch.Size, other: torch.Size, bits: int) -> tuple[Tensor, Tensor]:
    """Whole numbers (float64): sums of up to `bits` bits, half of which one large weight makes."""
    generator = torch.Generator().manual_seed(0)
    half = 1 << (bits - 1)
    small = max(1, math.isqrt(half // math.prod(own[1:])))
    weights = torch.randint(-small, small + 1, own, generator=generator)
    weights[::2] = weights[::2].abs()
    place = torch.randint(math.prod(own[1:]), (len(weights), 1), generator=generator)
    weights.flatten(1).scatter_(1, place, half // small - small)
    images = torch.randint(0, small + 1, other, generator=generator)
    return weights.double(), images.double()
