"""What the page says, section by section, as plain values that a template lays out."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from qcapsnets.accounting import FLOAT_BITS, Memory
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.framework import ModelReport, Result, SchemeReport
from qcapsnets.models import CapsNet
from qcapsnets.report import words
from qcapsnets.report.work import Work
from qcapsnets.search import Settings

BYTE = 8


@dataclass(frozen=True)
class Cell:
    """A figure, and in small print what else is to be said of it."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One line of the comparison: the float network, then each chosen model."""

    name: str
    cells: tuple[Cell, ...]
    explained: str = ""


@dataclass(frozen=True)
class Tile:
    """The four figures that a reader looks for first."""

    name: str
    value: str
    note: str
    share: float
    """What is left of the float network's, for a bar."""


@dataclass(frozen=True)
class Account:
    """Memory and work of one network, float (no plan) or quantized."""

    memory: Memory
    work: Work

    @classmethod
    def of(cls, model: CapsNet, plan: Plan | None = None) -> "Account":
        """Count."""
        return cls(Memory.of(model, plan), Work.of(model, plan))


def tiles(result: Result, model: ModelReport, before: Account, after: Account) -> list[Tile]:
    """Accuracy, both memories and energy of one model, against float."""
    test = model.test or result.float_test
    spent = after.work.picojoules / before.work.picojoules
    return [
        Tile(
            "Test accuracy",
            words.percent(test.accuracy),
            f"float {words.percent(result.float_test.accuracy)}",
            test.accuracy / max(result.float_test.accuracy, test.accuracy),
        ),
        Tile(
            "Weight memory",
            words.memory(model.weight_bits),
            f"{model.weight_reduction:.2f}x less than {words.memory(result.float_weight_bits)}",
            1 / model.weight_reduction,
        ),
        Tile(
            "Activation memory",
            words.memory(model.activation_bits),
            f"{model.activation_reduction:.2f}x less than "
            f"{words.memory(result.float_activation_bits)}",
            1 / model.activation_reduction,
        ),
        Tile(
            "Energy of arithmetic",
            words.energy(after.work.picojoules),
            f"{1 / spent:.1f}x less than {words.energy(before.work.picojoules)} (estimate)",
            spent,
        ),
    ]


def comparison(result: Result, before: Account, after: tuple[Account, ...]) -> list[Row]:
    """Float against quantized."""
    return [*_accuracy_rows(result), *_memory_rows(result, before), *_work_rows(before, after)]


def _accuracy_rows(result: Result) -> list[Row]:
    split = result.settings["search_split"]
    tests = [result.float_test, *(m.test for m in result.chosen)]
    searched = [result.float_search.accuracy, *(m.search_accuracy for m in result.chosen)]
    return [
        Row(
            "Test images right",
            tuple(
                Cell("-") if test is None else Cell(words.percent(test.accuracy), note)
                for test, note in zip(
                    tests, [words.interval(t) if t else "" for t in tests], strict=True
                )
            ),
            "with the 95% interval (Wilson)",
        ),
        Row(
            "Answers that changed",
            (Cell(""), *map(_changed, result.chosen)),
            "among the test images; p of the sign test (McNemar)",
        ),
        Row(
            f"{split.capitalize()} images right",
            tuple(Cell(words.percent(accuracy)) for accuracy in searched),
            f"where the search was done; target {words.percent(result.target)}",
        ),
    ]


def _changed(model: ModelReport) -> Cell:
    if model.p_value is None:
        return Cell("-")
    counts = f"{model.became_wrong} became wrong, {model.became_right} right"
    return Cell(counts, f"p = {model.p_value:.2g}")


def _memory_rows(result: Result, before: Account) -> list[Row]:
    chosen = result.chosen

    def reduced(bits: int, of: int) -> Cell:
        return Cell(words.memory(bits), f"{of / bits:.2f}x less")

    weights, outputs = result.float_weight_bits, result.float_activation_bits
    peak = before.memory.peak
    return [
        Row(
            "Weight memory",
            (Cell(words.memory(weights)), *(reduced(m.weight_bits, weights) for m in chosen)),
            f"every bit of weights and biases; budget {words.memory(result.budget_bits)}",
        ),
        Row(
            "Binary points",
            (Cell("-"), *(Cell(words.memory(m.binary_point_bits)) for m in chosen)),
            "one for each tensor, on top",
        ),
        Row(
            "File",
            (Cell("-"), *(Cell(_bytes(m.file_bytes), m.file or "") for m in chosen)),
            "as packed, header included",
        ),
        Row(
            "Activation memory",
            (Cell(words.memory(outputs)), *(reduced(m.activation_bits, outputs) for m in chosen)),
            "all layer outputs of one image",
        ),
        Row(
            "Working memory",
            (
                Cell(words.memory(peak.bits)),
                *(reduced(m.working_set_bits, peak.bits) for m in chosen),
            ),
            f"needed at the same time, at most (in float, by {peak.layer})",
        ),
        Row(
            "Routing bits",
            (Cell(str(FLOAT_BITS)), *(Cell(_routing(m)) for m in chosen)),
            "of the arrays before squash and softmax",
        ),
    ]


