"""Images for trainings that take a second."""

import pytest

from qcapsnets.data import Splits


@pytest.fixture(scope="session")
def few(small_digits: Splits) -> Splits:
    """100 digits to train and 40 to validate: four steps of 30, the last of 10, an epoch."""
    return Splits(
        small_digits.train.select(range(100)),
        small_digits.validation.select(range(40)),
        small_digits.test,
    )
