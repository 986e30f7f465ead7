"""Binary points in a run: tuned once, before the search, and kept with it."""

from pathlib import Path

import pytest
from tests.search import searching

from qcapsnets.data import Splits
from qcapsnets.fixedpoint import FixedPoint, Plan
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.framework import CALIBRATION, Result, prepare
from qcapsnets.framework.run import run
from qcapsnets.models import CapsNet
from qcapsnets.search import Serial, Settings, Tolerance

ASKED = Settings(Tolerance(0.02), searching.BUDGET, ("nearest",), calibration_images=100)


def test_they_are_those_of_the_output_unless_others_are_asked_for() -> None:
    assert ASKED.points == "output"


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int, int]]:
    return []


@pytest.fixture(scope="module")
def ran(
    net: CapsNet,
    digits: Splits,
    told: list[tuple[str, int, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("tuned")

    def tuning(site: str, done: int, of: int) -> None:
        told.append((site, done, of))

    return run(net, digits, ASKED, folder, executor=Serial(), tuning=tuning), folder


def test_the_chosen_model_has_them(net: CapsNet, ran: tuple[Result, Path]) -> None:
    result, folder = ran
    calibration = Calibration.load(folder / CALIBRATION)
    (chosen, *_) = result.chosen
    ruled = Plan.from_json(chosen.plan).sites(net)
    for name, (site, wordlength) in ruled.items():
        format = calibration.format(name, wordlength, signed=site.signed, points="output")
        assert FixedPoint.parse(chosen.formats[name]) == format


def test_how_far_the_tuning_is(
    net: CapsNet, ran: tuple[Result, Path], told: list[tuple[str, int, int]]
) -> None:
    sites = list(Plan.uniform(net, 4).sites(net))
    assert sorted(site for site, _, _ in told) == sorted(sites)
    assert [done for _, done, _ in told] == list(range(len(sites)))
    assert {of for _, _, of in told} == {len(sites)}


def test_a_continued_run_does_not_tune_again(
    net: CapsNet, digits: Splits, ran: tuple[Result, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(prepare, "tuned")
    again = run(net, digits, ASKED, ran[1], executor=Serial())
    assert again.chosen == ran[0].chosen


def test_a_calibration_without_them_is_tuned(
    net: CapsNet, digits: Splits, ran: tuple[Result, Path], tmp_path: Path
) -> None:
    """As of a search by `mse` that was stopped before its first plan."""
    expected = Calibration.load(ran[1] / CALIBRATION)
    for name in (prepare.REFERENCE, CALIBRATION):
        (tmp_path / name).write_bytes((ran[1] / name).read_bytes())
    Calibration(expected.model, expected.images, expected.sites).save(tmp_path / CALIBRATION)
    run(net, digits, ASKED, tmp_path, executor=Serial())
    assert Calibration.load(tmp_path / CALIBRATION).fractions == expected.fractions
