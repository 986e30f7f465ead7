"""`qcapsnets evaluate`: how many images a trained network gets right."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qcapsnets.cli.options import DataFolder, Download, Json, Quiet, complete_dataset, example
from qcapsnets.cli.output import Output
from qcapsnets.cli.trained import trained

if TYPE_CHECKING:
    from rich.table import Table

    from qcapsnets.data import ImageSet
    from qcapsnets.models import CapsNet

NAME = "evaluate"
EXAMPLE = example("qcapsnets evaluate runs/digits --split test")
CHUNK = 500


class Split(StrEnum):
    """Which images."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True)
class Evaluation:
    """A count of right answers."""

    network: str
    data: str
    split: str
    images: int
    right: int

    @property
    def accuracy(self) -> float:
        return self.right / self.images

    @property
    def interval(self) -> tuple[float, float]:
        """Where the accuracy on images like these lies, with 95 % confidence."""
        from qcapsnets.evaluation.statistics import wilson

        return wilson(self.right, self.images)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"accuracy": self.accuracy, "interval_95": list(self.interval)}

    def __rich__(self) -> "Table":
        from rich.markup import escape
        from rich.table import Table

        table = Table("network", "data", "split")
        for column in ("right", "accuracy", "95 % interval"):
            table.add_column(column, justify="right")
        low, high = self.interval
        names = map(escape, (self.network, self.data, self.split))
        right = f"{self.right:,} of {self.images:,}"
        table.add_row(*names, right, f"[bold]{self.accuracy:.2%}[/]", f"{low:.2%} to {high:.2%}")
        return table


def command(
    target: Annotated[Path, typer.Argument(help="A run folder, or a network's file.")],
    split: Annotated[Split, typer.Option(help="Which images.")] = Split.TEST,
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set's name.",
            show_default="what the run was trained on",
            autocompletion=complete_dataset,
        ),
    ] = None,
    data_folder: DataFolder = None,
    download: Download = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the accuracy of a trained network, with its 95 % confidence interval."""
    output = Output(as_json=json, quiet=quiet)
    result = evaluate(target, split, output, data=data, data_folder=data_folder, download=download)
    output.show(result)
    output.give(result.to_json())


def evaluate(
    target: Path,
    split: Split,
    output: Output,
    *,
    data: str | None = None,
    data_folder: Path | None = None,
    download: bool = True,
) -> Evaluation:
    """Count; the data are those of the run unless others are named."""
    found = trained(target, output, data=data, data_folder=data_folder, download=download)
    images: ImageSet = getattr(found.splits, split)
    right = _count(found.model, images, output)
    return Evaluation(found.model.name, found.data, str(split), len(images), right)


def _count(model: "CapsNet", images: "ImageSet", output: Output) -> int:
    from qcapsnets.training import predict

    right = done = 0
    with output.progress(f"evaluating {model.name}") as report:
        parts = zip(images.images.split(CHUNK), images.labels.split(CHUNK), strict=True)
        for inputs, labels in parts:
            right += int((predict(model, inputs) == labels).sum())
            done += len(labels)
            report.at(done, len(images), f"{right / done:.2%} right")
    return right
