"""Binary points by what the network's answers lose (`output`), one site at a time.

The least squared error at a site takes the errors there for independent. Those of rounding nearly
are, and cancel in the sums that follow; those of clipping all point the same way, and add up over
thousands of products. So each site by itself is rounded in the float network, and the binary point
is moved from where the squared error is least to where the lengths of the class capsules change
least. Wordlengths that lose next to nothing are left alone: most long ones are, but not those of a
batch norm, whose factors for channels that hardly ever fire are huge.
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

WORDLENGTHS = range(2, 17)
"""Those that are tuned; longer ones take the binary point of the least squared error."""
LITTLE = 0.001
"""A change of the class capsules' lengths (root mean square; they are below 1) that is let be."""
IMAGES = 16
"""Of the calibration images: differences between binary points are large and systematic."""
PATIENCE = 2
"""Binary points in a row that are no better before a direction is given up: a constant background
may happen to round well or badly, so the best is not always beside the next best."""
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
    """How much the lengths of the class capsules differ from the float network's, at the root mean
    square."""
    expected = lengths(rest(x))
    return lambda: float((lengths(rest(x)) - expected).square().mean(dtype=torch.float64).sqrt())


def _tune(
    calibration: Calibration, name: str, site: Site, loss: Callable[[], float]
) -> dict[int, int]:
    """The fractional bits for each wordlength."""

    def lost(format: FixedPoint) -> float:
        site.storage = Rounded(format)
        return loss()

    try:
        return {
            wordlength: best_around(
                calibration.format(name, wordlength, signed=site.signed, points="mse"), lost
            ).fraction
            for wordlength in WORDLENGTHS
        }
    finally:
        site.storage = FLOAT


def best_around(start: FixedPoint, lost: Callable[[FixedPoint], float]) -> FixedPoint:
    """Of the binary points around the start, the one that loses least."""
    best, least = start, lost(start)
    if least <= LITTLE:
        return start
    for direction in (-1, 1):
        candidate, waited = start, 0
        while waited < PATIENCE and (fraction := candidate.fraction + direction) in FRACTIONS:
            candidate = replace(candidate, fraction=fraction)
            loss, waited = lost(candidate), waited + 1
            if loss < least:
                best, least, waited = candidate, loss, 0
    return best
