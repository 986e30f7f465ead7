"""Reports: a run, or several, as a page that opens anywhere, with figures beside it."""

from qcapsnets.report.comparison import PAGE as COMPARISON
from qcapsnets.report.comparison import TABLE, Comparison, write_comparison
from qcapsnets.report.document import FIGURES, REPORT, write_report

__all__ = [
    "COMPARISON",
    "FIGURES",
    "REPORT",
    "TABLE",
    "Comparison",
    "write_comparison",
    "write_report",
]
