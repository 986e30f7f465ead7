"""The table in small: a network of some thousand weights, a hundred digits, every kind of row."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
import torch
from tools.results.__main__ import main
from tools.results.bench import Bench
from tools.results.page import write_page
from tools.results.rows import Run, smallest
from tools.results.section import Section, read_section
from tools.results.sweeps import Curve, curves, read_sweeps
from tools.results.wanted import Network, Wanted, read_wanted

from qcapsnets.models.weights import save_model
from qcapsnets.search.verdicts import Verdicts
from tools import zoo

ROOT = Path(__file__).parents[2]
WANTED = """
search_images = 100
sweep_images = 60
calibration_images = 60
tolerances = ["1%", "20%"]
budgets = [4, 15]
all_schemes_tolerance = "20%"
all_schemes_budgets = [4]
wordlengths = [8, 3]
seeds = 2

[[network]]
name = "small"
title = "A small ShallowCaps"
weights = "small.safetensors"
data = "mnist-mini"
published = "shallowcaps-mnist"
own_budgets = ["180kbit"]
by_size_budgets = [4]
literal = true

[[network]]
name = "missing"
title = "A network that nobody trained"
weights = "missing.safetensors"
data = "mnist-mini"
"""
SEARCHES = [
    "nearest-1-1of4", "nearest-1-1of15", "nearest-20-1of4", "nearest-20-1of15",
    "all-20-1of4", "all-20-180kbit", "literal-20-1of4",
    "by-size-1-1of4", "by-size-20-1of4", "by-size-20-180kbit",
]  # fmt: skip


@pytest.fixture(scope="module")
def home(learned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a zoo of one network."""
    folder = tmp_path_factory.mktemp("results")
    zoo.add(learned, folder / "zoo" / "small.safetensors")
    (folder / "zoo" / "results.toml").write_text(WANTED)
    return folder


def arguments(home: Path, *more: str) -> list[str]:
    wanted = ["--wanted", str(home / "zoo" / "results.toml"), "--workers", "1"]
    return [*wanted, "--results", str(home / "runs"), "--docs", str(home / "docs"), *more]


