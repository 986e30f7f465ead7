"""The problem that a strategy solves: layers with parameters, counts that accuracies must reach."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from qcapsnets.accounting.inventory import Inventory
from qcapsnets.errors import SearchError
from qcapsnets.fixedpoint.plan import LONGEST, SHORTEST, Plan, Wordlengths, parts_of, routed
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.models import CapsNet
from qcapsnets.search.settings import STEP_1_SHARE, Settings


@dataclass(frozen=True)
class Problem:
    """Everything that the steps need to know, and nothing of how a plan is evaluated."""

    layers: tuple[str, ...]
    parameters: tuple[int, ...]
    outputs: tuple[int, ...]
    routed: tuple[str, ...]
    budget: int
    correct: int
    total: int
    target: Fraction
    step_1_target: Fraction

    @classmethod
    def of(cls, model: CapsNet, settings: Settings, correct: int, total: int) -> "Problem":
        """For a float network that gets `correct` of `total` images right."""
        parts = parts_of(prepared(model), settings.granularity)
        inventory = Inventory.of(model)
        accuracy = Fraction(correct, total)
        loss = settings.tolerance.loss(accuracy)
        problem = cls(
            layers=tuple(parts),
            parameters=tuple(inventory.parameters(settings.granularity).values()),
            outputs=tuple(inventory.outputs(settings.granularity).values()),
            routed=tuple(name for name, sites in parts.items() if routed(sites)),
            budget=settings.budget,
            correct=correct,
            total=total,
            target=max(Fraction(0), accuracy - loss),
            step_1_target=max(Fraction(0), accuracy - STEP_1_SHARE * loss),
        )
        problem.check_budget()
        return problem

    def check_budget(self) -> None:
        """A budget that the shortest weights cannot meet is an error."""
        smallest = SHORTEST * sum(self.parameters)
        if self.budget < smallest:
            raise SearchError(
                f"the budget is {self.budget:,} bits, but {SHORTEST} bits a weight, the least, "
                f"need {smallest:,} bits ({smallest / 1e6:.3f} Mbit): give at least that"
            )

    @property
    def sizes(self) -> dict[str, int]:
        """Weights and biases by layer."""
        return dict(zip(self.layers, self.parameters, strict=True))

    @property
    def output_sizes(self) -> dict[str, int]:
        """Numbers that each layer hands on for one image."""
        return dict(zip(self.layers, self.outputs, strict=True))

    def weight_bits(self, plan: Plan) -> int:
        """Bits of all weights and biases."""
        return sum(count * plan[name].weight for name, count in self.sizes.items())

    def uniform(self, weight: int, activation: int) -> Plan:
        """One wordlength for all weights, one for all activations and, with them, routing."""
        return Plan(
            {
                name: Wordlengths(weight, activation, activation if name in self.routed else None)
                for name in self.layers
            }
        )

    def with_weights(self, plan: Plan, changed: Mapping[str, int]) -> Plan:
        """Other wordlengths for the weights of some layers."""
        return plan.replacing(weight=changed)

    def with_activations(self, plan: Plan, changed: Mapping[str, int]) -> Plan:
        """Other wordlengths for the activations of some layers, and for their routing."""
        routing = {name: q for name, q in changed.items() if name in self.routed}
        return plan.replacing(activation=changed, routing=routing)

    def count(self, accuracy: Fraction) -> int:
        """The least number of right images that reaches an accuracy."""
        return math.ceil(accuracy * self.total)

    def falling(self, first: int) -> dict[str, int]:
        """Q_w[l+1] = Q_w[l] - 1 from `first` on; the tail is flat where 2 bits are reached."""
        return {name: max(SHORTEST, first - index) for index, name in enumerate(self.layers)}

    def largest_falling(self, longest: int = LONGEST) -> dict[str, int]:
        """The largest falling wordlengths that fit the budget, starting at `longest` at most."""
        return self.first_fitting(map(self.falling, range(longest, SHORTEST - 1, -1)))

    def first_fitting(self, candidates: Iterable[dict[str, int]]) -> dict[str, int]:
        """The first weights, by layer, that fit the budget."""
        for weights in candidates:
            if sum(self.sizes[name] * q for name, q in weights.items()) <= self.budget:
                return weights
        raise SearchError(f"no wordlengths fit the budget of {self.budget:,} bits")
