"""The result of a run: a frozen value, and the same as `result.json`.

Everything but what is named `effort` is the same for every run with the same inputs, however
often it was interrupted.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table

from qcapsnets.accounting import bits_in_words
from qcapsnets.errors import SearchError

SCHEMA = 1


@dataclass(frozen=True)
class Measured:
    """Right answers on a set of images, with a 95 % interval."""

    right: int
    total: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelReport:
    """A quantized model: what it is, how large, how accurate."""

    name: str
    rounding: str
    plan: dict[str, dict[str, int | None]]
    formats: dict[str, str]
    exact: bool
    weight_bits: int
    binary_point_bits: int
    activation_bits: int
    working_set_bits: int
    weight_reduction: float
    activation_reduction: float
    routing: dict[str, int]
    meets_accuracy: bool
    meets_budget: bool
    search_accuracy: float
    test: Measured | None = None
    became_wrong: int | None = None
    became_right: int | None = None
    p_value: float | None = None
    file: str | None = None
    file_bytes: int | None = None


@dataclass(frozen=True)
class SchemeReport:
    """The search for one rounding scheme."""

    rounding: str
    path: Literal["A", "B"]
    steps: tuple[dict[str, Any], ...]
    models: tuple[ModelReport, ...]


@dataclass(frozen=True)
class Result:
    """Everything that a run found."""

    model: dict[str, Any]
    data: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    float_search: Measured
    float_test: Measured
    target: float
    step_1_target: float
    budget_bits: int
    float_weight_bits: int
    float_activation_bits: int
    path: Literal["A", "B"]
    chosen: tuple[ModelReport, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    schemes: tuple[SchemeReport, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"schema": SCHEMA, **asdict(self)}

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        first = self.chosen[0]
        if self.path == "A":
            return (
                f"Both constraints are met: {first.search_accuracy:.2%} right "
                f"(target {self.target:.2%}) with {bits_in_words(first.weight_bits)} of weights "
                f"(budget {bits_in_words(self.budget_bits)}), {first.weight_reduction:.2f}x less."
            )
        memory, accurate = self.chosen
        taken = f"{bits_in_words(accurate.weight_bits)} ({accurate.weight_reduction:.2f}x less)"
        target, budget = f"target {self.target:.2%}", bits_in_words(self.budget_bits)
        within = f"{memory.search_accuracy:.2%} are right ({target})"
        if accurate.meets_accuracy and accurate.meets_budget:
            return (
                f"The weights that step 2 fits in miss the target: {within}. Others meet "
                f"both constraints: {accurate.search_accuracy:.2%} with {taken} of {budget}."
            )
        other = f"the target takes {taken}"
        if not accurate.meets_accuracy:
            other = f"even {taken} reach only {accurate.search_accuracy:.2%}"
        return f"The constraints cannot both be met: within {budget} {within}, and {other}."

    def __rich__(self) -> RenderableType:
        return Group(f"[bold]{self.verdict}[/]", self._table())

    def _table(self) -> Table:
        table = Table(title=f"{self.model['name']} on {self.data['name']}")
        columns = ("", "rounding", "weights", "activations", "routing", "search", "test")
        for column in columns:
            table.add_column(column, justify="left" if column in columns[:2] else "right")
        table.add_row(
            "float",
            "-",
            bits_in_words(self.float_weight_bits),
            bits_in_words(self.float_activation_bits),
            "32",
            f"{self.float_search.accuracy:.2%}",
            _with_interval(self.float_test),
        )
        for model in self.chosen:
            table.add_row(
                model.name,
                model.rounding,
                f"{bits_in_words(model.weight_bits)} ({model.weight_reduction:.2f}x)",
                f"{bits_in_words(model.activation_bits)} ({model.activation_reduction:.2f}x)",
                ", ".join(map(str, model.routing.values())) or "-",
                f"{model.search_accuracy:.2%}",
                "-" if model.test is None else _with_interval(model.test),
            )
        return table


def _with_interval(measured: Measured) -> str:
    return f"{measured.accuracy:.2%} ({measured.low:.2%} to {measured.high:.2%})"


def read_result(path: Path) -> dict[str, Any]:
    """The plain values of a `result.json`; another file is an error."""
    try:
        value = json.loads(path.read_text())
    except OSError:
        raise SearchError(f"there is no {path}: run `qcapsnets quantize` first") from None
    except ValueError:
        raise SearchError(f"{path} is not JSON: run `qcapsnets quantize` again") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise SearchError(f"{path} is not a result of this version: run `qcapsnets quantize` again")
    return value
