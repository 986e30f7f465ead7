"""The evaluator: how accurate is the network under a plan, and is that at least enough?

"At least A?" is cheaper than an accuracy: images come hardest first, and counting stops once the
verdict is certain. The verdict is the same as that of a full count. What was counted of a plan is
remembered, and counting goes on from there when a later question needs more.

A network is a sequence, so what was computed before the first site that changes is reused: the
inputs of layers, and the sums of a layer's first convolution where only what follows has changed.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.data import ImageSet, to_inputs
from qcapsnets.errors import EvaluationError
from qcapsnets.evaluation.cache import DEFAULT_BYTES, Cache, Codes
from qcapsnets.evaluation.reference import Reference
from qcapsnets.fixedpoint.calibration import Calibration, Points
from qcapsnets.fixedpoint.exact import Accumulation
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import apply, fixed_sites, quantize
from qcapsnets.fixedpoint.storage import Fixed, range_of
from qcapsnets.models import CapsNet, Layer, layers_of, lengths, sites_of

BATCH = 50
SHARE = 4
"""A tensor is kept only if all images' worth of it fits this share of the cache."""


@dataclass(frozen=True)
class Measurement:
    """What is known of a plan: of the `seen` hardest images, `right` are right."""

    seen: int
    right: int
    total: int

    @property
    def wrong(self) -> int:
        return self.seen - self.right

    @property
    def complete(self) -> bool:
        return self.seen == self.total

    @property
    def accuracy(self) -> float:
        """The accuracy; of a plan that was not counted to the end, it is an error."""
        if not self.complete:
            raise EvaluationError(
                f"only {self.seen} of {self.total} images were evaluated: ask for the accuracy"
            )
        return self.right / self.total

    def verdict(self, minimum: int) -> bool | None:
        """Whether at least `minimum` images are right; None if that is not certain yet."""
        if self.right >= minimum:
            return True
        return False if self.total - self.wrong < minimum else None


class Evaluator:
    """Counts right answers of one float network on one set of images, under any plan."""

    def __init__(
        self,
        model: CapsNet,
        images: ImageSet,
        calibration: Calibration,
        *,
        rounding: str = "nearest",
        seed: int = 0,
        points: Points = "mse",
        reference: Reference | None = None,
        reuse: bool = True,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> None:
        self.reference = reference or Reference.of(model, images)
        self.images = images.select(self.reference.order)
        self.total = len(images)
        self.known: dict[Plan, Measurement] = {}
        self.work = 0
        self._quantize: Callable[[Plan], CapsNet] = lambda plan: quantize(
            model, plan, calibration, rounding, seed, points=points
        )
        self._network: CapsNet | None = None
        self._cache = Cache(cache_bytes if reuse else 0)
        self._entry: dict[str, Hashable] = {}

    def accuracy(self, plan: Plan) -> float:
        """The share of all images that are right."""
        return self.count(plan, lambda _: None).accuracy

    def at_least(self, plan: Plan, minimum: int) -> bool:
        """Whether at least `minimum` images are right."""
        return bool(self.count(plan, lambda m: m.verdict(minimum)).verdict(minimum))

    def remember(self, plan: Plan, measurement: Measurement) -> None:
        """Take over what was measured before."""
        known = self.known.get(plan)
        if known is None or measurement.seen > known.seen:
            self.known[plan] = measurement

    def count(self, plan: Plan, decide: Callable[[Measurement], bool | None]) -> Measurement:
        """Count images, hardest first, until `decide` has an answer or none is left."""
        now = self.known.get(plan, Measurement(0, 0, self.total))
        if decide(now) is None and not now.complete:
            network = self._filled(plan)
            keys = _prefix_keys(network)
            while decide(now) is None and not now.complete:
                right = self._right(network, keys, now.seen)
                now = Measurement(now.seen + len(right), now.right + int(right.sum()), self.total)
            self.known[plan] = now
        return now

    def _filled(self, plan: Plan) -> CapsNet:
        if self._network is None:
            self._network = self._quantize(plan)
        else:
            apply(self._network, plan)
        for _, _, storage in fixed_sites(self._network):
            storage.around = self._around
        return self._network

    @torch.no_grad()
    def _right(self, network: CapsNet, keys: list[Hashable], start: int) -> Tensor:
        """Which of the images of the batch at `start` are right."""
        layers = list(layers_of(network).values())
        labels = self.images.labels[start : start + BATCH]
        first, x = self._resume(layers, keys, start)
        for index in range(first, len(layers)):
            self._entry = _entry(layers, keys, index, start)
            x = layers[index](x)
            if index + 1 < len(layers):
                place = layers[index + 1].source
                self._keep((keys[index], start), Codes.of(x, range_of(place.storage)))
        self._entry = {}
        return lengths(x).argmax(1).cpu() == labels

    def _resume(self, layers: list[Layer], keys: list[Hashable], start: int) -> tuple[int, Tensor]:
        """The first layer that must be computed, and its input."""
        for index in range(len(layers) - 1, 0, -1):
            kept = self._cache.get((keys[index - 1], start))
            if kept is not None:
                return index, kept
        device = next(layers[0].parameters()).device
        return 0, to_inputs(self.images.images[start : start + BATCH].to(device))

    def _around(
        self, storage: Fixed, how: Accumulation, terms: int, compute: Callable[[], Tensor]
    ) -> Tensor:
        """Reuse a layer's first sums if they are kept; count the work of all that are not."""
        key = self._entry.get(storage.name)
        kept = None if key is None else self._cache.get(key)
        if kept is not None:
            return kept
        result = compute()
        self.work += result.numel() * terms
        if key is not None and how.exact:
            self._keep(key, Codes.of(result, how.result))
        return result

    def _keep(self, key: Hashable, codes: Codes) -> None:
        if codes.bytes * self.total <= self._cache.limit // SHARE * len(codes.codes):
            self._cache.put(key, codes)


def _prefix_keys(network: CapsNet) -> list[Hashable]:
    """For each layer, a name for everything that its output depends on."""
    keys: list[Hashable] = []
    for layer in layers_of(network).values():
        own = tuple(_formats(layer))
        keys.append((keys[-1] if keys else None, own))
    return keys


def _formats(layer: Layer) -> list[str]:
    return [str(s.storage) for _, s in sites_of(layer) if isinstance(s.storage, Fixed)]


def _entry(
    layers: list[Layer], keys: list[Hashable], index: int, start: int
) -> dict[str, Hashable]:
    """The site of a layer's first convolution, and a name for what its sums depend on."""
    entry = layers[index].entry()
    if entry is None or not isinstance(entry.weights.storage, Fixed):
        return {}
    before = keys[index - 1] if index else None
    weights, biases = entry.weights.storage, entry.biases.storage
    return {weights.name: ("sums", before, str(weights), str(biases), start)}
