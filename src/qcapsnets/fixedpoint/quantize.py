"""Quantizing: a copy of a network with every site filled.

calibration = Calibration.record(model, splits.train.images[:500])
quantized = quantize(model, Plan.uniform(model, 8), calibration, rounding="nearest")
apply(quantized, another_plan)      # touches only the sites whose format changes
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from qcapsnets.data.images import PIXEL_FRACTION
from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.calibration import Calibration, Points
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.fixedpoint.rounding import roundings
from qcapsnets.fixedpoint.storage import Counts, Fixed, FixedWeights, Way
from qcapsnets.models import CapsNet, Kind, Site, sites_of

PIXEL = FixedPoint(8, PIXEL_FRACTION, signed=False)


@dataclass(frozen=True, eq=False)
class Quantization:
    """How a copy was quantized."""

    plan: Plan
    calibration: Calibration
    way: Way
    points: Points


def quantize(
    model: CapsNet,
    plan: Plan,
    calibration: Calibration,
    rounding: str = "nearest",
    seed: int = 0,
    *,
    points: Points = "mse",
) -> CapsNet:
    """A copy whose every number is fixed point; the float network is untouched."""
    way = Way(roundings[rounding], seed)
    calibration.check(model)
    copy = prepared(model)
    for name, site in sites_of(copy):
        if site.kind is Kind.IMAGE:
            site.storage = Fixed(name, PIXEL, way)
    copy.quantization = Quantization(Plan({}), calibration, way, points)
    apply(copy, plan)
    return copy


def quantization_of(model: CapsNet) -> Quantization:
    """How a network was quantized; a float one is an error."""
    if not isinstance(model.quantization, Quantization):
        raise FixedPointError(f"{model.name} is not quantized: pass it through quantize first")
    return model.quantization


def apply(quantized: CapsNet, plan: Plan) -> list[str]:
    """Fill the sites of a quantized copy by another plan; the names of those that changed."""
    how = quantization_of(quantized)
    changed = []
    for name, (site, wordlength) in plan.sites(quantized).items():
        format = how.calibration.format(name, wordlength, signed=site.signed, points=how.points)
        if not (isinstance(site.storage, Fixed) and site.storage.format == format):
            kind = FixedWeights if site.kind is Kind.WEIGHT else Fixed
            site.storage = kind(name, format, how.way)
            changed.append(name)
    quantized.quantization = replace(how, plan=plan)
    return changed


@contextmanager
def counting(quantized: CapsNet) -> Iterator[dict[str, Counts]]:
    """Count what is stored, saturated and zero at each site, while the context lasts."""
    storages = {name: storage for name, _, storage in fixed_sites(quantized)}
    try:
        yield {name: storage.count() for name, storage in storages.items()}
    finally:
        for storage in storages.values():
            storage.counts = None


def formats_of(quantized: CapsNet) -> dict[str, FixedPoint]:
    """The format of every filled site."""
    return {name: storage.format for name, _, storage in fixed_sites(quantized)}


def fixed_sites(quantized: CapsNet) -> Iterator[tuple[str, Site, Fixed]]:
    """Filled sites with their names and storages."""
    for name, site in sites_of(quantized):
        if isinstance(site.storage, Fixed):
            yield name, site, site.storage


def inexact_sites(quantized: CapsNet) -> list[str]:
    """Sites where something is wider than exact arithmetic allows; found by one blank image."""
    device = next(quantized.parameters()).device
    with torch.no_grad():
        quantized(torch.zeros(1, *quantized.image_shape, device=device))
    return [name for name, _, storage in fixed_sites(quantized) if not storage.exact]
