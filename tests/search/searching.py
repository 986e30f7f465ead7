"""A trained network, and searches in processes of their own that a test can kill."""

import json
import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tests import networks

from qcapsnets import framework
from qcapsnets.data import ImageSet, Splits
from qcapsnets.errors import QCapsNetsError
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.framework import Result
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import load_model
from qcapsnets.search import Event, Executor, Processes, Serial, Settings, Tolerance
from qcapsnets.training import Recipe, train

PROCESSES = multiprocessing.get_context("forkserver")
"""Processes that have imported what takes long before they start."""
PROCESSES.set_forkserver_preload(["qcapsnets.framework"])

BUDGET = 200_000
"""For 36,288 weights: 5.5 bits each."""


@cache
def trained() -> CapsNet:
    """Some 85 % of the small digits are right: there are many images near a verdict."""
    model = networks.tiny()
    recipe = Recipe(
        epochs=8,
        batch_size=30,
        learning_rate=3e-3,
        decoder=None,
        augment=False,
        checkpoint_every=1_000_000,
    )
    with tempfile.TemporaryDirectory() as folder:
        train(model, networks.small_digits(), recipe, Path(folder))
    return model.eval()


@cache
def calibrated() -> Calibration:
    return Calibration.record(trained(), networks.small_digits().train.images[:100])


def some(images: ImageSet, count: int) -> ImageSet:
    return images.select(range(count))


def fewer(splits: Splits, validation: int = 120, test: int = 60) -> Splits:
    """The same digits, fewer of them."""
    return Splits(splits.train, some(splits.validation, validation), some(splits.test, test))


def settings(**changes: Any) -> Settings:
    chosen: dict[str, Any] = {
        "tolerance": Tolerance(0.02),
        "budget": BUDGET,
        "roundings": ("nearest",),
        "calibration_images": 100,
        "points": "mse",  # quick to choose
    }
    return Settings(**(chosen | changes))


def search(
    model: CapsNet,
    splits: Splits,
    folder: Path,
    *,
    executor: Executor | None = None,
    observe: Callable[[Event], None] | None = None,
    warn: Callable[[str], None] | None = None,
    data_name: str = "digits",
    verdicts: Path | None = None,
    **changes: Any,
) -> Result:
    """A run of the framework with the settings of these tests."""
    return framework.run(
        model,
        splits,
        settings(**changes),
        folder,
        data_name=data_name,
        executor=executor or Serial(),
        observe=observe,
        warn=warn,
        verdicts=verdicts,
    )


def in_a_process(
    folder: Path, model: Path, changes: dict[str, Any], workers: int = 1, largest: int | None = None
) -> None:
    """Search in this process, which may write no file larger than `largest`.

    An error is left in the file `error` of the folder.
    """
    torch.set_num_threads(1)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    network, _ = load_model(model)
    executor = Processes(workers) if workers > 1 else Serial()
    try:
        search(network, fewer(networks.small_digits()), folder, executor=executor, **changes)
    except QCapsNetsError as error:
        (folder / "error").write_text(str(error))
        sys.exit(2)


def lines(journal: Path) -> list[dict[str, Any]]:
    """What a journal holds after its first line, without what depends on the machine."""
    found = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    return [
        {k: v for k, v in line.items() if k not in ("macs", "seconds", "taken")} for line in found
    ]


def without_effort(value: Any) -> Any:
    """A result without what is the machine's."""
    if isinstance(value, dict):
        return {k: without_effort(v) for k, v in value.items() if k != "effort"}
    return [without_effort(v) for v in value] if isinstance(value, list) else value


def result_in(folder: Path) -> Any:
    return without_effort(json.loads((folder / framework.RESULT).read_text()))
