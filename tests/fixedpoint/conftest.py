"""Tiny networks, calibrated once."""

import pytest
from tests.fixedpoint.small import Small

from qcapsnets.data import Splits


@pytest.fixture(scope="session")
def small(small_digits: Splits) -> Small:
    return Small(small_digits)
