"""Networks of the zoo: half the bytes, with what is true of them, ready to be quantized."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.conftest import Program

from qcapsnets.data import Splits
from qcapsnets.errors import ModelError
from qcapsnets.models.weights import fingerprint, load_model, save_model
from qcapsnets.training import accuracy
from tools import zoo

LOOSE = ("--tolerance", "20%", "--budget", "180kbit", "--rounding", "nearest")
QUICK = ("--workers", "1", "--calibration-images", "60", "--points", "mse", "--no-download")


@pytest.fixture(scope="session")
def kept(learned: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("zoo") / "digits.safetensors"
    return path, zoo.add(learned, path)


def test_the_file_and_what_it_says(
    kept: tuple[Path, dict[str, Any]], learned: Path, mnist_mini: Splits
) -> None:
    path, facts = kept
    assert json.loads(path.with_suffix(".json").read_text()) == facts
    content = path.read_bytes()
    assert facts["file"] == {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    assert len(content) < 0.6 * (learned / "model.safetensors").stat().st_size
    model, header = load_model(path)
    assert fingerprint(model) == facts["fingerprint"]
    assert accuracy(model, mnist_mini.test) == facts["test"]["accuracy"]
    assert header["test_accuracy"] == facts["test"]["accuracy"] > 0.5
    assert facts["test"]["right"] == round(facts["test"]["accuracy"] * 1000)
    assert (facts["data"], facts["validation"], facts["seed"]) == ("mnist-mini", 1000, 0)
    assert (facts["recipe"]["epochs"], facts["recipe"]["learning_rate"]) == (2, 0.005)
    assert facts["precision"] == "32-true"


def test_it_is_quantized_straight_away(program: Program, kept: tuple[Path, dict[str, Any]]) -> None:
    ended = program("quantize", str(kept[0]), *LOOSE, *QUICK, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["data"]["name"] == "mnist-mini"
    assert ended.json["float_test"]["accuracy"] == kept[1]["test"]["accuracy"]
    assert "bundled part" not in ended.err
    assert Path("runs/digits/result.json").exists()


def test_without_the_full_set_a_part_of_it_is_taken_and_that_is_told(
    program: Program, kept: tuple[Path, dict[str, Any]]
) -> None:
    model, facts = load_model(kept[0])
    path = Path("zoo") / "digits.safetensors"
    save_model(model, path, half=True, **facts | {"data": "mnist", "validation": 5000})
    ended = program("quantize", str(path), *LOOSE, *QUICK, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["data"]["name"] == "mnist-mini"
    words = " ".join(ended.err.split())
    assert "using mnist-mini, the bundled part of it, instead" in words
    assert "may have been trained on its validation images" in words


@pytest.mark.parametrize("given", ["folder", "file"])
def test_it_tells_of_the_network_that_its_training_began_with(
    learned: Path, kept: tuple[Path, dict[str, Any]], tmp_path: Path, given: str
) -> None:
    """A run folder is told of at length, a file by what is in it."""
    run = tmp_path / "run"
    shutil.copytree(learned, run)
    path, facts = kept
    start = learned if given == "folder" else path
    settings = (run / "settings.toml").read_text()
    (run / "settings.toml").write_text(settings.replace("[train]", f'[train]\nstart = "{start}"'))
    beginning = zoo.add(run, tmp_path / "digits.safetensors")["start"]
    if given == "folder":
        told = ("recipe", "augmentation", "precision", "training")
        assert beginning == {key: facts[key] for key in told}
    else:
        assert beginning == {"fingerprint": facts["fingerprint"]}


def test_numbers_that_float16_cannot_hold(learned: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(learned, run)
    model, facts = load_model(run / "model.safetensors")
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = 1e5
    save_model(model, run / "model.safetensors", **facts)
    with pytest.raises(ModelError, match="float16 cannot hold"):
        zoo.add(run, tmp_path / "digits.safetensors")
    assert not list(tmp_path.glob("digits*"))


@pytest.mark.parametrize(
    ("run", "file", "words"),
    [
        ("learned", "digits.bin", "must end in .safetensors"),
        ("nowhere", "digits.safetensors", "holds no finished training"),
    ],
)
def test_errors_are_one_line(
    learned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run: str,
    file: str,
    words: str,
) -> None:
    folder = learned if run == "learned" else tmp_path / run
    monkeypatch.setattr(sys, "argv", ["zoo.py", str(folder), str(tmp_path / file)])
    assert zoo.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert words in line
