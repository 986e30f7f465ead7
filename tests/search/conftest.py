"""A trained network, in memory and in a file, and its digits."""

from pathlib import Path

import pytest
from tests.search import searching

from qcapsnets.data import Splits
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import save_model


@pytest.fixture(scope="session")
def net() -> CapsNet:
    return searching.trained()


@pytest.fixture(scope="session")
def net_file(net: CapsNet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "model.safetensors"
    save_model(net, path)
    return path


@pytest.fixture(scope="session")
def digits(small_digits: Splits) -> Splits:
    return searching.fewer(small_digits)
