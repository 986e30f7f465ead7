"""A finished run as typed values: its result, and every plan that its searches evaluated."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qcapsnets.errors import ReportError
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.framework import JOURNALS, RESULT, ModelReport, Result, SchemeReport, read_result
from qcapsnets.framework.result import Measured


@dataclass(frozen=True)
class Evaluated:
    """A plan as far as it was counted: of the `seen` hardest images, `right` are right."""

    rounding: str
    step: str
    plan: Plan
    seen: int
    right: int
    total: int

    @property
    def complete(self) -> bool:
        return self.seen == self.total

    @property
    def low(self) -> float:
        """The accuracy is at least this, if every image not seen were wrong."""
        return self.right / self.total

    @property
    def high(self) -> float:
        """The accuracy is at most this, if every image not seen were right."""
        return (self.right + self.total - self.seen) / self.total


@dataclass(frozen=True)
class Finished:
    """What a run folder holds."""

    folder: Path
    result: Result
    evaluated: tuple[Evaluated, ...]

    @classmethod
    def read(cls, folder: Path) -> "Finished":
        """From `result.json` and the journals; a folder without a result is an error."""
        result = result_in(folder)
        found = (
            plan
            for scheme in result.schemes
            for plan in _journal(folder / JOURNALS / f"{scheme.rounding}.jsonl", scheme.rounding)
        )
        return cls(folder, result, tuple(found))


def result_in(folder: Path) -> Result:
    """From `result.json` alone."""
    path = folder / RESULT
    return _result(read_result(path), path)


def _result(value: dict[str, Any], path: Path) -> Result:
    try:
        plain = {key: value[key] for key in value if key != "schema"}
        return Result(
            **plain
            | {
                "float_search": Measured(**value["float_search"]),
                "float_test": Measured(**value["float_test"]),
                "chosen": tuple(map(_model, value["chosen"])),
                "reasons": tuple(value["reasons"]),
                "warnings": tuple(value["warnings"]),
                "schemes": tuple(map(_scheme, value["schemes"])),
            }
        )
    except (KeyError, TypeError, AttributeError) as problem:
        raise ReportError(
            f"{path} lacks a part of a result ({problem}): run `qcapsnets quantize` again"
        ) from None


def _scheme(value: dict[str, Any]) -> SchemeReport:
    models = tuple(map(_model, value["models"]))
    return SchemeReport(**value | {"steps": tuple(value["steps"]), "models": models})


def _model(value: dict[str, Any]) -> ModelReport:
    test = value.get("test")
    return ModelReport(**value | {"test": None if test is None else Measured(**test)})


def _journal(path: Path, rounding: str) -> Iterator[Evaluated]:
    """Each plan once: under the step that asked for it first, counted as far as ever."""
    furthest: dict[Plan, Evaluated] = {}
    for line in _lines(path):
        plan = Plan.from_json(line["plan"])
        known = furthest.get(plan)
        if known is None or line["seen"] > known.seen:
            step = line["step"] if known is None else known.step
            counts = line["seen"], line["right"], line["total"]
            furthest[plan] = Evaluated(rounding, step, plan, *counts)
    yield from furthest.values()


def _lines(path: Path) -> list[dict[str, Any]]:
    """The measurements in a journal, without its heading; one that was cut short ends it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ReportError(
            f"cannot read {path}: {problem.strerror}; `qcapsnets quantize` on the folder mends it"
        ) from None
    lines = []
    for line in text.splitlines()[1:]:
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines
