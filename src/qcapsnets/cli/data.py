"""`qcapsnets data`: which data sets there are, fetching them, looking at them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qcapsnets.cli.errors import interruptible
from qcapsnets.cli.options import (
    DataFolder,
    DatasetName,
    Download,
    Json,
    Quiet,
    complete_dataset,
    example,
)
from qcapsnets.cli.output import Output

if TYPE_CHECKING:
    from rich.console import RenderableType
    from torch import Tensor

    from qcapsnets.data import Splits
    from qcapsnets.data.spec import DatasetSpec

app = typer.Typer(no_args_is_help=True, help="List, fetch and look at data sets.")

SHADES = " .:-=+*#%@"
MEGABYTE = 1e6


@app.command("list", epilog=example("qcapsnets data list"))
def list_(data_folder: DataFolder = None, json: Json = False) -> None:
    """Which data sets there are, and which of them are here already."""
    from rich.table import Table

    from qcapsnets.data import datasets

    output = Output(as_json=json)
    found = [_described(datasets[name], data_folder) for name in datasets]
    table = Table("name", "what", "licence", "where")
    for row in found:
        table.add_row(*(row[key] for key in ("name", "description", "licence", "where")))
    output.show(table)
    output.give(found)


@app.command("fetch", epilog=example("qcapsnets data fetch mnist-mini"))
def fetch(
    names: Annotated[
        list[str],
        typer.Argument(help="Names of data sets.", autocompletion=complete_dataset),
    ],
    data_folder: DataFolder = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Download data sets; what is here already is not touched, what was cut is resumed."""
    from qcapsnets.data import datasets
    from qcapsnets.data.files import obtain

    output = Output(as_json=json, quiet=quiet)
    specs = [datasets[name] for name in names]
    with interruptible("`qcapsnets data fetch` continues where the download stopped"):
        for spec in specs:
            home = _home(spec, data_folder)
            with output.progress(f"fetching {spec.name}") as report:
                obtain(
                    spec.downloads,
                    home,
                    progress=lambda name, done, total, report=report: report.at(  # type: ignore[misc]
                        done, total, f"{name} {done / MEGABYTE:.1f} MB", milestone=done == total
                    ),
                )
            output.show(f"{spec.name} is {_place(spec, home)}")
    output.give([_described(spec, data_folder) for spec in specs])


@app.command("show", epilog=example("qcapsnets data show mnist-mini"))
def show(
    name: DatasetName,
    data_folder: DataFolder = None,
    download: Download = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What is in a data set: sizes, classes, how it is split, and an image of each class."""
    output = Output(as_json=json, quiet=quiet)
    splits = load_splits(name, output, data_folder=data_folder, download=download)
    output.show(*_views(name, splits))
    output.give(_facts(name, splits))


def load_splits(
    name: str,
    output: Output,
    *,
    data_folder: Path | None = None,
    download: bool = True,
    validation: int | None = None,
    size: int | None = None,
) -> "Splits":
    """Read a data set, fetching it with progress if it is not there."""
    from qcapsnets.data import load

    with (
        interruptible("run the same command again, and a download goes on where it stopped"),
        output.progress(f"fetching {name}") as report,
    ):
        return load(
            name,
            folder=data_folder,
            validation=validation,
            size=size,
            download=download,
            progress=lambda file, done, total: report.at(
                done, total, f"{file} {done / MEGABYTE:.1f} MB", milestone=done == total
            ),
        )


def _home(spec: "DatasetSpec", folder: Path | None) -> Path:
    from qcapsnets.data import data_folder

    return (folder or data_folder()) / (spec.folder or spec.name)


def _described(spec: "DatasetSpec", folder: Path | None) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "licence": spec.licence,
        "where": _place(spec, _home(spec, folder)),
    }


def _place(spec: "DatasetSpec", home: Path) -> str:
    from qcapsnets.data.files import find

    if not spec.downloads:
        return "in the package"
    needed = [name for file in spec.downloads for name in file.provides]
    here = all(find(home, name) is not None for name in needed)
    return f"in {home}" if here else "to be fetched"


def _facts(name: str, splits: "Splits") -> dict[str, Any]:
    parts = {"train": splits.train, "validation": splits.validation, "test": splits.test}
    first = splits.train
    return {
        "name": name,
        "image": [first.channels, first.height, first.width],
        "classes": first.classes,
        "splits": {part: len(images) for part, images in parts.items()},
        "images_per_class": {
            part: images.labels.bincount(minlength=first.classes).tolist()
            for part, images in parts.items()
        },
    }


def _views(name: str, splits: "Splits") -> "list[RenderableType]":
    from rich.table import Table

    facts = _facts(name, splits)
    size = "x".join(map(str, facts["image"]))
    table = Table("split", title=f"{name}: {size}, {facts['classes']} classes")
    table.title_justify = "left"
    table.add_column("images", justify="right")
    for label in range(facts["classes"]):
        table.add_column(str(label), justify="right")
    for part, counts in facts["images_per_class"].items():
        table.add_row(part, f"{sum(counts):,}", *(f"{count:,}" for count in counts))
    return [table, _gallery(splits)]


def _gallery(splits: "Splits", columns: int = 5) -> "RenderableType":
    """The first training image of each class, as text."""
    from rich.columns import Columns
    from rich.text import Text

    found = []
    for label in range(splits.train.classes):
        of_class = (splits.train.labels == label).nonzero()
        if len(of_class):
            found.append(Text(_drawn(splits.train.images[of_class[0, 0]]), no_wrap=True))
    return Columns(found[: 2 * columns], padding=(1, 2))


def _drawn(image: "Tensor", width: int = 20) -> str:
    """Bytes [channels, height, width] in shades of characters, which are twice as tall as wide."""
    from torch.nn.functional import interpolate

    grey = image.float().mean(0, keepdim=True).unsqueeze(0)
    height = max(1, width * image.shape[1] // image.shape[2] // 2)
    small = interpolate(grey, (height, width), mode="area")[0, 0]
    levels = (small * (len(SHADES) - 1) / 255).round().int().tolist()
    return "\n".join("".join(SHADES[level] for level in row) for row in levels)
