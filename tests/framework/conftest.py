"""A trained network, its digits, and one finished run."""

from pathlib import Path

import pytest
from tests.search import searching

from qcapsnets.data import Splits
from qcapsnets.framework import Result
from qcapsnets.models import CapsNet

SCHEMES = ("truncation", "nearest", "stochastic")


@pytest.fixture(scope="session")
def net() -> CapsNet:
    return searching.trained()


@pytest.fixture(scope="session")
def digits(small_digits: Splits) -> Splits:
    return searching.fewer(small_digits)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the finished run is."""
    return tmp_path_factory.mktemp("finished")


@pytest.fixture(scope="session")
def result(net: CapsNet, digits: Splits, folder: Path) -> Result:
    """Three schemes, one of which meets both constraints."""
    return searching.search(net, digits, folder, roundings=SCHEMES, data_name="digits")
