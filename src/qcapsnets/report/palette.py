"""Colours and symbols: one meaning each, the same in every chart, told apart by any eye.

The colours are those of Okabe and Ito (2008). What a colour says, a symbol or a label says too.
"""

from collections.abc import Iterable

BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILLION, PURPLE, SKY, YELLOW = "#D55E00", "#CC79A7", "#56B4E9", "#F0E442"

CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW)

_SCHEMES = {
    "truncation": VERMILLION,
    "nearest": BLUE,
    "nearest-even": GREEN,
    "stochastic": PURPLE,
}
_OTHERS = (ORANGE, SKY, YELLOW)

KINDS = {"weight": BLUE, "activation": ORANGE, "routing": GREEN}
KIND_NAMES = {"weight": "weights", "activation": "activations", "routing": "routing arrays"}

STEP_COLOURS = {"1": SKY, "2": ORANGE, "3A": BLUE, "4A": GREEN, "3B": VERMILLION}
SYMBOLS = {"1": "circle", "2": "square", "3A": "triangle-up", "4A": "diamond", "3B": "cross"}
MARKERS = {"1": "o", "2": "s", "3A": "^", "4A": "D", "3B": "P"}
"""Of the steps of a search: in the page (plotly's names) and in figures (matplotlib's)."""

PATHS = {
    "1": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
    "2": "M-4.6-4.6H4.6V4.6H-4.6Z",
    "3A": "M0-6L6 5H-6Z",
    "4A": "M0-6.4L6.4 0L0 6.4L-6.4 0Z",
    "3B": "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
}
"""The same symbols as paths of an SVG of 16x16, for a key beside the chart."""

STEP_NAMES = {
    "1": "1: uniform",
    "2": "2: memory",
    "3A": "3A: activations",
    "4A": "4A: routing",
    "3B": "3B: weights",
}


def step_colour(step: str) -> str:
    """The colour of a step; one of a strategy that we do not know is purple."""
    return STEP_COLOURS.get(step, PURPLE)


def step_symbol(step: str) -> str:
    """plotly's symbol of a step."""
    return SYMBOLS.get(step, "hexagon")


def step_marker(step: str) -> str:
    """matplotlib's marker of a step."""
    return MARKERS.get(step, "h")


def step_path(step: str) -> str:
    """The symbol of a step as a path of an SVG."""
    return PATHS.get(step, "M-3-5.2H3L6 0L3 5.2H-3L-6 0Z")


def step_name(step: str) -> str:
    """A step in two words."""
    return STEP_NAMES.get(step, step)


def scheme_colours(roundings: Iterable[str]) -> dict[str, str]:
    """A colour for each scheme; schemes of the user's own take those that are left."""
    colours: dict[str, str] = {}
    for name in roundings:
        others = sum(known not in _SCHEMES for known in colours)
        colours[name] = _SCHEMES.get(name, _OTHERS[others % len(_OTHERS)])
    return colours


def cycled(names: Iterable[str]) -> dict[str, str]:
    """A colour for each of some names, in order."""
    return {name: CYCLE[index % len(CYCLE)] for index, name in enumerate(names)}
