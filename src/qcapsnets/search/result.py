"""What a search leaves behind: frozen values that JSON can hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
        """Plain values; `effort` is what this machine did, the rest is the same in every run."""
        return {
            "step": self.name,
            "plan": self.plan.to_json(),
            "accuracy": self.right / self.total,
            "weight_bits": self.weight_bits,
            "decision": self.decision,
            "cost": {"plans": self.cost.plans, "images": self.cost.images},
            "effort": {"macs": self.cost.macs, "seconds": round(self.cost.seconds, 3)},
        }


@dataclass(frozen=True)
class Outcome:
    """Where a strategy ended: Path A with one model, or Path B with two."""

    path: Literal["A", "B"]
    plans: Mapping[str, Plan]
    steps: tuple[Step, ...]
