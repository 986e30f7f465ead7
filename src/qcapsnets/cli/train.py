"""`qcapsnets train`: from a data set to a run folder with a trained network.

The folder keeps the settings, so that the name of the folder alone continues an interrupted
training; other settings than those it was begun with are an error.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qcapsnets.cli.data import load_splits
from qcapsnets.cli.errors import CommandError, interruptible
from qcapsnets.cli.options import (
    DataFolder,
    Download,
    Json,
    Quiet,
    SettingsFile,
    complete_dataset,
    complete_model,
    example,
)
from qcapsnets.cli.output import Output, Report
from qcapsnets.cli.runs import Run
from qcapsnets.cli.settings import default, merge, pairs, read_settings, write_settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from qcapsnets.data import Augmentation, Splits
    from qcapsnets.models import CapsNet
    from qcapsnets.training import Progress, Recipe, TrainingResult

NAME = "train"
EXAMPLE = example(
    "qcapsnets train runs/digits --model shallowcaps-small --data mnist-mini --epochs 1"
)
NO_DECODER = "none"
AS_DATA = "as the data set says"


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides a training, and the machine that it runs on."""

    model: str = "shallowcaps"
    data: str = "mnist"
    epochs: int = 10
    batch_size: int = 100
    learning_rate: float = 0.001
    schedule: str = "one-cycle"
    margin: str = "margin"
    decoder: str = "fully-connected"
    reconstruction: float = 0.0005
    augment: bool = True
    shift: int | None = None
    rotate: float | None = None
    flip: float | None = None
    clip: float | None = None
    seed: int = 0
    validation: int | None = None
    size: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    start: str | None = None
    checkpoint_every: int = 100
    device: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"


MAY_CHANGE = frozenset({"checkpoint_every", "device", "devices", "nodes"})
"""Settings that a continued training need not share with its beginning."""


def _option(name: str, help: str, shown: str | None = None, **more: Any) -> Any:
    """A flag that is None unless given, and shows the default of its setting."""
    shown = default(TrainSettings, name) if shown is None else shown
    return typer.Option(f"--{name.replace('_', '-')}", help=help, show_default=shown, **more)


