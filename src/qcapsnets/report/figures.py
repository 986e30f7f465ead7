"""Figures for paper: the charts of the page, drawn by matplotlib, as SVG and PNG.

The page shows the same SVG where it is printed, or where scripts do not run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcapsnets.errors import ReportError
from qcapsnets.files import write_atomically
from qcapsnets.framework import ModelReport, Result
from qcapsnets.report.charts.runs import models_of
from qcapsnets.report.noise import SiteNoise
from qcapsnets.report.palette import (
    KIND_NAMES,
    KINDS,
    PURPLE,
    VERMILLION,
    cycled,
    scheme_colours,
    step_marker,
    step_name,
)
from qcapsnets.report.plans import MEGABIT, Plans, Point
from qcapsnets.report.shares import ROWS, Share
from qcapsnets.report.words import memory, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.2
DPI = 160
INK, MUTED, LINE = "#1b1f24", "#59636e", "#d5dae1"

STYLE = {
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "qcapsnets",
}


@dataclass(frozen=True)
class Picture:
    """A figure in both formats."""

    name: str
    svg: bytes
    png: bytes

    def write(self, folder: Path) -> None:
        """Put both into a folder."""
        write_atomically(folder / f"{self.name}.svg", self.svg, ReportError)
        write_atomically(folder / f"{self.name}.png", self.png, ReportError)


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        yield


def draw(name: str, height: float, paint: Callable[["Figure"], None]) -> Picture:
    """A figure of some height in inches, painted in our style; the same bytes every time."""
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure)
        svg = _saved(figure, format="svg", metadata={"Date": None})
        figure.set_layout_engine("none")  # found already, and it takes most of the time
        png = _saved(figure, format="png", dpi=DPI, metadata={"Software": None})
    return Picture(name, svg, png)


def _saved(figure: "Figure", **how: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, **how)
    return buffer.getvalue()


def plans_figure(plans: Plans) -> Picture:
    """Accuracy against weight memory."""

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        front = plans.front
        x, y = [p.megabits for p in front], [p.percent for p in front]
        axes.step(x, y, where="post", color=MUTED, linewidth=1.2, zorder=1)
        colours = scheme_colours(dict.fromkeys(point.rounding for point in plans.points))
        low, high = (100 * bound for bound in plans.near)
        for point in plans.points:
            _point(axes, point, colours[point.rounding], 0.025 * (high - low))
        _constraints(axes, plans)
        axes.set_ylim(low, high)
        axes.set_xlabel("weight memory (Mbit)")
        axes.set_ylabel("images right (%)")
        _keys(figure, plans, colours)

    return draw("plans", 4.4, paint)


def _point(axes: "Axes", point: Point, colour: str, stem: float) -> None:
    x, y = point.megabits, point.percent
    look: dict[str, Any] = {"marker": step_marker(point.step), "color": colour, "zorder": 3}
    if point.complete:
        axes.plot(x, y, markersize=7, markeredgecolor="white", markeredgewidth=0.8, **look)
    else:
        end = y + stem if point.passed else y - stem
        axes.plot([x, x], [y, end], color=colour, linewidth=0.9, zorder=2)
        axes.plot(x, y, markersize=6, markerfacecolor="none", **look)
    if point.chosen:
        ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.8, "zorder": 4}
        axes.plot(x, y, marker="o", markersize=15, color=INK, **ring)


def _constraints(axes: "Axes", plans: Plans) -> None:
    thin: dict[str, Any] = {"color": INK, "linewidth": 0.9, "zorder": 0}
    target, accuracy = 100 * plans.target, 100 * plans.float_accuracy
    axes.axhline(target, linestyle="--", **thin)
    axes.axhline(accuracy, linestyle=":", **thin)
    axes.axvline(plans.budget_bits / MEGABIT, linestyle="--", **thin)
    across: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontsize": 8, "ha": "right"}
    axes.text(1, target, f"target {percent(plans.target)}", va="top", **across)
    axes.text(1, accuracy, f"float {percent(plans.float_accuracy)}", va="bottom", **across)
    axes.text(
        plans.budget_bits / MEGABIT,
        0.01,
        f" budget {memory(plans.budget_bits)}",
        transform=axes.get_xaxis_transform(),
        fontsize=8,
    )


def _keys(figure: "Figure", plans: Plans, colours: dict[str, str]) -> None:
    """Colours of schemes above the axes, symbols of steps below."""
    from matplotlib.lines import Line2D

    def key(label: str, marker: str, colour: str, **more: Any) -> Line2D:
        return Line2D([], [], linestyle="none", marker=marker, color=colour, label=label, **more)

    schemes = [key(name, "o", colour) for name, colour in colours.items()]
    steps = sorted({point.step for point in plans.points})
    symbols = [key(step_name(step), step_marker(step), MUTED) for step in steps]
    if not all(point.complete for point in plans.points):
        symbols.append(key("a bound", "o", MUTED, markerfacecolor="none"))
    symbols.append(key("chosen", "o", INK, markerfacecolor="none", markersize=11))
    figure.legend(handles=schemes, loc="outside upper left", ncols=len(schemes))
    figure.legend(handles=symbols, loc="outside lower left", ncols=len(symbols))


def runs_figure(results: Mapping[str, Result], colours: Mapping[str, str]) -> Picture:
    """Several runs: test accuracy against weight memory, with 95% intervals."""

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        for name, result in results.items():
            for index, (_, bits, test) in enumerate(models_of(result)):
                y, low, high = (100 * share for share in (test.accuracy, test.low, test.high))
                axes.errorbar(
                    bits / MEGABIT,
                    y,
                    yerr=[[y - low], [high - y]],
                    fmt="o",
                    color=colours[name],
                    markerfacecolor="none" if index == 0 else colours[name],
                    capsize=3,
                    label=name if index == 1 else None,
                )
        axes.set_xscale("log")
        axes.set_xlabel("weight memory (Mbit); hollow: float")
        axes.set_ylabel("test images right (%)")
        figure.legend(loc="outside upper left", ncols=3)

    return draw("runs", 4.0, paint)


def wordlengths_figure(name: str, model: ModelReport) -> Picture:
    """Bits of weights, activations and routing arrays in each layer."""

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        layers = list(model.plan)
        for place, (kind, colour) in enumerate(KINDS.items()):
            bits = [_bits(model, layer, kind) for layer in layers]
            where = [index + 0.27 * (place - 1) for index in range(len(layers))]
            bars = axes.bar(where, [b or 0 for b in bits], 0.25, color=colour, label=_of(kind))
            axes.bar_label(bars, [str(b or "") for b in bits], fontsize=8, padding=1)
        axes.set_xticks(range(len(layers)), layers, rotation=0 if len(layers) < 9 else 60)
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("bits")
        figure.legend(loc="outside upper left", ncols=3)

    return draw(name, 2.6, paint)


def _of(kind: str) -> str:
    return KIND_NAMES[kind]


def _bits(model: ModelReport, layer: str, kind: str) -> int | None:
    return model.routing.get(layer) if kind == "routing" else model.plan[layer][kind]


def memory_figure(name: str, shares: Mapping[str, tuple[Share, ...]]) -> Picture:
    """Which blocks the memory goes to, in float and quantized."""

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        colours = cycled(shares)
        left = [0.0] * len(ROWS)
        for block, own in shares.items():
            widths = [share.percent for share in own]
            look: dict[str, Any] = {"color": colours[block], "edgecolor": "white"}
            axes.barh(ROWS, widths, 0.62, left=left, label=block, **look)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("share of memory (%)")
        figure.legend(loc="outside upper left", ncols=6)

    return draw(name, 2.4, paint)


def noise_figures(name: str, sites: Sequence[SiteNoise]) -> list[Picture]:
    """Signal to noise, saturation and zeros at each site; as many figures as pages are needed."""
    parts = [
        sites[start : start + ROWS_OF_A_PAGE] for start in range(0, len(sites), ROWS_OF_A_PAGE)
    ]
    ends = _ends(sites)
    return [
        _noise_figure(name if len(parts) == 1 else f"{name}-{number}", part, ends)
        for number, part in enumerate(parts, 1)
    ]


ROWS_OF_A_PAGE = 36


def _ends(sites: Sequence[SiteNoise]) -> list[tuple[float, float]]:
    """What the three axes reach, the same on every page."""
    heard = [site.all.decibels for site in sites] + [site.own.decibels for site in sites]
    ratios = [ratio for ratio in heard if ratio is not None] or [0.0]
    most = max([0.1, *(100 * site.saturated for site in sites)])
    return [(min(ratios) - 2, max(ratios) + 2), (0, 1.05 * most), (0, 100)]


def _noise_figure(
    name: str, sites: Sequence[SiteNoise], ends: list[tuple[float, float]]
) -> Picture:
    def paint(figure: "Figure") -> None:
        panels = figure.subplots(1, 3, sharey=True, width_ratios=(2, 1, 1))
        ratios, saturated, zeros = panels
        names = [site.name for site in sites]
        saturated.barh(names, [100 * site.saturated for site in sites], color=VERMILLION)
        zeros.barh(names, [100 * site.zeros for site in sites], color=PURPLE)
        for site in sites:
            _ratio(ratios, site)
        ratios.set_ylim(len(sites) - 0.4, -0.6)
        labels = ("signal to noise (dB)", "saturated (%)", "zero (%)")
        for axes, label, reach in zip(panels, labels, ends, strict=True):
            axes.set_xlabel(label)
            axes.set_xlim(reach)

    return draw(name, 1.0 + 0.23 * len(sites), paint)


def _ratio(axes: "Axes", site: SiteNoise) -> None:
    colour, everything, own = KINDS[site.kind], site.all.decibels, site.own.decibels
    if everything is None:
        return  # nothing was lost
    if own is not None:
        axes.plot([own, everything], [site.name] * 2, color=LINE, linewidth=2, zorder=1)
        axes.plot([own], [site.name], marker="|", markersize=8, color=colour)
    axes.plot([everything], [site.name], marker="o", markersize=6, color=colour)
