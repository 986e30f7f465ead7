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
    """Counts at once what a function says; asking for more than that is an error."""

    def __init__(self, accuracy: Accuracy, total: int) -> None:
        self.right, self.total = accuracy, total
        self.known: dict[Plan, Measurement] = {}
        self.asked: list[Plan] = []
        self.work = 0

    def measured(self, plan: Plan) -> Measurement:
        return self.known.get(plan, Measurement(0, 0, self.total))

    def remember(self, plan: Plan, measurement: Measurement) -> None:
        self.known[plan] = measurement

    def count(self, plan: Plan, minimum: int | None = None, watch: Any = None) -> Measurement:
        self.asked.append(plan)
        self.known[plan] = Measurement(self.total, self.right(plan), self.total)
        return self.known[plan]


class FakeJournal:
    """Keeps lines in memory."""

    path = Path("nowhere")

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def append(self, line: dict[str, Any]) -> None:
        self.lines.append(line)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.lines)


def answers(accuracy: Accuracy, total: int, mode: Mode = "fast") -> Answers:
    """Answers to a strategy from a function."""
    evaluator = cast(Evaluator, FakeEvaluator(accuracy, total))
    return MODES[mode](evaluator, cast(Journal, FakeJournal()), rounding="nearest")


def asked(made: Answers) -> list[Plan]:
    """The plans that were evaluated, in order."""
    return cast(FakeEvaluator, made.evaluator).asked
