"""What a search leaves behind: frozen values that JSON can hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from qcapsnets.errors import SearchError
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.search.cost import Cost


@dataclass(frozen=True)
class Step:
    """One step: the plan that it settled on, why, and what that cost."""

    name: str
    plan: Plan
    right: int
    total: int
    weight_bits: int
    decision: str
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        """Plain values; `effort` is what this machine did, the rest is the same in every run.

        Of the images of `cost`, those taken were counted by another search, and cost no effort.
        """
        return {
            "step": self.name,
            "plan": self.plan.to_json(),
            "accuracy": self.right / self.total,
            "weight_bits": self.weight_bits,
            "decision": self.decision,
            "cost": {"plans": self.cost.plans, "images": self.cost.images},
            "effort": {
                "macs": self.cost.macs,
                "seconds": round(self.cost.seconds, 3),
                "images_taken": self.cost.taken,
            },
        }


MODELS = {"A": ("model_satisfied",), "B": ("model_memory", "model_accuracy")}


@dataclass(frozen=True)
class Outcome:
    """Where a strategy ended: Path A with one model, or Path B with two, each that of a step."""

    path: Literal["A", "B"]
    plans: Mapping[str, Plan]
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        expected = MODELS.get(self.path)
        if expected is None or set(self.plans) != set(expected):
            raise SearchError(
                f"the strategy ended on path {self.path!r} with {', '.join(self.plans) or 'none'}: "
                "path A has model_satisfied, path B has model_memory and model_accuracy"
            )
        for name, plan in self.plans.items():
            if not any(step.plan == plan for step in self.steps):
                raise SearchError(
                    f"the strategy's {name} is the plan of none of its steps: record it as one"
                )

    def right(self, name: str) -> int:
        """How many images are right with one of the models."""
        return next(step.right for step in self.steps if step.plan == self.plans[name])
