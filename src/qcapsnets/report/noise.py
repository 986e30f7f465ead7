"""Where quantization bites: what each site of a quantized network makes of the float network's.

The signal is what the float network stores at a site, the noise how far the quantized one is from
it: everything lost up to there. Beside it stands the noise of the site's own rounding alone. Both
networks compute the same images, a few at a time, and what one stores is compared at once.
"""

import math
from collections import deque
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qcapsnets.data import to_inputs
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.fixedpoint.quantize import fixed_sites
from qcapsnets.fixedpoint.storage import Counts, Fixed, FixedWeights
from qcapsnets.models import CapsNet, Kind, Storage, Term, sites_of, softmax, squash

BATCH = 10


@dataclass
class Ratio:
    """Energy of a signal, and of the noise on it."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, signal: Tensor, noisy: Tensor) -> None:
        """Take in a tensor and what became of it."""
        wide = signal.detach().double()
        self.signal += float(wide.square().sum())
        self.noise += float((noisy.detach().double() - wide).square().sum())

    @property
    def decibels(self) -> float | None:
        """10 log10(signal / noise), -100 at least; None where nothing is lost."""
        if self.noise == 0:
            return None
        return 10 * math.log10(max(self.signal / self.noise, 1e-10))


@dataclass
class SiteNoise:
    """What became of the numbers of one site."""

    name: str
    kind: Kind
    format: FixedPoint
    counts: Counts
    all: Ratio = field(default_factory=Ratio)
    own: Ratio = field(default_factory=Ratio)

    @property
    def saturated(self) -> float:
        """The share of numbers that lay outside the format's range."""
        return self.counts.saturated / max(1, self.counts.stored)

    @property
    def zeros(self) -> float:
        """The share of numbers that are zero once stored."""
        return self.counts.zeros / max(1, self.counts.stored)


class _Remembering(Storage):
    """Stores numbers as they are, and keeps them until they are asked for."""

    keeps_all = False
    counts_images = True

    def __init__(self) -> None:
        self.stored: deque[Tensor] = deque()

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        self.stored.append(x)
        return x


class _Compared(Fixed):
    """A storage that compares what it stores with what the float network stored there."""

    def __init__(self, fixed: Fixed, noise: SiteNoise, expected: deque[Tensor]) -> None:
        super().__init__(fixed.name, fixed.format, fixed.way)
        self.noise, self.expected = noise, expected
        self.counts = noise.counts

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        return self._compare(x, super().store(x, step=step))

    def consume(self, x: Tensor, *, step: int = 0) -> Tensor:
        return self.store(x, step=step)

    def squash(self, s: Term, *, dim: int, step: int = 0) -> Tensor:
        real = squash(s.value.double(), dim)
        return self._compare(real, super().squash(s, dim=dim, step=step))

    def softmax(self, b: Term, *, dim: int, step: int = 0) -> Tensor:
        real = softmax(b.value.double(), dim)
        return self._compare(real, super().softmax(b, dim=dim, step=step))

    def _compare(self, unrounded: Tensor, stored: Tensor) -> Tensor:
        self.noise.own.add(unrounded, stored)
        self.noise.all.add(self.expected.popleft(), stored)
        return stored


@torch.no_grad()
def noise_of(model: CapsNet, quantized: CapsNet, images: Tensor) -> list[SiteNoise]:
    """Noise by site, in the order of the network, on images (bytes); the network is left as is."""
    reference, memories = _remembering(model)
    found = [
        SiteNoise(name, site.kind, storage.format, Counts())
        for name, site, storage in fixed_sites(quantized)
        if site.kind is not Kind.IMAGE
    ]
    before = {name: site.storage for name, site in sites_of(quantized)}
    try:
        _listen(quantized, {noise.name: noise for noise in found}, memories)
        for part in images.split(BATCH):
            inputs = to_inputs(part).to(next(model.parameters()).device)
            reference(inputs)
            quantized(inputs)
            _compare_weights(quantized, {noise.name: noise for noise in found}, memories)
    finally:
        for name, site in sites_of(quantized):
            site.storage = before[name]
    return found


def _remembering(model: CapsNet) -> tuple[CapsNet, dict[str, _Remembering]]:
    copy = prepared(model)
    memories = {}
    for name, site in sites_of(copy):
        if site.kind not in (Kind.IMAGE, Kind.ACCUMULATOR):
            site.storage = memories[name] = _Remembering()
    return copy, memories


def _listen(
    quantized: CapsNet, noises: dict[str, SiteNoise], memories: dict[str, _Remembering]
) -> None:
    """Fill the sites with storages that compare; weights, with fresh ones that count."""
    for name, site, storage in fixed_sites(quantized):
        if isinstance(storage, FixedWeights):
            site.storage = FixedWeights(name, storage.format, storage.way)
            site.storage.counts = noises[name].counts
        elif name in noises:
            site.storage = _Compared(storage, noises[name], memories[name].stored)


def _compare_weights(
    quantized: CapsNet, noises: dict[str, SiteNoise], memories: dict[str, _Remembering]
) -> None:
    """Weights are rounded once, so they are compared once."""
    for name, _, storage in fixed_sites(quantized):
        if isinstance(storage, FixedWeights):
            expected, noise = memories[name].stored.popleft(), noises[name]
            memories[name].stored.clear()
            if noise.all.signal == 0:
                values = storage.format.values(storage.codes(), torch.float64)
                noise.all.add(expected, values)
                noise.own.add(expected, values)
