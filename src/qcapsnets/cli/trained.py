"""What a path means to a command: a trained network, and the images that it was trained for."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcapsnets.cli.data import load_splits
from qcapsnets.cli.errors import CommandError
from qcapsnets.cli.output import Output
from qcapsnets.cli.runs import Run
from qcapsnets.errors import DataError

if TYPE_CHECKING:
    from qcapsnets.data import Splits
    from qcapsnets.models import CapsNet

SMALL = "-mini"


@dataclass(frozen=True, eq=False)
class Trained:
    """A network with its images, and the folder that it lies in."""

    run: Run
    file: Path
    model: "CapsNet"
    data: str
    splits: "Splits"


def trained(
    target: Path,
    output: Output,
    *,
    data: str | None = None,
    data_folder: Path | None = None,
    download: bool = True,
) -> Trained:
    """Load a run folder or a network's file; the images are those of the run unless named.

    A file of the zoo says itself what it was trained on, and how many images were set apart.
    """
    from qcapsnets.models.weights import load_model

    run, file = Run.of(target)
    begun = run.trained_with()
    model, facts = load_model(file)
    name = data or begun.get("data") or facts.get("data")
    if not isinstance(name, str):
        raise CommandError(f"{target} does not say what it was trained on: name it by --data")
    own = next((known for known in (begun, facts) if known.get("data") == name), {})
    name, splits = _splits(name, output, own, data_folder, download, fallback=data is None)
    return Trained(run, file, model, name, splits)


def _splits(
    name: str,
    output: Output,
    own: dict[str, Any],
    data_folder: Path | None,
    download: bool,
    *,
    fallback: bool,
) -> "tuple[str, Splits]":
    """The images, and what they are called; if the full set cannot be had and was not asked for,
    the bundled part of it.
    """
    from qcapsnets.data import datasets

    def load(name: str, validation: int | None) -> "Splits":
        return load_splits(
            name,
            output,
            data_folder=data_folder,
            download=download,
            validation=validation,
            size=own.get("size"),
        )

    try:
        return name, load(name, own.get("validation"))
    except DataError as problem:
        if not fallback or name + SMALL not in datasets:
            raise
        output.say(
            f"{problem}; using {name + SMALL}, the bundled part of it, instead: "
            "the network may have been trained on its validation images"
        )
        return name + SMALL, load(name + SMALL, None)
