"""Metrics: lines that are whole, up to the step from which a training goes on."""

from pathlib import Path

import pytest

from qcapsnets.errors import TrainingError
from qcapsnets.training.metrics import Metrics


@pytest.fixture
def metrics(tmp_path: Path) -> Metrics:
    return Metrics(tmp_path / "metrics.jsonl")


def test_lines_are_read_back_in_order(metrics: Metrics) -> None:
    metrics.append(step=1, loss=0.5)
    metrics.append(step=2, validation_accuracy=0.25)
    assert metrics.read() == [{"step": 1, "loss": 0.5}, {"step": 2, "validation_accuracy": 0.25}]
    assert metrics.path.read_text().count("\n") == 2


def test_there_are_none_before_the_first(metrics: Metrics) -> None:
    assert metrics.read() == []


def test_rewinding_drops_what_will_be_repeated_and_tells_the_time(metrics: Metrics) -> None:
    for step in (10, 20, 30):
        metrics.append(step=step, seconds=step / 10)
    assert metrics.rewind(20) == 2.0
    assert [line["step"] for line in metrics.read()] == [10, 20]


def test_rewinding_makes_the_file(metrics: Metrics) -> None:
    assert metrics.rewind(0) == 0
    assert metrics.path.read_text() == ""


@pytest.mark.parametrize("garbage", ['{"step": 3, "lo', "\x00\x00\n", "12\n", "{}\n", "\udcff\n"])
def test_what_a_kill_left_over_is_left_out(metrics: Metrics, garbage: str) -> None:
    metrics.append(step=1)
    with metrics.path.open("ab") as file:
        file.write(garbage.encode(errors="surrogateescape"))
    assert metrics.read() == [{"step": 1}]
    metrics.rewind(5)
    metrics.append(step=2)
    assert metrics.read() == [{"step": 1}, {"step": 2}]


def test_a_folder_in_its_place_is_an_error(metrics: Metrics) -> None:
    metrics.path.mkdir()
    with pytest.raises(TrainingError, match=r"cannot read .*metrics\.jsonl"):
        metrics.rewind(0)
    with pytest.raises(TrainingError, match=r"cannot write .*metrics\.jsonl"):
        metrics.append(step=1)