def started(home: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tools.results", *arguments(home)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def made(home: Path) -> Path:
    """Made in three goes: killed in its first search, stopped by Ctrl-C in a later one, ended."""
    killed = started(home)
    wait_for(home, killed, "*/verdicts/nearest-*.jsonl")
    killed.kill()
    killed.communicate()
    assert not list(home.glob("docs/*"))
    stopped = started(home)
    wait_for(home, stopped, "*/nearest-20-1of4/journal/nearest.jsonl")
    stopped.send_signal(signal.SIGINT)
    assert "the same command goes on from here" in stopped.communicate()[1]
    assert stopped.returncode == 130
    assert main(arguments(home, "--quiet")) == 0
    return home


def wait_for(home: Path, process: "subprocess.Popen[str]", pattern: str) -> None:
    end = time.monotonic() + 60
    while not list((home / "runs").glob(pattern)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def folder(made: Path) -> Path:
    (found,) = (made / "runs").iterdir()
    return found


@pytest.fixture(scope="module")
def page(made: Path) -> str:
    return (made / "docs" / "results.md").read_text()


@pytest.fixture(scope="module")
def section(made: Path) -> Section:
    wanted = read_wanted(made / "zoo" / "results.toml")
    found = read_section(wanted.networks[0], wanted, made / "runs")
    assert found is not None
    return found


def test_every_search_and_every_sweep_is_there(folder: Path, made: Path) -> None:
    assert {path.parent.name for path in folder.glob("*/result.json")} == set(SEARCHES)
    wanted = read_wanted(made / "zoo" / "results.toml")
    files = {curve.file for curve in curves(wanted.networks[0], wanted)}
    assert {path.name for path in (folder / "sweeps").iterdir()} == files
    assert len(files) == 3 * (3 + 2) + 2


def test_an_interrupted_table_is_that_of_one_go(made: Path, folder: Path, tmp_path: Path) -> None:
    """A search by itself, without a store, finds what it found among the others."""
    wanted = read_wanted(made / "zoo" / "results.toml")
    network = wanted.networks[0]
    bench = Bench.of(network, wanted, tmp_path)
    for search in list(wanted.searches(network))[2:3]:
        bench.run(search, 1)
        there = (folder / search.folder / "result.json").read_text()
        here = (tmp_path / folder.name / search.folder / "result.json").read_text()
        assert without_effort(here) == without_effort(there)


def without_effort(text: str) -> str:
    return re.sub(r'"effort": \{[^}]*\}', "", text)


def test_what_is_there_is_skipped(
    made: Path, folder: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.results.bench.run", None)
    monkeypatch.setattr(Verdicts, "count", None)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert main(arguments(made, "--quiet")) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (made / "docs" / "results.md").read_text() == page


def test_no_plan_was_evaluated_twice(folder: Path) -> None:
    for path in (folder / "verdicts").glob("*-*.jsonl"):
        seen: dict[str, int] = {}
        for line in map(json.loads, path.read_text().splitlines()[1:]):
            if "counts" in line:
                assert line["counts"][0][0] > seen.get(str(line["plan"]), 0)
                seen[str(line["plan"])] = line["counts"][-1][0]


def test_the_page_has_the_figures_of_the_runs(page: str, folder: Path) -> None:
    for name in SEARCHES:
        result = json.loads((folder / name / "result.json").read_text())
        for model in result["chosen"]:
            test = model["test"]
            tested = f"{100 * test['accuracy']:.2f} ({100 * test['low']:.2f} to "
            (row,) = {
                line
                for line in page.splitlines()
                if tested in line and f"| {model['weight_reduction']:.2f}x |" in line
            } & set(rows_of(page, name, model["name"]))
            assert f"| {model['activation_reduction']:.2f}x |" in row


def rows_of(page: str, name: str, model: str) -> Iterator[str]:
    """The rows of a run in its own table: that of its heading, at its tolerance and budget."""
    heading = {"nearest": "Rounding to nearest", "all": "All rounding", "literal": "The literal"}
    heading["by-size"] = "Bits by size"
    kind, tolerance, budget = name.rsplit("-", 2)
    part = page.split(f"### {heading[kind]}", 1)[1].split("\n#", 1)[0]
    current = ""
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) > 5:
            current = f"{cells[0]} {cells[1]}" if cells[0] else current
            if current == f"{tolerance}% {budget.replace('of', '/')}" and (
                kind == "literal" or cells[3] == model
            ):
                yield line


def test_the_page_tells_of_both_paths_and_of_what_was_published(page: str) -> None:
    assert re.search(r"\*\*Tolerance 1%, budget 1/4: Path [AB]\.\*\* In step 2, weights of", page)
    assert {"A", "B"} <= set(re.findall(r": Path ([AB])\.\*\*", page)) | set(
        re.findall(r"(?:truncation|nearest|stochastic) Path ([AB])", page)
    )
    assert "| the paper, Table I | | 99.58 | 0.09 | 4.87x | 2.67x | |" in page
    assert "| its authors, later | truncation | 9.75 | 89.92 | 5.53x | | W 7 6 5 |" in page
    assert "truncation and rounding to nearest differ by up to" in page
    assert "Alone, the routing arrays keep" in page
    assert "nobody trained" not in page
    assert "undefined" not in page.lower()


def test_at_a_glance_the_smallest_models_stand_beside_the_paper(
    page: str, section: Section
) -> None:
    part = page.split("## At a glance", 1)[1].split("\n#", 1)[0]
    for how, (run, model) in section.best("20%").items():
        (row,) = (line for line in part.splitlines() if f"| {how} |" in line)
        assert f"| {model.weight_reduction:.2f}x | {model.activation_reduction:.2f}x |" in row
        assert model.test is not None
        lost = 100 * (run.result.float_test.accuracy - model.test.accuracy)
        assert f"| {lost:.2f} |" in row
    assert list(section.best("20%")) == ["the paper's rule", "bits by size"]
    assert "| *the paper, Table I* | 4.87x | 2.67x | 99.58 | 0.09 | |" in part


def test_every_figure_is_a_small_svg(made: Path, page: str) -> None:
    names = re.findall(r"\]\((figures/[^)]*)\)", page)
    assert names == [f"figures/small-{k}.svg" for k in ("trade-off", "rounding", "routing")]
    for name in names:
        path = made / "docs" / name
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
        assert path.stat().st_size < 100_000


def test_a_sweep_says_what_the_evaluator_counts(made: Path, folder: Path) -> None:
    wanted = read_wanted(made / "zoo" / "results.toml")
    bench = Bench.of(wanted.networks[0], wanted, made / "runs")
    for swept in read_sweeps(folder):
        if swept.curve in (Curve("routing"), Curve("uniform", "stochastic", "unit", 1)):
            job = bench.free(swept.curve.rounding, swept.curve.points, swept.curve.seed)
            plan = swept.curve.plan(job.problem(), 3)
            assert job.evaluator().count(plan).right == swept.right[3]
            assert len(job.images) == swept.total == wanted.sweep_images
    assert Curve("routing").plan(job.problem(), 3)["digit"].routing == 3
    varied = Curve("activation").plan(job.problem(), 3)
    assert [q.activation for q in varied.values()] == [3, 3, 3]
    assert varied["digit"].routing == 8


def test_the_literal_cost_worked_out_is_that_of_the_run(section: Section) -> None:
    (really,) = section.literal
    (same,) = [
        run
        for run in section.nearest
        if (run.search.tolerance, run.search.budget) == ("20%", "1/4")
    ]
    assert same.literal_images == really.cost.images
    assert section.literal_cost(same).endswith("(run)")
    assert same.cost.images < really.cost.images
    assert all(run.cost.taken <= run.cost.images for run in section.runs)


def test_findings_are_included(made: Path, tmp_path: Path) -> None:
    wanted = read_wanted(made / "zoo" / "results.toml")
    words = tmp_path / "findings.md"
    words.write_text("## Three findings\n\nCapsules are round.\n")
    assert write_page(wanted, made / "runs", tmp_path, words) == ["small"]
    assert (
        "\n## Three findings\n\nCapsules are round.\n\n## A small"
        in (tmp_path / "results.md").read_text()
    )


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    network = Network("none", "None", tmp_path / "none.safetensors", "mnist")
    assert write_page(Wanted((network,)), tmp_path, tmp_path, tmp_path / "findings.md") == []
    assert "has results yet" in (tmp_path / "results.md").read_text()


def test_other_weights_have_other_folders(made: Path, tmp_path: Path) -> None:
    wanted = read_wanted(made / "zoo" / "results.toml")
    network = wanted.networks[0]
    ours = Bench.of(network, wanted, tmp_path)
    with torch.no_grad():
        next(ours.model.parameters()).add_(0.5)
    save_model(ours.model, tmp_path / "other.safetensors")
    other = Bench.of(replace(network, weights=tmp_path / "other.safetensors"), wanted, tmp_path)
    assert other.folder != ours.folder
    fewer = Bench.of(network, replace(wanted, search_images=50), tmp_path)
    assert len({ours.folder, other.folder, fewer.folder}) == 3
    assert len(fewer.splits.validation) == 50


def test_the_smallest_is_of_path_a_even_if_path_b_has_a_smaller_one(section: Section) -> None:
    run = section.nearest[0]
    model = run.result.chosen[0]

    def ended(path: Literal["A", "B"], weights: int, activations: int, meets: bool = True) -> Run:
        one = replace(model, weight_bits=weights, activation_bits=activations, meets_accuracy=meets)
        return replace(run, result=replace(run.result, path=path, chosen=(one,)))

    large, short, small = ended("A", 9, 3), ended("A", 9, 2), ended("B", 5, 5)
    failed = ended("B", 1, 1, meets=False)
    assert smallest([large, short, small, failed]) == (short, short.result.chosen[0])
    assert smallest([failed, small]) == (small, small.result.chosen[0])
    assert smallest([failed]) is None


def test_costs_are_sums(section: Section) -> None:
    run: Run = section.all_schemes[0]
    total = sum(step["cost"]["images"] for s in run.result.schemes for step in s.steps)
    assert run.cost.images == total
    assert run.cost.computed == total - run.cost.taken


def test_the_page_of_the_project_is_that_of_the_results_kept_in_its_zoo(tmp_path: Path) -> None:
    assert main(["--page", "--quiet", "--docs", str(tmp_path)]) == 0
    assert (tmp_path / "results.md").read_text() == (ROOT / "docs" / "results.md").read_text()
