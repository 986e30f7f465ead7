"""One model, layer by layer: wordlengths, and where the memory goes."""

from collections.abc import Mapping

from qcapsnets.framework import ModelReport
from qcapsnets.report.charts.base import Spec, spec
from qcapsnets.report.palette import KIND_NAMES, KINDS, cycled
from qcapsnets.report.shares import ROWS, Share
from qcapsnets.report.words import memory


def wordlengths_chart(model: ModelReport) -> Spec:
    """Bits of weights, activations and routing arrays in each layer."""
    layers = list(model.plan)
    traces: list[Spec] = []
    for kind, colour in KINDS.items():
        bits = [_bits(model, layer, kind) for layer in layers]
        if any(bits):
            traces.append(_bars(KIND_NAMES[kind], layers, bits, colour))
    return spec(
        traces,
        270,
        {"l": 46, "r": 10, "t": 18, "b": 36},
        keys={trace["name"]: trace["marker"]["color"] for trace in traces},
        barmode="group",
        bargap=0.28,
        xaxis={"fixedrange": True, "type": "category", "showgrid": False},
        yaxis={"title": {"text": "bits"}, "fixedrange": True, "rangemode": "tozero", "nticks": 8},
    )


def _bits(model: ModelReport, layer: str, kind: str) -> int | None:
    if kind == "routing":
        return model.routing.get(layer)
    return model.plan[layer][kind]


def _bars(name: str, layers: list[str], bits: list[int | None], colour: str) -> Spec:
    return {
        "type": "bar",
        "name": name,
        "x": layers,
        "y": bits,
        "text": ["" if count is None else str(count) for count in bits],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": colour},
        "hovertemplate": f"%{{x}}: %{{y}} bits for {name}<extra></extra>",
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
