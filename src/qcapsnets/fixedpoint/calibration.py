"""Calibration: what numbers the float network stores where, and the binary point that suits them.

One pass over some training images records, at every site, the extremes and a histogram. Choosing a
format is then a function of (calibration, wordlength): no new pass when a wordlength changes.

The bins of the histogram are the leading bits of a float32: its sign, its exponent and the first
MANTISSA bits of its significand, so that they are fine in proportion wherever the values lie.
"""

from dataclasses import dataclass, field
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
PIECE = 1 << 16
"""How many numbers are counted at a time, so that what that takes stays in the cache."""

Points = Literal["output", "mse", "max", "unit"]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Extremes and histogram of what one site stored."""

    low: float
    high: float
    counts: Tensor

    def best(self, wordlength: int, *, signed: bool, points: Points) -> FixedPoint:
        """The format of this wordlength that suits the numbers (by `mse`, `max` or `unit`)."""
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
        starts, ends, counts = self._spans()
        errors = [float((_error(starts, ends, c) * counts).sum()) for c in candidates]
        return candidates[errors.index(min(errors))]

    def _spans(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where the numbers lie, by rising magnitude from and to, and how many: the extremes, which
        are known exactly and may decide alone whether to clip, and the bins of all the others."""
        extremes = torch.tensor([self.low, self.high], dtype=torch.float64)
        others = (self.counts - histogram(extremes)).clamp(min=0)
        used = others.nonzero().flatten()
        least, largest = (edge[used] for edge in edges())
        starts = torch.cat([least, extremes])
        ends = torch.cat([largest.clamp(self.low, self.high), extremes])
        return starts, ends, torch.cat([others[used].double(), torch.ones(2)])


@lru_cache(maxsize=1)
def edges() -> tuple[Tensor, Tensor]:
    """The numbers of least and of largest magnitude in every bin (float64)."""
    patterns = torch.arange(BINS, dtype=torch.int64) << SHIFT
    signed = torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns)
    starts, ends = signed, signed + (1 << SHIFT) - 1
    least, largest = (p.to(torch.int32).view(torch.float32).double() for p in (starts, ends))
    return least, largest.masked_fill(least == 0, 0.0)  # so small that they count as zero


def _error(starts: Tensor, ends: Tensor, format: FixedPoint) -> Tensor:
    """Mean squared error of numbers, even over each span, rounded to a format and clipped."""
    largest = torch.where(ends < 0, -float(format.min_code), float(format.max_code))
    start, end = starts.abs() / format.step, ends.abs() / format.step
    total = _total_error(end, largest) - _total_error(start, largest)
    of_one = (end - torch.minimum(end.round(), largest)) ** 2
    return torch.where(end > start, total / (end - start), of_one) * format.step**2


def _total_error(x: Tensor, largest: Tensor) -> Tensor:
    """The integral from 0 to x, in steps, of (t - min(round(t), largest))^2."""
    nearest = torch.minimum(x.round(), largest)
    return nearest / 12 + (x - nearest) ** 3 / 3


def histogram(x: Tensor) -> Tensor:
    """Counts of the numbers in each bin."""
    patterns = x.detach().to(torch.float32).contiguous().view(torch.int32).flatten()
    counts = torch.zeros(BINS, dtype=torch.int64, device=x.device)
    for part in patterns.split(PIECE if x.device.type == "cpu" else max(1, len(patterns))):
        counts += torch.bincount((part >> SHIFT).bitwise_and_(BINS - 1), minlength=BINS)
    return counts.cpu()


class Recorder(Storage):
    """Stores numbers as they are, and remembers what they were."""

    keeps_all = False
    counts_images = True

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
        """What was seen; nothing, at a site that was never used, counts as zero."""
        low, high = (self.low, self.high) if self.stored else (0.0, 0.0)
        return Statistics(low, high, self.counts)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Statistics by site, and the network that they belong to.

    `fractions` are the binary points by site and wordlength for `output`, once they are tuned
    (`qcapsnets.fixedpoint.tuning`); wordlengths that are not in it are as for `mse`.
    """

    model: str
    images: int
    sites: dict[str, Statistics]
    fractions: dict[str, dict[int, int]] | None = None
    _chosen: dict[Any, FixedPoint] = field(default_factory=dict, init=False, repr=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Calibration":
        """It never changes, so copies of a quantized network share it."""
        return self

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
        if name not in self.sites:
            raise FixedPointError(
                f"the calibration knows nothing of {name}: record one of this network"
            )
        if key not in self._chosen:
            self._chosen[key] = self._choose(*key)
        return self._chosen[key]

    def _choose(self, name: str, wordlength: int, signed: bool, points: Points) -> FixedPoint:
        if points != "output":
            return self.sites[name].best(wordlength, signed=signed, points=points)
        if self.fractions is None:
            raise FixedPointError(
                "the calibration is not tuned for binary points by 'output': "
                "pass it through tuned first, or choose mse, max or unit"
            )
        fraction = self.fractions.get(name, {}).get(wordlength)
        if fraction is None:
            return self.sites[name].best(wordlength, signed=signed, points="mse")
        return FixedPoint(wordlength, fraction, signed)

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
        header = {
            "calibration": self.model,
            "images": self.images,
            "extremes": extremes,
            "fractions": self.fractions,
        }
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
            model, images = str(file.header["calibration"]), int(file.header["images"])
            fractions = _fractions(file.header.get("fractions"))
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            raise FixedPointError(f"{path} holds no calibration: record one") from None
        for name, statistics in sites.items():
            if statistics.counts.shape != (BINS,) or statistics.counts.dtype != torch.int64:
                raise FixedPointError(
                    f"{path} has another kind of histogram at {name}: record a new calibration"
                )
        return cls(model, images, sites, fractions)


def _fractions(header: dict[str, dict[str, int]] | None) -> dict[str, dict[int, int]] | None:
    """JSON has no numbers as keys."""
    if header is None:
        return None
    return {
        name: {int(wordlength): int(fraction) for wordlength, fraction in tuned.items()}
        for name, tuned in header.items()
    }


def _recorder(name: str, site: Site) -> Recorder | None:
    if site.kind is Kind.ACCUMULATOR:
        return None
    recorder = Recorder(name, once=site.kind is Kind.WEIGHT)
    site.storage = recorder
    return recorder
