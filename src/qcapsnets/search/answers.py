"""Answers to a strategy's questions: evaluated now, or recalled from the journal.

`Literal` is the paper's way, for comparison: full evaluations, a binary search from 32 bits, a
descent of one bit at a time. `Fast` asks the same in fewer and shorter questions: it looks at the
few hardest images, and counts until it is certain only what a step ends with.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qcapsnets.errors import FixedPointError, SearchError
from qcapsnets.evaluation import Evaluator, Measurement
from qcapsnets.fixedpoint.plan import SHORTEST, Plan
from qcapsnets.search.cost import Cost
from qcapsnets.search.journal import Journal
from qcapsnets.search.settings import Mode
from qcapsnets.search.verdicts import Verdicts

PlanOf = Callable[[int], Plan]
NUMBERS = ("from", "seen", "right", "total", "macs")
SCREEN, FEWEST_SCREENED = 2, 40
"""So many times the images that may be wrong, and no fewer, are looked at before presuming."""
LONG = 16
"""With so many bits everywhere, a plan is presumed to pass unseen."""


@dataclass(frozen=True)
class Event:
    """Something that a person who waits would like to know.

    `seen` of `total` images are counted of the current plan; `plans` and `images` are those of
    the whole search so far.
    """

    rounding: str
    step: str
    plan: str
    plans: int
    images: int
    best: str
    seen: int
    total: int


class Answers(ABC):
    """Evaluations with a memory on disk, and with what other searches have counted, if given."""

    def __init__(
        self,
        evaluator: Evaluator,
        journal: Journal,
        *,
        rounding: str,
        observe: Callable[[Event], None] | None = None,
        verdicts: Verdicts | None = None,
    ) -> None:
        self.evaluator, self.journal, self.verdicts = evaluator, journal, verdicts
        self.rounding, self.observe = rounding, observe
        self.step, self.best = "", ""
        self.cost = Cost()
        self._recalled: dict[Plan, list[dict[str, Any]]] = {}
        for line in journal:
            self._recalled.setdefault(_plan_of(line, journal.path), []).append(line)

    def accuracy(self, plan: Plan) -> int:
        """How many images are right, counted to the end."""
        return self._ask(plan, None).right

    def at_least(self, plan: Plan, minimum: int) -> bool:
        """Whether at least `minimum` images are right."""
        return bool(self._ask(plan, minimum).verdict(minimum))

    def shortest_of_all(self, plan_of: PlanOf, longest: int, minimum: int) -> int:
        """The shortest wordlength that is enough, by binary search; `longest` if none is."""
        low, high = SHORTEST, longest
        while low < high:
            middle = (low + high) // 2
            if self.enough(plan_of(middle), minimum):
                high = middle
            else:
                low = middle + 1
        return high

    def _ask(self, plan: Plan, minimum: int | None, images: int | None = None) -> Measurement:
        before = self.evaluator.measured(plan)
        while not before.settles(minimum, images) and self._recall(plan):
            before = self.evaluator.measured(plan)
        if before.settles(minimum, images):
            return before
        started, work = time.monotonic(), self.evaluator.work
        after, taken = self._count(plan, minimum, images, before)
        line = {
            "plan": plan.to_json(),
            "step": self.step,
            "from": before.seen,
            "seen": after.seen,
            "right": after.right,
            "total": after.total,
            "macs": self.evaluator.work - work,
            "seconds": round(time.monotonic() - started, 3),
            "taken": taken,
        }
        self._spend(line)
        self.journal.append(line)
        return after

    def _count(
        self, plan: Plan, minimum: int | None, images: int | None, before: Measurement
    ) -> tuple[Measurement, int]:
        """Go on counting; how many of the images were counted by another search already."""

        def watch(now: Measurement) -> None:
            self._tell(plan, before, now)

        if self.verdicts is None:
            return self.evaluator.count(plan, minimum, watch, images=images), 0
        return self.verdicts.count(self.evaluator, plan, minimum, watch, images=images)

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
            taken=line.get("taken", 0),
        )

    def _tell(self, plan: Plan, before: Measurement, now: Measurement) -> None:
        if self.observe is not None:
            self.observe(
                Event(
                    rounding=self.rounding,
                    step=self.step,
                    plan=str(plan),
                    plans=self.cost.plans + (before.seen == 0),
                    images=self.cost.images + now.seen - before.seen,
                    best=self.best,
                    seen=now.seen,
                    total=now.total,
                )
            )

    @abstractmethod
    def enough(self, plan: Plan, minimum: int) -> bool:
        """The verdict on one plan on the way; only `settled` makes sure of it."""

    @abstractmethod
    def shortest(self, plan_of: PlanOf, passing: int, minimum: int) -> int:
        """The shortest wordlength below `passing` that is enough; `passing` if none is."""

    @abstractmethod
    def settled(self, find: Callable[[], Plan], minimum: int) -> Plan:
        """The plan that a step ends with, which `find` works out by asking."""


class Fast(Answers):
    """Plans on the way are presumed to pass unless the hardest images refute them.

    A step's last plan is counted until it is certain. If it passes it vouches for those that were
    presumed or passed over: none of them has a shorter wordlength anywhere. If not, the step is
    taken again, now with that verdict, and looking longer at plans that it comes to for the first
    time.
    """

    _screens = 1
    _presumed: frozenset[Plan] = frozenset()

    def enough(self, plan: Plan, minimum: int) -> bool:
        look = max(SCREEN * (self.evaluator.total - minimum), FEWEST_SCREENED) * self._screens
        seen_enough = plan in self._presumed or _long(plan)
        verdict = self._ask(plan, minimum, 0 if seen_enough else look).verdict(minimum)
        if verdict is None:
            self._presumed |= {plan}
        return verdict is not False

    def shortest(self, plan_of: PlanOf, passing: int, minimum: int) -> int:
        if passing > SHORTEST and self.enough(plan_of(passing - 1), minimum):
            return self.shortest_of_all(plan_of, passing - 1, minimum)
        return passing

    def settled(self, find: Callable[[], Plan], minimum: int) -> Plan:
        self._screens, self._presumed = 1, frozenset()
        while self.evaluator.measured(plan := find()).verdict(minimum) is None:
            if self.at_least(plan, minimum):
                break
            self._screens *= SCREEN
        return plan


class Literal(Answers):
    """Full evaluations only."""

    def enough(self, plan: Plan, minimum: int) -> bool:
        return self.accuracy(plan) >= minimum

    def shortest(self, plan_of: PlanOf, passing: int, minimum: int) -> int:
        while passing > SHORTEST and self.enough(plan_of(passing - 1), minimum):
            passing -= 1
        return passing

    def settled(self, find: Callable[[], Plan], minimum: int) -> Plan:
        return find()


def _long(plan: Plan) -> bool:
    """Whether a plan has `LONG` wordlengths only."""
    return all(min(q.weight, q.activation, q.routing or LONG) >= LONG for q in plan.values())


def _plan_of(line: dict[str, Any], path: Path) -> Plan:
    """The plan of a journal's line; a line that is no measurement is an error."""
    try:
        if all(type(line[key]) is int for key in NUMBERS):
            float(line["seconds"])
            return Plan.from_json(line["plan"])
    except (KeyError, TypeError, ValueError, FixedPointError):
        pass
    raise SearchError(f"{path} has a line that is no measurement: remove it to start over")


MODES: dict[Mode, type[Answers]] = {"fast": Fast, "literal": Literal}
