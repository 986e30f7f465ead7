"""Options that several commands share, and the names that a shell can complete."""

from pathlib import Path
from typing import Annotated

import typer

MODELS = ("shallowcaps", "shallowcaps-small", "deepcaps", "deepcaps-small")
DATASETS = ("mnist-mini", "fashion-mnist-mini", "mnist", "fashion-mnist", "cifar10", "cifar10-64")
"""The names that come with the package, here so that completing them imports nothing heavy."""


def complete_model(incomplete: str) -> list[str]:
    """Names of models that begin like that."""
    return _starting(incomplete, MODELS, "qcapsnets.models")


def complete_dataset(incomplete: str) -> list[str]:
    """Names of data sets that begin like that."""
    return _starting(incomplete, DATASETS, "qcapsnets.datasets")


def _starting(incomplete: str, names: tuple[str, ...], group: str) -> list[str]:
    from importlib.metadata import entry_points  # slow to import, for a shell's TAB only

    others = (point.name for point in entry_points(group=group))
    return [name for name in dict.fromkeys([*names, *others]) if name.startswith(incomplete)]


def example(line: str) -> str:
    """The last line of a command's help."""
    return f"Example: {line}"


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result, no progress.")]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-folder",
        help="Where data sets are kept.",
        show_default="QCAPSNETS_DATA, else a cache folder",
    ),
]
Download = Annotated[
    bool, typer.Option("--download/--no-download", help="Fetch a data set that is missing.")
]
DatasetName = Annotated[
    str, typer.Argument(help="A data set's name.", autocompletion=complete_dataset)
]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="A TOML file with settings; flags override it."),
]
