"""Several runs in one page and one table."""

from pathlib import Path

import pytest
from tests.report.conftest import Ran
from tests.report.test_document import Reader

from qcapsnets.errors import ReportError, SearchError
from qcapsnets.report import COMPARISON, TABLE, write_comparison


@pytest.fixture(scope="module")
def out(path_a: Ran, path_b: Ran, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    assert write_comparison([path_a.folder, path_b.folder], folder) == folder / COMPARISON
    return folder


def test_the_table_has_a_row_for_each_model(out: Path) -> None:
    head, rule, *rows = (out / TABLE).read_text().splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in (head, *rows)]
    assert {len(row) for row in cells} == {10}
    assert set(rule) <= set("|:- ")
    models = [(row[0].split("/")[-1], row[1]) for row in cells[1:]]
    assert models == [
        ("loose", "float"),
        ("loose", "Both constraints met"),
        ("tight", "float"),
        ("tight", "Within the budget"),
        ("tight", "At the target accuracy"),
    ]


def test_the_page_has_the_same_and_nothing_from_outside(out: Path) -> None:
    page = Reader((out / COMPARISON).read_text())
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert "2 runs compared" in page.text
    assert page.text.count("Both constraints are met") == 1
    assert "cannot both be met" in page.text


def test_one_run_is_no_comparison(path_a: Ran, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="1 run given"):
        write_comparison([path_a.folder], tmp_path)


def test_a_run_twice_is_refused(path_a: Ran, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="given twice"):
        write_comparison([path_a.folder, path_a.folder / ".." / path_a.folder.name], tmp_path)


def test_a_folder_that_is_no_run_is_refused(path_a: Ran, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"no .*result\.json"):
        write_comparison([path_a.folder, tmp_path], tmp_path)
