"""`qcapsnets verify`: the generated C against PyTorch, every number of every site."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from qcapsnets.cli.errors import CommandError
from qcapsnets.cli.options import DataFolder, Json, complete_dataset, example
from qcapsnets.cli.output import Output
from qcapsnets.cli.packed import packed_model

NAME = "verify"
EXAMPLE = example("qcapsnets verify runs/digits/models/model_satisfied.qcaps --images 20")
DIFFERENT = 1


def command(
    model: Annotated[Path, typer.Argument(help="A packed model (.qcaps), or a folder with one.")],
    images: Annotated[int, typer.Option("--images", help="How many test images.")] = 10,
    data: Annotated[
        str, typer.Option("--data", help="Their data set.", autocompletion=complete_dataset)
    ] = "mnist-mini",
    data_folder: DataFolder = None,
    json: Json = False,
) -> None:
    """Export to C, compile, run it beside PyTorch, and compare every number stored, with ==."""
    from qcapsnets.data import load
    from qcapsnets.export import verify

    if images < 1:
        raise CommandError(f"--images {images}: give 1 or more")
    output = Output(as_json=json)
    loaded, _ = packed_model(model)
    result = verify(loaded, load(data, folder=data_folder).test.images[:images])
    output.show(str(result))
    output.give(asdict(result))
    if not result.equal:
        raise typer.Exit(DIFFERENT)
