"""`report` and `compare` as commands, on finished runs."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
import typer
from rich.console import Console
from tests.report.conftest import Ran
from typer.testing import CliRunner

from qcapsnets.cli import compare, report
from qcapsnets.cli.output import Output
from qcapsnets.data import datasets
from qcapsnets.data.spec import DatasetSpec
from qcapsnets.errors import SearchError
from qcapsnets.models.weights import save_model
from qcapsnets.report import Comparison


def program() -> typer.Typer:
    app = typer.Typer()
    for module in (report, compare):
        app.command(module.NAME, epilog=module.EXAMPLE)(module.command)
    return app


@pytest.fixture
def digits(path_a: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs' own images, by a name."""
    test, train = path_a.splits.test, path_a.splits.train
    spec = DatasetSpec("report-digits", lambda _: (train, test), validation=200)
    monkeypatch.setitem(datasets._values, spec.name, spec)


@pytest.fixture
def folder(path_a: Ran, digits: None, tmp_path: Path) -> Path:
    """A finished search of a network that lies elsewhere."""
    shutil.copytree(path_a.folder, tmp_path / "run")
    save_model(path_a.model, tmp_path / "network.safetensors")
    settings = f'[quantize]\nnetwork = "{tmp_path}/network.safetensors"\ndata = "report-digits"\n'
    (tmp_path / "run" / "settings.toml").write_text(settings + 'budget = "200kbit"\n')
    return tmp_path / "run"


def test_report(folder: Path) -> None:
    arguments = ["report", str(folder), "--noise-images", "10", "--hardest", "20", "--json"]
    ended = CliRunner().invoke(program(), arguments)
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["report"] == str(folder / "report.html")
    text = (folder / "report.html").read_text()
    assert f"qcapsnets quantize {folder.parent}/network.safetensors" in text


def test_a_search_that_is_not_finished_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="quantize"):
        report.report(tmp_path, Output(quiet=True))


def test_compare(path_a: Ran, path_b: Ran, tmp_path: Path) -> None:
    folders = [str(path_a.folder), str(path_b.folder)]
    ended = CliRunner().invoke(program(), ["compare", *folders, "--out", str(tmp_path), "--json"])
    assert ended.exit_code == 0, ended.output
    assert (tmp_path / "comparison.md").read_text().startswith("| run | model |")
    told = json.loads(ended.stdout)
    assert told["page"] == str(tmp_path / "comparison.html")
    assert len(told["runs"]) == 2


def test_a_comparison_has_a_view_for_terminals(path_a: Ran, path_b: Ran) -> None:
    console = Console(width=200, record=True, file=StringIO())
    console.print(Comparison.read([path_a.folder, path_b.folder]))
    text = console.export_text()
    assert "Within the budget" in text
    assert text.count("float") == 2
