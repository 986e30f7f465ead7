"""Answers to a strategy's questions: evaluated now, or recalled from the journal.

`Fast` answers "at least?" with as few images as make it certain and climbs from below, since
failing is cheap and passing costs a full pass. `Literal` is the paper's way, for comparison: full
evaluations, a descent of one bit at a time, and a binary search from 32 bits.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qcapsnets.evaluation import Evaluator, Measurement
from qcapsnets.fixedpoint.plan import SHORTEST, Plan
from qcapsnets.search.cost import Cost
from qcapsnets.search.journal import Journal
from qcapsnets.search.settings import Mode

PlanOf = Callable[[int], Plan]


@dataclass(frozen=True)
class Event:
    """Something that a person who waits would like to know."""

    rounding: str
    step: str
    plan: str
    plans: int
    images: int
    best: str


class Answers(ABC):
    """Evaluations with a memory on disk."""

    def __init__(
        self,
        evaluator: Evaluator,
        journal: Journal,
        *,
        rounding: str,
        observe: Callable[[Event], None] | None = None,
    ) -> None:
        self.evaluator, self.journal = evaluator, journal
        self.rounding, self.observe = rounding, observe
        self.step, self.best = "", ""
        self.cost = Cost()
        self._recalled: dict[Plan, list[dict[str, Any]]] = {}
        for line in journal:
            self._recalled.setdefault(Plan.from_json(line["plan"]), []).append(line)

    def accuracy(self, plan: Plan) -> int:
        """How many images are right, counted to the end."""
        return self._ask(plan, lambda m: m.complete or None).right

    def at_least(self, plan: Plan, minimum: int) -> bool:
        """Whether at least `minimum` images are right."""
        return bool(self._ask(plan, lambda m: m.verdict(minimum)).verdict(minimum))

    def _ask(self, plan: Plan, decide: Callable[[Measurement], bool | None]) -> Measurement:
        nothing = Measurement(0, 0, self.evaluator.total)
        before = self.evaluator.known.get(plan, nothing)
        while decide(before) is None and self._recall(plan):
            before = self.evaluator.known[plan]
        if decide(before) is not None:
            return before
        started, work = time.monotonic(), self.evaluator.work
        after = self.evaluator.count(plan, decide)
        line = {
            "plan": plan.to_json(),
            "step": self.step,
            "from": before.seen,
            "seen": after.seen,
            "right": after.right,
            "total": after.total,
            "macs": self.evaluator.work - work,
            "seconds": round(time.monotonic() - started, 3),
        }
        self._spend(line)
        self.journal.append(line)
        self._tell(plan)
        return after

    def _recall(self, plan: Plan) -> bool:
        """Take over the next line that the journal has of this plan, as if it were made now."""
        lines = self._recalled.get(plan)
        if not lines:
            return False
        line = lines.pop(0)
        self.evaluator.remember(plan, Measurement(line["seen"], line["right"], line["total"]))
        self._spend(line)
        return True

    def _spend(self, line: dict[str, Any]) -> None:
        self.cost += Cost(
            plans=int(line["from"] == 0),
            images=line["seen"] - line["from"],
            macs=line["macs"],
            seconds=line["seconds"],
        )

    def _tell(self, plan: Plan) -> None:
        if self.observe is not None:
            cost = self.cost
            event = Event(self.rounding, self.step, str(plan), cost.plans, cost.images, self.best)
            self.observe(event)

    @abstractmethod
    def enough(self, plan: Plan, minimum: int) -> bool:
        """The verdict on one plan, in the way of this mode."""

    @abstractmethod
    def shortest(self, plan_of: PlanOf, passing: int, minimum: int) -> int:
        """The shortest wordlength that reaches `minimum`, where `passing` is known to."""

    @abstractmethod
    def shortest_of_all(self, plan_of: PlanOf, longest: int, minimum: int) -> int:
        """The shortest wordlength that reaches `minimum`, `longest` if none does."""


class Fast(Answers):
    """Early verdicts, climbing from the shortest wordlength."""

    def enough(self, plan: Plan, minimum: int) -> bool:
        return self.at_least(plan, minimum)

    def shortest(self, plan_of: PlanOf, passing: int, minimum: int) -> int:
        climb = range(SHORTEST, passing)
        return next((q for q in climb if self.at_least(plan_of(q), minimum)), passing)

    def shortest_of_all(self, plan_of: PlanOf, longest: int, minimum: int) -> int:
        return self.shortest(plan_of, longest, minimum)


class Literal(Answers):
    """Full evaluations only, in the order of the paper."""

    def enough(self, plan: Plan, minimum: int) -> bool:
        return self.accuracy(plan) >= minimum

    def shortest(self, plan_of: PlanOf, passing: int, minimum: int) -> int:
        while passing > SHORTEST and self.enough(plan_of(passing - 1), minimum):
            passing -= 1
        return passing

    def shortest_of_all(self, plan_of: PlanOf, longest: int, minimum: int) -> int:
        low, high = SHORTEST, longest
        while low < high:
            middle = (low + high) // 2
            if self.enough(plan_of(middle), minimum):
                high = middle
            else:
                low = middle + 1
        return high


MODES: dict[Mode, type[Answers]] = {"fast": Fast, "literal": Literal}
