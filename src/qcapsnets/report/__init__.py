"""Reports: a run, or several, as a page that opens anywhere, with figures beside it."""

from qcapsnets.report.comparison import PAGE as COMPARISON
from qcapsnets.report.comparison import TABLE, write_comparison
from qcapsnets.report.document import FIGURES, REPORT, write_report

__all__ = ["COMPARISON", "FIGURES", "REPORT", "TABLE", "write_comparison", "write_report"]
