"""`qcapsnets demo`: everything once, on the digits that come with the package."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from qcapsnets.cli import quantize
from qcapsnets.cli.evaluate import Split, evaluate
from qcapsnets.cli.options import Json, Quiet, example
from qcapsnets.cli.output import Output
from qcapsnets.cli.quantize import QuantizeSettings
from qcapsnets.cli.report import report
from qcapsnets.cli.runs import Run
from qcapsnets.cli.train import TrainSettings, carry_out, settings_for

NAME = "demo"
EXAMPLE = example("qcapsnets demo")

SETTINGS = TrainSettings(
    model="shallowcaps-small",
    data="mnist-mini",
    epochs=10,
    batch_size=50,
    learning_rate=0.003,
    decoder="none",
    reconstruction=0.0,
)

SEARCH = QuantizeSettings(tolerance="1%", budget="2.2Mbit", strategy="by-size")


@dataclass
class Demo:
    """What the steps hand on to each other."""

    run: Run
    output: Output
    results: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One thing that the demonstration does; it shows what came of it."""

    title: str
    act: Callable[[Demo], None]


def train(demo: Demo) -> None:
    """A small ShallowCaps on the bundled digits."""
    settings = settings_for(demo.run, None, vars(SETTINGS))
    again = f"qcapsnets demo {demo.run.folder}"
    result = carry_out(settings, demo.run, demo.output, again=again)
    demo.results["validation_accuracy"] = result.validation_accuracy


def measure(demo: Demo) -> None:
    """Its accuracy on the test images."""
    result = evaluate(demo.run.folder, Split.TEST, demo.output)
    demo.output.show(result)
    demo.results["test"] = result.to_json()


def search(demo: Demo) -> None:
    """Wordlengths for it, under all rounding schemes."""
    settings = quantize.settings_for(demo.run, None, vars(SEARCH))
    result = quantize.carry_out(settings, demo.run.folder, demo.run, demo.output)
    demo.output.show(result)
    demo.results["search"] = result.to_json()


def tell(demo: Demo) -> None:
    """A page about all of it."""
    path = report(demo.run.folder, demo.output)
    demo.output.show(f"The report is in {path}")
    demo.results["report"] = str(path)


STEPS = [
    Step(f"Train {SETTINGS.model} on {SETTINGS.data}", train),
    Step("Measure its accuracy", measure),
    Step("Search wordlengths", search),
    Step("Write the report", tell),
]


def command(
    run: Annotated[Path, typer.Argument(help="The run folder.")] = Path("runs/demo"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a small network on the bundled digits and quantize it; a second call continues."""
    output = Output(as_json=json, quiet=quiet)
    demo = Demo(Run(run), output, {"run": str(run)})
    for number, step in enumerate(STEPS, 1):
        output.say(f"[{number}/{len(STEPS)}] {step.title}")
        step.act(demo)
    output.show(f"Everything is in {run}")
    output.give(demo.results)
