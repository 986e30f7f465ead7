"""A small network that was trained for some seconds, and the program."""

from pathlib import Path

import pytest
from tests.cli.conftest import program

from qcapsnets.cli import main

__all__ = ["program"]

SMALL = ("conv_channels=8", "primary_capsules=2", "primary_stride=4")


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a training."""
    folder = tmp_path_factory.mktemp("learned") / "digits"
    arguments = ["train", str(folder), "--model", "shallowcaps-small", "--data", "mnist-mini"]
    shape = [part for option in SMALL for part in ("--option", option)]
    more = ["--epochs", "2", "--batch-size", "50", "--learning-rate", "0.005", "--quiet"]
    assert main([*arguments, *shape, *more, "--no-augment", "--decoder", "none"]) == 0
    return folder
