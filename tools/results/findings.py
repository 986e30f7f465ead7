"""What the sweeps say, in numbers and words."""

from collections.abc import Iterable
from dataclasses import dataclass

from tools.results.sweeps import RANDOM, Curve, Swept, Vary

from qcapsnets.fixedpoint.calibration import Points

LOST = 0.002
"""The share of the float accuracy that a wordlength may lose and still count as enough."""


@dataclass(frozen=True)
class Line:
    """Accuracies of a scheme at each wordlength: the mean over seeds, and the extremes."""

    rounding: str
    mean: dict[int, float]
    low: dict[int, float]
    high: dict[int, float]

    @property
    def spread(self) -> dict[int, float]:
        """From the worst seed to the best."""
        return {q: self.high[q] - self.low[q] for q in self.mean}


@dataclass(frozen=True)
class Panel:
    """All schemes with one kind of binary points."""

    points: str
    images: int
    float_accuracy: float
    lines: tuple[Line, ...]

    def line(self, rounding: str) -> Line | None:
        return next((line for line in self.lines if line.rounding == rounding), None)


def panels(swept: Iterable[Swept]) -> list[Panel]:
    """The sweeps of all wordlengths together, by kind of binary points."""
    uniform = [s for s in swept if s.curve.vary == "uniform"]
    return [
        _panel(points, [s for s in uniform if s.curve.points == points])
        for points in ("unit", "mse", "max", "output")
        if any(s.curve.points == points for s in uniform)
    ]


def _panel(points: str, swept: list[Swept]) -> Panel:
    names = sorted({s.curve.rounding for s in swept}, key=_simplest)
    lines = tuple(line([s for s in swept if s.curve.rounding == name]) for name in names)
    return Panel(points, swept[0].total, swept[0].correct / swept[0].total, lines)


def _simplest(rounding: str) -> int:
    from qcapsnets.fixedpoint.rounding import roundings

    return roundings[rounding].simplicity


def line(swept: list[Swept]) -> Line:
    """One scheme, over its seeds."""
    lengths = sorted(set.intersection(*(set(s.right) for s in swept)))
    found = {q: [s.accuracy(q) for s in swept] for q in lengths}
    return Line(
        swept[0].curve.rounding,
        {q: sum(shares) / len(shares) for q, shares in found.items()},
        {q: min(shares) for q, shares in found.items()},
        {q: max(shares) for q, shares in found.items()},
    )


def varied(swept: Iterable[Swept], vary: Vary, points: Points) -> Swept | None:
    """The sweep of the routing arrays, or of all other activations."""
    return next((s for s in swept if s.curve == Curve(vary, points=points)), None)


def shortest_enough(accuracies: dict[int, float], float_accuracy: float) -> int | None:
    """The shortest wordlength from which on no more than 0.2 % of the accuracy is lost."""
    enough = None
    for q in sorted(accuracies, reverse=True):
        if accuracies[q] < float_accuracy * (1 - LOST):
            break
        enough = q
    return enough


def rounding_words(panel: Panel) -> str:
    """Whether truncation and rounding to nearest are the same, and how much chance matters."""
    named = {
        "unit": "one integer bit (`unit`)",
        "mse": "calibrated binary points of the least squared error (`mse`)",
        "output": "those that the answers lose least by (`output`, the default)",
    }
    sentences = [f"With {named.get(panel.points, f'binary points by `{panel.points}`')}:"]
    cut, nearest, random = (panel.line(n) for n in ("truncation", "nearest", RANDOM))
    if cut is not None and nearest is not None:
        apart = {q: nearest.mean[q] - cut.mean[q] for q in nearest.mean if q in cut.mean}
        worst = max(apart, key=lambda q: abs(apart[q]))
        sentences.append(
            f"truncation and rounding to nearest differ by up to {100 * abs(apart[worst]):.2f} "
            f"points ({_share(cut.mean[worst])} against {_share(nearest.mean[worst])} at "
            f"{worst} bits)."
        )
    if random is not None and nearest is not None:
        q = max(random.spread, key=lambda q: random.spread[q])
        sentences.append(
            f"The seeds of stochastic rounding lie up to {100 * random.spread[q]:.2f} points apart "
            f"(at {q} bits)."
        )
    lengths = {one.rounding: shortest_enough(one.mean, panel.float_accuracy) for one in panel.lines}
    enough = ", ".join(
        f"{name} {'none of these' if q is None else f'{q} bits'}" for name, q in lengths.items()
    )
    sentences.append(f"Shortest wordlength that keeps 99.8 % of the float accuracy: {enough}.")
    return " ".join(sentences)


def routing_words(routing: Swept, activation: Swept) -> str:
    """How far the routing arrays go, beside all other activations."""
    correct = routing.correct / routing.total
    shares = [{q: s.accuracy(q) for q in s.right} for s in (routing, activation)]
    lengths = [shortest_enough(share, correct) for share in shares]
    words = ["none of these" if q is None else f"{q} bits" for q in lengths]
    least = min(routing.right)
    return (
        f"Alone, the routing arrays keep 99.8 % of the float accuracy down to {words[0]}, all "
        f"other activations down to {words[1]}. At {least} bits {_share(shares[0][least])} are "
        f"right with short routing arrays and {_share(shares[1][least])} with short activations."
    )


def _share(value: float) -> str:
    return f"{value:.2%}"
