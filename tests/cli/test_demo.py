"""`qcapsnets demo`: its steps, on a handful of digits; the real one is timed with `-m slow`."""

import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Program

from qcapsnets.cli import demo


@pytest.fixture
def short(few_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SETTINGS", replace(demo.SETTINGS, epochs=1, batch_size=30))
    monkeypatch.setattr(demo, "STEPS", demo.STEPS[:2])  # a search needs a network that learned


def test_demo(program: Program, short: None) -> None:
    ended = program("demo")
    assert ended.code == 0
    assert "[1/2] Train shallowcaps-small on mnist-mini" in ended.err
    assert "of 20" in ended.out
    assert ended.out.splitlines()[-1] == "Everything is in runs/demo"
    assert Path("runs/demo/model.safetensors").exists()


def test_a_second_call_has_nothing_to_train(program: Program, short: None) -> None:
    first = program("demo", "elsewhere", "--json")
    again = program("demo", "elsewhere", "--json")
    assert first.out == again.out
    assert first.json["run"] == "elsewhere"
    assert first.json["test"]["images"] == 20
    assert "epoch" not in again.err


@pytest.mark.slow
def test_the_real_one(tmp_path: Path) -> None:
    """At least 98 % of the test images, and a verdict, within 4 minutes of 2 cores."""
    command = [sys.executable, "-m", "qcapsnets", "demo", "--json", "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    results = json.loads(ended.stdout)
    assert results["test"]["accuracy"] >= 0.98
    assert results["search"]["path"] == "A"
    assert after - before < 2 * 240
