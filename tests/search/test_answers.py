"""What answers make of a journal: nothing is asked twice, and nothing is forgotten."""

from pathlib import Path
from typing import Any

import pytest
from tests.search import searching
from tests.search.fakes import FakeEvaluator

from qcapsnets.errors import SearchError
from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.search import Event
from qcapsnets.search.answers import Fast
from qcapsnets.search.journal import Journal

IDENTITY = {"model": "abc"}
PLANS = [Plan({"conv": Wordlengths(q, 4)}) for q in (3, 4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "nearest.jsonl"


class Slow(FakeEvaluator):
    """Counts ten images at a time, of which all but the first `wrong` are right."""

    def __init__(self, wrong: int, total: int = 100) -> None:
        super().__init__(lambda plan: total - wrong, total)


def ask(path: Path, questions: int, events: list[Event] | None = None) -> tuple[Slow, Fast]:
    """Ask up to three questions, as a search that is killed after some would."""
    evaluator = Slow(wrong=5)
    with Journal(path, IDENTITY) as journal:
        observe = None if events is None else events.append
        made = Fast(evaluator, journal, rounding="nearest", observe=observe)  # type: ignore[arg-type]
        if questions > 0:
            assert not made.at_least(PLANS[0], 97)
        if questions > 1:
            assert made.at_least(PLANS[1], 50)
        if questions > 2:
            assert made.accuracy(PLANS[0]) == 95
    return evaluator, made


def test_every_answer_is_a_line_and_is_not_asked_again(path: Path, tmp_path: Path) -> None:
    evaluator, straight = ask(path, 3)
    assert evaluator.work == 10 + 60 + 90
    rows = [(line["from"], line["seen"], line["right"]) for line in searching.lines(path)]
    assert rows == [(0, 10, 5), (0, 60, 55), (10, 100, 95)]
    recalling, again = ask(path, 3)
    assert recalling.work == 0
    assert again.cost == straight.cost
    assert (again.cost.plans, again.cost.images) == (2, 160)


@pytest.mark.parametrize("killed_after", [0, 1, 2])
def test_a_search_goes_on_where_it_was_killed(path: Path, killed_after: int) -> None:
    first, _ = ask(path, killed_after)
    second, made = ask(path, 3)
    assert first.work + second.work == 160
    assert (made.cost.plans, made.cost.images) == (2, 160)


def test_events_tell_how_far_a_plan_is(path: Path) -> None:
    events: list[Event] = []
    ask(path, 3, events)
    assert [event.seen for event in events] == [10, *range(10, 61, 10), *range(20, 101, 10)]
    assert [event.images for event in events] == list(range(10, 161, 10))
    assert events[0].plans == 1
    assert events[-1].plans == 2
    assert {event.total for event in events} == {100}
    assert events[0].plan == "conv 3/4"


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"plan": {}, "from": 0, "seen": 1, "right": 1, "total": 2, "macs": 1},
        {"plan": 3, "from": 0, "seen": 1, "right": 1, "total": 2, "macs": 1, "seconds": 0.1},
        {"plan": {}, "from": "0", "seen": 1, "right": 1, "total": 2, "macs": 1, "seconds": 0.1},
    ],
)
def test_a_line_that_is_no_measurement(path: Path, line: dict[str, Any]) -> None:
    with Journal(path, IDENTITY) as journal:
        journal.append(line)
    with pytest.raises(SearchError, match="has a line that is no measurement"):
        ask(path, 1)
