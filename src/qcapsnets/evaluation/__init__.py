"""Evaluation: exact answers, at the least cost."""

from qcapsnets.evaluation.evaluator import Evaluator, Measurement
from qcapsnets.evaluation.reference import Reference
from qcapsnets.evaluation.statistics import Paired, wilson

__all__ = ["Evaluator", "Measurement", "Paired", "Reference", "wilson"]
