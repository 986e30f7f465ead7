"""Places to store in, and tiny networks to quantize."""

from tests import networks

from qcapsnets.data import Splits, to_inputs
from qcapsnets.fixedpoint import (
    Calibration,
    FixedPoint,
    Plan,
    quantize,
    roundings,
)
from qcapsnets.fixedpoint.storage import Fixed, Known, Way
from qcapsnets.models import (
    CapsNet,
    Kind,
    Site,
)

NEAREST = Way(roundings["nearest"], 0)
STOCHASTIC = Way(roundings["stochastic"], 7)


def fixed(text: str, way: Way = NEAREST, name: str = "site") -> Fixed:
    return Fixed(name, FixedPoint.parse(text), way)


def place(storage: Known) -> Site:
    site = Site(Kind.ACTIVATION)
    site.storage = storage
    return site


class Small:
    """Tiny networks with random weights on real digits."""

    def __init__(self, digits: Splits) -> None:
        self.images = digits.train.images[:50]
        self.inputs = to_inputs(self.images[:12])
        self.models = {"shallow": networks.tiny(), "deep": networks.tiny_deep()}
        self.model = self.models["shallow"]
        self.calibrations = {n: Calibration.record(m, self.images) for n, m in self.models.items()}

    def quantized(
        self, wordlength: int, scheme: str = "nearest", seed: int = 0, name: str = "shallow"
    ) -> CapsNet:
        model = self.models[name]
        plan = Plan.uniform(model, wordlength)
        return quantize(model, plan, self.calibrations[name], scheme, seed)
