"""Verdicts that searches share: what was ever counted of a plan, whoever asked.

Searches of one network with other tolerances and budgets ask about the same plans. How many images
are right does not depend on what is asked, so each plan is counted once, as far as any of them
needs. Counts are kept after every batch: each is a bound from either side, and a later question
stops where it would have stopped had it counted by itself. So a search with a store finds the same,
line for line of its journal, as one without; only its effort is less.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qcapsnets.errors import FixedPointError
from qcapsnets.evaluation import Evaluator, Measurement
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.search.shared import SharedLines

ARITHMETIC = 1
"""To be raised whenever the same plan comes to compute something else (docs/arithmetic.md)."""

Watch = Callable[[Measurement], None]


@dataclass
class Verdicts:
    """The counts of every plan, after each batch, in a file that searches share."""

    lines: SharedLines
    total: int
    _counts: dict[Plan, list[Measurement]] = field(default_factory=dict)

    def plans(self) -> dict[Plan, Measurement]:
        """All plans, each as far as it was counted."""
        self._refresh()
        return {plan: counts[-1] for plan, counts in self._counts.items()}

    def known(
        self, plan: Plan, minimum: int | None = None, images: int | None = None
    ) -> Measurement:
        """What is known of a plan, up to where the verdict is certain or so many are seen."""
        self._refresh()
        counts = self._counts.get(plan, [])
        enough = (count for count in counts if count.settles(minimum, images))
        return next(enough, counts[-1] if counts else Measurement(0, 0, self.total))

    def count(
        self,
        evaluator: Evaluator,
        plan: Plan,
        minimum: int | None = None,
        watch: Watch | None = None,
        *,
        images: int | None = None,
    ) -> tuple[Measurement, int]:
        """Count as the evaluator would, but compute only what is not known yet, and keep it.

        Also how many images were known.
        """
        before, found = evaluator.measured(plan), self.known(plan, minimum, images)
        taken = 0 if before.settles(minimum, images) else max(0, found.seen - before.seen)
        if taken:
            evaluator.remember(plan, found)
            if watch is not None:
                watch(found)
        return self._go_on(evaluator, plan, minimum, images, watch), taken

    def _go_on(
        self,
        evaluator: Evaluator,
        plan: Plan,
        minimum: int | None,
        images: int | None,
        watch: Watch | None,
    ) -> Measurement:
        start, counts = evaluator.measured(plan).seen, list[Measurement]()

        def note(now: Measurement) -> None:
            counts.append(now)
            if watch is not None:
                watch(now)

        after = evaluator.count(plan, minimum, note, images=images)
        if counts and start <= self.known(plan).seen:  # else there would be a gap
            self._add(plan, counts)
        return after

    def _add(self, plan: Plan, counts: list[Measurement]) -> None:
        pairs = [[count.seen, count.right] for count in counts]
        self.lines.append({"plan": plan.to_json(), "counts": pairs})

    def _refresh(self) -> None:
        """Read what was added; another process may have counted the same meanwhile."""
        for line in self.lines.new():
            plan, counts = self._read(line)
            known = self._counts.setdefault(plan, [])
            known += (c for c in counts if not known or c.seen > known[-1].seen)

    def _read(self, line: dict[str, Any]) -> tuple[Plan, list[Measurement]]:
        try:
            counts = [_measurement(self.total, *pair) for pair in line["counts"]]
            return Plan.from_json(line["plan"]), counts
        except (KeyError, TypeError, ValueError, FixedPointError):
            raise self.lines.broken() from None


def _measurement(total: int, seen: Any, right: Any) -> Measurement:
    if not (type(seen) is type(right) is int and 0 <= right <= seen and 0 < seen <= total):
        raise ValueError
    return Measurement(seen, right, total)
