"""Several runs in one chart: test accuracy against weight memory."""

from collections.abc import Iterator, Mapping

from qcapsnets.framework import Result
from qcapsnets.framework.result import Measured
from qcapsnets.report.charts.base import Spec, spec
from qcapsnets.report.plans import MEGABIT
from qcapsnets.report.words import interval, memory, name_of, percent


def runs_chart(results: Mapping[str, Result], colours: Mapping[str, str]) -> Spec:
    """The float network and the chosen models of each run, with 95% intervals."""
    return spec(
        [_trace(name, result, colours[name]) for name, result in results.items()],
        430,
        {"l": 58, "r": 16, "t": 10, "b": 52},
        keys=colours,
        xaxis={
            "title": {"text": "weight memory (Mbit)"},
            "type": "log",
            "tickmode": "array",
            "tickvals": [digit * 10.0**power for power in range(-3, 4) for digit in (1, 2, 5)],
        },
        yaxis={"title": {"text": "test images right (%)"}},
    )


def _trace(name: str, result: Result, colour: str) -> Spec:
    found = list(models_of(result))
    measured = [test for _, _, test in found]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [bits / MEGABIT for _, bits, _ in found],
        "y": [100 * test.accuracy for test in measured],
        "text": [
            f"<b>{name}</b>, {what}<br>{percent(test.accuracy)} right ({interval(test)})"
            f"<br>{memory(bits)} of weights"
            for what, bits, test in found
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "color": colour,
            "size": 11,
            "symbol": ["circle-open" if what == "float" else "circle" for what, _, _ in found],
            "line": {"width": 2, "color": colour},
        },
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [100 * (test.high - test.accuracy) for test in measured],
            "arrayminus": [100 * (test.accuracy - test.low) for test in measured],
            "color": colour,
            "thickness": 1.4,
            "width": 4,
        },
    }


def models_of(result: Result) -> Iterator[tuple[str, int, Measured]]:
    """What there is to compare: a name, bits of weights, and how it did on the test images."""
    yield "float", result.float_weight_bits, result.float_test
    for model in result.chosen:
        if model.test is not None:
            yield f"{name_of(model).lower()}, {model.rounding}", model.weight_bits, model.test
