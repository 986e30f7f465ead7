"""One store for many searches: nothing is counted twice, and nothing but the effort changes."""

import sys
from pathlib import Path
from typing import Any, cast

import pytest
from tests.search import searching
from tests.search.searching import result_in
from tests.search.test_answers import PLANS, Slow

from qcapsnets.data import Splits
from qcapsnets.errors import SearchError
from qcapsnets.evaluation import Evaluator, Measurement
from qcapsnets.framework import JOURNALS, Result
from qcapsnets.models import CapsNet
from qcapsnets.search import Tolerance
from qcapsnets.search.shared import SharedLines
from qcapsnets.search.verdicts import Verdicts

ROUNDINGS = ("nearest", "stochastic")
CONSTRAINTS: list[dict[str, Any]] = [
    {"tolerance": Tolerance(tolerance), "budget": budget}
    for tolerance in (0.02, 0.1)
    for budget in (100_000, 200_000)
]


def store(folder: Path, total: int = 100) -> Verdicts:
    return Verdicts(SharedLines(folder, "nearest", {"model": "abc"}), total)


def count(verdicts: Verdicts, slow: Slow, minimum: int | None) -> tuple[Measurement, int, int]:
    """What was measured, how many images of it were known, and how many were computed."""
    work = slow.work
    measured, taken = verdicts.count(cast(Evaluator, slow), PLANS[0], minimum, lambda _: None)
    return measured, taken, slow.work - work


def test_another_search_is_answered_from_bounds(tmp_path: Path) -> None:
    slow = Slow(wrong=5)
    assert count(store(tmp_path), slow, 50) == (Measurement(60, 55, 100), 0, 60)
    for minimum, stops in [(50, 60), (96, 10), (1, 10), (55, 60)]:
        stopped = Measurement(stops, stops - 5, 100)
        assert count(store(tmp_path), Slow(wrong=5), minimum) == (stopped, stops, 0)
        assert count(store(tmp_path / "new"), Slow(wrong=5), minimum)[0] == stopped


def test_counting_goes_on_where_another_search_stopped(tmp_path: Path) -> None:
    count(store(tmp_path), Slow(wrong=5), 50)
    assert count(store(tmp_path), Slow(wrong=5), 70) == (Measurement(80, 75, 100), 60, 20)
    assert count(store(tmp_path), Slow(wrong=5), None) == (Measurement(100, 95, 100), 80, 20)
    assert store(tmp_path).plans() == {PLANS[0]: Measurement(100, 95, 100)}


def test_searches_side_by_side_see_each_other(tmp_path: Path) -> None:
    first, second = store(tmp_path), store(tmp_path)
    count(first, Slow(wrong=5), 50)
    assert count(second, Slow(wrong=5), 50)[1:] == (60, 0)


def test_what_both_counted_is_kept_once(tmp_path: Path) -> None:
    first = store(tmp_path)
    count(first, Slow(wrong=5), 50)
    again = first.lines.path.read_text().splitlines()[1]
    with first.lines.path.open("a") as file:
        file.write(again + "\n")
    known = store(tmp_path)
    assert known.known(PLANS[0]) == Measurement(60, 55, 100)
    assert len(known._counts[PLANS[0]]) == 6


def test_no_gap_is_kept(tmp_path: Path) -> None:
    """An evaluator that knows more than the store, as after a journal from before it."""
    slow, verdicts = Slow(wrong=5), store(tmp_path)
    slow.remember(PLANS[0], Measurement(30, 25, 100))
    assert count(verdicts, slow, 50)[0] == Measurement(60, 55, 100)
    assert verdicts.plans() == {}


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"plan": 3, "counts": [[10, 5]]},
        {"plan": PLANS[0].to_json(), "counts": [[10]]},
        {"plan": PLANS[0].to_json(), "counts": 7},
        {"plan": PLANS[0].to_json(), "counts": [[10, 11]]},
        {"plan": PLANS[0].to_json(), "counts": [[110, 11]]},
        {"plan": PLANS[0].to_json(), "counts": [["10", 1]]},
    ],
)
def test_a_line_that_is_no_verdict(tmp_path: Path, line: dict[str, Any]) -> None:
    verdicts = store(tmp_path)
    verdicts.lines.append(line)
    with pytest.raises(SearchError, match=r"line 2 of .* is damaged"):
        verdicts.plans()


