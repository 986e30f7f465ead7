"""Calibration: what numbers the float network stores where, and the binary point that suits them.

One pass over some training images records, at every site, the extremes and a histogram. Choosing a
format is then a function of (calibration, wordlength): no new pass when a wordlength changes.

The bins of the histogram are the leading bits of a float32: its sign, its exponent and the first
MANTISSA bits of its significand, so that they are fine in proportion wherever the values lie.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from qcapsnets.data import to_inputs
from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.format import FRACTIONS, FixedPoint
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.models import CapsNet, Kind, Site, Storage, sites_of
from qcapsnets.models.weights import TensorFile, fingerprint, read_tensors, write_tensors

MANTISSA = 5
SHIFT = 23 - MANTISSA
BINS = 1 << (9 + MANTISSA)
CLIPPED_BITS = 8
"""How many bits nearer than the maximum a binary point is tried for the least squared error."""

Points = Literal["mse", "max", "unit"]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Extremes and histogram of what one site stored."""

    low: float
    high: float
    counts: Tensor

    def best(self, wordlength: int, *, signed: bool, points: Points) -> FixedPoint:
        """The format of this wordlength that suits the numbers."""
        if points == "unit":
            return FixedPoint(wordlength, wordlength - signed, signed)
        covering = self._covering(wordlength, signed)
        if points == "max":
            return covering
        return self._least_error(covering)

    def _covering(self, wordlength: int, signed: bool) -> FixedPoint:
        """The finest format that holds both extremes, to within half a step."""
        widest = FixedPoint(wordlength, wordlength - signed, signed)
        if self.high <= 0 and (not signed or self.low >= 0):
            return widest  # nothing but zeros is stored here: any format will do
        allowed = reversed(FRACTIONS)
        return next(
            format
            for format in (FixedPoint(wordlength, fraction, signed) for fraction in allowed)
            if self._holds(format) or format.fraction == FRACTIONS[0]
        )

    def _holds(self, format: FixedPoint) -> bool:
        half = format.step / 2
        low = 0.0 if not format.signed else self.low
        return self.high < format.max + half and low >= format.min - half

    def _least_error(self, covering: FixedPoint) -> FixedPoint:
        """The covering format, or a finer one that clips what is rare."""
        last = min(covering.fraction + CLIPPED_BITS, FRACTIONS[-1])
        candidates = [
            FixedPoint(covering.wordlength, fraction, covering.signed)
            for fraction in range(covering.fraction, last + 1)
        ]
        used = self.counts.nonzero().flatten()
        counts = self.counts[used].double()
        centres, widths = (part[used] for part in _bins())
        errors = [float((_error(centres, widths, c) * counts).sum()) for c in candidates]
        return candidates[errors.index(min(errors))]


@lru_cache(maxsize=1)
def _bins() -> tuple[Tensor, Tensor]:
    """Centre and width of every bin."""
    patterns = torch.arange(BINS, dtype=torch.int64) << SHIFT
    patterns = torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns)
    edges = patterns.to(torch.int32).view(torch.float32).double()
    next_patterns = (patterns + (1 << SHIFT) - 1).to(torch.int32)
    ends = next_patterns.view(torch.float32).double()
    centres, widths = (edges + ends) / 2, (ends - edges).abs()
    zero = edges == 0  # so small that they count as zero
    return centres.masked_fill(zero, 0.0), widths.masked_fill(zero, 0.0)


def _error(centres: Tensor, widths: Tensor, format: FixedPoint) -> Tensor:
    """Mean squared error of numbers in each bin, stored in a format.

    A bin narrower than a step is rounded as its centre is; in a wider one the error is even
    over a step. Numbers outside the range are clipped.
    """
    clipped = centres.clamp(format.min, format.max)
    rounded = (clipped / format.step).round() * format.step
    within = torch.where(
        widths < format.step,
        (rounded - clipped).square(),
        torch.full_like(widths, format.step**2 / 12),
    )
    return torch.where(clipped == centres, within, (centres - clipped).square())


