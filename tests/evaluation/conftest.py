"""A trained network, its calibration, and evaluators of both."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.search import searching

from qcapsnets.data import ImageSet, Splits
from qcapsnets.evaluation import Evaluator, Reference
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.models import CapsNet

EvaluatorOf = Callable[..., Evaluator]


@pytest.fixture(scope="session")
def net() -> CapsNet:
    return searching.trained()


@pytest.fixture(scope="session")
def calibration() -> Calibration:
    return searching.calibrated()


@pytest.fixture(scope="session")
def images(small_digits: Splits) -> ImageSet:
    """120 digits that the network was not trained on."""
    return searching.some(small_digits.validation, 120)


@pytest.fixture(scope="session")
def reference(net: CapsNet, images: ImageSet) -> Reference:
    return Reference.of(net, images)


@pytest.fixture
def evaluator(
    net: CapsNet, images: ImageSet, calibration: Calibration, reference: Reference
) -> EvaluatorOf:
    """A new evaluator of the trained network."""

    def make(**options: Any) -> Evaluator:
        return Evaluator(net, images, calibration, reference=reference, **options)

    return make
