"""Accounting: exact memory and work of a network, in float or under a plan."""

from qcapsnets.accounting.baselines import ALEXNET, BASELINES, LENET5, Comparison, Footprint
from qcapsnets.accounting.inventory import FLOAT_BITS, Inventory
from qcapsnets.accounting.memory import (
    BINARY_POINT_BITS,
    Memory,
    WorkingSet,
    activation_bits,
    binary_points_of,
    bits_in_words,
    outputs_of,
    parameters_of,
    peak_working_set,
    votes_of,
    weight_bits,
    working_sets,
)
from qcapsnets.accounting.operations import Operations, add_energy, mac_energy, multiply_energy

__all__ = [
    "ALEXNET",
    "BASELINES",
    "BINARY_POINT_BITS",
    "FLOAT_BITS",
    "LENET5",
    "Comparison",
    "Footprint",
    "Inventory",
    "Memory",
    "Operations",
    "WorkingSet",
    "activation_bits",
    "add_energy",
    "binary_points_of",
    "bits_in_words",
    "mac_energy",
    "multiply_energy",
    "outputs_of",
    "parameters_of",
    "peak_working_set",
    "votes_of",
    "weight_bits",
    "working_sets",
]
