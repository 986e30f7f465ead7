"""`qcapsnets inspect`: a name, a run, and every kind of file."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Program, refused

from qcapsnets.data import load
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.models import build
from qcapsnets.models.weights import load_model


def test_a_name(program: Program) -> None:
    ended = program("inspect", "shallowcaps-small")
    assert ended.code == 0
    for words in ("331,840", "22.6 Mbit", "3 x 288 of 10", "digit.votes"):
        assert words in ended.out
    facts = program("inspect", "shallowcaps-small", "--json").json
    assert facts["memory"]["weight_bits"] == 32 * 705_728
    assert facts["operations"]["macs"] == 14_616_576


def test_a_plan(program: Program) -> None:
    plan = Plan.uniform(build("shallowcaps-small"), 8).replacing(routing={"digit": 3})
    Path("plan.json").write_text(json.dumps(plan.to_json()))
    assert "routing" in program("inspect", "plan.json").out
    assert program("inspect", "plan.json", "--json").json == plan.to_json()
    ended = program("inspect", "shallowcaps-small", "--plan", "plan.json")
    assert "Weights 4.00x smaller than in FP32" in ended.out


def test_a_plan_of_another_network(program: Program) -> None:
    plan = Plan.uniform(build("deepcaps-small"), 8)
    Path("plan.json").write_text(json.dumps(plan.to_json()))
    refused(program("inspect", "shallowcaps-small", "--plan", "plan.json"), "conv, primary, digit")


def test_a_run(program: Program, trained: Path) -> None:
    ended = program("inspect", "runs/digits")
    assert ended.code == 0
    for words in ("finished", "shallowcaps-small", "validation accuracy", "331,840"):
        assert words in ended.out
    facts = program("inspect", "runs/digits", "--json").json
    assert facts["settings"]["epochs"] == 1
    assert facts["model"]["epoch"] == 1


def test_every_file_of_a_run(program: Program, trained: Path) -> None:
    for path in trained.glob("[!.]*"):
        assert program("inspect", str(path)).code == 0
        assert isinstance(program("inspect", str(path), "--json").json, dict)


def test_a_calibration(program: Program, trained: Path) -> None:
    model, _ = load_model(trained / "model.safetensors")
    Calibration.record(model, load("mnist-mini").train.images[:4]).save(Path("c.safetensors"))
    ended = program("inspect", "c.safetensors")
    assert "Calibration on 4 images" in ended.out
    assert "digit.logits" in ended.out


def test_an_unfinished_run(program: Program, trained: Path) -> None:
    (trained / "training.json").unlink()
    assert "unfinished" in program("inspect", "runs/digits").out


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.pt", b"\x80\x04", "we write .safetensors, .json, .jsonl, .toml, .qcaps files"),
        ("x.safetensors", b"\x80\x04", "cannot be read as safetensors"),
        ("x.json", b"{", "is not JSON"),
        ("x.json", b"\xff", "is not JSON"),
        ("x.json", b"[1]", "holds no JSON object"),
        ("x.json", b'{"conv": {"weight": 8}}', "weight"),
        ("x.json", b'{"conv": {"weight": 99, "activation": 8}}', "weight wordlength 99"),
        ("x.toml", b"x =", "is not TOML"),
    ],
)
def test_other_files(program: Program, name: str, content: bytes, words: str) -> None:
    Path(name).write_bytes(content)
    refused(program("inspect", name), words)


def test_nothing_of_ours(program: Program) -> None:
    refused(program("inspect", "shallowcap"), "neither a file, nor a folder, nor a network")
    refused(program("inspect", "shallowcaps-small", "--plan", "no.json"), "there is no file")
    Path("empty").mkdir()
    refused(program("inspect", "empty"), "is no run folder")
