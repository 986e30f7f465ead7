"""Rows of the tables, from the runs' own results."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tools.results.literal import LiteralCost, read_costs
from tools.results.wanted import Search

from qcapsnets.framework import RESULT, ModelReport, Result, SchemeReport
from qcapsnets.report.finished import result_in


@dataclass(frozen=True)
class Run:
    """A finished search."""

    search: Search
    result: Result
    literal: dict[str, LiteralCost]

    @property
    def cost(self) -> "Spent":
        """Of all its schemes."""
        return sum((self.spent(scheme) for scheme in self.result.schemes), Spent())

    def spent(self, scheme: SchemeReport) -> "Spent":
        """Of one of its schemes."""
        return Spent.of(scheme)

    @property
    def literal_images(self) -> int | None:
        """What the literal algorithm would evaluate for all its schemes, if that is known."""
        known = [self.literal.get(scheme.rounding) for scheme in self.result.schemes]
        costs = [cost for cost in known if cost is not None]
        return sum(cost.images for cost in costs) if len(costs) == len(known) else None


@dataclass(frozen=True)
class Spent:
    """What a search needed, and what of that was computed for it."""

    plans: int = 0
    images: int = 0
    taken: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, scheme: SchemeReport) -> "Spent":
        costs = [step["cost"] for step in scheme.steps]
        efforts = [step["effort"] for step in scheme.steps]
        return cls(
            _sum(costs, "plans"),
            _sum(costs, "images"),
            _sum(efforts, "images_taken"),
            sum(effort["seconds"] for effort in efforts),
        )

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.plans + other.plans,
            self.images + other.images,
            self.taken + other.taken,
            self.seconds + other.seconds,
        )

    @property
    def computed(self) -> int:
        return self.images - self.taken


def _sum(parts: list[dict[str, Any]], key: str) -> int:
    return sum(int(part.get(key, 0)) for part in parts)


def read_runs(folder: Path, searches: Iterable[Search]) -> list[Run]:
    """The searches that have ended."""
    return [
        Run(search, result_in(folder / search.folder), read_costs(folder / search.folder))
        for search in searches
        if (folder / search.folder / RESULT).exists()
    ]


def smallest(runs: Iterable[Run]) -> tuple[Run, ModelReport] | None:
    """As the paper selects: of what ended on Path A, or else of what meets the accuracy.

    It is the model with the least weight memory, then with the fewest activation bits.
    """
    found = [(run, model) for run in runs for model in run.result.chosen if model.meets_accuracy]
    satisfied = [(run, model) for run, model in found if run.result.path == "A"]

    def size(pair: tuple[Run, ModelReport]) -> tuple[int, int]:
        return pair[1].weight_bits, pair[1].activation_bits

    return min(satisfied or found, key=size, default=None)


def bits(model: ModelReport, kind: str) -> str:
    """Wordlengths by layer: `5 4 3`."""
    return " ".join(str(layer[kind]) for layer in model.plan.values())


def routing(model: ModelReport) -> str:
    """Routing wordlengths by layer, with the layer's name where there are several."""
    if len(model.routing) == 1:
        return str(next(iter(model.routing.values())))
    return ", ".join(f"{name} {length}" for name, length in model.routing.items()) or "-"


def path_words(runs: list[Run]) -> list[str]:
    """Where the path turns from A to B, and why: a sentence or two for each tolerance."""
    return [sentence for group in _by_tolerance(runs) for sentence in _turns(group)]


def _by_tolerance(runs: list[Run]) -> Iterator[list[Run]]:
    for tolerance in dict.fromkeys(run.search.tolerance for run in runs):
        same = [run for run in runs if run.search.tolerance == tolerance]
        yield sorted(same, key=lambda run: -run.result.budget_bits)


def _turns(group: list[Run]) -> Iterator[str]:
    """The first of a tolerance, and each whose path is not that of the one before it."""
    yield _why(group[0])
    for before, after in pairwise(group):
        if before.result.path != after.result.path:
            yield _why(after)


def _why(run: Run) -> str:
    scheme = next(s for s in run.result.schemes if s.path == run.result.path)
    decided = next(step["decision"] for step in scheme.steps if step["step"] == "2")
    words = str(decided).rsplit(":", 1)[0]
    return (
        f"**Tolerance {run.search.tolerance}, budget {run.search.budget}: "
        f"Path {run.result.path}.** In step 2, {words}. {run.result.verdict}"
    )