def computed(result: Result) -> int:
    """Images that a run really evaluated."""
    steps = [step for scheme in result.schemes for step in scheme.steps]
    needed = sum(step["cost"]["images"] for step in steps)
    return int(needed - sum(step["effort"]["images_taken"] for step in steps))


def test_runs_find_the_same_with_less_effort(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    """Same results and journals as alone; together, no image of a plan is computed twice."""
    spent = alone = 0
    for number, constraints in enumerate(CONSTRAINTS):
        folders = tmp_path / f"alone{number}", tmp_path / f"together{number}"
        for folder, verdicts in zip(folders, (None, tmp_path / "verdicts"), strict=True):
            result = searching.search(
                net, digits, folder, verdicts=verdicts, roundings=ROUNDINGS, **constraints
            )
            if verdicts is None:
                alone += computed(result)
            else:
                spent += computed(result)
        assert result_in(folders[0]) == result_in(folders[1])
        for name in ROUNDINGS:
            here, there = (searching.lines(f / JOURNALS / f"{name}.jsonl") for f in folders)
            assert here == there
    assert spent == sum(map(furthest, (tmp_path / "verdicts").glob("[ns]*.jsonl")))
    assert spent < 0.7 * alone


def furthest(path: Path) -> int:
    """Images of all plans in a store, each counted once."""
    seen: dict[str, int] = {}
    for line in searching.lines(path):
        key = str(line["plan"])
        assert line["counts"][0][0] > seen.get(key, 0)
        seen[key] = line["counts"][-1][0]
    return sum(seen.values())


def test_a_search_of_another_network_takes_nothing(
    net: CapsNet, digits: Splits, tmp_path: Path
) -> None:
    verdicts = tmp_path / "verdicts"
    changed: list[dict[str, Any]] = [{}, {"points": "max"}, {"seed": 1}]
    for name, changes in zip("abc", changed, strict=True):
        result = searching.search(net, digits, tmp_path / name, verdicts=verdicts, **changes)
        assert all(s["effort"]["images_taken"] == 0 for s in result.schemes[0].steps)
    assert len(list(verdicts.glob("nearest-*.jsonl"))) == 3


def test_a_killed_search_goes_on_with_its_store(
    net: CapsNet, digits: Splits, tmp_path: Path
) -> None:
    """The journal loses its last lines and the store does not, or the other way round."""
    folder, verdicts = tmp_path / "run", tmp_path / "verdicts"
    searching.search(net, digits, folder, verdicts=verdicts)
    before = result_in(folder)
    journal, (kept,) = folder / JOURNALS / "nearest.jsonl", verdicts.glob("nearest-*.jsonl")
    for path in (journal, kept):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        result = searching.search(net, digits, folder, verdicts=verdicts)
        assert result_in(folder) == before
        if path == journal:
            assert sum(s["effort"]["images_taken"] for s in result.schemes[0].steps) > 0


def test_test_images_are_evaluated_once(
    net: CapsNet, digits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = tmp_path / "verdicts"
    first = searching.search(net, digits, tmp_path / "a", verdicts=verdicts)
    monkeypatch.setattr(sys.modules["qcapsnets.framework.run"], "predict", None)
    second = searching.search(net, digits, tmp_path / "b", verdicts=verdicts)
    assert second.chosen == first.chosen
    assert second.float_test == first.float_test
    (kept,) = verdicts.glob("test-*.jsonl")
    kept.write_text(kept.read_text().replace('"wrong": [', '"wrong": [-1, '))
    with pytest.raises(SearchError, match="is damaged"):
        searching.search(net, digits, tmp_path / "c", verdicts=verdicts)