def command(
    run: Annotated[Path, typer.Argument(help="The run folder; made if it is not there.")],
    model: Annotated[
        str | None, _option("model", "A network's name.", autocompletion=complete_model)
    ] = None,
    data: Annotated[
        str | None, _option("data", "A data set's name.", autocompletion=complete_dataset)
    ] = None,
    epochs: Annotated[int | None, _option("epochs", "Passes over the images.")] = None,
    batch_size: Annotated[int | None, _option("batch_size", "Images in a step.")] = None,
    learning_rate: Annotated[float | None, _option("learning_rate", "The highest one.")] = None,
    schedule: Annotated[
        str | None, _option("schedule", "one-cycle, decay (the paper's) or constant.")
    ] = None,
    margin: Annotated[
        str | None, _option("margin", "margin, hard-margin or margin-then-hard.")
    ] = None,
    decoder: Annotated[
        str | None, _option("decoder", f"fully-connected, convolutional or {NO_DECODER}.")
    ] = None,
    reconstruction: Annotated[
        float | None, _option("reconstruction", "Weight of the decoder's loss.")
    ] = None,
    augment: Annotated[
        bool | None,
        typer.Option("--augment/--no-augment", help="Shift, turn and flip images, as the paper."),
    ] = None,
    shift: Annotated[int | None, _option("shift", "At most, in pixels.", AS_DATA)] = None,
    rotate: Annotated[float | None, _option("rotate", "At most, in degrees.", AS_DATA)] = None,
    flip: Annotated[float | None, _option("flip", "Share of mirror images.", AS_DATA)] = None,
    clip: Annotated[float | None, _option("clip", "Largest norm of a gradient.", "none")] = None,
    seed: Annotated[int | None, _option("seed", "Of weights, order and augmentation.")] = None,
    validation: Annotated[
        int | None, _option("validation", "Training images set apart.", AS_DATA)
    ] = None,
    size: Annotated[
        int | None, _option("size", "Resize images to size x size.", "as they are")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="Of the network, as name=value; may be repeated."),
    ] = None,
    start: Annotated[
        str | None, _option("start", "A run folder or weights to begin with.", "a fresh network")
    ] = None,
    checkpoint_every: Annotated[int | None, _option("checkpoint_every", "In steps.")] = None,
    device: Annotated[str | None, _option("device", "auto, cpu, cuda, mps, ...")] = None,
    devices: Annotated[int | None, _option("devices", "How many on each machine.")] = None,
    nodes: Annotated[int | None, _option("nodes", "How many machines.")] = None,
    precision: Annotated[
        str | None, _option("precision", "Lightning Fabric's, such as bf16-mixed.")
    ] = None,
    settings: SettingsFile = None,
    data_folder: DataFolder = None,
    download: Download = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a network, or continue a training that was interrupted."""
    given = locals() | {"options": pairs(option, "--option")}
    flags = {f.name: given[f.name] for f in fields(TrainSettings)}
    folder = Run(run)
    chosen = settings_for(folder, settings, flags)
    output = Output(as_json=json, quiet=quiet)
    result = carry_out(chosen, folder, output, data_folder=data_folder, download=download)
    output.show(result)
    output.give(asdict(result))


def settings_for(run: Run, file: Path | None, flags: dict[str, Any]) -> TrainSettings:
    """Flags before the settings file, the file before what the run was begun with."""
    begun = run.trained_with()
    given = {} if file is None else read_settings(file, NAME, TrainSettings)
    chosen = merge(TrainSettings, begun, given, flags)
    if begun and run.started:
        _check_same(merge(TrainSettings, begun), chosen, run)
    return chosen


def _check_same(begun: TrainSettings, chosen: TrainSettings, run: Run) -> None:
    for name, value in asdict(begun).items():
        if name not in MAY_CHANGE and getattr(chosen, name) != value:
            raise CommandError(
                f"{run.folder} holds a training with {name} = {value!r}, not "
                f"{getattr(chosen, name)!r}: leave that out to continue it, or use another folder"
            )


def carry_out(
    settings: TrainSettings,
    run: Run,
    output: Output,
    *,
    data_folder: Path | None = None,
    download: bool = True,
    again: str | None = None,
) -> "TrainingResult":
    """Train by these settings into a run folder; only the first of several processes returns.

    `again` is the command that continues an interrupted training.
    """
    from qcapsnets.training import train

    recipe, augmentation = recipe_of(settings), augmentation_of(settings)
    splits = load_splits(
        settings.data,
        output,
        data_folder=data_folder,
        download=download,
        validation=settings.validation,
        size=settings.size,
    )
    model = build_for(settings, splits)
    if settings.start is not None and not run.started:
        _begin_with(model, Path(settings.start))
    fabric = _fabric(settings)
    if fabric.is_global_zero and not run.started:
        write_settings(run.settings, NAME, settings)
    again = again or f"qcapsnets train {run.folder}"
    advice = interruptible(f"`{again}` continues from the last checkpoint")
    with advice, output.progress(f"training {model.name}") as report:
        result = train(
            model,
            splits,
            recipe,
            run.folder,
            augmentation=augmentation,
            fabric=fabric,
            observe=lambda progress: _report(progress, report),
        )
    if not fabric.is_global_zero:
        raise typer.Exit
    return result


def recipe_of(settings: TrainSettings) -> "Recipe":
    """What the training itself is told."""
    from qcapsnets.training import Recipe

    values = {f.name: getattr(settings, f.name) for f in fields(Recipe)}
    if values["decoder"] == NO_DECODER:
        values["decoder"] = None
    return Recipe(**values)


def augmentation_of(settings: TrainSettings) -> "Augmentation":
    """How images are changed: as the data set says, but for what was given."""
    from qcapsnets.data import datasets

    given = {name: getattr(settings, name) for name in ("shift", "rotate", "flip")}
    given = {name: value for name, value in given.items() if value is not None}
    if given and not settings.augment:
        raise CommandError(f"{', '.join(given)} was given with --no-augment: leave one of them out")
    return replace(datasets[settings.data].augmentation, **given)


def build_for(settings: TrainSettings, splits: "Splits") -> "CapsNet":
    """The network, for these images: size, channels and classes follow from the data."""
    import inspect

    import torch

    from qcapsnets.models import build, models

    images = splits.train
    found = {"size": images.height, "channels": images.channels, "classes": images.classes}
    taken = inspect.signature(models[settings.model]).parameters
    options = {name: value for name, value in found.items() if name in taken} | settings.options
    torch.manual_seed(settings.seed)
    return build(settings.model, **options)


def _begin_with(model: "CapsNet", start: Path) -> None:
    """Take over the weights of a trained network; a continued training has its own."""
    from qcapsnets.models.weights import load_weights

    load_weights(model, Run.of(start)[1])


def _fabric(settings: TrainSettings) -> "Fabric":
    """The processes of a training, started."""
    from lightning_fabric import Fabric

    from qcapsnets.errors import TrainingError

    try:
        fabric = Fabric(
            accelerator=settings.device,
            devices=settings.devices,
            num_nodes=settings.nodes,
            precision=settings.precision,  # type: ignore[arg-type]  # Fabric checks it
        )
        fabric.launch()
    except Exception as problem:  # Fabric's errors have no common root
        raise TrainingError(
            f"cannot train on {settings.devices} x {settings.device!r} in {settings.precision!r}: "
            f"{problem}"
        ) from problem
    return fabric


def _report(progress: "Progress", report: Report) -> None:
    ends_epoch = progress.step * progress.epochs % progress.steps == 0
    note = f"epoch {progress.epoch}/{progress.epochs}, loss {progress.loss:.4f}"
    if progress.best is not None:
        note += f", best validation {progress.best:.2%}"
    report.at(progress.step, progress.steps, note, milestone=ends_epoch)
