"""What the literal algorithm would cost, worked out from verdicts instead of run.

It evaluates every plan that it asks about in full. Which those are follows from the verdicts: some
are known, the others lie above a plan that passed or below one that failed, in every layer, and are
supposed to do the same. Where neither is so, the cost is not known.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.results.bench import Bench
from tools.results.wanted import Search

from qcapsnets.errors import ReportError
from qcapsnets.evaluation import Measurement
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.search import Cost, Problem, strategies
from qcapsnets.search.answers import Literal

FILE = "literal.json"
Known = Mapping[Plan, Measurement]


@dataclass(frozen=True)
class LiteralCost:
    """Full evaluations; of `plans`, `supposed` had a verdict that nobody measured."""

    plans: int
    images: int
    supposed: int


class Unknown(Exception):
    """A verdict that does not follow from what is known."""


class Supposed(Literal):
    """The literal algorithm's questions, answered from what is known."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.step, self.best, self.cost = "", "", Cost()
        self.asked: dict[Plan, bool] = {}
        """Whether the verdict was measured, by plan."""

    def accuracy(self, plan: Plan) -> int:
        measured = self.known.get(plan)
        if measured is None or not measured.complete:
            raise Unknown
        self.asked[plan] = True
        return measured.right

    def enough(self, plan: Plan, minimum: int) -> bool:
        measured = self.known.get(plan)
        verdict = None if measured is None else measured.verdict(minimum)
        if verdict is not None:
            self.asked[plan] = True
            return verdict
        self.asked.setdefault(plan, False)
        return self._supposed(plan, minimum)

    def _supposed(self, plan: Plan, minimum: int) -> bool:
        for other, measured in self.known.items():
            verdict = measured.verdict(minimum)
            if verdict is True and _longer(plan, other):
                return True
            if verdict is False and _longer(other, plan):
                return False
        raise Unknown


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


def literal_cost(problem: Problem, known: Known, strategy: str = "paper") -> LiteralCost | None:
    """What the literal algorithm would evaluate, as far as that can be known."""
    answers = Supposed(known)
    try:
        strategies[strategy](problem, answers)
    except Unknown:
        return None
    supposed = sum(not measured for measured in answers.asked.values())
    return LiteralCost(len(answers.asked), len(answers.asked) * problem.total, supposed)


def write_costs(bench: Bench, search: Search) -> None:
    """Leave the costs for each scheme of a finished search beside it."""
    path = bench.folder / search.folder / FILE
    if search.mode == "literal" or path.exists():
        return
    settings = search.settings(bench.parameters, bench.wanted)
    costs = {}
    for rounding in search.roundings:
        job = bench.job(settings, rounding)
        verdicts = job.shared()
        known = {} if verdicts is None else verdicts.plans()
        cost = literal_cost(job.problem(), known, search.strategy)
        if cost is not None:
            costs[rounding] = asdict(cost)
    if costs:
        write_atomically(path, json.dumps(costs, indent=2) + "\n", ReportError)


def read_costs(run: Path) -> dict[str, LiteralCost]:
    """The costs beside a run, by scheme."""
    path = run / FILE
    if not path.exists():
        return {}
    try:
        return {name: LiteralCost(**cost) for name, cost in json.loads(path.read_text()).items()}
    except (ValueError, TypeError, AttributeError):
        raise ReportError(f"{path} holds no costs: remove it, and it is made again") from None
