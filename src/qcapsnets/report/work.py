"""Work and energy: every multiply-accumulate with the wordlengths of both its operands.

A multiplication is taken as one of integers of the longer operand's wordlength, an addition as one
of the sum's: both operands' bits, and one more for each doubling of the terms. What squash and
softmax take is counted, but no energy is known for it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.accounting import Inventory, Operations, add_energy, multiply_energy
from qcapsnets.accounting.operations import DRAM_PICOJOULES_PER_BIT, FP32_MAC_PICOJOULES
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.models import CapsNet, Contraction, Place, Site, Storage, Term, sites_of


@dataclass(frozen=True)
class Products:
    """Sums of `terms` products, `macs` in all, of what two places hold.

    `into` is the accumulator that holds the sums where they are multiplied again as they are.
    """

    own: str
    other: tuple[str, ...]
    terms: int
    macs: int
    into: str | None = None

    def picojoules(self, wordlengths: Mapping[str, int]) -> float:
        """The energy of all of them."""
        longer = max(wordlengths[self.own], self._other(wordlengths))
        return self.macs * (multiply_energy(longer) + add_energy(self.width(wordlengths)))

    def width(self, wordlengths: Mapping[str, int]) -> int:
        """Bits of a sum."""
        products = wordlengths[self.own] + self._other(wordlengths)
        return products + (self.terms - 1).bit_length()

    def _other(self, wordlengths: Mapping[str, int]) -> int:
        return max(wordlengths[name] for name in self.other)


class _Operands(Storage):
    """Stores numbers as they are, and writes down what is multiplied with what."""

    keeps_all = False

    def __init__(self, names: Iterable[str], found: list[Products]) -> None:
        self.names, self.found = tuple(names), found

    def contract(
        self,
        contraction: Contraction,
        own: Tensor,
        other: Term,
        *,
        plus: Term | None = None,
        into: Site | None = None,
    ) -> Tensor:
        result = super().contract(contraction, own, other, plus=plus, into=into)
        terms = contraction.terms(own)
        macs = result.numel() * terms
        target = _names(into)[0] if into is not None else None
        self.found.append(Products(self.names[0], _names(other.place), terms, macs, target))
        return result

    def join(self, other: Storage) -> Storage:
        names = other.names if isinstance(other, _Operands) else ()
        return _Operands((*self.names, *names), self.found)


def _names(place: Place) -> tuple[str, ...]:
    storage = place.storage
    return storage.names if isinstance(storage, _Operands) else ()


@torch.no_grad()
def products_of(model: CapsNet) -> tuple[Products, ...]:
    """What one image makes a network multiply."""
    copy = prepared(model)
    found: list[Products] = []
    for name, site in sites_of(copy):
        site.storage = _Operands((name,), found)
    device = next(copy.parameters()).device
    copy(torch.zeros(1, *copy.image_shape, device=device))
    return tuple(found)


@dataclass(frozen=True)
class LayerWork:
    """What one layer computes for one image, and the energy of its sums of products."""

    name: str
    macs: int
    squash: int
    softmax: int
    picojoules: float


@dataclass(frozen=True)
class Work:
    """What a network computes for one image, in float or under a plan."""

    layers: tuple[LayerWork, ...]
    weight_picojoules: float
    """Of reading every weight once from DRAM."""

    @classmethod
    def of(cls, model: CapsNet, plan: Plan | None = None) -> "Work":
        """Count; without a plan, the float network."""
        inventory = Inventory.of(model)
        granularity = inventory.granularity(plan)
        parts = inventory.parts[granularity].values()
        energies = _energies(model, None if plan is None else inventory.wordlengths(plan))
        rows = (
            LayerWork(
                name=layer.name,
                macs=layer.macs,
                squash=sum(found.total for found in layer.evaluations("squash")),
                softmax=sum(found.total for found in layer.evaluations("softmax")),
                picojoules=sum(energies[site] for site in part.sites),
            )
            for layer, part in zip(Operations.of(model, granularity).layers, parts, strict=True)
        )
        return cls(tuple(rows), DRAM_PICOJOULES_PER_BIT * inventory.weight_bits(plan))

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    @property
    def squash(self) -> int:
        return sum(layer.squash for layer in self.layers)

    @property
    def softmax(self) -> int:
        return sum(layer.softmax for layer in self.layers)

    @property
    def picojoules(self) -> float:
        return sum(layer.picojoules for layer in self.layers)


def _energies(model: CapsNet, wordlengths: Mapping[str, int] | None) -> defaultdict[str, float]:
    """Picojoules of the products at each site; without wordlengths, in FP32."""
    energies: defaultdict[str, float] = defaultdict(float)
    known = dict(wordlengths or {})
    for products in products_of(model):
        if wordlengths is None:
            energies[products.own] += products.macs * FP32_MAC_PICOJOULES
            continue
        energies[products.own] += products.picojoules(known)
        if products.into is not None:
            known[products.into] = products.width(known)
    return energies
