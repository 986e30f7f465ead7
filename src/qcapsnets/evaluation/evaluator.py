"""The evaluator: how accurate is the network under a plan, and is that at least enough?

"At least A?" is cheaper than an accuracy: images come hardest first, and counting stops once the
verdict is certain. The verdict is the same as that of a full count. What was counted of a plan is
remembered, and counting goes on from there when a later question needs more.

A network is a sequence, so what was computed before the first site that changes is reused: the
inputs of layers, and the sums of a layer's first convolution where only what follows has changed.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.data import ImageSet, to_inputs
from qcapsnets.errors import EvaluationError
from qcapsnets.evaluation.cache import DEFAULT_BYTES, Cache, Codes, narrowest
from qcapsnets.evaluation.reference import Reference
from qcapsnets.fixedpoint.calibration import Calibration, Points
from qcapsnets.fixedpoint.exact import Accumulation, Range
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import apply, fixed_sites, quantize
from qcapsnets.fixedpoint.storage import Fixed, range_of
from qcapsnets.models import CapsNet, Layer, layers_of, lengths, sites_of

SMALLEST_BATCH, LARGEST_BATCH = 10, 50
GROWTH = 4
"""Batches grow by the images seen so far over this: hopeless plans fail within the first few."""
SHARE = 4
"""A tensor is kept only if all images' worth of it fits this share of the cache."""


def batch_end(start: int, hopeless: int = 0) -> int:
    """Where the batch that begins at `start` ends: the same for every plan, so that all share.

    The first takes in the `hopeless` images, which float has wrong: fewer seldom refute a plan.
    """
    first = min(-(-hopeless // SMALLEST_BATCH) * SMALLEST_BATCH, LARGEST_BATCH)
    size = max(start, GROWTH * (first - start)) // GROWTH // SMALLEST_BATCH * SMALLEST_BATCH
    return start + min(max(size, SMALLEST_BATCH), LARGEST_BATCH)


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

    def settles(self, minimum: int | None, images: int | None = None) -> bool:
        """Whether no more images are needed for the verdict; without a minimum, for the count.

        So it is also if `images` were seen.
        """
        if images is not None and self.seen >= images:
            return True
        return self.complete if minimum is None else self.verdict(minimum) is not None


Watch = Callable[[Measurement], None]


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
        return self.count(plan).accuracy

    def at_least(self, plan: Plan, minimum: int) -> bool:
        """Whether at least `minimum` images are right."""
        return bool(self.count(plan, minimum).verdict(minimum))

    def measured(self, plan: Plan) -> Measurement:
        """What is known of a plan so far."""
        return self.known.get(plan, Measurement(0, 0, self.total))

    def remember(self, plan: Plan, measurement: Measurement) -> None:
        """Take over what was measured before."""
        if measurement.seen > self.measured(plan).seen:
            self.known[plan] = measurement

    def count(
        self,
        plan: Plan,
        minimum: int | None = None,
        watch: Watch | None = None,
        *,
        images: int | None = None,
    ) -> Measurement:
        """Count images, hardest first, until the verdict is certain; without a minimum, all.

        With `images`, no longer than until so many are seen.
        """
        now = self.measured(plan)
        if now.settles(minimum, images):
            return now
        with self._filled(plan) as network:
            keys = _prefix_keys(network)
            while not now.settles(minimum, images):
                right = self._right(network, keys, now.seen)
                now = Measurement(now.seen + len(right), now.right + int(right.sum()), self.total)
                if watch is not None:
                    watch(now)
        self.known[plan] = now
        return now

    @contextmanager
    def _filled(self, plan: Plan) -> Iterator[CapsNet]:
        """The network under a plan, every sum of which passes through `_around`.

        Only for a while: a network that led back here for good would keep the cache alive.
        """
        if self._network is None:
            self._network = self._quantize(plan)
        else:
            apply(self._network, plan)
        storages = [storage for _, _, storage in fixed_sites(self._network)]
        try:
            for storage in storages:
                storage.around = self._around
            yield self._network
        finally:
            for storage in storages:
                storage.around = None
            self._entry = {}

    @torch.no_grad()
    def _right(self, network: CapsNet, keys: list[Hashable], start: int) -> Tensor:
        """Which of the images of the batch at `start` are right."""
        layers = list(layers_of(network).values())
        end = batch_end(start, self.total - self.reference.correct)
        batch = slice(start, min(end, self.total))
        first, x = self._resume(layers, keys, batch)
        for index in range(first, len(layers)):
            self._entry = _entry(layers, keys, index, start)
            x = layers[index](x)
            if index + 1 < len(layers):
                place = layers[index + 1].source
                self._keep((keys[index], start), x, range_of(place.storage))
        return lengths(x).argmax(1).cpu() == self.images.labels[batch]

    def _resume(
        self, layers: list[Layer], keys: list[Hashable], batch: slice
    ) -> tuple[int, Tensor]:
        """The first layer that must be computed, and its input."""
        for index in range(len(layers) - 1, 0, -1):
            kept = self._cache.get((keys[index - 1], batch.start))
            if kept is not None:
                return index, kept
        device = next(layers[0].parameters()).device
        return 0, to_inputs(self.images.images[batch].to(device))

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
            self._keep(key, result, how.result)
        return result

    def _keep(self, key: Hashable, x: Tensor, range_: Range) -> None:
        narrow = narrowest(range_)
        if narrow is None:
            return
        of_an_image = x.numel() // len(x) * min(narrow.itemsize, x.element_size())
        if of_an_image * self.total <= self._cache.limit // SHARE:
            self._cache.put(key, Codes.of(x, range_.fraction, narrow))


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
