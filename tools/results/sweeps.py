"""Sweeps: accuracy against one wordlength, all else fixed. A curve is a JSON file, made once."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from tools.results.bench import Bench
from tools.results.wanted import Network, Wanted

from qcapsnets.errors import ReportError
from qcapsnets.evaluation import Measurement
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.calibration import Points
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.rounding import roundings
from qcapsnets.search import Problem

SWEEPS = "sweeps"
FIXED = 8
"""The wordlength of everything that a routing sweep does not change."""
RANDOM = "stochastic"

Vary = Literal["uniform", "routing", "activation"]


@dataclass(frozen=True)
class Curve:
    """What is swept: everything, the routing arrays alone, or all other activations."""

    vary: Vary
    rounding: str = "nearest"
    points: Points = "mse"
    seed: int = 0

    @property
    def file(self) -> str:
        """A name for its result."""
        return f"{self.vary}-{self.rounding}-{self.points}-{self.seed}.json"

    def plan(self, problem: Problem, wordlength: int) -> Plan:
        """The plan at one place of the curve."""
        if self.vary == "uniform":
            return problem.uniform(wordlength, wordlength)
        fixed = problem.uniform(FIXED, FIXED)
        layers = problem.routed if self.vary == "routing" else problem.layers
        return fixed.replacing(**{self.vary: dict.fromkeys(layers, wordlength)})


@dataclass(frozen=True)
class Swept:
    """A finished curve: how many images are right at each wordlength."""

    curve: Curve
    right: dict[int, int]
    total: int
    correct: int
    """With the float network."""

    def accuracy(self, wordlength: int) -> float:
        return self.right[wordlength] / self.total


def curves(network: Network, wanted: Wanted) -> Iterator[Curve]:
    """All curves of a network; random rounding is swept with several seeds."""
    if network.rounding_sweep:
        for points in wanted.points:
            for rounding in roundings:
                for seed in range(wanted.seeds if rounding == RANDOM else 1):
                    yield Curve("uniform", rounding, points, seed)
    if network.routing_sweep:
        yield Curve("routing", points=wanted.search_points)
        yield Curve("activation", points=wanted.search_points)


def swept_already(bench: Bench, curve: Curve) -> bool:
    """Whether a curve is there."""
    return (bench.folder / SWEEPS / curve.file).exists()


def sweep(bench: Bench, curve: Curve, watch: Callable[[int, Measurement], None]) -> None:
    """Evaluate a curve; every wordlength is kept as soon as it is known.

    `watch` is told of each batch of images, with the wordlength.
    """
    job = bench.free(curve.rounding, curve.points, curve.seed)
    problem, evaluator, verdicts = job.problem(), job.evaluator(), job.shared()
    if verdicts is None:
        raise ReportError("a sweep needs a folder of verdicts")
    right = {}
    for wordlength in bench.wanted.wordlengths:
        plan, tell = curve.plan(problem, wordlength), partial(watch, wordlength)
        measured, _ = verdicts.count(evaluator, plan, watch=tell)
        right[wordlength] = measured.right
    value = asdict(Swept(curve, right, problem.total, problem.correct))
    path = bench.folder / SWEEPS / curve.file
    write_atomically(path, json.dumps(value, indent=2) + "\n", ReportError)


def read_sweeps(folder: Path) -> list[Swept]:
    """The curves that are there."""
    return [_swept(path) for path in sorted((folder / SWEEPS).glob("*.json"))]


def _swept(path: Path) -> Swept:
    try:
        value = json.loads(path.read_text())
        right = {int(q): int(count) for q, count in value["right"].items()}
        return Swept(Curve(**value["curve"]), right, int(value["total"]), int(value["correct"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise ReportError(f"{path} is no sweep: remove it, and it is made again") from None
