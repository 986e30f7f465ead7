"""Every plan of a run as a point: weight memory against accuracy, and the front of the best."""

from dataclasses import dataclass

from qcapsnets.accounting import Inventory
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.models import CapsNet
from qcapsnets.report.finished import Evaluated, Finished

MEGABIT = 1e6
LEAST_VIEW = 0.02
"""How far below the target the first view of the plans reaches at least."""


@dataclass(frozen=True)
class Point:
    """A plan where it stands.

    One that was not counted to the end stands where it could be at best (or, if it had passed by
    then, at worst): its accuracy is a bound.
    """

    rounding: str
    step: str
    plan: Plan
    weight_bits: int
    accuracy: float
    complete: bool
    passed: bool
    seen: int
    total: int
    chosen: str | None = None

    @property
    def megabits(self) -> float:
        return self.weight_bits / MEGABIT

    @property
    def percent(self) -> float:
        return self.accuracy * 100


@dataclass(frozen=True)
class Plans:
    """All points of a run, and the constraints."""

    points: tuple[Point, ...]
    target: float
    float_accuracy: float
    budget_bits: int

    @classmethod
    def of(cls, finished: Finished, model: CapsNet) -> "Plans":
        """Place every plan that was evaluated."""
        result = finished.result
        chosen = {(m.rounding, Plan.from_json(m.plan)): m.name for m in result.chosen}
        inventory = Inventory.of(model)
        points = (
            _point(found, inventory, result.target, chosen.get((found.rounding, found.plan)))
            for found in finished.evaluated
        )
        accuracy = result.float_search.accuracy
        return cls(tuple(points), result.target, accuracy, result.budget_bits)

    @property
    def front(self) -> list[Point]:
        """Plans counted to the end that no other such plan beats in memory and accuracy both."""
        front: list[Point] = []
        counted = (point for point in self.points if point.complete)
        for point in sorted(counted, key=lambda p: (p.weight_bits, -p.accuracy)):
            if not front or point.accuracy > front[-1].accuracy:
                front.append(point)
        return front

    @property
    def near(self) -> tuple[float, float]:
        """Accuracies around the target and the float network's, where the search decides."""
        floor = self.target - max(LEAST_VIEW, 2.5 * (self.float_accuracy - self.target))
        shown = [point.accuracy for point in self.points if point.accuracy >= floor]
        low, high = min([self.target, *shown]), max([self.float_accuracy, *shown])
        margin = 0.12 * max(high - low, LEAST_VIEW / 2)
        return max(0.0, low - margin), min(1.0, high + margin)

    @property
    def below(self) -> int:
        """How many points lie below the near view."""
        return sum(point.accuracy < self.near[0] for point in self.points)


def _point(found: Evaluated, inventory: Inventory, target: float, chosen: str | None) -> Point:
    passed = found.low >= target
    return Point(
        rounding=found.rounding,
        step=found.step,
        plan=found.plan,
        weight_bits=inventory.weight_bits(found.plan),
        accuracy=found.low if passed else found.high,
        complete=found.complete,
        passed=passed,
        seen=found.seen,
        total=found.total,
        chosen=chosen,
    )
