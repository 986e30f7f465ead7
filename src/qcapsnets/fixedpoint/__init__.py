"""Fixed-point arithmetic that is exact, from simulation to chip (docs/arithmetic.md)."""

from qcapsnets.fixedpoint.calibration import Calibration, Points
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.functions import Softmax, Squash
from qcapsnets.fixedpoint.generator import draws
from qcapsnets.fixedpoint.plan import Granularity, Plan, Wordlengths
from qcapsnets.fixedpoint.quantize import (
    Quantization,
    apply,
    counting,
    formats_of,
    inexact_sites,
    quantization_of,
    quantize,
)
from qcapsnets.fixedpoint.rounding import Rounding, register_rounding, roundings
from qcapsnets.fixedpoint.storage import Counts

__all__ = [
    "Calibration",
    "Counts",
    "FixedPoint",
    "Granularity",
    "Plan",
    "Points",
    "Quantization",
    "Rounding",
    "Softmax",
    "Squash",
    "Wordlengths",
    "apply",
    "counting",
    "draws",
    "formats_of",
    "inexact_sites",
    "quantization_of",
    "quantize",
    "register_rounding",
    "roundings",
]
