"""Small networks with random weights, and real images."""

import pytest
import torch
from tests.export.networks import NETWORKS
from torch import Tensor

from qcapsnets.data import load
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import CapsNet


@pytest.fixture(scope="session")
def images() -> Tensor:
    """Real images, bytes [n, 1, 28, 28]."""
    return load("mnist-mini").test.images[:64]


class Quantizer:
    """Quantized copies of the small networks, which are built and calibrated once."""

    def __init__(self, images: Tensor) -> None:
        self.images = images
        self._known: dict[str, tuple[CapsNet, Calibration]] = {}

    def float_model(self, name: str) -> CapsNet:
        return self._network(name)[0]

    def __call__(
        self, name: str, plan: Plan | int = 8, rounding: str = "nearest", seed: int = 7
    ) -> CapsNet:
        model, calibration = self._network(name)
        plan = Plan.uniform(model, plan) if isinstance(plan, int) else plan
        return quantize(model, plan, calibration, rounding, seed)

    def _network(self, name: str) -> tuple[CapsNet, Calibration]:
        if name not in self._known:
            torch.manual_seed(5)
            model = NETWORKS[name]().eval()
            self._known[name] = model, Calibration.record(model, self.images[:32])
        return self._known[name]


@pytest.fixture(scope="session")
def quantized(images: Tensor) -> Quantizer:
    return Quantizer(images)
