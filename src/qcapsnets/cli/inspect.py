"""`qcapsnets inspect`: what a network, a plan, a run or any file of ours holds."""

import json as json_
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qcapsnets.cli.errors import CommandError
from qcapsnets.cli.options import Json, complete_model, example
from qcapsnets.cli.output import Output
from qcapsnets.cli.runs import METRICS, SUMMARY, Run

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from qcapsnets.fixedpoint.plan import Plan
    from qcapsnets.models import CapsNet

NAME = "inspect"
EXAMPLE = example("qcapsnets inspect shallowcaps-small")


@dataclass(frozen=True, eq=False)
class View:
    """The same facts for people and for machines."""

    shown: "tuple[RenderableType, ...]"
    facts: dict[str, Any]


def command(
    target: Annotated[
        str,
        typer.Argument(
            help="A run folder, a file of ours, or a network's name.",
            autocompletion=complete_model,
        ),
    ],
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Count a network's memory under this plan (a JSON file)."),
    ] = None,
    json: Json = False,
) -> None:
    """Look into a network, a plan, a run or any file that this program wrote."""
    output = Output(as_json=json)
    view = inspect(target, plan)
    output.show(*view.shown)
    output.give(view.facts)


def inspect(target: str, plan: Path | None = None) -> View:
    """What `target` is, by what is in it."""
    path = Path(target)
    chosen = None if plan is None else _read_plan(plan)
    if path.is_dir():
        return _run(Run(path), chosen)
    if path.exists():
        return _file(path, chosen)
    return _named(target, chosen)


def _named(name: str, plan: "Plan | None") -> View:
    from qcapsnets.models import build, models

    if name not in models:
        raise CommandError(
            f"{name!r} is neither a file, nor a folder, nor a network: "
            f"the networks are {', '.join(models)}"
        )
    return _network(build(name), plan, {})


def _network(model: "CapsNet", plan: "Plan | None", facts: dict[str, Any]) -> View:
    """Memory and work of a network, and what its file knows of it."""
    from qcapsnets.accounting import Memory, Operations

    memory, work = Memory.of(model, plan), Operations.of(model)
    heading = {
        "network": model.name,
        "options": model.options,
        "image": list(model.image_shape),
        "classes": model.classes,
        **facts,
    }
    return View(
        (_pairs(heading), memory, work, memory.peak),
        heading | {"memory": memory.to_json(), "operations": work.to_json()},
    )


def _run(run: Run, plan: "Plan | None") -> View:
    """The settings, how the training went, and the network."""
    if not (run.started or run.settings.exists() or run.model.exists()):
        raise CommandError(f"{run.folder} is no run folder: it holds nothing that we wrote")
    settings = run.trained_with()
    state = "finished" if run.finished else "unfinished" if run.started else "not begun"
    shown: list[RenderableType] = [_pairs({"run": str(run.folder), "training": state} | settings)]
    facts: dict[str, Any] = {"run": str(run.folder), "training": state, "settings": settings}
    for path in (run.folder / METRICS, run.model):
        if path.exists():
            view = _file(path, plan)
            shown += view.shown
            facts[path.stem] = view.facts
    return View(tuple(shown), facts)


def _file(path: Path, plan: "Plan | None") -> View:
    reader = READERS.get(path.suffix)
    if reader is None:
        raise CommandError(
            f"{path} is of no kind that we write: we write {', '.join(READERS)} files"
        )
    return reader(path, plan)


def _safetensors(path: Path, plan: "Plan | None") -> View:
    """A network, a checkpoint or a calibration, told apart by the header."""
    from qcapsnets.models.weights import load_model, read_tensors

    header = read_tensors(path).header
    if "facts" in header:
        model, facts = load_model(path)
        return _network(model, plan, facts)
    if "calibration" in header:
        return _calibration(header)
    plain = {"file": str(path)} | header
    return View((_pairs(plain),), plain)


def _packed(path: Path, _: "Plan | None") -> View:
    """A packed model: what its header says, its plan, and its size."""
    from qcapsnets.export import read_header
    from qcapsnets.fixedpoint.plan import Plan

    header = read_header(path)
    facts = {"file": str(path), "bytes": path.stat().st_size} | header
    shown = {name: facts[name] for name in facts if name not in ("plan", "formats", "tensors")}
    return View((_pairs(shown), _plan_table(Plan.from_json(header["plan"]))), facts)


def _calibration(header: dict[str, Any]) -> View:
    from rich.table import Table

    table = Table("site", title=f"Calibration on {header.get('images')} images")
    for column in ("least", "largest"):
        table.add_column(column, justify="right")
    for name, (low, high) in header.get("extremes", {}).items():
        table.add_row(name, f"{low:.4g}", f"{high:.4g}")
    return View((table,), header)


def _json(path: Path, _: "Plan | None") -> View:
    """A plan, or any other JSON object."""
    value = _read_json(path)
    if path.name != SUMMARY and _is_plan(value):
        plan = _read_plan(path)
        return View((_plan_table(plan),), plan.to_json())
    return View((_pairs(value),), value)


def _is_plan(value: dict[str, Any]) -> bool:
    return bool(value) and all(isinstance(q, dict) and "weight" in q for q in value.values())


def _read_plan(path: Path) -> "Plan":
    from qcapsnets.fixedpoint.plan import Plan

    return Plan.from_json(_read_json(path))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json_.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandError(f"there is no file {path}: correct the path") from None
    except OSError as problem:
        raise CommandError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise CommandError(f"{path} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise CommandError(f"{path} holds no JSON object: it was not written by this program")
    return value


def _plan_table(plan: "Plan") -> "Table":
    from rich.table import Table

    table = Table("layer")
    for column in ("weights", "activations", "routing"):
        table.add_column(column, justify="right")
    for name, q in plan.items():
        table.add_row(name, str(q.weight), str(q.activation), str(q.routing or ""))
    return table


def _jsonl(path: Path, _: "Plan | None") -> View:
    """The metrics of a training: what was known at the end of each epoch."""
    from rich.table import Table

    from qcapsnets.training.metrics import Metrics

    lines = Metrics(path).read()
    table = Table("epoch", title="Training", title_justify="left")
    for column in ("steps", "validation accuracy"):
        table.add_column(column, justify="right")
    for line in lines:
        if "validation_accuracy" in line:
            accuracy = f"{line['validation_accuracy']:.2%}"
            table.add_row(str(line.get("epoch", "")), str(line.get("step", "")), accuracy)
    return View((table,), {"lines": lines})


def _toml(path: Path, _: "Plan | None") -> View:
    import tomllib

    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise CommandError(f"{path} is not TOML: {problem}") from None
    return View((_pairs(value),), value)


def _pairs(values: dict[str, Any]) -> "Table":
    """Names and values, nested ones written out."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False)
    for name, value in _flat(values):
        table.add_row(f"[dim]{escape(name)}[/]", escape(str(value)))
    return table


def _flat(values: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in values.items():
        rows += (
            _flat(value, f"{above}{name}.") if isinstance(value, dict) else [(above + name, value)]
        )
    return rows


READERS: "dict[str, Callable[[Path, Plan | None], View]]" = {
    ".safetensors": _safetensors,
    ".json": _json,
    ".jsonl": _jsonl,
    ".toml": _toml,
    ".qcaps": _packed,
}
