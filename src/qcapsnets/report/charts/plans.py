"""Every plan that was evaluated: accuracy against weight memory."""

from typing import Any

from qcapsnets.report.charts.base import Spec, spec
from qcapsnets.report.palette import scheme_colours, step_colour, step_name, step_symbol
from qcapsnets.report.plans import MEGABIT, Plans, Point
from qcapsnets.report.words import memory, percent

STEM = 0.025
"""How long the stem of a bound is drawn, as a share of the view."""


def plans_chart(plans: Plans) -> Spec:
    """Accuracy against weight memory."""
    low, high = (100 * bound for bound in plans.near)
    lowest = min([low, *(point.percent for point in plans.points)])
    traces = [_front(plans), *_points(plans, (high - low) * STEM), *_marks(plans)]
    chart = spec(
        traces,
        470,
        {"l": 58, "r": 16, "t": 16, "b": 52},
        xaxis={"title": {"text": "weight memory (Mbit)"}, **_memory_axis(plans)},
        yaxis={"title": {"text": "images right (%)"}, "range": [low, high]},
        shapes=_constraint_lines(plans),
        annotations=_constraint_names(plans),
    )
    margin = 0.04 * (high - lowest)
    return chart | {"views": {"near": [low, high], "all": [lowest - margin, high + margin]}}


def _memory_axis(plans: Plans) -> Spec:
    sizes = [plans.budget_bits / MEGABIT, *(point.megabits for point in plans.points)]
    low, high = min(sizes), max(sizes)
    pad = 0.05 * (high - low) or 0.1 * high
    return {"range": [max(0.0, low - pad), high + 3 * pad]}  # room for the lines' names


def _points(plans: Plans, stem: float) -> list[Spec]:
    """One trace for each scheme, step and completeness."""
    colours = scheme_colours(dict.fromkeys(point.rounding for point in plans.points))
    groups: dict[tuple[str, str, bool], list[Point]] = {}
    for point in plans.points:
        groups.setdefault((point.rounding, point.step, point.complete), []).append(point)
    ordered = sorted(groups.items(), key=lambda item: item[0][2])
    return [_group(*key, points, colours[key[0]], stem) for key, points in ordered]


def _group(
    rounding: str, step: str, complete: bool, points: list[Point], colour: str, stem: float
) -> Spec:
    trace: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": f"{rounding}, step {step}",
        "x": [point.megabits for point in points],
        "y": [point.percent for point in points],
        "text": [_hover(point) for point in points],
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"scheme": rounding, "colours": {"scheme": colour, "step": step_colour(step)}},
        "marker": {
            "symbol": step_symbol(step) + ("" if complete else "-open"),
            "size": 11 if complete else 9,
            "color": colour,
            "line": {"width": 1 if complete else 1.6, "color": "@paper" if complete else colour},
        },
    }
    if not complete:
        trace["error_y"] = _stem(points, colour, stem)
    return trace


def _stem(points: list[Point], colour: str, length: float) -> Spec:
    """A short line that points to where the accuracy may be: down from an upper bound."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [length if point.passed else 0 for point in points],
        "arrayminus": [0 if point.passed else length for point in points],
        "color": colour,
        "thickness": 1.2,
        "width": 0,
    }


def _hover(point: Point) -> str:
    lines = [
        f"<b>{point.rounding}</b>, step {step_name(point.step)}",
        f"{_accuracy(point)}, {memory(point.weight_bits)} of weights",
        *(_wordlengths(name, *vars(q).values()) for name, q in point.plan.items()),
    ]
    if point.chosen:
        lines.insert(0, "<b>chosen</b>")
    return "<br>".join(lines)


def _accuracy(point: Point) -> str:
    if point.complete:
        return f"{percent(point.accuracy)} right"
    bound = "at least" if point.passed else "at most"
    return f"{bound} {percent(point.accuracy)} right ({point.seen:,} of {point.total:,} counted)"


def _wordlengths(layer: str, weight: int, activation: int, routing: int | None) -> str:
    tail = "" if routing is None else f", routing {routing}"
    return f"{layer}: weights {weight}, activations {activation}{tail}"


def _front(plans: Plans) -> Spec:
    front = plans.front
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "Pareto front",
        "x": [point.megabits for point in front],
        "y": [point.percent for point in front],
        "line": {"color": "@muted", "width": 1.5, "shape": "hv"},
        "hoverinfo": "skip",
    }


def _marks(plans: Plans) -> list[Spec]:
    """A ring around each chosen model."""
    chosen = [point for point in plans.points if point.chosen]
    ring = {
        "symbol": "circle-open",
        "size": 22,
        "color": "@ink",
        "line": {"width": 2.2, "color": "@ink"},
    }
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "chosen",
            "x": [point.megabits for point in chosen],
            "y": [point.percent for point in chosen],
            "marker": ring,
            "hoverinfo": "skip",
        }
    ]


def _constraint_lines(plans: Plans) -> list[Spec]:
    def line(dash: str, **ends: Any) -> Spec:
        return {"type": "line", "layer": "below", **ends, "line": {**_INK, "dash": dash}}

    def across(share: float, dash: str) -> Spec:
        y = 100 * share
        return line(dash, xref="paper", x0=0, x1=1, y0=y, y1=y)

    budget = plans.budget_bits / MEGABIT
    return [
        across(plans.target, "dash"),
        across(plans.float_accuracy, "dot"),
        line("dash", yref="paper", x0=budget, x1=budget, y0=0, y1=1),
    ]


_INK = {"color": "@ink", "width": 1.2}


def _constraint_names(plans: Plans) -> list[Spec]:
    def name(text: str, **place: Any) -> Spec:
        return {"text": text, "showarrow": False, "font": {"size": 12}, **place}

    target, accuracy = plans.target, plans.float_accuracy
    right = {"xref": "paper", "x": 1, "xanchor": "right"}
    return [
        name(f"target {percent(target)}", y=100 * target, yanchor="top", **right),
        name(f"float {percent(accuracy)}", y=100 * accuracy, yanchor="bottom", **right),
        name(
            f"budget {memory(plans.budget_bits)}",
            x=plans.budget_bits / MEGABIT,
            yref="paper",
            y=0,
            xanchor="left",
            yanchor="bottom",
            bgcolor="@paper",
        ),
    ]