def _bytes(size: int | None) -> str:
    return "-" if size is None else words.quantity(size) + "B"


def _routing(model: ModelReport) -> str:
    if len(model.routing) == 1:
        return str(next(iter(model.routing.values())))
    return ", ".join(f"{layer} {bits}" for layer, bits in model.routing.items()) or "-"


def _work_rows(before: Account, after: tuple[Account, ...]) -> list[Row]:
    accounts = (before, *after)

    def row(name: str, show: Callable[[Work], str], explained: str) -> Row:
        return Row(name, tuple(Cell(show(a.work)) for a in accounts), explained)

    return [
        row(
            "Multiply-accumulates",
            lambda w: words.quantity(w.macs),
            "of one image; quantizing shortens them, it does not remove any",
        ),
        row(
            "Squash and softmax",
            lambda w: f"{w.squash:,} + {w.softmax:,}",
            "vectors squashed + rows normalised",
        ),
        row(
            "Energy of arithmetic",
            lambda w: words.energy(w.picojoules),
            "estimate of the multiply-accumulates in 45 nm (Horowitz 2014)",
        ),
        row(
            "Energy of weights",
            lambda w: words.energy(w.weight_picojoules),
            "estimate of reading each once from DRAM",
        ),
    ]


@dataclass(frozen=True)
class FormatRow:
    """A site's number format, spelt out."""

    site: str
    format: FixedPoint

    @property
    def step(self) -> str:
        return f"2^{-self.format.fraction}"

    @property
    def span(self) -> str:
        return f"{self.format.min:g} to {self.format.max:g}"


def formats(model: ModelReport) -> list[FormatRow]:
    """The formats of all sites, in the order of the network."""
    return [FormatRow(site, FixedPoint.parse(text)) for site, text in model.formats.items()]


@dataclass(frozen=True)
class SchemeRow:
    """A model that one rounding scheme came to."""

    rounding: str
    path: str
    model: ModelReport
    chosen: bool
    plans: int
    images: int
    seconds: float

    @property
    def title(self) -> str:
        return words.name_of(self.model)

    @property
    def weights(self) -> str:
        return ", ".join(str(q["weight"]) for q in self.model.plan.values())

    @property
    def activations(self) -> str:
        return ", ".join(str(q["activation"]) for q in self.model.plan.values())

    @property
    def routing(self) -> str:
        return ", ".join(map(str, self.model.routing.values())) or "-"


def schemes(result: Result) -> list[SchemeRow]:
    """The comparison of rounding schemes."""
    chosen = {(m.rounding, m.name) for m in result.chosen}
    return [
        SchemeRow(
            rounding=scheme.rounding,
            path=scheme.path,
            model=model,
            chosen=(scheme.rounding, model.name) in chosen,
            plans=_spent(scheme, "cost", "plans"),
            images=_spent(scheme, "cost", "images"),
            seconds=_spent(scheme, "effort", "seconds"),
        )
        for scheme in result.schemes
        for model in scheme.models
    ]


def _spent(scheme: SchemeReport, part: str, what: str) -> Any:
    return sum(step[part][what] for step in scheme.steps)


def command(result: Result, network: Path) -> str:
    """The command line that does the same search again, into a folder of its own."""
    settings = result.settings
    line = ["qcapsnets", "quantize", str(network)]
    line += ["--tolerance", settings["tolerance"], "--budget", f"{settings['budget']}bit"]
    line += ["--rounding", ",".join(settings["roundings"]), "--data", result.data["name"]]
    for field in fields(Settings):
        value = settings.get(field.name, field.default)
        if field.name not in ("tolerance", "budget", "roundings") and value != field.default:
            line += [f"--{field.name.replace('_', '-')}", str(value)]
    return shlex.join([*line, "--out", "runs/again"])
