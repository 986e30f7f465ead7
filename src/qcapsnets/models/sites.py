"""Sites: the named places of a layer where numbers are stored.

A layer is written once, in float, and calls its sites by name. What a site does is its `storage`:
in the float model numbers are stored as they are; quantizing and calibration fill the sites of a
copy with storages of their own (see `qcapsnets.fixedpoint`), and no layer has a second version.

Every number that a layer computes passes through five verbs of a storage: `store` it, `contract`
or `add` it with something else, and take the `squash` or the `softmax` of what another site holds.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from torch import Tensor, nn

from qcapsnets.models import functions
from qcapsnets.models.contractions import Contraction


class Kind(StrEnum):
    """Which wordlength of a plan rules a site (paper.md section 4: Q_w, Q_a, Q_DR)."""

    WEIGHT = "weight"
    ACTIVATION = "activation"
    ROUTING = "routing"
    IMAGE = "image"
    ACCUMULATOR = "accumulator"


class Place(Protocol):
    """Anything that can say how its numbers are stored: a site, or several sites joined."""

    @property
    def storage(self) -> "Storage": ...


@dataclass(frozen=True)
class Term:
    """A tensor and the place that stores it."""

    value: Tensor
    place: Place


class Storage:
    """Stores numbers as they are, and computes in float."""

    keeps_all = True
    """Nothing is lost here, so a layer need not form what it would only store."""

    @property
    def counts_images(self) -> bool:
        """Every image's numbers are wanted, also where they are the same for all."""
        return False

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        """What is read back after writing x; `step` counts the visits within one forward pass."""
        return x

    def consume(self, x: Tensor, *, step: int = 0) -> Tensor:
        """As `store`, of an x that nobody needs any more: its memory may be used again."""
        return self.store(x, step=step)

    def contract(
        self,
        contraction: Contraction,
        own: Tensor,
        other: Term,
        *,
        plus: Term | None = None,
        into: "Site | None" = None,
    ) -> Tensor:
        """Sum of products of `own`, stored here, with `other`, plus a bias, not rounded.

        `into` is the accumulator site that takes the sum, where something exact is done with
        it before it is rounded.
        """
        if plus is None:
            return contraction(own, other.value)
        return contraction.plus(own, other.value, plus.value)

    def add(self, own: Tensor, other: Term) -> Tensor:
        """Sum of `own`, stored here, and `other`, not rounded."""
        return own + other.value

    def join(self, other: "Storage") -> "Storage":
        """How numbers of both are described together."""
        return self

    def squash(self, s: Term, *, dim: int, step: int = 0) -> Tensor:
        """Squash of s, stored here."""
        return self.store(functions.squash(s.value, dim), step=step)

    def softmax(self, b: Term, *, dim: int, step: int = 0) -> Tensor:
        """Softmax of b, stored here."""
        return self.store(functions.softmax(b.value, dim), step=step)


FLOAT = Storage()


@dataclass(frozen=True)
class Joined:
    """Capsules of several sites, one after the other in one list."""

    places: tuple[Place, ...]

    @property
    def storage(self) -> Storage:
        first, *others = (place.storage for place in self.places)
        for other in others:
            first = first.join(other)
        return first


class Site(nn.Module):
    """A named place where numbers are stored."""

    def __init__(self, kind: Kind, *, signed: bool = True) -> None:
        super().__init__()
        self.kind = kind
        self.signed = signed
        self.storage: Storage = FLOAT

    def forward(self, x: Tensor, *, step: int = 0) -> Tensor:
        return self.storage.store(x, step=step)

    def extra_repr(self) -> str:
        filled = "" if type(self.storage) is Storage else f", {self.storage}"
        return f"{self.kind}{filled}"
