"""One model, layer by layer: wordlengths, and where the memory goes."""

from collections.abc import Mapping

from qcapsnets.framework import ModelReport
from qcapsnets.report.charts.base import Spec, spec
from qcapsnets.report.palette import KIND_NAMES, KINDS, cycled
from qcapsnets.report.shares import ROWS, Share
from qcapsnets.report.words import memory

MANY = 8
"""With more layers than this, bars lie down so that names can be read."""


def wordlengths_chart(model: ModelReport) -> Spec:
    """Bits of weights, activations and routing arrays in each layer."""
    layers, lying = list(model.plan), len(model.plan) > MANY
    traces: list[Spec] = []
    for kind, colour in KINDS.items():
        bits = [_bits(model, layer, kind) for layer in layers]
        if any(bits):
            traces.append(_bars(KIND_NAMES[kind], layers, bits, colour, lying=lying))
    names = {"fixedrange": True, "type": "category", "showgrid": False, "automargin": True}
    count = {"title": {"text": "bits"}, "fixedrange": True, "rangemode": "tozero", "nticks": 8}
    return spec(
        traces,
        56 + 44 * len(layers) if lying else 270,
        {"l": 8 if lying else 46, "r": 24, "t": 18, "b": 46 if lying else 36},
        keys={trace["name"]: trace["marker"]["color"] for trace in traces},
        barmode="group",
        bargap=0.28,
        xaxis=count if lying else names,
        yaxis=names | {"autorange": "reversed"} if lying else count,
    )


def _bits(model: ModelReport, layer: str, kind: str) -> int | None:
    if kind == "routing":
        return model.routing.get(layer)
    return model.plan[layer][kind]


def _bars(
    name: str, layers: list[str], bits: list[int | None], colour: str, *, lying: bool
) -> Spec:
    along, across = ("y", "x") if lying else ("x", "y")
    return {
        "type": "bar",
        "orientation": "h" if lying else "v",
        "name": name,
        along: layers,
        across: bits,
        "text": ["" if count is None else str(count) for count in bits],
        "textposition": "outside",
        "constraintext": "none",
        "cliponaxis": False,
        "marker": {"color": colour},
        "hovertemplate": f"%{{{along}}}: %{{{across}}} bits for {name}<extra></extra>",
    }


def memory_chart(shares: Mapping[str, tuple[Share, ...]]) -> Spec:
    """Which blocks the memory goes to, in float and quantized."""
    colours = cycled(shares)
    return spec(
        [_stack(name, own, colours[name]) for name, own in shares.items()],
        270,
        {"l": 8, "r": 10, "t": 6, "b": 46},
        keys=colours,
        barmode="stack",
        uniformtext={"mode": "hide", "minsize": 11},
        bargap=0.35,
        xaxis={"title": {"text": "share of memory (%)"}, "range": [0, 100], "fixedrange": True},
        yaxis={"fixedrange": True, "automargin": True, "autorange": "reversed"},
    )


def _stack(name: str, shares: tuple[Share, ...], colour: str) -> Spec:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": ROWS,
        "x": [share.percent for share in shares],
        "text": [f"{share.percent:.0f}%" if share.percent >= 7 else "" for share in shares],
        "customdata": [memory(share.bits) for share in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "marker": {"color": colour, "line": {"width": 1, "color": "@paper"}},
        "hovertemplate": f"{name}: %{{customdata}}, %{{x:.1f}}% of %{{y}}<extra></extra>",
    }
