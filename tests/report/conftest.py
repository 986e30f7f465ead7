"""A tiny network that learned something, and two finished runs of it: Path A and Path B."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import networks

from qcapsnets.data import Splits
from qcapsnets.framework import Result, run
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import load_model
from qcapsnets.report import write_report
from qcapsnets.search import Serial, Settings, Tolerance
from qcapsnets.training import Recipe, train

RECIPE = Recipe(
    epochs=3, batch_size=20, learning_rate=0.01, decoder=None, reconstruction=0.0, augment=False
)


@dataclass(frozen=True, eq=False)
class Ran:
    """A finished run, and what it was of."""

    folder: Path
    model: CapsNet
    splits: Splits
    result: Result


@pytest.fixture(scope="session")
def learned(small_digits: Splits, tmp_path_factory: pytest.TempPathFactory) -> CapsNet:
    folder = tmp_path_factory.mktemp("learned")
    train(networks.tiny(), small_digits, RECIPE, folder)
    return load_model(folder / "model.safetensors")[0]


def _ran(model: CapsNet, splits: Splits, settings: Settings, folder: Path) -> Ran:
    result = run(model, splits, settings, folder, data_name="digits", executor=Serial())
    return Ran(folder, model, splits, result)


@pytest.fixture(scope="session")
def path_a(learned: CapsNet, small_digits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Both constraints met, by one of two schemes."""
    settings = Settings(Tolerance(0.03), 200_000, roundings=("truncation", "nearest"))
    ran = _ran(learned, small_digits, settings, tmp_path_factory.mktemp("runs") / "loose")
    assert ran.result.path == "A"
    return ran


@pytest.fixture(scope="session")
def path_b(learned: CapsNet, small_digits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Not both met: two models."""
    settings = Settings(Tolerance(0.0), 75_000, roundings=("nearest",))
    ran = _ran(learned, small_digits, settings, tmp_path_factory.mktemp("runs") / "tight")
    assert ran.result.path == "B"
    return ran


def report_of(ran: Ran) -> Path:
    """Its report, on few images."""
    return write_report(ran.folder, ran.model, ran.splits, noise_images=20, hardest=60)


@pytest.fixture(scope="session")
def report_a(path_a: Ran) -> Path:
    return report_of(path_a)


@pytest.fixture(scope="session")
def report_b(path_b: Ran) -> Path:
    return report_of(path_b)
