"""The README and its companions: code that runs, commands that exist, links that lead somewhere."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.cli.conftest import Program

import qcapsnets
from qcapsnets.data import datasets

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def test_the_python_code(program: Program) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    before = set(datasets)
    try:
        exec(compile(code, "README.md", "exec"), {})
    finally:
        for name in set(datasets) - before:
            datasets._values.pop(name)
    assert Path("runs/mine/model.safetensors").exists()


def test_the_commands(program: Program, few_digits: None) -> None:
    lines = re.findall(r"^    qcapsnets (.*)$", README, re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line)
        words += ["--batch-size", "30"] if words[0] == "train" else []
        ended = program(*words)
        if words[1:2] and words[1].startswith("zoo/"):  # which is not in this folder
            assert (ROOT / words[1]).exists()
            assert f"there is no {words[1]}" in ended.err
        elif words[0] == "quantize":  # these few digits teach nothing worth preserving
            assert "no better than" in ended.err
        elif words[0] in ("report", "export", "verify"):  # so there is no model to look at
            assert ended.code == 2
            assert "quantize" in ended.err
        else:
            assert ended.code == 0, ended.err


def test_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^    make (\w+) ", README, re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(f"\n{name}: " in makefile for name in commands)


@pytest.mark.parametrize("page", PAGES)
def test_links(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in target or (ROOT / target).exists(), target


def test_the_command_reference_is_that_of_the_program(tmp_path: Path) -> None:
    page = tmp_path / "commands.md"
    typer = [sys.executable, "-m", "typer", "qcapsnets.cli.app", "utils", "docs"]
    named = ["--name", "qcapsnets", "--title", "Command reference", "--output", str(page)]
    subprocess.run([*typer, *named], check=True, capture_output=True)
    made = page.read_text(encoding="utf-8")
    assert (ROOT / "docs/commands.md").read_text(encoding="utf-8") == made, "run `make reference`"


def test_one_screen_of_recipes() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 45
    for recipe in ("model", "rounding scheme", "data set", "exporter"):
        assert re.search(rf"\*\*Add an? {recipe}\.\*\*", text)


def test_licence_and_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {project['version']}\n" in citation
    assert project["version"] == qcapsnets.__version__
