"""The parts that the table is made of, each by itself."""

from pathlib import Path

import pytest
from tools.results import findings, literal
from tools.results.__main__ import main
from tools.results.section import published
from tools.results.sweeps import Curve, Swept, read_sweeps
from tools.results.wanted import Search, read_wanted

from qcapsnets.errors import ReportError
from qcapsnets.evaluation import Measurement
from qcapsnets.fixedpoint.plan import Plan

ROOT = Path(__file__).parents[2]


def test_the_real_table_is_that_of_the_issue() -> None:
    wanted = read_wanted(ROOT / "zoo" / "results.toml")
    assert len(wanted.networks) == 5
    first = wanted.networks[0]
    searches = list(wanted.searches(first))
    assert sum(s.kind == "nearest" for s in searches) == 24
    assert [s.folder for s in searches[24:]] == [
        *(f"by-size-{t}-1of{n}" for t in ("0.1", "0.2", "0.5", "1") for n in (10, 14)),
        "by-size-0.2-45Mbit",
        "all-0.2-1of6",
        "all-0.2-1of10",
        "all-0.2-45Mbit",
        "literal-0.2-1of6",
    ]
    assert len({s.folder for s in searches}) == len(searches)
    for network in wanted.networks:
        assert published(network.published)["paper"]
    assert Search("0.2%", "45Mbit", ("nearest",)).bits(1) == 45_000_000
    assert Search("0.2%", "1/16", ("nearest",)).bits(6_804_224) == 2 * 6_804_224


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = ", "is not TOML"),
        ("colour = 3", "unknown setting 'colour'"),
        ("[[network]]\nname = 'a'\nweights = 'b'", "lacks a setting"),
    ],
)
def test_a_file_that_asks_for_something_else(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "results.toml"
    path.write_text(text)
    with pytest.raises(ReportError, match=words):
        read_wanted(path)
    assert main(["--wanted", str(path), "--docs", str(tmp_path)]) == 2


def test_a_broken_sweep_is_named(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "x.json").write_text("{}")
    with pytest.raises(ReportError, match="is no sweep: remove it"):
        read_sweeps(tmp_path)


def plan(*lengths: int) -> Plan:
    layers = {f"l{n}": {"weight": q, "activation": q} for n, q in enumerate(lengths)}
    return Plan.from_json(layers)


def test_longer_plans_are_supposed_to_pass_and_shorter_ones_to_fail() -> None:
    known = {plan(4, 4): Measurement(100, 95, 100), plan(3, 3): Measurement(20, 5, 100)}
    measured: list[tuple[Plan, int | None]] = []

    def measure(plan: Plan, minimum: int | None) -> Measurement:
        measured.append((plan, minimum))
        return Measurement(100, 91, 100)

    supposed = literal.Supposed(known, measure)
    assert supposed.enough(plan(4, 4), 95)
    assert not supposed.enough(plan(4, 4), 96)
    assert supposed.enough(plan(5, 4), 90)
    assert not supposed.enough(plan(3, 2), 90)
    assert measured == []
    assert supposed.enough(plan(5, 3), 90)
    assert not supposed.enough(plan(5, 3), 92)
    assert supposed.accuracy(plan(3, 3)) == 91
    assert supposed.accuracy(plan(4, 4)) == 95
    assert measured == [(plan(5, 3), 90), (plan(3, 3), None)]
    assert supposed.asked == {
        plan(4, 4): True, plan(5, 4): False, plan(3, 2): False, plan(5, 3): True, plan(3, 3): True
    }  # fmt: skip


def swept(rounding: str, seed: int, **right: int) -> Swept:
    counts = {int(name[1:]): count for name, count in right.items()}
    return Swept(Curve("uniform", rounding, "unit", seed), counts, 1000, 990)


def test_what_the_sweeps_say() -> None:
    (panel,) = findings.panels(
        [
            swept("truncation", 0, q8=990, q4=100),
            swept("nearest", 0, q8=990, q4=989),
            swept("stochastic", 0, q8=989, q4=980),
            swept("stochastic", 1, q8=989, q4=960),
        ]
    )
    words = findings.rounding_words(panel)
    assert "differ by up to 88.90 points (10.00% against 98.90% at 4 bits)" in words
    assert "stochastic rounding lie up to 2.00 points apart (at 4 bits)" in words
    assert words.endswith("truncation 8 bits, nearest 4 bits, stochastic 8 bits.")
    assert findings.shortest_enough({8: 0.5}, 0.99) is None
