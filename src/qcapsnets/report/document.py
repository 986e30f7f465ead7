"""The report of a run: analysed, drawn, laid out and written."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from qcapsnets.data import Splits
from qcapsnets.errors import ReportError
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.framework import CALIBRATION, Result
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import fingerprint
from qcapsnets.report import sections, words
from qcapsnets.report.charts import Spec, plans_chart
from qcapsnets.report.chosen import Chosen, Material
from qcapsnets.report.figures import Picture, plans_figure
from qcapsnets.report.finished import Finished
from qcapsnets.report.notes import notes_of
from qcapsnets.report.page import render, svg_address
from qcapsnets.report.palette import scheme_colours, step_colour, step_name, step_path
from qcapsnets.report.plans import Plans
from qcapsnets.report.sections import Account
from qcapsnets.training import fingerprint as data_fingerprint

REPORT = "report.html"
FIGURES = "figures"
NOISE_IMAGES = 100
HARDEST = 1000

CONTENTS = {
    "summary": "Summary",
    "comparison": "Comparison",
    "layers": "Layers",
    "plans": "Plans",
    "search": "Search",
    "noise": "Noise",
    "images": "Images",
    "reproduce": "Repeat",
}


def write_report(
    folder: Path,
    model: CapsNet,
    splits: Splits,
    *,
    network: Path | None = None,
    noise_images: int = NOISE_IMAGES,
    hardest: int = HARDEST,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write `report.html`, and figures beside it, for a finished run of a network on images.

    `network` is the run folder or file that the network came from, for the command that repeats
    the run. Noise is measured on `noise_images` of the images of the search; changed images are
    looked for among the `hardest` test images. `tell` is told what is being done.
    """
    finished = Finished.read(folder)
    result = finished.result
    _check(result, model, splits)
    material = Material(
        model=model.eval(),
        calibration=Calibration.load(folder / CALIBRATION),
        result=result,
        noise_images=getattr(splits, result.settings["search_split"]).images[:noise_images],
        test=splits.test,
        hardest=hardest,
    )
    before = Account.of(model)
    chosen = []
    for report in result.chosen:
        tell(f"looking into {report.name}: noise at its sites, images that changed class")
        chosen.append(Chosen.of(report, material, before))
    document = Document(
        finished=finished,
        plans=Plans.of(finished, model),
        before=before,
        chosen=tuple(chosen),
        noise_images=len(material.noise_images),
        network=network or folder,
    )
    tell("drawing the figures and writing the page")
    return document.write(folder)


def _check(result: Result, model: CapsNet, splits: Splits) -> None:
    """Another network or other images than the run's would tell nothing of the run."""
    if fingerprint(model) != result.model["fingerprint"]:
        raise ReportError(
            f"the run is of a network with fingerprint {result.model['fingerprint']}, this one has "
            f"{fingerprint(model)}: give the network that was quantized"
        )
    found, expected = data_fingerprint(splits.test), result.data["test_images"]
    if found != expected:
        raise ReportError(
            f"the run was on {result.data['name']} with test images {expected}, these are {found}: "
            "give the same data"
        )


@dataclass(frozen=True, eq=False)
class Document:
    """All that the page is made of."""

    finished: Finished
    plans: Plans
    before: Account
    chosen: tuple[Chosen, ...]
    noise_images: int
    network: Path

    def write(self, folder: Path) -> Path:
        """The figures, then the page."""
        pictures = self.pictures()
        for picture in chain(*pictures.values()):
            picture.write(folder / FIGURES)
        write_atomically(folder / REPORT, self.html(pictures), ReportError)
        return folder / REPORT

    def pictures(self) -> dict[str, list[Picture]]:
        """The figures of each chart, by its name."""
        own = {model.charts[kind]: d for model in self.chosen for kind, d in model.drawn.items()}
        return {"plans": [plans_figure(self.plans)]} | own

    def specs(self) -> dict[str, Spec]:
        """All charts by name."""
        own = {
            model.charts[kind]: spec for model in self.chosen for kind, spec in model.specs.items()
        }
        return {"plans": plans_chart(self.plans)} | own

    def html(self, pictures: dict[str, list[Picture]]) -> str:
        """The page."""
        result = self.finished.result
        return render(
            "report.html",
            title=f"{result.model['name']} on {result.data['name']}: quantization report",
            contents=CONTENTS,
            specs=self.specs(),
            pictures={
                name: [svg_address(p.svg) for p in drawn] for name, drawn in pictures.items()
            },
            result=result,
            models=self.chosen,
            met=words.satisfied(result) is not None,
            verdict=words.verdict(result),
            tested=words.tested(result),
            comparison=sections.comparison(
                result, self.before, tuple(model.account for model in self.chosen)
            ),
            schemes=sections.schemes(result),
            command=sections.command(result, self.network),
            scheme_colours=scheme_colours(result.settings["roundings"]),
            step_keys=_step_keys(self.plans),
            notes=notes_of(self.plans, result, self.noise_images),
            settings=_flat(result.settings),
            origin=_flat({"network": result.model, "data": result.data}),
        )


def _step_keys(plans: Plans) -> list[dict[str, str]]:
    """Which symbol is which step."""
    return [
        {"name": step_name(step), "path": step_path(step), "colour": step_colour(step)}
        for step in sorted({point.step for point in plans.points})
    ]


def _flat(values: dict[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Names and values, nested ones written out."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        label = f"{above}{name}".replace("_", " ")
        if isinstance(value, dict):
            rows += _flat(value, f"{label}: ")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            rows.append((label, shown))
    return rows
