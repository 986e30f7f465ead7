"""The example in each command's help is run, and every command has one."""

import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Program
from typer.main import get_command

from qcapsnets.cli import demo
from qcapsnets.cli.app import app
from qcapsnets.data import load
from qcapsnets.export import save_packed
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import build

REFUSED = {
    "quantize": "no better than",
    "report": "run `qcapsnets quantize` first",
    "compare": "run `qcapsnets quantize` first",
}


def commands(group: Any = None, above: str = "") -> Iterator[tuple[str, Any]]:
    found: Any = group or get_command(app)
    for name, command in found.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def example(command: Any) -> list[str]:
    assert command.epilog.startswith("Example: qcapsnets ")
    return shlex.split(command.epilog.removeprefix("Example: "))[1:]


def pack(path: Path) -> None:
    """A packed model, untrained, where the example has one."""
    model = build("shallowcaps-small", conv_channels=8, primary_capsules=2)
    calibration = Calibration.record(model, load("mnist-mini").test.images[:4])
    save_packed(quantize(model, Plan.uniform(model, 6), calibration), path)


def test_examples(program: Program, few_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SETTINGS", replace(demo.SETTINGS, epochs=1))
    monkeypatch.setattr(demo, "STEPS", demo.STEPS[:2])
    found = dict(commands())
    assert {"train", "evaluate", "data show"} <= set(found)
    for name, command in found.items():  # in order: what is evaluated has been trained
        words = example(command)
        assert " ".join(words).startswith(name)
        words += ["--batch-size", "30"] if name == "train" else []
        if name == "export":  # the search found nothing, so the model comes from elsewhere
            pack(Path(words[1]))
        if name == "verify" and not shutil.which("cc"):
            continue
        ended = program(*words)
        if name in REFUSED:  # these few digits teach nothing worth preserving
            assert REFUSED[name] in ended.err
            continue
        assert (ended.code, "error" in ended.err) == (0, False), ended.err


def test_help_shows_the_example(program: Program) -> None:
    for name, _ in commands():
        ended = program(*name.split(), "--help")
        assert ended.code == 0
        assert f"Example: qcapsnets {name}" in ended.out
