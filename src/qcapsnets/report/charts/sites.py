"""One model, site by site: what was lost, what saturated, what became zero."""

from collections.abc import Sequence
from typing import Any

from qcapsnets.report.charts.base import Spec, spec
from qcapsnets.report.noise import SiteNoise
from qcapsnets.report.palette import KIND_NAMES, KINDS, PURPLE, VERMILLION

MANY = 30
"""With more sites than this, rows are lower and the axis is above, where it is seen first."""


def _row(sites: Sequence[SiteNoise]) -> int:
    """Height of a site in pixels."""
    return 19 if len(sites) > MANY else 26


def _axis(sites: Sequence[SiteNoise], title: str, **more: Any) -> Spec:
    """The axis of values."""
    side = "top" if len(sites) > MANY else "bottom"
    return {"title": {"text": title}, "fixedrange": True, "side": side, **more}


def _margin(sites: Sequence[SiteNoise], right: int) -> Spec:
    top, bottom = (52, 8) if len(sites) > MANY else (8, 46)
    return {"l": 8, "r": right, "t": top, "b": bottom}


def noise_chart(sites: Sequence[SiteNoise]) -> Spec:
    """Signal to noise at each site: all that was lost up to there, and its own rounding alone."""
    audible = [site for site in sites if site.all.decibels is not None]
    traces, kinds = [_losses(audible)], {site.kind for site in audible}
    for kind, colour in KINDS.items():
        of_kind = [site for site in audible if site.kind == kind]
        if of_kind:
            traces.append(_ratios(KIND_NAMES[kind], of_kind, colour, own=True))
            traces.append(_ratios(KIND_NAMES[kind], of_kind, colour, own=False))
    return spec(
        traces,
        76 + _row(audible) * len(audible),
        _margin(audible, 16),
        keys={KIND_NAMES[kind]: KINDS[kind] for kind in KINDS if kind in kinds},
        xaxis=_axis(audible, "signal to noise (dB)"),
        yaxis=_site_axis(audible),
    )


def _site_axis(sites: Sequence[SiteNoise]) -> Spec:
    names = [site.name for site in sites]
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names[::-1],
        "range": [-0.7, len(names) - 0.3],
        "fixedrange": True,
        "automargin": True,
    }


def _ratios(name: str, sites: list[SiteNoise], colour: str, *, own: bool) -> Spec:
    ratios = [(site.own if own else site.all).decibels for site in sites]
    what = "its own rounding alone" if own else "everything lost up to here"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "y": [site.name for site in sites],
        "x": ratios,
        "text": [str(site.format) for site in sites],
        "marker": {
            "symbol": "line-ns-open" if own else "circle",
            "size": 12 if own else 11,
            "color": colour,
            "line": {"width": 2 if own else 0, "color": colour},
        },
        "hovertemplate": f"<b>%{{y}}</b> (%{{text}})<br>%{{x:.1f}} dB: {what}<extra></extra>",
    }


def _losses(sites: Sequence[SiteNoise]) -> Spec:
    """A line from each site's own ratio to that of everything."""
    x: list[float | None] = []
    y: list[str | None] = []
    for site in sites:
        x += [site.own.decibels, site.all.decibels, None]
        y += [site.name, site.name, None]
    line = {"color": "@line", "width": 3}
    shape = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}
    return shape | {"x": x, "y": y, "line": line}


def rates_chart(sites: Sequence[SiteNoise], *, zeros: bool) -> Spec:
    """The share of numbers at each site that saturated, or that are zero."""
    shares = [100 * (site.zeros if zeros else site.saturated) for site in sites]
    what = "are zero" if zeros else "saturated"
    trace = {
        "type": "bar",
        "orientation": "h",
        "name": what,
        "y": [site.name for site in sites],
        "x": shares,
        "text": [_rate(share) for share in shares],
        "textposition": "outside",
        "constraintext": "none",
        "cliponaxis": False,
        "customdata": [str(site.format) for site in sites],
        "marker": {"color": PURPLE if zeros else VERMILLION},
        "hovertemplate": f"<b>%{{y}}</b> (%{{customdata}})<br>%{{x:.3f}}% {what}<extra></extra>",
    }
    return spec(
        [trace],
        84 + _row(sites) * len(sites),
        _margin(sites, 54),
        bargap=0.35,
        xaxis=_axis(sites, f"numbers that {what} (%)", range=[0, 1.02 * max([0.1, *shares])]),
        yaxis=_site_axis(sites),
    )


def _rate(share: float) -> str:
    if share == 0:
        return "0"
    return f"{share:.1f}%" if share >= 0.1 else f"{share:.2g}%"
