"""What the interactive charts share: plain values that plotly draws in the page.

A colour that begins with `@` (`@ink`, `@paper`, `@line`, `@muted`) is that of the page's theme,
which the page puts in and changes with the theme.
"""

from collections.abc import Mapping
from typing import Any

Spec = dict[str, Any]


def spec(
    traces: list[Spec],
    height: int,
    margin: Spec,
    *,
    keys: Mapping[str, str] | None = None,
    **layout: Any,
) -> Spec:
    """A chart of some height in pixels, as wide as the page lets it be.

    `keys` are names and colours that the page explains above the chart: plotly's own legend does
    not fit a phone.
    """
    base = {"height": height, "margin": margin, "showlegend": False, "hovermode": "closest"}
    return {"data": traces, "layout": base | layout, "keys": dict(keys or {})}
