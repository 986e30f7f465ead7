"""Rounding schemes: one definition each, on the exact quotient n/d, for every kind of number.

A scheme answers one question: with q = floor(n/d) and the remainder r = n - q*d, is the result q or
q + 1? The answer `up(q, r, d, u)` is written with operators that Python integers, int64 tensors
and float tensors share. `u` is a draw, a whole number in [0, 2^24), for schemes that use chance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qcapsnets.errors import FixedPointError
from qcapsnets.registry import Registry

DRAW_BITS = 24
PIECE = 1 << 17

Up = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class Rounding:
    """A named scheme.

    `simplicity` breaks ties in selection, the lowest first. `c` is `up` as a C expression over
    int64_t q, r, d and uint32_t u; a scheme without it cannot be exported to C. `fast`, which is
    optional, gives the same result as `up` on every float tensor of x = n/d, but sooner: it is
    called with x, and with the draw if the scheme draws. A scheme that does not draw may have
    one only if its answer changes nowhere but at whole and half steps, because it is then also
    asked about n/d rounded to float64 (see `on_quotients`). Results carry no gradient.
    """

    name: str
    simplicity: int
    up: Up
    draws: bool = False
    c: str | None = None
    fast: Callable[..., Tensor] | None = None

    @torch.no_grad()
    def on_floats(self, x: Tensor, draw: Tensor | None = None) -> Tensor:
        """Round x, in units of the step, to whole numbers (as floats of the same type).

        Exact for every finite x where the scheme has a `fast` way, as all of ours have; else for
        x >= 0, x <= -1/2 and multiples of 2^-53. A zero may come out as -0.0.
        """
        self._check(draw)
        if self.fast is not None:
            return self.fast(x, draw) if self.draws else self.fast(x)
        wide = x.to(torch.float64)
        q = wide.floor()
        return q.add_(self.up(q, wide - q, 1, draw)).to(x.dtype)

    @torch.no_grad()
    def on_quotients(self, n: Tensor, d: Tensor, draw: Tensor | None = None) -> Tensor:
        """Round n/d, d > 0, exactly: both int64, or both float64 that hold whole numbers.

        int64: |n| <= 2^62 and d <= 2^39, so that u*d fits. float64, which is quicker: also
        2|n| + d < 2^53. Then n/d rounded to float64 falls on or beyond a whole or half number
        only if the exact quotient does, because the two are at least 1/(2d) > |n/d| 2^-53 apart.
        """
        self._check(draw)
        if not n.is_floating_point():
            q = torch.div(n, d, rounding_mode="floor")
            return q.add_(self.up(q, n - q * d, d, draw))
        quotient = n / d
        if self.fast is not None and not self.draws:
            return self.fast(quotient)
        q = quotient.floor_()
        r = torch.addcmul(n, q, d, value=-1)
        return q.add_(self.up(_whole(q), _whole(r), _whole(d), draw))

    def _check(self, draw: Tensor | None) -> None:
        if self.draws and draw is None:
            raise FixedPointError(
                f"rounding scheme {self.name!r} needs draws and was given none: "
                "pass draw=draws(seed, site, step, shape)"
            )


def in_pieces(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    draw: Tensor | None,
    into: Tensor | None = None,
) -> Tensor:
    """function(x) as the type of x, on a CPU a few rows at a time: for functions of single rows.

    `into`, which may be x itself, is memory for the result. What a function allocates on the way
    stays in the cache and in the allocator's hands; on whole batches, getting fresh pages for it
    takes longer than the arithmetic.
    """
    rows = max(1, PIECE * len(x) // max(1, x.numel())) if x.ndim > 1 else 1
    draw_varies = draw is not None and draw.ndim == x.ndim and len(draw) > 1
    if x.ndim < 2 or len(x) <= rows or draw_varies or x.device.type != "cpu":
        return function(x).to(x.dtype)
    result = torch.empty_like(x) if into is None else into
    for part, piece in zip(result.split(rows), x.split(rows), strict=True):
        part.copy_(function(piece))
    return result


roundings: Registry[Rounding] = Registry("rounding scheme")


def register_rounding(
    name: str,
    up: Up,
    *,
    simplicity: int | None = None,
    draws: bool = False,
    c: str | None = None,
    fast: Callable[..., Tensor] | None = None,
    replace: bool = False,
) -> Rounding:
    """Add a scheme of your own; unless told otherwise it counts as less simple than all others."""
    place = len(list(roundings)) if simplicity is None else simplicity
    rounding = Rounding(name, place, up, draws, c, fast)
    _check_definition(rounding)
    return roundings.register(name, rounding, replace=replace)


def _whole(x: Tensor) -> Tensor:
    return x.to(torch.int64)


def _check_definition(rounding: Rounding) -> None:
    """`up` must take Python integers and tensors alike, and leave whole numbers alone."""
    d, last = 8, 2**DRAW_BITS - 1
    n, u = torch.meshgrid(torch.arange(-16, 17), torch.tensor([0, last // 3, last]), indexing="ij")
    pairs = zip(n.flatten().tolist(), u.flatten().tolist(), strict=True)
    try:
        expected = [a // d + bool(rounding.up(a // d, a % d, d, b)) for a, b in pairs]
        on_integers = rounding.on_quotients(n, torch.tensor(d), u)
        on_floats = rounding.on_floats(n / d, u)
    except Exception as error:  # whatever a stranger's function raises
        raise FixedPointError(
            f"rounding scheme {rounding.name!r} fails on trial: {error}: write `up` with operators "
            "that integers and tensors share (| and & for or and and, no if)"
        ) from error
    if not on_integers.flatten().tolist() == on_floats.flatten().tolist() == expected:
        raise FixedPointError(
            f"rounding scheme {rounding.name!r} differs between integers, int64 tensors and "
            "floats: `up` must be a condition on r/d, the parity of q and u/2^24"
        )
    if not torch.equal(on_integers[::d], n[::d] // d):
        raise FixedPointError(
            f"rounding scheme {rounding.name!r} moves whole numbers: `up` must be false for r = 0"
        )


def _truncate(q: Any, r: Any, d: Any, u: Any) -> Any:
    return r < 0


def _half_up(q: Any, r: Any, d: Any, u: Any) -> Any:
    return 2 * r >= d


def _half_even(q: Any, r: Any, d: Any, u: Any) -> Any:
    return (2 * r > d) | ((2 * r == d) & (q % 2 == 1))


def _by_chance(q: Any, r: Any, d: Any, u: Any) -> Any:
    return u * d < r * 2**DRAW_BITS


def _fast_half_up(x: Tensor) -> Tensor:
    """ceil(floor(2x)/2): floor(x + 1/2) is wrong at x = 1/2 - 2^-25, where the sum rounds to 1."""
    return x.mul(2).floor_().mul_(0.5).ceil_()


def _fast_by_chance(x: Tensor, draw: Tensor) -> Tensor:
    """Up if the part above the floor exceeds u 2^-24.

    A multiple of 2^-24 lies below x if and only if it lies below x rounded up to such a multiple,
    after which x - floor(x) is exact (it is not for -2^-30, say).
    """
    threshold = draw.to(x.dtype).mul(2.0**-DRAW_BITS)

    def chance(x: Tensor) -> Tensor:
        x = x.mul(2.0**DRAW_BITS).ceil_().mul_(2.0**-DRAW_BITS)
        q = x.floor()
        return q.add_(x.sub_(q).gt_(threshold))

    return in_pieces(chance, x, draw)


truncation = register_rounding("truncation", _truncate, c="0", fast=torch.floor)
nearest = register_rounding("nearest", _half_up, c="2 * r >= d", fast=_fast_half_up)
nearest_even = register_rounding(
    "nearest-even", _half_even, c="2 * r > d || (2 * r == d && (q & 1))", fast=torch.round
)
stochastic = register_rounding(
    "stochastic",
    _by_chance,
    draws=True,
    c="(int64_t)u * d < r * 16777216",
    fast=_fast_by_chance,
)
