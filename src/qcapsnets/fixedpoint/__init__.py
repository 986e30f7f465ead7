"""Fixed-point arithmetic that is exact, from simulation to chip (docs/arithmetic.md)."""

from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.functions import Softmax, Squash
from qcapsnets.fixedpoint.generator import draws
from qcapsnets.fixedpoint.rounding import Rounding, register_rounding, roundings

__all__ = [
    "FixedPoint",
    "Rounding",
    "Softmax",
    "Squash",
    "draws",
    "register_rounding",
    "roundings",
]
