"""What the literal algorithm would cost, worked out from verdicts instead of run.

It evaluates every plan that it asks about in full. Which those are follows from the verdicts: some
are known, others lie above a plan that passed or below one that failed, in every layer, and are
supposed to do the same. The few of which neither is so are evaluated, as far as it takes.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.results.bench import Bench
from tools.results.wanted import Search

from qcapsnets.errors import ReportError
from qcapsnets.evaluation import Measurement
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.search import Cost, Job, Problem, strategies
from qcapsnets.search.answers import Literal

FILE = "literal.json"
Known = dict[Plan, Measurement]
Measure = Callable[[Plan, int | None], Measurement]
"""Counts how many images are right, or as many as it takes to tell whether a minimum is."""


@dataclass(frozen=True)
class LiteralCost:
    """Full evaluations; of `plans`, `supposed` had a verdict that nobody measured."""

    plans: int
    images: int
    supposed: int


class Supposed(Literal):
    """The literal algorithm's questions, answered from what is known."""

    def __init__(self, known: Known, measure: Measure) -> None:
        self.known, self.measure = known, measure
        self.step, self.best, self.cost = "", "", Cost()
        self.asked: dict[Plan, bool] = {}
        """Whether the verdict was measured, by plan."""

    def accuracy(self, plan: Plan) -> int:
        self.asked[plan] = True
        if plan not in self.known or not self.known[plan].complete:
            self.known[plan] = self.measure(plan, None)
        return self.known[plan].right

    def enough(self, plan: Plan, minimum: int) -> bool:
        verdict = self._verdict(plan, minimum)
        if verdict is None:
            self.asked.setdefault(plan, False)
            verdict = self._supposed(plan, minimum)
        if verdict is None:
            self.known[plan] = self.measure(plan, minimum)
            verdict = self._verdict(plan, minimum)
        return bool(verdict)

    def _verdict(self, plan: Plan, minimum: int) -> bool | None:
        verdict = self.known[plan].verdict(minimum) if plan in self.known else None
        if verdict is not None:
            self.asked[plan] = True
        return verdict

    def _supposed(self, plan: Plan, minimum: int) -> bool | None:
        for other, measured in self.known.items():
            verdict = measured.verdict(minimum)
            if verdict is True and _longer(plan, other):
                return True
            if verdict is False and _longer(other, plan):
                return False
        return None


def _longer(plan: Plan, other: Plan) -> bool:
    """Whether no wordlength of the other plan is longer."""
    return plan.keys() == other.keys() and all(
        a >= b
        for name in plan
        for a, b in zip(_lengths(plan, name), _lengths(other, name), strict=True)
    )


def _lengths(plan: Plan, name: str) -> tuple[int, int, int]:
    q = plan[name]
    return q.weight, q.activation, q.routing or q.activation


def literal_cost(
    problem: Problem, known: Known, measure: Measure, strategy: str = "paper"
) -> LiteralCost:
    """What the literal algorithm would evaluate."""
    answers = Supposed(known, measure)
    strategies[strategy](problem, answers)
    supposed = sum(not measured for measured in answers.asked.values())
    return LiteralCost(len(answers.asked), len(answers.asked) * problem.total, supposed)


def costs_known(bench: Bench, search: Search) -> bool:
    """Whether there is nothing to work out."""
    return search.mode == "literal" or (bench.folder / search.folder / FILE).exists()


def write_costs(bench: Bench, search: Search, watch: Callable[[Measurement], None]) -> None:
    """Leave the costs for each scheme of a finished search beside it.

    `watch` is told of each batch of images, where some must be evaluated.
    """
    settings = search.settings(bench.parameters, bench.wanted)
    costs = {
        rounding: asdict(_cost(bench.job(settings, rounding), search.strategy, watch))
        for rounding in search.roundings
    }
    path = bench.folder / search.folder / FILE
    write_atomically(path, json.dumps(costs, indent=2) + "\n", ReportError)


def _cost(job: Job, strategy: str, watch: Callable[[Measurement], None]) -> LiteralCost:
    verdicts, evaluator = job.shared(), job.evaluator()
    if verdicts is None:
        raise ReportError("the literal algorithm's cost needs a folder of verdicts")

    def measure(plan: Plan, minimum: int | None) -> Measurement:
        return verdicts.count(evaluator, plan, minimum, watch)[0]

    return literal_cost(job.problem(), verdicts.plans(), measure, strategy)


def read_costs(run: Path) -> dict[str, LiteralCost]:
    """The costs beside a run, by scheme."""
    path = run / FILE
    if not path.exists():
        return {}
    try:
        return {name: LiteralCost(**cost) for name, cost in json.loads(path.read_text()).items()}
    except (ValueError, TypeError, AttributeError):
        raise ReportError(f"{path} holds no costs: remove it, and it is made again") from None
