"""Reading a run folder: what was written comes back, and what is broken is refused."""

import json
import shutil
from pathlib import Path

import pytest
from tests.report.conftest import Ran

from qcapsnets.errors import ReportError
from qcapsnets.report.finished import Evaluated, Finished


def test_a_result_comes_back_as_it_was(path_a: Ran, path_b: Ran) -> None:
    for ran in (path_a, path_b):
        found = Finished.read(ran.folder).result
        assert found.chosen == ran.result.chosen
        assert json.dumps(found.to_json()) == json.dumps(ran.result.to_json())


def test_every_plan_of_the_journals_is_there_once(path_a: Ran) -> None:
    evaluated = Finished.read(path_a.folder).evaluated
    plans = [(found.rounding, found.plan) for found in evaluated]
    assert len(set(plans)) == len(plans)
    for scheme in path_a.result.schemes:
        own = [found for found in evaluated if found.rounding == scheme.rounding]
        assert len(own) == sum(step["cost"]["plans"] for step in scheme.steps)
        settled = {str(found.plan): found for found in own if found.complete}
        for step in scheme.steps:
            found = next(f for f in settled.values() if f.plan.to_json() == step["plan"])
            assert found.low == found.high == step["accuracy"]


def test_a_bound_is_what_the_images_not_seen_leave_open(path_a: Ran) -> None:
    plan = Finished.read(path_a.folder).evaluated[0].plan
    found = Evaluated("nearest", "1", plan, seen=50, right=20, total=200)
    assert (found.low, found.high, found.complete) == (0.1, 0.85, False)


@pytest.fixture
def copied(path_a: Ran, tmp_path: Path) -> Path:
    shutil.copytree(path_a.folder, tmp_path / "run")
    return tmp_path / "run"


def test_a_plan_that_was_counted_further_keeps_its_first_step(copied: Path) -> None:
    before = Finished.read(copied).evaluated
    first = next(found for found in before if not found.complete)
    journal = copied / "journal" / f"{first.rounding}.jsonl"
    line = {"plan": first.plan.to_json(), "step": "9", "from": first.seen, "seen": first.total}
    with journal.open("a") as file:
        file.write(json.dumps(line | {"right": 7, "total": first.total}) + "\n")
    after = Finished.read(copied).evaluated
    assert len(after) == len(before)
    again = next(f for f in after if f.plan == first.plan and f.rounding == first.rounding)
    assert (again.step, again.right, again.complete) == (first.step, 7, True)


def test_a_line_that_was_cut_short_ends_a_journal(copied: Path) -> None:
    before = Finished.read(copied).evaluated
    with (copied / "journal" / "nearest.jsonl").open("a") as file:
        file.write('{"plan": {"conv"')
    assert Finished.read(copied).evaluated == before


def test_a_folder_without_a_journal_is_refused(copied: Path) -> None:
    (copied / "journal" / "nearest.jsonl").unlink()
    with pytest.raises(ReportError, match=r"nearest\.jsonl.*mends it"):
        Finished.read(copied)


@pytest.mark.parametrize("part", ["chosen", "float_test", "schemes"])
def test_a_result_with_a_part_missing_is_refused(copied: Path, part: str) -> None:
    path = copied / "result.json"
    value = json.loads(path.read_text())
    del value[part]
    path.write_text(json.dumps(value))
    with pytest.raises(ReportError, match="lacks a part of a result"):
        Finished.read(copied)


def test_a_result_with_a_part_too_many_is_refused(copied: Path) -> None:
    path = copied / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"wizardry": 1}))
    with pytest.raises(ReportError, match="wizardry"):
        Finished.read(copied)
