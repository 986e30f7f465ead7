"""The program run in this process, in a folder of its own, on a handful of digits."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from qcapsnets.cli import main
from qcapsnets.data import Splits, datasets

FAST = ("--batch-size", "20", "--no-augment", "--decoder", "none", "--reconstruction", "0")
TRAIN = ("train", "runs/digits", "--model", "shallowcaps-small", "--data", "mnist-mini", *FAST)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Program = Callable[..., Ended]


@pytest.fixture
def program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Program:
    """Run a command line in an empty folder, with an empty data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QCAPSNETS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(arguments)
        return Ended(code, *capsys.readouterr())

    return run


@contextmanager
def with_few(digits: Splits) -> Iterator[None]:
    """`mnist-mini` with 60 images to train, 20 to validate and 20 to test."""
    whole = datasets["mnist-mini"]
    parts = digits.train.select(range(80)), digits.test.select(range(20))
    few = replace(whole, read=lambda _: parts, validation=20)
    datasets.register("mnist-mini", few, replace=True)
    try:
        yield
    finally:
        datasets.register("mnist-mini", whole, replace=True)


@pytest.fixture
def few_digits(mnist_mini: Splits) -> Iterator[None]:
    with with_few(mnist_mini):
        yield


@pytest.fixture(scope="session")
def trained_once(mnist_mini: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "digits"
    command, _, *flags = TRAIN
    with with_few(mnist_mini):
        assert main([command, str(folder), *flags, "--epochs", "1", "--quiet"]) == 0
    return folder


@pytest.fixture
def trained(program: Program, few_digits: None, trained_once: Path) -> Path:
    """A run folder after one epoch."""
    shutil.copytree(trained_once, "runs/digits")
    return Path("runs/digits")


def refused(ended: Ended, *words: str) -> None:
    """One line of error with these words, and nothing else."""
    assert ended.code == 2
    assert ended.out == ""
    lines = ended.err.splitlines()
    assert lines[-1].startswith("error: ")
    assert all(line.startswith(("training ", "[")) for line in lines[:-1])
    for word in words:
        assert word in lines[-1]
