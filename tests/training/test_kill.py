"""Killed at any moment, a training goes on and ends with the same bits: real processes, killed."""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.training.processes import Job, ended, started

from qcapsnets.training.checkpoint import load_checkpoint

KILLS = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    assert ended(Job(folder)) == "done"
    return folder


def assert_same(folder: Path, expected: Path) -> None:
    """The same files, byte for byte, but for the times in the metrics."""
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in expected.iterdir())
    for name in ("model.safetensors", "checkpoint.safetensors", "training.json"):
        assert (folder / name).read_bytes() == (expected / name).read_bytes(), name
    assert metrics(folder) == metrics(expected)


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def step_of(folder: Path) -> int:
    step: int = load_checkpoint(folder / "checkpoint.safetensors").header["step"]
    return step


def test_killed_at_random_moments(whole: Path, tmp_path: Path) -> None:
    moments = random.Random(1)
    reached = []
    for _ in range(KILLS):
        with started(Job(tmp_path)) as (process, messages):
            for _ in range(moments.randint(2, 4)):
                messages.recv()
            time.sleep(moments.uniform(0, 0.02))
            process.kill()
            process.join()
            assert process.exitcode == -signal.SIGKILL
        reached.append(step_of(tmp_path))
    assert reached == sorted(reached)
    assert 0 < reached[-1] < 21
    assert ended(Job(tmp_path)) == "done"
    assert_same(tmp_path, whole)


@pytest.mark.parametrize("write", [1, 5, 6], ids=["first checkpoint", "model", "checkpoint"])
def test_killed_while_writing(whole: Path, tmp_path: Path, write: int) -> None:
    assert ended(Job(tmp_path, killed_in_write=write)) == f"ended by {signal.SIGKILL:d}"
    assert len(list(tmp_path.glob(".*.tmp"))) == 1
    assert ended(Job(tmp_path)) == "done"
    assert_same(tmp_path, whole)


def test_interrupted_by_ctrl_c(whole: Path, tmp_path: Path) -> None:
    with started(Job(tmp_path)) as (process, messages):
        while messages.recv() < 10:
            pass
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        message = messages.recv()
        while isinstance(message, int):
            message = messages.recv()
        assert message == "interrupted"
    assert list(tmp_path.glob(".*.tmp")) == []
    assert step_of(tmp_path) >= 9
    assert ended(Job(tmp_path)) == "done"
    assert_same(tmp_path, whole)


def test_a_full_disk_costs_nothing_that_was_written(whole: Path, tmp_path: Path) -> None:
    """The first checkpoint has no moments of the optimizer yet and fits; the next one does not."""
    largest = (whole / "checkpoint.safetensors").stat().st_size // 2
    message = ended(Job(tmp_path, largest_file=largest))
    assert message.startswith(f"TrainingError: cannot write {tmp_path}/checkpoint.safetensors: ")
    assert "\n" not in message
    assert list(tmp_path.glob(".*.tmp")) == []
    assert step_of(tmp_path) == 0
    assert ended(Job(tmp_path)) == "done"
    assert_same(tmp_path, whole)


def test_no_disk_at_all_is_one_line(tmp_path: Path) -> None:
    message = ended(Job(tmp_path / "run", largest_file=100))
    assert message.startswith("TrainingError: cannot write ")
    assert "\n" not in message
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
