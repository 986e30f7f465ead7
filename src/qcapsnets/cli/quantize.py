"""`qcapsnets quantize`: search wordlengths for a trained network.

The folder keeps the settings and a journal, so that its name alone continues a search that was
interrupted. Exit code 1 says that the two constraints could not both be met (Path B).
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qcapsnets.cli import units
from qcapsnets.cli.errors import CommandError, interruptible
from qcapsnets.cli.options import (
    DataFolder,
    Download,
    Json,
    Quiet,
    SettingsFile,
    complete_dataset,
    example,
)
from qcapsnets.cli.output import Output, Report
from qcapsnets.cli.runs import Run
from qcapsnets.cli.settings import default, merge, read_settings, write_settings
from qcapsnets.cli.trained import trained

if TYPE_CHECKING:
    from qcapsnets.framework import Result
    from qcapsnets.search import Event, Settings

NAME = "quantize"
EXAMPLE = example(
    "qcapsnets quantize runs/digits --tolerance 1% --budget 3.5Mbit --rounding nearest"
)
ALL = "all"
NOT_BOTH = 1


@dataclass(frozen=True)
class QuantizeSettings:
    """Everything that decides a search, as it is written on the command line."""

    tolerance: str = "0.2%"
    budget: str = ""
    rounding: str = ALL
    points: str = "output"
    granularity: str = "block"
    strategy: str = "paper"
    mode: str = "fast"
    search_split: str = "validation"
    seed: int = 0
    calibration_images: int = 500
    data: str = ""
    network: str = ""


def _option(name: str, help: str, shown: str | None = None, **more: Any) -> Any:
    """A flag that is None unless given, and shows the default of its setting."""
    shown = default(QuantizeSettings, name) if shown is None else shown
    return typer.Option(f"--{name.replace('_', '-')}", help=help, show_default=shown, **more)


def command(
    target: Annotated[Path, typer.Argument(help="A run folder, or a network's file.")],
    tolerance: Annotated[
        str | None, _option("tolerance", "Accuracy that may be lost: 0.2% of it, or 0.2pp.")
    ] = None,
    budget: Annotated[
        str | None, _option("budget", "Memory for weights: 45Mbit, 5.6MB, 5.4MiB.", "none")
    ] = None,
    rounding: Annotated[
        str | None, _option("rounding", "Schemes, separated by commas, or all.")
    ] = None,
    points: Annotated[
        str | None, _option("points", "Binary points: output, mse, max or unit.")
    ] = None,
    granularity: Annotated[str | None, _option("granularity", "block or layer.")] = None,
    strategy: Annotated[
        str | None, _option("strategy", "paper, or by-size: fewest bits where most numbers are.")
    ] = None,
    mode: Annotated[str | None, _option("mode", "fast, or literal as in the paper.")] = None,
    search_split: Annotated[
        str | None, _option("search_split", "validation, or test as in the paper.")
    ] = None,
    seed: Annotated[int | None, _option("seed", "Of stochastic rounding.")] = None,
    calibration_images: Annotated[
        int | None, _option("calibration_images", "Training images for binary points.")
    ] = None,
    data: Annotated[
        str | None,
        _option("data", "A data set's name.", "that of the run", autocompletion=complete_dataset),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the search.", show_default="the run's, or runs/NAME"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes at a time.", show_default="one a core")
    ] = None,
    settings: SettingsFile = None,
    data_folder: DataFolder = None,
    download: Download = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search wordlengths within a tolerance and a budget, or continue a search."""
    given = locals() | {"network": None if target.is_dir() else str(target)}
    flags = {f.name: given[f.name] for f in fields(QuantizeSettings)}
    folder = Run(out or (target if target.is_dir() else Path("runs") / target.stem))
    chosen = settings_for(folder, settings, flags)
    output = Output(as_json=json, quiet=quiet)
    result = carry_out(
        chosen, target, folder, output, workers=workers, data_folder=data_folder, download=download
    )
    output.show(result)
    output.give(result.to_json())
    if result.path == "B":
        raise typer.Exit(NOT_BOTH)


def settings_for(run: Run, file: Path | None, flags: dict[str, Any]) -> QuantizeSettings:
    """Flags before the settings file, the file before what the folder was begun with."""
    begun = read_settings(run.settings, NAME, QuantizeSettings) if run.settings.exists() else {}
    given = {} if file is None else read_settings(file, NAME, QuantizeSettings)
    chosen = merge(QuantizeSettings, begun, given, flags)
    if not chosen.budget:
        raise CommandError("no budget was given: add one, as in --budget 45Mbit")
    _check_same(begun, chosen, run)
    return chosen


def _check_same(begun: dict[str, Any], chosen: QuantizeSettings, run: Run) -> None:
    """A folder holds one search."""
    for name, value in begun.items():
        if getattr(chosen, name) != value:
            raise CommandError(
                f"{run.folder} holds a search with {name} = {value!r}, not "
                f"{getattr(chosen, name)!r}: leave that out to continue it, or add --out FOLDER"
            )


def search_settings(chosen: QuantizeSettings) -> "Settings":
    """What the search itself is told."""
    from qcapsnets.fixedpoint.rounding import roundings
    from qcapsnets.search import Settings

    names = tuple(roundings) if chosen.rounding == ALL else tuple(chosen.rounding.split(","))
    return Settings(
        tolerance=units.tolerance(chosen.tolerance),
        budget=units.memory(chosen.budget),
        roundings=tuple(name.strip() for name in names),
        points=chosen.points,  # type: ignore[arg-type]  # Settings checks these
        granularity=chosen.granularity,  # type: ignore[arg-type]
        strategy=chosen.strategy,
        mode=chosen.mode,  # type: ignore[arg-type]
        search_split=chosen.search_split,  # type: ignore[arg-type]
        seed=chosen.seed,
        calibration_images=chosen.calibration_images,
    )


def carry_out(
    chosen: QuantizeSettings,
    target: Path,
    folder: Run,
    output: Output,
    *,
    workers: int | None = None,
    data_folder: Path | None = None,
    download: bool = True,
) -> "Result":
    """Search by these settings into a folder."""
    from qcapsnets.framework import run
    from qcapsnets.search import Processes

    settings = search_settings(chosen)
    found = trained(
        target, output, data=chosen.data or None, data_folder=data_folder, download=download
    )
    write_settings(folder.settings, NAME, chosen)
    advice = f"`qcapsnets quantize {folder.folder}` continues where it stopped"
    with interruptible(advice), output.progress(f"searching {found.model.name}") as report:
        result = run(
            found.model,
            found.splits,
            settings,
            folder.folder,
            data_name=found.data,
            executor=Processes(workers),
            observe=_Watch(len(settings.roundings), report),
            tuning=lambda site, done, of: report.at(0, 1, f"binary points, {done} of {of}: {site}"),
        )
    for warning in result.warnings:
        output.say(f"warning: {warning}")
    return result


class _Watch:
    """How far a search is: each scheme takes four steps at most (1, 2, 3A, 4A or 1, 2, 3B)."""

    STEPS = ("1", "2", "3A", "4A")

    def __init__(self, schemes: int, report: Report) -> None:
        self.total, self.report = schemes * len(self.STEPS), report
        self.reached: dict[str, int] = {}

    def __call__(self, event: "Event") -> None:
        step = "3A" if event.step == "3B" else event.step
        self.reached[event.rounding] = self.STEPS.index(step) if step in self.STEPS else 0
        note = f"{event.rounding}, step {event.step}: {event.plans} plans, {event.images:,} images"
        if event.best:
            note += f", best {event.best}"
        self.report.at(sum(self.reached.values()), self.total, note)