def histogram(x: Tensor) -> Tensor:
    """Counts of the numbers in each bin."""
    patterns = x.detach().to(torch.float32).contiguous().view(torch.int32)
    bins = (patterns >> SHIFT) & (BINS - 1)
    return torch.bincount(bins.flatten(), minlength=BINS).cpu()


class Recorder(Storage):
    """Stores numbers as they are, and remembers what they were."""

    keeps_all = False

    def __init__(self, name: str, *, once: bool) -> None:
        self.name, self.once = name, once
        self.low, self.high = float("inf"), float("-inf")
        self.counts = torch.zeros(BINS, dtype=torch.int64)
        self.stored = 0

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        if not (self.once and self.stored):
            self._record(x)
        return x

    def _record(self, x: Tensor) -> None:
        low, high = (extreme.item() for extreme in x.aminmax())
        if not (abs(low) < float("inf") and abs(high) < float("inf")):
            raise FixedPointError(
                f"{self.name} holds a number that is not finite: "
                "train the network again, or repair its weights"
            )
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.counts += histogram(x)
        self.stored += x.numel()

    def statistics(self) -> Statistics:
        """What was seen."""
        return Statistics(self.low, self.high, self.counts)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Statistics by site, and the network that they belong to."""

    model: str
    images: int
    sites: dict[str, Statistics]

    @classmethod
    def record(cls, model: CapsNet, images: Tensor, *, batch_size: int = 50) -> "Calibration":
        """One pass of the float network over images (bytes [n, channels, height, width])."""
        if len(images) == 0:
            raise FixedPointError("calibration was given no image: give it some hundred")
        copy = prepared(model)
        recorders = {name: _recorder(name, site) for name, site in sites_of(copy)}
        device = next(copy.parameters()).device
        with torch.no_grad():
            for part in images.split(batch_size):
                copy(to_inputs(part.to(device)))
        statistics = {n: r.statistics() for n, r in recorders.items() if r is not None}
        return cls(fingerprint(model), len(images), statistics)

    def format(self, name: str, wordlength: int, *, signed: bool, points: Points) -> FixedPoint:
        """The format for a site at a wordlength."""
        if points not in get_args(Points):
            known = ", ".join(get_args(Points))
            raise FixedPointError(f"binary points by {points!r} are unknown: choose one of {known}")
        key = name, wordlength, signed, points
        if key not in self._chosen:
            self._chosen[key] = self.sites[name].best(wordlength, signed=signed, points=points)
        return self._chosen[key]

    @property
    def _chosen(self) -> dict[Any, FixedPoint]:
        return self.__dict__.setdefault("_memo", {})  # type: ignore[no-any-return]

    def check(self, model: CapsNet) -> None:
        """A calibration of another network is an error."""
        if fingerprint(model) != self.model:
            raise FixedPointError(
                f"the calibration is of a network with fingerprint {self.model}, this one has "
                f"{fingerprint(model)}: record a new one"
            )

    def save(self, path: Path) -> None:
        """Write it, with the fingerprint of its network."""
        extremes = {name: [s.low, s.high] for name, s in self.sites.items()}
        header = {"calibration": self.model, "images": self.images, "extremes": extremes}
        tensors = {name: s.counts for name, s in self.sites.items()}
        write_tensors(path, TensorFile(tensors, header), FixedPointError)

    @classmethod
    def load(cls, path: Path) -> "Calibration":
        """Read what `save` wrote."""
        file = read_tensors(path, FixedPointError)
        try:
            extremes = file.header["extremes"]
            sites = {
                name: Statistics(float(extremes[name][0]), float(extremes[name][1]), counts)
                for name, counts in file.tensors.items()
            }
            return cls(file.header["calibration"], file.header["images"], sites)
        except (KeyError, TypeError):
            raise FixedPointError(f"{path} holds no calibration: record one") from None


def _recorder(name: str, site: Site) -> Recorder | None:
    if site.kind is Kind.ACCUMULATOR:
        return None
    recorder = Recorder(name, once=site.kind is Kind.WEIGHT)
    site.storage = recorder
    return recorder
