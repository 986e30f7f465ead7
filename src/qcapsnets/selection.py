"""Selection among rounding schemes (paper.md section 5), with its reasons in words.

Any Path A model: those of Path B are dropped; least weight memory, then fewest activation bits,
then the simplest scheme. Only Path B: the most accurate `model_memory` and the smallest
`model_accuracy`; ties go to the simplest scheme.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.rounding import roundings


@dataclass(frozen=True)
class Candidate:
    """A model that a search for one rounding scheme came to."""

    name: str
    rounding: str
    path: Literal["A", "B"]
    plan: Plan
    right: int
    weight_bits: int
    activation_bits: int


@dataclass(frozen=True)
class Choice:
    """The chosen models, and why."""

    path: Literal["A", "B"]
    chosen: tuple[Candidate, ...]
    reasons: tuple[str, ...]


Key = Callable[[Candidate], tuple[Any, ...]]


def select(candidates: list[Candidate]) -> Choice:
    """One `model_satisfied`, or a `model_memory` and a `model_accuracy`."""
    satisfied = [c for c in candidates if c.path == "A"]
    if satisfied:
        return _path_a(satisfied, dropped=len({c.rounding for c in candidates if c.path == "B"}))
    memory = [c for c in candidates if c.name == "model_memory"]
    accurate = [c for c in candidates if c.name == "model_accuracy"]
    most_accurate, why_memory = _best(memory, lambda c: (-c.right,), ("the most images right",))
    smallest, why_accuracy = _best(
        accurate, lambda c: (c.weight_bits,), ("the least weight memory",)
    )
    none = "no scheme met both constraints (Path B)"
    return Choice("B", (most_accurate, smallest), (none, why_memory, why_accuracy))


def _path_a(satisfied: list[Candidate], dropped: int) -> Choice:
    best, why = _best(
        satisfied,
        lambda c: (c.weight_bits, c.activation_bits),
        ("the least weight memory", "the fewest activation bits"),
    )
    reasons = [
        f"{len(satisfied)} of {len(satisfied) + dropped} schemes met both constraints (Path A)"
    ]
    if dropped:
        reasons.append(f"{dropped} that did not (Path B) were dropped")
    return Choice("A", (best,), (*reasons, why))


def _best(
    candidates: list[Candidate], key: Key, criteria: tuple[str, ...]
) -> tuple[Candidate, str]:
    """The first by `key`, then by simplicity of the scheme; and what decided."""
    ranked = sorted(candidates, key=lambda c: (*key(c), roundings[c.rounding].simplicity))
    best = ranked[0]
    if len(ranked) == 1:
        return best, f"{best.name}: {best.rounding} is the only candidate"
    deciding = next(
        (
            criterion
            for index, criterion in enumerate(criteria)
            if key(best)[: index + 1] != key(ranked[1])[: index + 1]
        ),
        f"the simplest scheme among equals (next: {ranked[1].rounding})",
    )
    return best, f"{best.name}: {best.rounding} has {deciding}" if deciding in criteria else (
        f"{best.name}: {best.rounding} is {deciding}"
    )
