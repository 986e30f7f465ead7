"""A plan: wordlengths for weights, activations and routing, by layer name.

A name is that of a layer (`block1`: block granularity) or of a part of one (`block1.l1`: layer
granularity). Which sites a name rules follows from the network; a plan is only numbers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import nn

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.format import WORDLENGTHS
from qcapsnets.models import Kind, Site, layers_of, sites_of

Granularity = Literal["block", "layer"]

SHORTEST, LONGEST = WORDLENGTHS[0], WORDLENGTHS[-1]


@dataclass(frozen=True, order=True)
class Wordlengths:
    """Q_w, Q_a and, in a layer whose routing iterates, Q_DR (else None)."""

    weight: int
    activation: int
    routing: int | None = None

    def __post_init__(self) -> None:
        for name in ("weight", "activation", "routing"):
            value = getattr(self, name)
            if name == "routing" and value is None:
                continue
            if type(value) is not int or value not in WORDLENGTHS:
                raise FixedPointError(
                    f"{name} wordlength {value!r} is not allowed: "
                    f"give a whole number from {SHORTEST} to {LONGEST}"
                )


class Plan(Mapping[str, Wordlengths]):
    """Wordlengths by name, in the order of the network; immutable and hashable."""

    def __init__(self, layers: Mapping[str, Wordlengths]) -> None:
        for name, q in layers.items():
            if not isinstance(q, Wordlengths):
                raise FixedPointError(f"the plan gives layer {name!r} {q!r}: give it Wordlengths")
        self._layers = dict(layers)

    def __getitem__(self, name: str) -> Wordlengths:
        return self._layers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __hash__(self) -> int:
        return hash(frozenset(self._layers.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._layers == other._layers

    def __repr__(self) -> str:
        return f"Plan({self})"

    def __str__(self) -> str:
        rows = (
            f"{name} {q.weight}/{q.activation}" + (f"/{q.routing}" if q.routing else "")
            for name, q in self.items()
        )
        return ", ".join(rows)

    @classmethod
    def uniform(
        cls, model: nn.Sequential, wordlength: int, granularity: Granularity = "block"
    ) -> "Plan":
        """The same wordlength everywhere."""
        return cls(
            {
                name: Wordlengths(wordlength, wordlength, wordlength if routed(sites) else None)
                for name, sites in parts_of(model, granularity).items()
            }
        )

    def replacing(self, **changes: Mapping[str, int]) -> "Plan":
        """A plan with other wordlengths: `replacing(weight={"conv": 5}, routing={"digit": 3})`."""
        layers: dict[str, dict[str, int | None]] = self.to_json()
        for what, by_name in changes.items():
            for name, wordlength in by_name.items():
                if name not in layers:
                    known = ", ".join(layers)
                    raise FixedPointError(f"the plan has no layer {name!r}: it has {known}")
                layers[name][what] = wordlength
        return Plan.from_json(layers)

    def to_json(self) -> dict[str, dict[str, int | None]]:
        """Plain values."""
        return {name: dict(vars(q)) for name, q in self.items()}

    @classmethod
    def from_json(cls, value: Any) -> "Plan":
        """Read what `to_json` wrote."""
        if not isinstance(value, Mapping):
            raise FixedPointError(f"{value!r} is not a plan: give wordlengths by layer{EXAMPLE}")
        return cls({name: _wordlengths(name, q) for name, q in value.items()})

    def sites(self, model: nn.Sequential) -> dict[str, tuple[Site, int]]:
        """The wordlength of every site that the plan rules, by full name; checks the plan."""
        owners = _owners(model, self)
        names = {site: name for name, site in sites_of(model)}
        return {
            names[site]: (site, wordlength_at(site, self[owner]))
            for owner, sites in owners.items()
            for site in sites
            if site.kind in RULED
        }


RULED = (Kind.WEIGHT, Kind.ACTIVATION, Kind.ROUTING)
EXAMPLE = ', as in {"conv": {"weight": 6, "activation": 6}}'


def _wordlengths(name: object, value: Any) -> Wordlengths:
    """One layer of a plan in JSON."""
    try:
        return Wordlengths(**value)
    except TypeError:
        raise FixedPointError(
            f"the plan gives layer {name!r} {value!r}: give weight and activation wordlengths, "
            f"and routing if it iterates{EXAMPLE}"
        ) from None
    except FixedPointError as error:
        raise FixedPointError(f"the plan's layer {name!r}: {error}") from None


def routed(sites: list[Site]) -> bool:
    """Whether a part's routing iterates."""
    return any(site.kind is Kind.ROUTING for site in sites)


def wordlength_at(site: Site, q: Wordlengths) -> int:
    """Which of a part's wordlengths rules a site; routing defaults to that of activations."""
    if site.kind is Kind.WEIGHT:
        return q.weight
    if site.kind is Kind.ROUTING and q.routing is not None:
        return q.routing
    return q.activation


def parts_of(model: nn.Sequential, granularity: Granularity = "block") -> dict[str, list[Site]]:
    """The parts that can have wordlengths of their own, and the sites of each."""
    if granularity not in get_args(Granularity):
        known = ", ".join(get_args(Granularity))
        raise FixedPointError(f"granularity {granularity!r} is unknown: choose one of {known}")
    parts: dict[str, list[Site]] = {}
    for layer_name, layer in layers_of(model).items():
        units = layer.units()
        if granularity == "block":
            parts[layer_name] = [site for sites in units.values() for site in sites]
        else:
            for unit, sites in units.items():
                parts[f"{layer_name}.{unit}" if unit else layer_name] = sites
    return parts


def _owners(model: nn.Sequential, plan: Plan) -> dict[str, list[Site]]:
    """The sites of each name in the plan, which must be the network's at one granularity."""
    options: tuple[dict[str, list[Site]], ...] = (parts_of(model), parts_of(model, "layer"))
    parts = next((option for option in options if set(option) == set(plan)), None)
    if parts is None:
        closest = max(options, key=lambda option: len(set(option) & set(plan)))
        missing = ", ".join(name for name in closest if name not in plan)
        invented = ", ".join(name for name in plan if name not in closest)
        problems = [f"misses {missing}"] * bool(missing) + [f"invents {invented}"] * bool(invented)
        raise FixedPointError(
            f"the plan {' and '.join(problems)}: the network's layers are {', '.join(closest)}"
        )
    for name, sites in parts.items():
        if plan[name].routing is not None and not routed(sites):
            raise FixedPointError(
                f"the plan gives layer {name!r} a routing wordlength, but its routing does not "
                "iterate: leave it out"
            )
    return parts
