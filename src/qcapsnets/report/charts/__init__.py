"""Interactive charts, as plain values that plotly draws in the page."""

from qcapsnets.report.charts.base import Spec
from qcapsnets.report.charts.layers import memory_chart, wordlengths_chart
from qcapsnets.report.charts.plans import plans_chart
from qcapsnets.report.charts.runs import runs_chart
from qcapsnets.report.charts.sites import noise_chart, rates_chart

__all__ = [
    "Spec",
    "memory_chart",
    "noise_chart",
    "plans_chart",
    "rates_chart",
    "runs_chart",
    "wordlengths_chart",
]
