"""Binary points by what the network's answers lose (`output`), one site at a time.

The least squared error at a site takes the errors there for independent. Those of rounding nearly
are, and cancel in the sums that follow; those of clipping all point the same way, and add up over
thousands of products. So each site by itself is rounded in the float network, and the binary point
is moved from where the squared error is least, towards where the lengths of the class capsules
change less, until they do not. Only short wordlengths are worth it: long ones lose nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from qcapsnets.data import to_inputs
from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.format import FRACTIONS, FixedPoint
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.models import FLOAT, CapsNet, Kind, Site, Storage, lengths, sites_of

WORDLENGTHS = range(2, 8)
"""Those that are tuned; longer ones take the binary point of the least squared error."""
IMAGES = 16
"""Of the calibration images: differences between binary points are large and systematic."""
SITES = frozenset({Kind.WEIGHT, Kind.ACTIVATION, Kind.ROUTING})

Watch = Callable[[str, int, int], None]


class Rounded(Storage):
    """Numbers of one format, computed with in float."""

    keeps_all = False

    def __init__(self, format: FixedPoint) -> None:
        self.format = format

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        codes = x.mul(2.0**self.format.fraction).round_()
        return codes.clamp_(self.format.min_code, self.format.max_code).mul_(self.format.step)


@torch.no_grad()
def tuned(
    calibration: Calibration, model: CapsNet, images: Tensor, *, watch: Watch | None = None
) -> Calibration:
    """The calibration with binary points for `output`; `images` are those of the calibration.

    `watch` is told of each site before it is tuned: which, and how many of how many are done.
    """
    calibration.check(model)
    if len(images) == 0:
        raise FixedPointError("tuning was given no image: give it those of the calibration")
    copy = prepared(model)
    x = to_inputs(images[:IMAGES].to(next(copy.parameters()).device))
    count = sum(site.kind in SITES for _, site in sites_of(copy))
    fractions: dict[str, dict[int, int]] = {}
    for index, (layer, _) in enumerate(copy.named_children()):
        loss = _loss(copy[index:], x)
        for name, site in _sites(copy, layer):
            if watch is not None:
                watch(name, len(fractions), count)
            fractions[name] = _tune(calibration, name, site, loss)
        x = copy[index](x)
    return replace(calibration, fractions=fractions)


def _sites(model: CapsNet, layer: str) -> Iterator[tuple[str, Site]]:
    for name, site in sites_of(model):
        if name.partition(".")[0] == layer and site.kind in SITES:
            yield name, site


def _loss(rest: nn.Sequential, x: Tensor) -> Callable[[], float]:
    """How far the lengths of the class capsules are from those of the float network."""
    expected = lengths(rest(x))
    return lambda: float((lengths(rest(x)) - expected).square().sum(dtype=torch.float64))


def _tune(
    calibration: Calibration, name: str, site: Site, loss: Callable[[], float]
) -> dict[int, int]:
    """The fractional bits for each wordlength."""

    def lost(format: FixedPoint) -> float:
        site.storage = Rounded(format)
        return loss()

    try:
        return {
            wordlength: _descend(
                calibration.format(name, wordlength, signed=site.signed, points="mse"), lost
            ).fraction
            for wordlength in WORDLENGTHS
        }
    finally:
        site.storage = FLOAT


def _descend(start: FixedPoint, lost: Callable[[FixedPoint], float]) -> FixedPoint:
    """Coarser as long as less is lost; if that never is so, finer."""
    best, least = start, lost(start)
    for direction in (-1, 1):
        while (fraction := best.fraction + direction) in FRACTIONS:
            candidate = replace(best, fraction=fraction)
            if not (loss := lost(candidate)) < least:
                break
            best, least = candidate, loss
        if best != start:
            break
    return best
