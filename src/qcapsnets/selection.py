"""Selection among rounding schemes (paper.md section 5), with its reasons in words.

Any Path A model: those of Path B are dropped; least weight memory, then fewest activation bits,
then the simplest scheme. Only Path B: the most accurate `model_memory` and the smallest
`model_accuracy`; ties go to the simplest scheme.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True)
class Criterion:
    """What is better when it is less, and how that reads."""

    key: Callable[[Candidate], int]
    words: Callable[[Candidate], str]


WEIGHTS = Criterion(
    lambda c: c.weight_bits, lambda c: f"the least weight memory ({c.weight_bits:,} bits)"
)
ACTIVATIONS = Criterion(
    lambda c: c.activation_bits, lambda c: f"the fewest activation bits ({c.activation_bits:,})"
)
ACCURACY = Criterion(lambda c: -c.right, lambda c: f"the most images right ({c.right:,})")


def select(candidates: list[Candidate]) -> Choice:
    """One `model_satisfied`, or a `model_memory` and a `model_accuracy`."""
    satisfied = [c for c in candidates if c.path == "A"]
    if satisfied:
        return _path_a(satisfied, dropped=len({c.rounding for c in candidates if c.path == "B"}))
    memory = [c for c in candidates if c.name == "model_memory"]
    accurate = [c for c in candidates if c.name == "model_accuracy"]
    most_accurate, why_memory = _best(memory, ACCURACY)
    smallest, why_accuracy = _best(accurate, WEIGHTS)
    none = "no scheme ended on Path A"
    return Choice("B", (most_accurate, smallest), (none, why_memory, why_accuracy))


def _path_a(satisfied: list[Candidate], dropped: int) -> Choice:
    best, why = _best(satisfied, WEIGHTS, ACTIVATIONS)
    reasons = [
        f"{len(satisfied)} of {len(satisfied) + dropped} schemes met both constraints (Path A)"
    ]
    if dropped:
        were = "was" if dropped == 1 else "were"
        reasons.append(f"{dropped} that did not (Path B) {were} dropped")
    return Choice("A", (best,), (*reasons, why))


def _best(candidates: list[Candidate], *criteria: Criterion) -> tuple[Candidate, str]:
    """The first by the criteria in turn, then by simplicity of the scheme; and what decided."""

    def key(candidate: Candidate) -> list[int]:
        return [criterion.key(candidate) for criterion in criteria]

    ranked = sorted(candidates, key=lambda c: (key(c), roundings[c.rounding].simplicity))
    best, others = ranked[0], ranked[1:]
    chosen = f"{best.name}: {best.rounding}"
    if not others:
        return best, f"{chosen} is the only candidate"
    second = others[0]
    for criterion in criteria:
        if criterion.key(best) != criterion.key(second):
            return best, f"{chosen} has {criterion.words(best)}, before {second.rounding}"
    shared = " and ".join(criterion.words(best) for criterion in criteria)
    return best, f"{chosen} is the simplest scheme with {shared}, before {second.rounding}"
