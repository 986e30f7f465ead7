"""`qcapsnets evaluate`."""

import shutil
from pathlib import Path

import pytest
import torch
from tests.cli.conftest import Program, refused

from qcapsnets.cli.evaluate import Evaluation
from qcapsnets.data import load, register
from qcapsnets.data.catalogue import datasets
from qcapsnets.evaluation.statistics import wilson
from qcapsnets.models.weights import load_model
from qcapsnets.training import accuracy


def test_a_run(program: Program, trained: Path) -> None:
    model, _ = load_model(trained / "model.safetensors")
    images = load("mnist-mini").test
    found = program("evaluate", "runs/digits", "--split", "test", "--json").json
    assert found["accuracy"] == accuracy(model, images)
    assert found["images"] == 20
    assert found["interval_95"] == list(wilson(found["right"], 20))
    assert (found["data"], found["split"]) == ("mnist-mini", "test")


def test_for_people(program: Program, trained: Path) -> None:
    ended = program("evaluate", "runs/digits", "--split", "validation")
    assert ended.code == 0
    assert "of 20" in ended.out
    assert "95 % interval" in ended.out


def test_a_file(program: Program, trained: Path) -> None:
    by_run = program("evaluate", "runs/digits", "--json")
    assert program("evaluate", "runs/digits/model.safetensors", "--json").out == by_run.out
    shutil.copy(trained / "model.safetensors", "alone.safetensors")
    refused(program("evaluate", "alone.safetensors"), "does not say what it was trained on")
    named = program("evaluate", "alone.safetensors", "--data", "mnist-mini", "--json")
    assert named.out == by_run.out


def test_the_interval_of_the_example_in_the_text() -> None:
    """20 images in 10,000 are what a tolerance of 0.2 % means."""
    low, high = Evaluation("x", "mnist", "test", 10_000, 9_950).interval
    assert low == pytest.approx(0.9934, abs=1e-4)
    assert high == pytest.approx(0.9962, abs=1e-4)


def test_no_run(program: Program, few_digits: None) -> None:
    refused(program("evaluate", "runs/none"), "there is no runs/none")
    Path("empty").mkdir()
    refused(program("evaluate", "empty"), "is no run folder, it lacks model.safetensors")


def test_a_training_without_an_epoch(program: Program, trained: Path) -> None:
    (trained / "model.safetensors").unlink()
    refused(program("evaluate", "runs/digits"), "`qcapsnets train runs/digits` continues it")


def test_a_file_of_something_else(program: Program, trained: Path) -> None:
    (trained / "model.safetensors").write_bytes(b"\x80\x04 a pickle, perhaps")
    refused(program("evaluate", "runs/digits"), "cannot be read as safetensors")
    shutil.copy(trained / "checkpoint.safetensors", trained / "model.safetensors")
    refused(program("evaluate", "runs/digits"), "another model")


def test_images_of_another_size(program: Program, trained: Path) -> None:
    images, labels = torch.zeros(20, 6, 6, dtype=torch.uint8), torch.arange(20) % 10
    register("little", (images, labels), (images, labels))
    try:
        refused(program("evaluate", "runs/digits", "--data", "little"), "6x6", "resize")
    finally:
        datasets._values.pop("little")
