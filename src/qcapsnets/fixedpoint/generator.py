"""Draws for stochastic rounding: Philox4x32-10 [Salmon et al. 2011], which has no state.

A draw is a function of (seed, site, step, element) and of nothing else, so any machine, thread
or C program draws the same numbers in any order. The element is counted within one image: an image
gets the same draws wherever it stands in a batch, and a chip needs no counter of images.
"""

import math
import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from qcapsnets.errors import FixedPointError

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
WORDS = 4
PIECE = 1 << 16
"""How many counters are worked on at a time: a dozen arrays of them stay in the cache."""

_MASK = 0xFFFFFFFF
_Words = tuple[Tensor, Tensor, Tensor, Tensor]


def draws(
    seed: int,
    site: str,
    step: int,
    shape: Sequence[int],
    device: torch.device | str | None = None,
) -> Tensor:
    """Draws in [0, 2^24) for the elements, row by row, of one image's tensor at `site` (int32).

    `step` tells apart the times that one image passes the site, such as routing iterations.
    """
    _check_range("seed", seed, 64)
    _check_range("step", step, 32)
    count = math.prod(shape)
    _check_range("count of elements", count, 34)
    key, last = (seed & _MASK, seed >> 32), -(-count // WORDS)
    fixed = [torch.tensor(word, device=device) for word in (step, zlib.crc32(site.encode()), 0)]
    parts = []
    for start in range(0, last, PIECE):
        blocks = torch.arange(start, min(start + PIECE, last), device=device)
        words = philox((blocks, fixed[0], fixed[1], fixed[2]), key)
        parts.append(torch.stack(words, 1).flatten().bitwise_right_shift_(8).int())
    none = torch.empty(0, dtype=torch.int32, device=device)
    return torch.cat([none, *parts])[:count].view(tuple(shape))


def philox(counter: _Words, key: tuple[int, int]) -> _Words:
    """The four 32-bit words of each counter, all in int64 tensors that broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _multiply(MULTIPLIERS[0], c0)
        high1, low1 = _multiply(MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + WEYL[0]) & _MASK, (k1 + WEYL[1]) & _MASK
    return c0, c1, c2, c3


def _multiply(a: int, b: Tensor) -> tuple[Tensor, Tensor]:
    """The high and low 32 bits of a*b, by 16-bit halves of b so that int64 does not overflow."""
    low, high = a * (b & 0xFFFF), a * (b >> 16)
    middle = high + (low >> 16)
    return middle >> 16, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def _check_range(name: str, value: int, bits: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise FixedPointError(
            f"{name} {value!r} is not allowed: give a whole number from 0 to 2^{bits} - 1"
        )
