"""`qcapsnets quantize`: on a small network that was trained for some seconds."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Program, refused

from qcapsnets.cli import main

LOOSE = ("--tolerance", "20%", "--budget", "180kbit", "--rounding", "nearest")
QUICK = ("--workers", "1", "--calibration-images", "60")


@pytest.fixture(scope="session")
def learned_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny network that knows something, with its settings."""
    folder = tmp_path_factory.mktemp("learned") / "digits"
    shape = ("--option", "conv_channels=8", "--option", "primary_capsules=2")
    more = ("--option", "primary_stride=4", "--epochs", "2", "--batch-size", "50")
    plain = ("--no-augment", "--decoder", "none", "--learning-rate", "0.005", "--quiet")
    arguments = ["train", str(folder), "--model", "shallowcaps-small", "--data", "mnist-mini"]
    assert main([*arguments, *shape, *more, *plain]) == 0
    return folder


@pytest.fixture
def learned(program: Program, learned_once: Path) -> Path:
    shutil.copytree(learned_once, "runs/digits")
    return Path("runs/digits")


def test_both_constraints_met(program: Program, learned: Path) -> None:
    ended = program("quantize", str(learned), *LOOSE, *QUICK)
    assert ended.code == 0, ended.err
    assert "Both constraints are met" in " ".join(ended.out.split())
    result = json.loads((learned / "result.json").read_text())
    (model,) = result["chosen"]
    assert model["weight_bits"] <= 180_000
    assert (learned / model["file"]).stat().st_size == model["file_bytes"]


def test_path_b_exits_with_1_and_leaves_two_models(program: Program, learned: Path) -> None:
    ended = program(
        "quantize", str(learned), "--tolerance", "0%", "--budget", "70kbit", "--rounding",
        "truncation", *QUICK, "--json",
    )  # fmt: skip
    assert ended.code == 1, ended.err
    names = [model["name"] for model in ended.json["chosen"]]
    assert names == ["model_memory", "model_accuracy"]
    assert "under one image" in ended.err or "of an image" in ended.err


def test_the_folder_alone_continues(program: Program, learned: Path) -> None:
    first = program("quantize", str(learned), *LOOSE, *QUICK, "--json")
    again = program("quantize", str(learned), "--workers", "1", "--json")
    assert again.code == 0, again.err
    assert again.json == first.json


def test_a_finished_search_is_reported_and_compared(program: Program, learned: Path) -> None:
    assert program("quantize", str(learned), *LOOSE, *QUICK).code == 0
    ended = program("report", str(learned), "--noise-images", "10", "--hardest", "30")
    assert ended.code == 0, ended.err
    assert "<html" in (learned / "report.html").read_text()
    shutil.copytree(learned, "runs/again")
    ended = program("compare", str(learned), "runs/again", "--out", "both")
    assert ended.code == 0, ended.err
    assert any("<html" in page.read_text() for page in Path("both").glob("*.html"))


def test_other_settings_need_another_folder(program: Program, learned: Path) -> None:
    program("quantize", str(learned), *LOOSE, *QUICK)
    refused(program("quantize", str(learned), "--tolerance", "1%"), "tolerance = '20%'", "--out")
    ended = program("quantize", str(learned), *LOOSE, *QUICK, "--seed", "5", "--out", "runs/other")
    assert ended.code == 0, ended.err
    assert Path("runs/other/result.json").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), ("no budget", "--budget 45Mbit")),
        (("--budget", "45"), ("no unit", "Mbit")),
        (("--budget", "1kbit"), ("budget", "2 bits a weight", "at least")),
        (("--budget", "1Mbit", "--tolerance", "0.2"), ("no unit", "pp")),
        (("--budget", "1Mbit", "--tolerance", "200%"), ("at most 100%",)),
        (("--budget", "1Mbit", "--rounding", "up"), ("rounding scheme 'up'", "nearest-even")),
        (("--budget", "1Mbit", "--points", "best"), ("points", "output, mse, max, unit")),
        (("--budget", "1Mbit", "--mode", "slow"), ("mode", "literal")),
        (("--budget", "1Mbit", "--data", "none"), ("unknown dataset", "mnist-mini")),
    ],
)
def test_bad_input(
    program: Program, learned: Path, flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(program("quantize", str(learned), *flags), *words)


def test_an_untrained_network_is_refused(program: Program, trained: Path) -> None:
    refused(program("quantize", str(trained), "--budget", "4Mbit"), "no better than", "train it")
