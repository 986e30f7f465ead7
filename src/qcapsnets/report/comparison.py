"""Several runs side by side: one page, and one table in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonpath
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from qcapsnets.errors import ReportError
from qcapsnets.files import write_atomically
from qcapsnets.framework import ModelReport, Result
from qcapsnets.report import words
from qcapsnets.report.charts import Spec, runs_chart, wordlengths_chart
from qcapsnets.report.figures import Picture, runs_figure, wordlengths_figure
from qcapsnets.report.finished import Finished
from qcapsnets.report.page import render, svg_address
from qcapsnets.report.palette import cycled

PAGE = "comparison.html"
TABLE = "comparison.md"

CONTENTS = {"summary": "Runs", "models": "Models", "plans": "Memory", "layers": "Wordlengths"}


@dataclass(frozen=True)
class Run:
    """A run, by a name that tells it from the others."""

    name: str
    finished: Finished

    @property
    def result(self) -> Result:
        return self.finished.result

    @property
    def verdict(self) -> str:
        return words.verdict(self.result)

    @property
    def met(self) -> bool:
        return words.satisfied(self.result) is not None


@dataclass(frozen=True)
class Line:
    """One model of one run; without a report, the float network."""

    run: str
    model: str
    rounding: str
    weights: str
    reduction: str
    activations: str
    routing: str
    test: str
    interval: str
    constraints: str

    @classmethod
    def of_float(cls, run: Run) -> "Line":
        """The network that a run began with."""
        result = run.result
        return cls(
            run=run.name,
            model="float",
            rounding="-",
            weights=words.memory(result.float_weight_bits),
            reduction="-",
            activations=words.memory(result.float_activation_bits),
            routing="32",
            test=words.percent(result.float_test.accuracy),
            interval=words.interval(result.float_test),
            constraints="-",
        )

    @classmethod
    def of(cls, run: Run, model: ModelReport) -> "Line":
        """A model that a run chose."""
        met = model.meets_accuracy, model.meets_budget
        return cls(
            run=run.name,
            model=words.name_of(model),
            rounding=model.rounding,
            weights=words.memory(model.weight_bits),
            reduction=f"{model.weight_reduction:.2f}x",
            activations=words.memory(model.activation_bits),
            routing=", ".join(map(str, model.routing.values())) or "-",
            test="-" if model.test is None else words.percent(model.test.accuracy),
            interval="-" if model.test is None else words.interval(model.test),
            constraints=_CONSTRAINTS[met],
        )


_CONSTRAINTS = {
    (True, True): "both",
    (True, False): "only the accuracy",
    (False, True): "only the budget",
    (False, False): "neither",
}

COLUMNS = {
    "run": "run",
    "model": "model",
    "rounding": "rounding",
    "weights": "weights",
    "reduction": "reduction",
    "activations": "activations",
    "routing": "routing bits",
    "test": "test accuracy",
    "interval": "95% interval",
    "constraints": "constraints met",
}
NUMBERS = ("weights", "reduction", "activations", "routing", "test", "interval")


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    runs: tuple[Run, ...]

    @classmethod
    def read(cls, folders: Sequence[Path]) -> "Comparison":
        """From two run folders or more."""
        if len(folders) < 2:
            raise ReportError(f"{len(folders)} run given: a comparison needs two or more")
        if len({folder.resolve() for folder in folders}) < len(folders):
            raise ReportError("a run is given twice: give each once")
        named = _named(folders).items()
        return cls(tuple(Run(name, Finished.read(path)) for name, path in named))

    @property
    def lines(self) -> list[Line]:
        """All models: of each run the float network, then the chosen ones."""
        return [
            line
            for run in self.runs
            for line in (Line.of_float(run), *(Line.of(run, model) for model in run.result.chosen))
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values: the result of each run by its name."""
        return {run.name: run.result.to_json() for run in self.runs}

    def __rich__(self) -> Table:
        table = Table()
        for field, name in COLUMNS.items():
            table.add_column(name, justify="right" if field in NUMBERS else "left")
        for line in self.lines:
            table.add_row(*(escape(getattr(line, field)) for field in COLUMNS))
        return table

    def markdown(self) -> str:
        """The table of all models."""
        rows = [[getattr(line, field) for field in COLUMNS] for line in self.lines]
        rule = ["---:" if field in NUMBERS else ":---" for field in COLUMNS]
        table = [list(COLUMNS.values()), rule, *rows]
        text = "\n".join("| " + " | ".join(map(_escaped, row)) + " |" for row in table)
        return text.replace(words.SPACE, " ") + "\n"

    def html(self) -> str:
        """The page."""
        colours = cycled(run.name for run in self.runs)
        results = {run.name: run.result for run in self.runs}
        specs: dict[str, Spec] = {"runs": runs_chart(results, colours)}
        pictures: dict[str, Picture] = {"runs": runs_figure(results, colours)}
        charts = []
        for number, run in enumerate(self.runs):
            for model in run.result.chosen:
                name = f"wordlengths-{number}-{model.name}"
                specs[name] = wordlengths_chart(model)
                pictures[name] = wordlengths_figure(name, model)
                charts.append((name, run.name, f"{words.name_of(model)}, {model.rounding}"))
        return render(
            "comparison.html",
            title=f"Comparison of {words.counted(len(self.runs), 'run')}",
            contents=CONTENTS,
            specs=specs,
            pictures={name: [svg_address(picture.svg)] for name, picture in pictures.items()},
            runs=self.runs,
            lines=self.lines,
            columns=COLUMNS,
            numbers=NUMBERS,
            charts=charts,
        )

    def write(self, folder: Path) -> Path:
        """The table and the page, into a folder; the path of the page."""
        write_atomically(folder / TABLE, self.markdown(), ReportError)
        write_atomically(folder / PAGE, self.html(), ReportError)
        return folder / PAGE


def write_comparison(folders: Sequence[Path], out: Path) -> Path:
    """Write `comparison.html` and `comparison.md` of several runs into a folder."""
    return Comparison.read(folders).write(out)


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Each folder by what of its path tells it from the others."""
    whole = [folder.resolve() for folder in folders]
    shared = Path(commonpath([folder.parent for folder in whole]))
    return {str(folder.relative_to(shared)): folder for folder in whole}


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
