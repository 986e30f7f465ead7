"""Made-up networks to search: accuracies that are plain functions of the wordlengths."""

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import strategies as st
from tests.search import brute_force
from tests.search.fakes import answers

from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.search import Outcome, Problem
from qcapsnets.search.paper import Walk
from qcapsnets.search.settings import STEP_1_SHARE, Mode

MODES: tuple[Mode, ...] = ("fast", "literal")
both = pytest.mark.parametrize("mode", MODES)


@dataclass(frozen=True)
class Case:
    """A made-up network: parameters, which layers route, and what each short wordlength costs."""

    parameters: tuple[int, ...]
    routed: tuple[int, ...]
    budget: int
    total: int
    correct: int
    tolerance: Fraction
    costs: tuple[tuple[tuple[int, ...], ...], ...]
    """costs[kind][layer][q]: images lost at wordlength q; kinds are weight, activation, routing."""
    outputs: tuple[int, ...] = ()
    """As many as parameters, if not given."""

    @property
    def problem(self) -> Problem:
        accuracy = Fraction(self.correct, self.total)
        names = tuple(f"layer{i}" for i in range(len(self.parameters)))
        return Problem(
            layers=names,
            parameters=self.parameters,
            outputs=self.outputs or self.parameters,
            routed=tuple(names[i] for i in self.routed),
            budget=self.budget,
            correct=self.correct,
            total=self.total,
            target=accuracy * (1 - self.tolerance),
            step_1_target=accuracy * (1 - STEP_1_SHARE * self.tolerance),
        )

    def right(self, *bits: list[int]) -> int:
        lost = sum(
            self.costs[kind][layer][q]
            for kind in range(3)
            for layer, q in enumerate(bits[kind])
            if kind < 2 or layer in self.routed
        )
        return max(0, self.correct - lost)

    def accuracy(self, plan: Plan) -> int:
        for i, q in enumerate(plan.values()):
            assert (q.routing is not None) == (i in self.routed)
        return self.right(*lists(plan))

    def brute_force(self) -> brute_force.Found:
        return brute_force.search(
            self.parameters,
            self.routed,
            self.budget,
            lambda *bits: Fraction(self.right(*bits), self.total),
            Fraction(self.correct, self.total),
            self.tolerance,
        )


def lists(plan: Plan) -> tuple[list[int], list[int], list[int]]:
    """Weights, activations, and routing wordlengths, which are those of activations elsewhere."""
    rows = list(plan.values())
    routing = [q.activation if q.routing is None else q.routing for q in rows]
    return [q.weight for q in rows], [q.activation for q in rows], routing


@st.composite
def falling_costs(draw: st.DrawFn) -> tuple[int, ...]:
    """Losses by wordlength 0..32 that never grow with it."""
    steps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 5, 20]), min_size=9, max_size=9))
    losses = [0] * 33
    for q in range(10, 1, -1):
        losses[q] = losses[q + 1] + steps[10 - q]
    return tuple(losses)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    layers = draw(st.integers(1, 6))
    sizes = st.lists(st.integers(1, 50), min_size=layers, max_size=layers)
    parameters = draw(sizes)
    size = sum(parameters)
    total = draw(st.sampled_from([60, 1000, 10_000]))
    kinds = st.lists(falling_costs(), min_size=layers, max_size=layers).map(tuple)
    return Case(
        parameters=tuple(parameters),
        routed=tuple(sorted(draw(st.sets(st.integers(0, layers - 1), max_size=2)))),
        budget=draw(st.integers(2 * size, 14 * size)),
        total=total,
        correct=draw(st.integers(total // 2, total)),
        tolerance=Fraction(draw(st.integers(0, 400)), 10_000),
        costs=(draw(kinds), draw(kinds), draw(kinds)),
        outputs=tuple(draw(sizes)),
    )


def found(outcome: Outcome) -> brute_force.Found:
    return brute_force.Found(
        outcome.path, {name: lists(plan) for name, plan in outcome.plans.items()}
    )


def good_from(q: int, lost: int = 50) -> tuple[int, ...]:
    """Nothing is lost from q bits on, `lost` images below."""
    return tuple(lost if n < q else 0 for n in range(33))


FREE = (0,) * 33


def simple(
    budget: int,
    weights: tuple[int, ...] = FREE,
    activations: tuple[int, ...] = FREE,
    routing: tuple[int, ...] = FREE,
    *,
    tolerance: Fraction = Fraction(1, 10),
    parameters: tuple[int, int] = (100, 100),
    total: int = 100,
) -> Case:
    """Two layers, the second routed, that lose the most of what its wordlengths lose."""
    costs = ((weights, weights), (activations, activations), (FREE, routing))
    return Case(parameters, (1,), budget, total, total, tolerance, costs)


def walk(case: Case, mode: Mode = "fast") -> Walk:
    return Walk(case.problem, answers(case.accuracy, case.total, mode), [])
