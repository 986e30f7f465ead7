"""What fills a site when a network is quantized: numbers of one format, rounded by one scheme.

Numbers travel as float tensors that hold exactly `code * 2^-fraction`. Sums of products are exact
(`qcapsnets.fixedpoint.exact`); storing rounds once and saturates; squash and softmax are the
integer functions. Gradients pass straight through every rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.exact import (
    Accumulation,
    Range,
    Sums,
    accumulate,
    accumulation,
    addition,
)
from qcapsnets.fixedpoint.format import WORDLENGTHS, FixedPoint
from qcapsnets.fixedpoint.functions import IntegerFunction, Softmax, Squash
from qcapsnets.fixedpoint.generator import draws
from qcapsnets.fixedpoint.rounding import PIECE, Rounding, in_pieces
from qcapsnets.models import Contraction, Place, Site, Storage, Term, softmax, squash


class Known(Storage):
    """A storage of which the range is known."""

    keeps_all = False

    def __init__(self, range_: Range) -> None:
        self.range = range_

    def join(self, other: Storage) -> "Known":
        return Known(self.range | range_of(other))

    def __str__(self) -> str:
        return f"{self.range.low}..{self.range.high} f{self.range.fraction}"


def range_of(storage: Storage) -> Range:
    """The codes that a storage can hold; every storage of a quantized network is `Known`."""
    if not isinstance(storage, Known):
        raise TypeError(f"a site of a quantized network holds {type(storage).__name__}")
    return storage.range


@dataclass
class Counts:
    """How many numbers a site stored, how many of them saturated, how many are zero."""

    stored: int = 0
    saturated: int = 0
    zeros: int = 0

    def add(self, rounded: Tensor, stored: Tensor) -> None:
        """Count numbers, rounded, that were stored as `stored`."""
        self.stored += stored.numel()
        self.saturated += int((rounded != stored).sum())
        self.zeros += int((stored == 0).sum())


@dataclass(frozen=True)
class Way:
    """How numbers are rounded throughout a network: by which scheme, with which draws."""

    rounding: Rounding
    seed: int

    def __post_init__(self) -> None:
        draws(self.seed, "seed", 0, ())  # a seed that cannot be is an error also if nothing draws


class Around(Protocol):
    """Something that stands around a sum of products: it may count it, or know it already."""

    def __call__(
        self, storage: "Fixed", how: Accumulation, terms: int, compute: Callable[[], Tensor]
    ) -> Tensor: ...


class Fixed(Known):
    """Numbers of one format at one site."""

    per_image = True
    """The first axis counts images."""

    def __init__(self, name: str, format: FixedPoint, way: Way) -> None:
        super().__init__(Range.of(format))
        self.name, self.format, self.way = name, format, way
        self.dtype = torch.float32 if format.fits(torch.float32) else torch.float64
        self.counts: Counts | None = None
        self.around: Around | None = None
        self.accumulations: dict[Any, Accumulation] = {}
        self.functions: dict[Any, IntegerFunction] = {}
        self.used: dict[Any, Accumulation | IntegerFunction] = {}
        self._draws: dict[tuple[int, torch.Size, torch.device], Tensor] = {}

    def __str__(self) -> str:
        return str(self.format)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Fixed":
        """What is remembered (sums of weights, draws, who counts) stays with the original."""
        copy = type(self)(self.name, self.format, self.way)
        memo[id(self)] = copy
        return copy

    @property
    def exact(self) -> bool:
        """Whether everything was exact when it was last computed here."""
        return all(way.exact for way in self.used.values())

    @property
    def counts_images(self) -> bool:
        return self.counts is not None

    def count(self) -> Counts:
        """Count from now on; `counts = None` ends it."""
        self.counts = Counts()
        return self.counts

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        return straight_through(x, self._stored(self._widened(x), step, None))

    def consume(self, x: Tensor, *, step: int = 0) -> Tensor:
        wide = self._widened(x)
        spent = None if x.requires_grad and torch.is_grad_enabled() else wide
        return straight_through(x, self._stored(wide, step, spent))

    @torch.no_grad()
    def _stored(self, x: Tensor, step: int, into: Tensor | None) -> Tensor:
        draw = self.draw(x, step)
        return in_pieces(lambda part: self._round(part, draw), x, draw, into).to(self.dtype)

    def _widened(self, x: Tensor) -> Tensor:
        """x in a type that also holds every number of the format."""
        return x.to(torch.promote_types(x.dtype, self.dtype))

    def _round(self, x: Tensor, draw: Tensor | None) -> Tensor:
        codes = self.way.rounding.on_floats(x.mul(2.0**self.format.fraction), draw)
        rounded = None if self.counts is None else codes.clone()
        codes.clamp_(self.format.min_code, self.format.max_code)
        if rounded is not None and self.counts is not None:
            self.counts.add(rounded, codes)
        return codes.mul_(self.format.step)

    def draw(self, x: Tensor, step: int) -> Tensor | None:
        """Draws for the elements of one image, the same for all."""
        if not self.way.rounding.draws:
            return None
        key = step, x.shape[1:], x.device
        if key not in self._draws:
            self._draws[key] = draws(self.way.seed, self.name, *key)
        return self._draws[key]

    def contract(
        self,
        contraction: Contraction,
        own: Tensor,
        other: Term,
        *,
        plus: Term | None = None,
        into: Site | None = None,
    ) -> Tensor:
        ranges = range_of(other.place.storage), None if plus is None else _range(plus.place)
        key = contraction, own.shape[1:] if self.per_image else own.shape, ranges
        if key not in self.accumulations:
            sums = self.sums(contraction, own)
            self.accumulations[key] = accumulation(contraction, sums, *ranges, self.range)
        self.used[contraction] = how = self.accumulations[key]
        if into is not None:
            into.storage = Known(how.result)
        bias = None if plus is None else plus.value
        if self.around is None:
            return accumulate(how, contraction, own, other.value, bias)
        terms = contraction.terms(own)
        return self.around(
            self, how, terms, lambda: accumulate(how, contraction, own, other.value, bias)
        )

    def sums(self, contraction: Contraction, own: Tensor) -> Sums:
        """What a sum over codes stored here can come to, as far as the format tells."""
        return Sums.of_range(contraction.terms(own), contraction.length(own), self.range)

    def add(self, own: Tensor, other: Term) -> Tensor:
        self.used["add"] = how = addition(self.range, range_of(other.place.storage))
        return own.to(how.dtype) + other.value.to(how.dtype)

    def squash(self, s: Term, *, dim: int, step: int = 0) -> Tensor:
        return self._apply(Squash, s, dim, step)

    def softmax(self, b: Term, *, dim: int, step: int = 0) -> Tensor:
        return self._apply(Softmax, b, dim, step)

    def _apply(
        self, kind: type[Squash] | type[Softmax], source: Term, dim: int, step: int
    ) -> Tensor:
        self.used[kind] = function = self._function(kind, source.place, source.value.shape[dim])
        values = self._widened(source.value.detach())
        draw, rounding = self.draw(values, step), self.way.rounding
        stored = function.on_values(values, rounding, draw, dim).to(self.dtype)
        if self.counts is not None:
            widest = replace(self.format, wordlength=WORDLENGTHS[-1])
            unsaturated = replace(function, target=widest)
            self.counts.add(unsaturated.on_values(values.double(), rounding, draw, dim), stored)
        if not (source.value.requires_grad and torch.is_grad_enabled()):
            return stored
        return straight_through(_real(kind, source.value, dim), stored)

    def _function(
        self, kind: type[Squash] | type[Softmax], place: Place, size: int
    ) -> IntegerFunction:
        storage = place.storage
        if not isinstance(storage, Fixed):
            raise TypeError(f"{kind.__name__} at {self.name} reads from {type(storage).__name__}")
        key = kind, storage.format, size
        if key not in self.functions:
            self.functions[key] = kind(storage.format, self.format, size)
        return self.functions[key]


def _range(place: Place) -> Range:
    return range_of(place.storage)


def _real(kind: type[Squash] | type[Softmax], x: Tensor, dim: int) -> Tensor:
    return squash(x, dim) if kind is Squash else softmax(x, dim)


class _Steps:
    """How many steps optimizers took: fused ones change weights without counting it in them."""

    def __init__(self) -> None:
        self.taken = 0
        register_optimizer_step_post_hook(self._count)

    def _count(self, *arguments: object) -> None:
        self.taken += 1


_STEPS = _Steps()


@dataclass
class _Rounded:
    """Weights as they were when last rounded, and what came out."""

    version: tuple[int, ...]
    stored: Tensor
    sums: dict[Contraction, Sums] = field(default_factory=dict)


class FixedWeights(Fixed):
    """Weights: rounded once, not at every use, and bounded by their actual codes."""

    per_image = False

    def __init__(self, name: str, format: FixedPoint, way: Way) -> None:
        super().__init__(name, format, way)
        self._rounded: _Rounded | None = None

    def count(self) -> Counts:
        self._rounded = None
        return super().count()

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        version = x.data_ptr(), x._version, _STEPS.taken
        if self._rounded is None or self._rounded.version != version:
            stored = self._store_weights(x.detach())
            self._rounded = _Rounded(version, stored)
            self.accumulations.clear()
            self.range = _actual(self.format, stored)
        return straight_through(x, self._rounded.stored)

    @torch.no_grad()
    def _store_weights(self, x: Tensor) -> Tensor:
        """Some rows at a time, so that rounding takes little memory beside the weights."""
        rows = max(1, PIECE * len(x) // max(1, x.numel()))
        parts = self._widened(x).split(rows)
        if not self.way.rounding.draws:
            return torch.cat([self._round(part, None) for part in parts]).to(self.dtype)
        u = draws(self.way.seed, self.name, 0, x.shape, x.device).split(rows)
        return torch.cat(list(map(self._round, parts, u))).to(self.dtype)

    def codes(self) -> Tensor:
        """The codes of the weights (int64), as they were last rounded."""
        if self._rounded is None:
            raise FixedPointError(f"{self.name} was never stored: run the network once")
        return self.format.codes(self._rounded.stored)

    def sums(self, contraction: Contraction, own: Tensor) -> Sums:
        if self._rounded is None:
            return super().sums(contraction, own)
        if contraction not in self._rounded.sums:
            fraction = self.format.fraction
            codes = self._rounded.stored.mul(2.0**fraction)
            self._rounded.sums[contraction] = Sums.of_codes(contraction, codes, fraction)
        return self._rounded.sums[contraction]


def _actual(format: FixedPoint, stored: Tensor) -> Range:
    low, high = (int(extreme.item() / format.step) for extreme in stored.aminmax())
    return Range(low, high, format.fraction)


class _StraightThrough(torch.autograd.Function):
    """The value of one tensor, the gradient of another."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor) -> Tensor:
        ctx.dtype = x.dtype
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].to(ctx.dtype), None


def straight_through(x: Tensor, value: Tensor) -> Tensor:
    """`value`, with gradients that pass to `x` as if nothing had been rounded."""
    if not (x.requires_grad and torch.is_grad_enabled()):
        return value
    result: Tensor = _StraightThrough.apply(x, value)  # type: ignore[no-untyped-call]
    return result
