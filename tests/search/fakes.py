"""Accuracy as a plain function of the plan: answers without networks or images."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from qcapsnets.evaluation import Evaluator, Measurement
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.search import Answers
from qcapsnets.search.answers import MODES
from qcapsnets.search.journal import Journal
from qcapsnets.search.settings import Mode

Accuracy = Callable[[Plan], int]


class FakeEvaluator:
    """Counts ten images at a time, as many of them right as a function says.

    The wrong ones come first, as if hard images were all that mattered; or last, where a look at
    the first ones says nothing.
    """

    def __init__(self, accuracy: Accuracy, total: int, *, wrong_last: bool = False) -> None:
        self.right, self.total, self.wrong_last = accuracy, total, wrong_last
        self.known: dict[Plan, Measurement] = {}
        self.asked: list[Plan] = []
        self.work = 0

    def measured(self, plan: Plan) -> Measurement:
        return self.known.get(plan, Measurement(0, 0, self.total))

    def remember(self, plan: Plan, measurement: Measurement) -> None:
        self.known[plan] = measurement

    def count(
        self,
        plan: Plan,
        minimum: int | None = None,
        watch: Any = None,
        *,
        images: int | None = None,
    ) -> Measurement:
        now, right = self.measured(plan), self.right(plan)
        self.asked.append(plan)
        while not now.settles(minimum, images):
            seen = min(now.seen + 10, self.total)
            self.work += seen - now.seen
            first = min(seen, right) if self.wrong_last else max(0, seen - self.total + right)
            now = Measurement(seen, first, self.total)
            watch(now)
        self.known[plan] = now
        return now


class FakeJournal:
    """Keeps lines in memory."""

    path = Path("nowhere")

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def append(self, line: dict[str, Any]) -> None:
        self.lines.append(line)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.lines)


def answers(
    accuracy: Accuracy, total: int, mode: Mode = "fast", *, wrong_last: bool = False
) -> Answers:
    """Answers to a strategy from a function."""
    evaluator = cast(Evaluator, FakeEvaluator(accuracy, total, wrong_last=wrong_last))
    return MODES[mode](evaluator, cast(Journal, FakeJournal()), rounding="nearest")


def asked(made: Answers) -> list[Plan]:
    """The plans that were evaluated, in order; one whose count went on comes again."""
    return cast(FakeEvaluator, made.evaluator).asked
