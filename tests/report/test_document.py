"""The report as a file: complete, true to the run, and refused where it would not be."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests import networks
from tests.report.conftest import Ran, report_of

from qcapsnets.data import Splits
from qcapsnets.errors import ReportError
from qcapsnets.report import FIGURES, REPORT, words, write_report
from qcapsnets.report.notes import _passed_over
from qcapsnets.report.page import plotly_bundle


class Reader(HTMLParser):
    """What a page says, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.inside = ""
        self.json = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inside = f"{tag}#{given.get('id')}"
        self.addresses += [a for name in ("src", "href") if (a := given.get(name))]

    def handle_data(self, data: str) -> None:
        if self.inside == "script#charts":
            self.json += data
        elif not self.inside.startswith(("script", "style")):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(path_a: Ran, report_a: Path) -> Reader:
    assert report_a == path_a.folder / REPORT
    return Reader(report_a.read_text())


@pytest.fixture(scope="module")
def page_b(report_b: Path) -> Reader:
    return Reader(report_b.read_text())


def test_the_page_refers_to_nothing_outside(page: Reader) -> None:
    assert page.addresses
    assert all(address.startswith(("#", "data:")) for address in page.addresses)


def test_the_page_forbids_itself_every_request(report_a: Path) -> None:
    text = report_a.read_text()
    assert "default-src 'none'" in text
    assert "connect-src" not in text


def test_links_lead_to_sections(report_a: Path, page: Reader) -> None:
    text = report_a.read_text()
    inner = [address for address in page.addresses if address.startswith("#")]
    assert len(inner) == 8
    assert all(f'id="{address[1:]}"' in text for address in inner)


def test_the_verdict_comes_first(path_a: Ran, page: Reader) -> None:
    text = page.text.replace(words.SPACE, " ")
    verdict = " ".join(words.verdict(path_a.result).split()).replace(words.SPACE, " ")
    assert verdict in text
    assert text.index(verdict) < text.index("Float against quantized")


def test_what_was_found_is_told(path_a: Ran, page: Reader) -> None:
    (model,) = path_a.result.chosen
    for measured in (path_a.result.float_test, model.test):
        assert measured is not None
        assert words.percent(measured.accuracy) in page.text
        assert words.interval(measured) in page.text
    for scheme in path_a.result.schemes:
        for step in scheme.steps:
            assert words.sentence(step["decision"]) in page.text
    for site, format in model.formats.items():
        assert site in page.text
        assert format in page.text
    assert "--tolerance 3% --budget 200000bit --rounding truncation,nearest" in page.text


def test_charts_are_json_that_a_browser_reads(page: Reader, page_b: Reader) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    names = {"wordlengths", "memory", "noise", "saturated", "zeros"}
    charts = json.loads(page.json, parse_constant=refuse)
    assert set(charts) == {"plans"} | {f"{name}-model_satisfied" for name in names}
    assert len(json.loads(page_b.json, parse_constant=refuse)) == 1 + 2 * len(names)


def test_a_smaller_model_that_was_passed_over_is_named(path_a: Ran) -> None:
    result = path_a.result
    assert _passed_over(result) == ""
    other = next(scheme for scheme in result.schemes if scheme.path == "B")
    small = replace(other.models[1], meets_accuracy=True, meets_budget=True, weight_bits=9_000)
    schemes = (*result.schemes, replace(other, models=(other.models[0], small)))
    note = _passed_over(replace(result, schemes=schemes)).replace(words.SPACE, " ")
    assert f"passes over a smaller model: {other.rounding} (at the target accuracy)" in note
    assert "9 kbit" in note


def test_both_models_of_path_b_are_shown(page_b: Reader) -> None:
    assert page_b.text.count("Within the budget") > 3
    assert page_b.text.count("At the target accuracy") > 3


def test_figures_lie_beside_it(path_a: Ran, report_a: Path) -> None:
    folder = path_a.folder / FIGURES
    names = {f"{name}-model_satisfied" for name in ("wordlengths", "memory", "noise")} | {"plans"}
    assert {path.stem for path in folder.glob("*.svg")} == names
    assert {path.stem for path in folder.glob("*.png")} == names
    for path in folder.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_same_run_gives_the_same_bytes(path_a: Ran, report_a: Path) -> None:
    def written() -> dict[str, bytes]:
        files = [report_a, *(path_a.folder / FIGURES).iterdir()]
        return {file.name: file.read_bytes() for file in files}

    before = written()
    report_of(path_a)
    assert written() == before


def test_another_network_is_refused(path_a: Ran) -> None:
    with pytest.raises(ReportError, match="give the network that was quantized"):
        write_report(path_a.folder, networks.tiny(seed=9), path_a.splits)


def test_other_images_are_refused(path_a: Ran) -> None:
    given = path_a.splits
    other = Splits(given.train, given.validation, given.validation)
    with pytest.raises(ReportError, match="give the same data"):
        write_report(path_a.folder, path_a.model, other)


def test_names_cannot_break_the_page(path_a: Ran, tmp_path: Path) -> None:
    shutil.copytree(path_a.folder, tmp_path / "run")
    result = tmp_path / "run" / "result.json"
    value = json.loads(result.read_text())
    value["data"]["name"] = "</script><script>alert(1)</script>"
    result.write_text(json.dumps(value))
    path = write_report(tmp_path / "run", path_a.model, path_a.splits, noise_images=10, hardest=10)
    assert "<script>alert(1)" not in path.read_text()


def test_the_bundle_is_a_third_of_the_script() -> None:
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", plotly_bundle())
    assert len(plotly_bundle()) < 2_200_000
