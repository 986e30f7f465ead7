"""`qcapsnets report`: a finished search as a page that opens anywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from qcapsnets.cli.options import DataFolder, Download, Json, Quiet, example
from qcapsnets.cli.output import Output
from qcapsnets.cli.quantize import QuantizeSettings
from qcapsnets.cli.runs import Run
from qcapsnets.cli.settings import read_settings
from qcapsnets.cli.trained import trained

NAME = "report"
EXAMPLE = example("qcapsnets report runs/digits")


def command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished search.")],
    noise_images: Annotated[
        int, typer.Option(min=1, help="Images that noise is measured on.")
    ] = 100,
    hardest: Annotated[
        int, typer.Option(min=1, help="Test images, hardest first, looked at for changes.")
    ] = 1000,
    data_folder: DataFolder = None,
    download: Download = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write report.html, complete in one file, and figures as SVG and PNG."""
    output = Output(as_json=json, quiet=quiet)
    path = report(
        run,
        output,
        noise_images=noise_images,
        hardest=hardest,
        data_folder=data_folder,
        download=download,
    )
    output.show(f"The report is in {path}")
    output.give({"report": str(path), "figures": str(path.parent / "figures")})


def report(
    folder: Path,
    output: Output,
    *,
    noise_images: int = 100,
    hardest: int = 1000,
    data_folder: Path | None = None,
    download: bool = True,
) -> Path:
    """Write the report of a finished search; its path."""
    from qcapsnets.framework import RESULT, read_result
    from qcapsnets.report import write_report

    read_result(folder / RESULT)  # a search that is not finished is an error before all work
    settings = searched_with(Run(folder))
    target = Path(settings["network"]) if settings.get("network") else folder
    found = trained(
        target,
        output,
        data=settings.get("data") or None,
        data_folder=data_folder,
        download=download,
    )
    return write_report(
        folder,
        found.model,
        found.splits,
        network=target,
        noise_images=noise_images,
        hardest=hardest,
        tell=output.say,
    )


def searched_with(run: Run) -> dict[str, Any]:
    """The settings of a search, as far as the folder knows them."""
    if not run.settings.exists():
        return {}
    return read_settings(run.settings, "quantize", QuantizeSettings)
