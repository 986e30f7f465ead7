"""One blank image through a network, and everything that it did on the way.

The sites of a prepared copy are filled with storages that keep numbers as they are and write down
what is stored, read, multiplied, squashed and normalised, in the order of the network.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qcapsnets.models import CapsNet, Contraction, Kind, Place, Site, Storage, Term, sites_of


@dataclass(frozen=True)
class Array:
    """What one site holds: `numbers` of them, for one image (or of one tensor of weights)."""

    name: str
    kind: Kind
    numbers: int


@dataclass(frozen=True)
class Write:
    """An array was written while others were read; sums on the way there are not stored."""

    name: str
    reads: frozenset[str]


@dataclass(frozen=True)
class Products:
    """`sums` sums of `terms` products each, over what one site holds."""

    site: str
    operation: str
    sums: int
    terms: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates. A product with a padded zero counts, as is usual."""
        return self.sums * self.terms


@dataclass(frozen=True)
class Call:
    """A function of `rows` vectors of `size` numbers, into one site."""

    site: str
    function: str
    rows: int
    size: int


@dataclass
class Trace:
    """What happened, in order."""

    arrays: dict[str, Array] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    products: list[Products] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _read: set[str] = field(default_factory=set)

    def read(self, *places: Place | Storage) -> None:
        """Remember what the next write was made from."""
        for place in places:
            storage = place if isinstance(place, Storage) else place.storage
            self._read.update(getattr(storage, "names", ()))

    def write(self, name: str, kind: Kind, numbers: int) -> None:
        """An array was stored; weights are stored before anything runs."""
        self.arrays[name] = Array(name, kind, numbers)
        if kind is not Kind.WEIGHT:
            self.writes.append(Write(name, frozenset(self._read)))
            self._read.clear()

    def live(self) -> list[tuple[Write, tuple[str, ...]]]:
        """For each write, the arrays that are needed while it happens, the written one last.

        A value is needed from its write to its last read. What a site holds before its first
        write (the logits, zero) is not stored anywhere. An update in place needs its array once.
        """
        ends = self._last_reads()
        needed = []
        for now, write in enumerate(self.writes):
            before = {w.name for t, w in enumerate(self.writes[:now]) if ends[t] >= now}
            needed.append((write, (*sorted(before - {write.name}), write.name)))
        return needed

    def _last_reads(self) -> list[int]:
        """The last write for which each written value was read."""
        ends = list(range(len(self.writes)))
        current: dict[str, int] = {}
        for now, write in enumerate(self.writes):
            for name in write.reads & current.keys():
                ends[current[name]] = now
            current[write.name] = now
        return ends


class _Probe(Storage):
    """Stores numbers as they are, and writes down what is done with them."""

    keeps_all = False

    def __init__(self, names: Iterable[str], kind: Kind, trace: Trace) -> None:
        self.names, self.kind, self.trace = tuple(names), kind, trace

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        self.trace.write(self.names[0], self.kind, x.numel())
        return x

    def contract(
        self,
        contraction: Contraction,
        own: Tensor,
        other: Term,
        *,
        plus: Term | None = None,
        into: Site | None = None,
    ) -> Tensor:
        self.trace.read(self, other.place, *([] if plus is None else [plus.place]))
        result = super().contract(contraction, own, other, plus=plus, into=into)
        operation = type(contraction).__name__
        products = Products(self.names[0], operation, result.numel(), contraction.terms(own))
        self.trace.products.append(products)
        return result

    def add(self, own: Tensor, other: Term) -> Tensor:
        self.trace.read(self, other.place)
        return super().add(own, other)

    def join(self, other: Storage) -> Storage:
        return _Probe((*self.names, *getattr(other, "names", ())), self.kind, self.trace)

    def squash(self, s: Term, *, dim: int, step: int = 0) -> Tensor:
        self._call("squash", s, dim)
        return super().squash(s, dim=dim, step=step)

    def softmax(self, b: Term, *, dim: int, step: int = 0) -> Tensor:
        self._call("softmax", b, dim)
        return super().softmax(b, dim=dim, step=step)

    def _call(self, function: str, of: Term, dim: int) -> None:
        self.trace.read(of.place)
        size = of.value.shape[dim]
        self.trace.calls.append(Call(self.names[0], function, of.value.numel() // size, size))


def trace(model: CapsNet) -> Trace:
    """Fill the sites of a prepared copy, and run one blank image through it."""
    found = Trace()
    for name, site in sites_of(model):
        site.storage = _Probe((name,), site.kind, found)
    device = next(model.parameters()).device
    with torch.no_grad():
        model(torch.zeros(1, *model.image_shape, device=device))
    return found
