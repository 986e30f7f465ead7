"""`qcapsnets compare`: several finished searches side by side."""

from pathlib import Path
from typing import Annotated

import typer

from qcapsnets.cli.options import Json, Quiet, example
from qcapsnets.cli.output import Output

NAME = "compare"
EXAMPLE = example("qcapsnets compare runs/digits runs/again")


def command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished searches.")],
    out: Annotated[Path, typer.Option(help="Folder for the page and the table.")] = Path(
        "runs/comparison"
    ),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Put several searches into one page and one table in Markdown."""
    from qcapsnets.report import TABLE, Comparison

    output = Output(as_json=json, quiet=quiet)
    comparison = Comparison.read(runs)
    page = comparison.write(out)
    output.show(comparison, f"The page is {page}, the table {out / TABLE}")
    output.give({"page": str(page), "table": str(out / TABLE), "runs": comparison.to_json()})
