"""What is said where: results on stdout, progress on stderr, live or in lines."""

import pytest
from tests.cli.conftest import TRAIN, Program

from qcapsnets.cli import output as output_module
from qcapsnets.cli.output import Output

Captured = pytest.CaptureFixture[str]


def test_plain_lines_when_piped(capsys: Captured) -> None:
    with Output().progress("training") as report:
        report.at(1, 100)
        report.at(50, 100, "epoch 1", milestone=True)
        report.at(100, None, "[the end]", milestone=True)
    assert capsys.readouterr().err == "training  50%  epoch 1\ntraining  [the end]\n"


def test_lines_now_and_then(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "SECONDS_BETWEEN_LINES", 0.0)
    with Output().progress("training") as report:
        report.at(1, 4, "step 1")
    assert capsys.readouterr().err == "training  25%  step 1\n"


def test_quiet(capsys: Captured) -> None:
    output = Output(quiet=True)
    output.say("on the way")
    with output.progress("training") as report:
        report.at(1, 1, milestone=True)
    output.show("the result")
    assert capsys.readouterr() == ("the result\n", "")


def test_json(capsys: Captured) -> None:
    output = Output(as_json=True)
    output.show("for people")
    output.give({"for": ["machines", "é"]})
    assert capsys.readouterr().out == '{\n  "for": [\n    "machines",\n    "é"\n  ]\n}\n'


def test_a_live_bar_in_a_terminal(
    program: Program, few_digits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    ended = program(*TRAIN, "--epochs", "1")
    assert ended.code == 0
    assert "━" in ended.err
    assert "100%" in ended.err
    assert "\x1b[" in ended.err


def test_lines_of_a_piped_training(program: Program, few_digits: None) -> None:
    ended = program(*TRAIN, "--epochs", "2")
    first, second = ended.err.splitlines()
    assert first.startswith("training shallowcaps-small  50%  epoch 1/2, loss ")
    assert "best validation" in second
    assert "\x1b[" not in ended.out + ended.err


@pytest.mark.parametrize("flags", [["--quiet"], ["--quiet", "--json"]])
def test_a_quiet_training(program: Program, few_digits: None, flags: list[str]) -> None:
    ended = program(*TRAIN, "--epochs", "1", *flags)
    assert ended.err == ""
    assert "validation" in ended.out
