"""The program as a whole: quick to start, one line for an error, and its exit codes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Program, refused

import qcapsnets
from qcapsnets.cli import app as program_module
from qcapsnets.cli import models as models_command
from qcapsnets.cli.options import DATASETS, MODELS, complete_dataset, complete_model
from qcapsnets.data import datasets
from qcapsnets.errors import QCapsNetsError
from qcapsnets.models import models

SCRIPT = [sys.executable, "-m", "qcapsnets"]
COMMANDS = ("data", "models", "train", "evaluate", "inspect", "demo")


def test_help_names_every_command(program: Program) -> None:
    ended = program("--help")
    assert ended.code == 0
    assert all(f" {name} " in ended.out for name in COMMANDS)


@pytest.mark.parametrize("arguments", [[], ["data"]])
def test_no_command_is_answered_with_help(program: Program, arguments: list[str]) -> None:
    ended = program(*arguments)
    assert "Usage" in ended.out + ended.err
    assert "error" not in ended.err


def test_version(program: Program) -> None:
    ended = program("--version")
    assert (ended.code, ended.out) == (0, f"qcapsnets {qcapsnets.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["boil"], "No such command 'boil'"),
        (["models", "--sugar"], "No such option: --sugar"),
        (["train"], "Missing argument"),
        (["train", "runs/x", "--epochs", "many"], "--epochs"),
        (["evaluate", "runs/x", "--split", "tset"], "--split"),
    ],
)
def test_misuse(program: Program, arguments: list[str], words: str) -> None:
    refused(program(*arguments), words)


def failing(problem: BaseException) -> Any:
    def load(*_: object, **__: object) -> None:
        raise problem

    return load


def test_our_errors_are_one_line(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "__iter__", None, raising=False)
    problem = QCapsNetsError("a message\nof two lines")
    monkeypatch.setattr("qcapsnets.models.build", failing(problem))
    refused(program("models"), "a message of two lines")


def test_a_bug_is_not_hidden(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcapsnets.models.build", failing(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        program("models")


def test_ctrl_c(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("qcapsnets.models.build", interrupt)
    ended = program("models")
    assert ended.code == 130
    assert ended.err == "interrupted: run the same command again\n"
    assert models_command.NAME in COMMANDS


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from qcapsnets.cli import main; main(['train', '--help']);"
        "sys.exit(bool({'torch', 'numpy', 'lightning_fabric', 'matplotlib'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def completed(words: str) -> list[str]:
    environment = os.environ | {
        "_QCAPSNETS_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    found = subprocess.run(
        [str(Path(sys.executable).with_name("qcapsnets"))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()


def test_a_shell_completes_commands_flags_and_names() -> None:
    assert completed("qcapsnets ev") == ["evaluate"]
    assert completed("qcapsnets train runs/x --lear") == ["--learning-rate"]
    assert completed("qcapsnets train runs/x --model deep") == ["deepcaps", "deepcaps-small"]
    assert completed("qcapsnets data show fash") == ["fashion-mnist-mini", "fashion-mnist"]


def test_names_that_are_completed_exist() -> None:
    assert set(MODELS) <= set(models)  # other tests may have registered more
    assert set(DATASETS) <= set(datasets)
    assert complete_model("") == list(MODELS)
    assert complete_dataset("mnist") == ["mnist-mini", "mnist"]


def test_completion_knows_other_packages(install: Any) -> None:
    install("extra", "def net(): ...", "qcapsnets.models", **{"extra-caps": "extra:net"})
    assert complete_model("ex") == ["extra-caps"]


def test_the_module_is_the_program() -> None:
    found = subprocess.run([*SCRIPT, "boil"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "error: No such command 'boil'.\n"


def test_every_command_has_a_file_of_its_own() -> None:
    folder = Path(program_module.__file__).parent
    assert all((folder / f"{name}.py").exists() for name in COMMANDS)
