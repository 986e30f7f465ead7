"""The figures of the page, as SVG in the style of the report."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.results.findings import Panel
from tools.results.rows import Run
from tools.results.sweeps import Swept

from qcapsnets.report.figures import INK, MUTED, draw
from qcapsnets.report.palette import KINDS, cycled, scheme_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = 12.0
TICKS = (-90, -30, -10, -5, -2, -1, -0.5, -0.2, 0, 0.2, 0.5)
MARKERS = {"truncation": "v", "nearest": "o", "nearest-even": "s", "stochastic": "D"}
NAMES = {
    "unit": "one integer bit (unit)",
    "mse": "calibrated (mse)",
    "max": "calibrated (max)",
    "output": "calibrated (output)",
}


def trade_off(
    name: str, runs: list[Run], by_size: list[Run], published: list[dict[str, Any]]
) -> bytes:
    """Test accuracy lost against weight memory saved: ours by tolerance, and the paper's."""

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        colours = cycled(dict.fromkeys(run.search.tolerance for run in (*runs, *by_size)))
        for place, (tolerance, colour) in enumerate(colours.items()):
            size = LARGEST * 0.75**place  # the same model is often found at several tolerances
            look: dict[str, Any] = {"color": colour, "markersize": size, "linestyle": "none"}
            axes.plot([], [], "o", label=f"tolerance {tolerance}", **look)
            for kind, marker in ((runs, "o"), (by_size, "D")):
                same = [run for run in kind if run.search.tolerance == tolerance]
                _tolerance(axes, same, marker=marker, **look)
        if by_size:
            axes.plot([], [], "D", color=MUTED, linestyle="none", label="bits by size")
        for index, row in enumerate(row for row in published if "weights" in row):
            label = "the paper" if index == 0 else None
            axes.plot(
                row["weights"], -row["lost"], marker="x", color=INK, linestyle="none", label=label
            )
        _points_lost(axes)
        axes.set_xlabel("weight memory, times less than FP32; hollow: only one constraint is met")
        axes.set_ylabel("test accuracy, points from float")
        figure.legend(loc="outside upper left", ncols=3)

    return draw(name, 3.6, paint).svg


def _points_lost(axes: "Axes") -> None:
    """An upright axis of points from float: tenths near zero can be told apart, and so can tens."""
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.margins(y=0.12)
    axes.set_yscale("symlog", linthresh=0.5)
    low, high = axes.get_ylim()
    axes.set_yticks(TICKS, [f"{tick:+g}" if tick else "0" for tick in TICKS])
    axes.set_yticks([], minor=True)
    axes.set_ylim(low, high)


def _tolerance(axes: "Axes", runs: list[Run], **look: Any) -> None:
    points = {(p.saved, p.gained, p.both) for run in runs for p in _points(run)}
    for saved, gained, both in sorted(points):
        axes.plot(saved, gained, markerfacecolor=look["color"] if both else "none", **look)


@dataclass(frozen=True)
class _Point:
    """A chosen model: what it saves, what it gains (most lose), and whether it meets all."""

    saved: float
    gained: float
    both: bool


def _points(run: Run) -> Iterator[_Point]:
    before = run.result.float_test.accuracy
    for model in run.result.chosen:
        if model.test is not None:
            both = model.meets_accuracy and model.meets_budget
            gained = 100 * (model.test.accuracy - before)
            yield _Point(model.weight_reduction, gained, both)


def rounding(name: str, panels: list[Panel]) -> bytes:
    """Accuracy against wordlength for each scheme; the band of stochastic rounding is its seeds."""

    def paint(figure: "Figure") -> None:
        row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        colours = scheme_colours(dict.fromkeys(ln.rounding for p in panels for ln in p.lines))
        for axes, panel in zip(row, panels, strict=True):
            for line in panel.lines:
                colour = colours[line.rounding]
                lengths = list(line.mean)
                axes.plot(
                    lengths,
                    [100 * line.mean[q] for q in lengths],
                    marker=MARKERS.get(line.rounding, "h"),
                    markersize=4.5,
                    color=colour,
                    label=line.rounding if panel is panels[0] else None,
                )
                low, high = ([100 * ends[q] for q in lengths] for ends in (line.low, line.high))
                axes.fill_between(lengths, low, high, color=colour, alpha=0.25, linewidth=0)
            axes.axhline(100 * panel.float_accuracy, color=INK, linestyle=":", linewidth=0.9)
            axes.set_xticks(sorted({q for line in panel.lines for q in line.mean}))
            axes.set_title(NAMES.get(panel.points, panel.points), fontsize=9)
            axes.set_xlabel("bits, everywhere; dotted: float")
        row[0].set_ylabel("validation images right (%)")
        figure.legend(loc="outside upper left", ncols=4)

    return draw(name, 3.2, paint).svg


def routing(name: str, routing: Swept, activation: Swept) -> bytes:
    """Accuracy against the wordlength of the routing arrays, and of all other activations."""

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        found = (("routing", routing, "s", "routing arrays"),
                 ("activation", activation, "o", "all other activations"))  # fmt: skip
        for kind, swept, marker, label in found:
            lengths = sorted(swept.right)
            gained = [100 * (swept.right[q] - swept.correct) / swept.total for q in lengths]
            axes.plot(lengths, gained, marker=marker, color=KINDS[kind], label=label)
        _points_lost(axes)
        axes.set_xticks(sorted(routing.right))
        axes.set_xlabel("bits, all else at 8")
        axes.set_ylabel("validation accuracy,\npoints from float")
        figure.legend(loc="outside upper left", ncols=2)

    return draw(name, 2.8, paint).svg
