"""What a network stores and computes, by part, ready for any number of plans.

`Inventory.of(model)` runs the network once, on one blank image, and remembers the answer; after
that, the bits of a plan are a few multiplications.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import get_args
from weakref import WeakKeyDictionary

from qcapsnets.accounting.trace import Array, Call, Products, trace
from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.plan import Granularity, Plan, Wordlengths, parts_of
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.fixedpoint.quantize import PIXEL
from qcapsnets.models import CapsNet, Kind, Layer, Routed, Site, layers_of, sites_of

FLOAT_BITS = 32


@dataclass(frozen=True)
class Part:
    """A part that can have wordlengths of its own: a layer, or a unit of one.

    `sites` are the names of all it stores, `outputs` of what it hands on, and `votes` of its
    votes. A layer's output is its own: a block that carries its input along does not count that.
    """

    name: str
    sites: tuple[str, ...]
    outputs: tuple[str, ...]
    votes: tuple[str, ...]


@dataclass(frozen=True)
class Moment:
    """Arrays that are needed at the same time, while `site` is written."""

    site: str
    arrays: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Inventory:
    """Arrays by name, the parts they belong to, and the work done on them."""

    arrays: Mapping[str, Array]
    parts: Mapping[Granularity, Mapping[str, Part]]
    moments: tuple[Moment, ...]
    products: tuple[Products, ...]
    calls: tuple[Call, ...]
    _parameters: Mapping[Granularity, Mapping[str, int]]
    _outputs: Mapping[Granularity, Mapping[str, int]]

    @classmethod
    def of(cls, model: CapsNet) -> "Inventory":
        """The inventory of a network, found once in its life."""
        if model not in _KNOWN:
            _KNOWN[model] = _take(model)
        return _KNOWN[model]

    def parameters(self, granularity: Granularity = "block") -> dict[str, int]:
        """Weights and biases of each part; a batch norm as scale and shift."""
        return dict(self._parameters[granularity])

    def outputs(self, granularity: Granularity = "block") -> dict[str, int]:
        """How many numbers each part hands on for one image."""
        return dict(self._outputs[granularity])

    def votes(self, granularity: Granularity = "block") -> dict[str, int]:
        """Votes of the parts that route; they come on top of the outputs."""
        parts = self.parts[granularity].values()
        return {p.name: _numbers(p.votes, self.arrays) for p in parts if p.votes}

    def weight_bits(self, plan: Plan | None) -> int:
        """Bits of all weights and biases under a plan; None is the float network."""
        parameters = self._parameters[self.granularity(plan)]
        if plan is None:
            return FLOAT_BITS * sum(parameters.values())
        return sum(count * plan[name].weight for name, count in parameters.items())

    def activation_bits(self, plan: Plan | None) -> int:
        """Bits of all layer outputs of one image under a plan; None is the float network."""
        outputs = self._outputs[self.granularity(plan)]
        if plan is None:
            return FLOAT_BITS * sum(outputs.values())
        return sum(count * plan[name].activation for name, count in outputs.items())

    def activation_reduction(self, plan: Plan) -> float:
        """How many times fewer bits the outputs that a plan names take than in float."""
        outputs = self._outputs[self.granularity(plan)]
        return FLOAT_BITS * sum(outputs.values()) / self.activation_bits(plan)

    def granularity(self, plan: Plan | None) -> Granularity:
        """At which granularity a plan names the network's parts; any other is an error."""
        for granularity, parts in self.parts.items():
            if plan is None or plan.keys() == parts.keys():
                return granularity
        raise FixedPointError(
            f"the plan is for layers {', '.join(plan or ())}: "
            f"the network's are {', '.join(self.parts['block'])}"
        )

    def wordlengths(self, plan: Plan | None) -> dict[str, int]:
        """The wordlength of every array; 32 everywhere in the float network."""
        if plan is None:
            return dict.fromkeys(self.arrays, FLOAT_BITS)
        return {
            site: _wordlength(self.arrays[site].kind, plan[part.name])
            for part in self.parts[self.granularity(plan)].values()
            for site in part.sites
        }


_KNOWN: WeakKeyDictionary[CapsNet, Inventory] = WeakKeyDictionary()


def _wordlength(kind: Kind, q: Wordlengths) -> int:
    """Which wordlength rules an array (the rule of `fixedpoint.plan`, by kind)."""
    match kind:
        case Kind.IMAGE:
            return PIXEL.wordlength
        case Kind.WEIGHT:
            return q.weight
        case Kind.ROUTING:
            return q.activation if q.routing is None else q.routing
    return q.activation


def _take(model: CapsNet) -> Inventory:
    copy = prepared(model)
    found = trace(copy)
    parts = _parts(copy, found.arrays)
    return Inventory(
        arrays=found.arrays,
        parts=parts,
        # iterations repeat their moments
        moments=tuple(dict.fromkeys(Moment(write.name, live) for write, live in found.live())),
        products=tuple(found.products),
        calls=tuple(found.calls),
        _parameters=_counted(parts, lambda part: _weights(part, found.arrays)),
        _outputs=_counted(parts, lambda part: _numbers(part.outputs, found.arrays)),
    )


def _parts(model: CapsNet, arrays: Mapping[str, Array]) -> dict[Granularity, dict[str, Part]]:
    """The parts of a network at both granularities."""
    layers, names = layers_of(model), {site: name for name, site in sites_of(model)}
    inner = {m.activation for m in model.modules() if isinstance(m, Layer)}
    votes = {m.votes for m in model.modules() if isinstance(m, Routed)}

    def part(name: str, sites: list[Site]) -> Part:
        outputs = {layers[name].activation} if name in layers else inner

        def named(chosen: set[Site]) -> tuple[str, ...]:
            return tuple(names[s] for s in sites if s in chosen and names[s] in arrays)

        return Part(name, named(set(sites)), named(outputs), named(votes))

    return {
        granularity: {
            name: part(name, sites) for name, sites in parts_of(model, granularity).items()
        }
        for granularity in get_args(Granularity)
    }


def _weights(part: Part, arrays: Mapping[str, Array]) -> int:
    return _numbers([n for n in part.sites if arrays[n].kind is Kind.WEIGHT], arrays)


def _numbers(names: Iterable[str], arrays: Mapping[str, Array]) -> int:
    return sum(arrays[name].numbers for name in names)


def _counted(
    parts: Mapping[Granularity, Mapping[str, Part]], count: Callable[[Part], int]
) -> dict[Granularity, dict[str, int]]:
    return {
        granularity: {name: count(part) for name, part in named.items()}
        for granularity, named in parts.items()
    }
