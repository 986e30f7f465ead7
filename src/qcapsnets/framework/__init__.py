"""The framework as a whole: calibrate, search every scheme, select, measure on the test images."""

from qcapsnets.framework.prepare import CALIBRATION, REFERENCE
from qcapsnets.framework.result import ModelReport, Result, SchemeReport, read_result
from qcapsnets.framework.run import JOURNALS, MODELS, RESULT, run

__all__ = [
    "CALIBRATION",
    "JOURNALS",
    "MODELS",
    "REFERENCE",
    "RESULT",
    "ModelReport",
    "Result",
    "SchemeReport",
    "read_result",
    "run",
]
