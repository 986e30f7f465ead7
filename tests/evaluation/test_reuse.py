"""What is reused is, bit for bit, what would have been computed; and it is work saved."""

from collections.abc import Callable, Iterator

import pytest
import torch
from tests import networks
from tests.search import searching
from torch import Tensor, nn

from qcapsnets.accounting import Operations
from qcapsnets.data import ImageSet, Splits, to_inputs
from qcapsnets.evaluation import Evaluator
from qcapsnets.evaluation import evaluator as module
from qcapsnets.evaluation.cache import DEFAULT_BYTES
from qcapsnets.evaluation.evaluator import SHARE
from qcapsnets.fixedpoint.calibration import Calibration, Points
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import CapsNet, lengths

EvaluatorOf = Callable[..., Evaluator]
ALL = ("weight", "activation", "routing")


@pytest.fixture(scope="module")
def few(small_digits: Splits) -> ImageSet:
    """Two batches."""
    return searching.some(small_digits.validation, 14)


@pytest.fixture(scope="module")
def deep(small_digits: Splits) -> CapsNet:
    """All six layers, with a batch norm whose statistics are those of digits."""
    model = networks.tiny_deep()
    norm = next(m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2, generator=torch.Generator().manual_seed(0))
        norm.bias.uniform_(-1, 1, generator=torch.Generator().manual_seed(1))
        for part in small_digits.train.images[:300].split(100):
            model.train()(to_inputs(part))
    return model.eval()


@pytest.fixture(scope="module")
def deep_calibration(deep: CapsNet, small_digits: Splits) -> Calibration:
    return Calibration.record(deep, small_digits.train.images[:50])


@pytest.fixture
def capsules(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The class capsules of every batch that an evaluator judges."""
    seen: list[Tensor] = []

    def keep(v: Tensor) -> Tensor:
        seen.append(v.clone())
        return lengths(v)

    monkeypatch.setattr(module, "lengths", keep)
    return seen


def changes(start: Plan, *wordlengths: int) -> Iterator[Plan]:
    """Plans that differ from the one before in one wordlength of one layer, back to front."""
    plan = start
    yield plan
    for q in wordlengths:
        for name in reversed(list(plan)):
            for what in ALL:
                if what != "routing" or plan[name].routing is not None:
                    plan = plan.replacing(**{what: {name: q}})
                    yield plan
    yield start


def same_as_fresh(
    net: CapsNet,
    images: ImageSet,
    calibration: Calibration,
    plans: Iterator[Plan],
    capsules: list[Tensor],
    *,
    rounding: str = "nearest",
    points: Points = "mse",
    cache_bytes: int = 1 << 30,
) -> Evaluator:
    """Check every capsule of every plan against a network quantized anew, without an evaluator."""
    tested = Evaluator(
        net, images, calibration, rounding=rounding, points=points, cache_bytes=cache_bytes
    )
    for plan in plans:
        capsules.clear()
        tested.known.clear()
        tested.count(plan)
        fresh = quantize(net, plan, calibration, rounding, points=points)
        start = 0
        for found in capsules:
            batch = slice(start, start + len(found))
            with torch.no_grad():
                expected = fresh(to_inputs(tested.images.images[batch]))
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected), plan
            start = batch.stop
        assert start == len(images)
        assert tested._cache.used <= cache_bytes
    return tested


@pytest.mark.parametrize("rounding", ["nearest", "stochastic", "truncation"])
def test_every_change_of_every_layer(
    net: CapsNet,
    few: ImageSet,
    calibration: Calibration,
    capsules: list[Tensor],
    rounding: str,
) -> None:
    plans = list(changes(Plan.uniform(net, 6), 4))
    tested = same_as_fresh(net, few, calibration, iter(plans), capsules, rounding=rounding)
    assert tested.work < 0.7 * Operations.of(net).macs * len(few) * len(plans)


def test_every_change_of_every_layer_of_deepcaps(
    deep: CapsNet, few: ImageSet, deep_calibration: Calibration, capsules: list[Tensor]
) -> None:
    plans = list(changes(Plan.uniform(deep, 7), 5))
    tested = same_as_fresh(deep, few, deep_calibration, iter(plans), capsules)
    assert tested.work < 0.7 * Operations.of(deep).macs * len(few) * len(plans)


def test_changes_of_convolutions_within_blocks(
    deep: CapsNet, few: ImageSet, deep_calibration: Calibration, capsules: list[Tensor]
) -> None:
    plan = Plan.uniform(deep, 6, "layer")
    plans = [plan]
    for name in ("block4.skip", "block4.l1", "block3.l3", "conv"):
        plans.append(plans[-1].replacing(weight={name: 5}))
        plans.append(plans[-1].replacing(activation={name: 8}))
    same_as_fresh(deep, few, deep_calibration, iter(plans), capsules)


@pytest.mark.parametrize("points", ["mse", "unit"])
def test_wide_formats(
    net: CapsNet,
    few: ImageSet,
    calibration: Calibration,
    capsules: list[Tensor],
    points: Points,
) -> None:
    """Codes of 25 bits and more do not fit float32, sums of 32-bit numbers not even float64."""
    plans = changes(Plan.uniform(net, 25), 32)
    same_as_fresh(net, few, calibration, plans, capsules, points=points)


def test_wide_formats_of_deepcaps(
    deep: CapsNet, few: ImageSet, deep_calibration: Calibration, capsules: list[Tensor]
) -> None:
    """Among them capsules of two blocks in one list, whose binary points differ."""
    plan = Plan.uniform(deep, 26)
    apart = plan.replacing(activation={"block3": 32, "block4": 25})
    plans = [plan, apart, apart.replacing(weight={"digit": 30}), plan]
    same_as_fresh(deep, few, deep_calibration, iter(plans), capsules)


@pytest.mark.parametrize("cache_bytes", [1, 10_000, 100_000])
def test_a_small_cache_changes_nothing(
    net: CapsNet,
    few: ImageSet,
    calibration: Calibration,
    capsules: list[Tensor],
    cache_bytes: int,
) -> None:
    plans = list(changes(Plan.uniform(net, 5), 4))
    same_as_fresh(net, few, calibration, iter(plans), capsules, cache_bytes=cache_bytes)


def macs(net: CapsNet, *layers: str) -> int:
    return sum(layer.macs for layer in Operations.of(net).layers if layer.name in layers)


@pytest.mark.parametrize(
    ("change", "computed"),
    [
        ({"weight": {"digit": 4}}, ("digit",)),
        ({"activation": {"digit": 4}}, ("digit",)),
        ({"routing": {"digit": 4}}, ("digit",)),
        ({"weight": {"primary": 4}}, ("primary", "digit")),
        ({"activation": {"primary": 4}}, ("digit",)),  # the sums of primary are known
        ({"weight": {"conv": 4}}, ("conv", "primary", "digit")),
        ({"activation": {"conv": 4}}, ("primary", "digit")),  # the sums of conv are known
    ],
)
def test_only_what_follows_a_change_is_computed(
    net: CapsNet,
    evaluator: EvaluatorOf,
    change: dict[str, dict[str, int]],
    computed: tuple[str, ...],
) -> None:
    tested, plan = evaluator(), Plan.uniform(net, 6)
    tested.count(plan)
    before = tested.work
    tested.count(plan.replacing(**change))
    assert tested.work - before == macs(net, *computed) * tested.total


def test_without_reuse_everything_is_computed(net: CapsNet, evaluator: EvaluatorOf) -> None:
    tested, plan = evaluator(reuse=False), Plan.uniform(net, 6)
    tested.count(plan)
    tested.count(plan.replacing(routing={"digit": 4}))
    assert tested.work == 2 * Operations.of(net).macs * tested.total
    assert len(tested._cache) == 0


def test_tensors_that_would_crowd_out_the_others_are_not_kept(
    net: CapsNet, evaluator: EvaluatorOf
) -> None:
    """A cache that holds a quarter of what all images need of a tensor is of no use to it."""
    conv_bytes = 16 * 10 * 10 * 120  # outputs of conv at up to 8 bits, all images
    plan = Plan.uniform(net, 6)
    for limit, kept in ((4 * conv_bytes, True), (4 * conv_bytes - 4, False)):
        tested = evaluator(cache_bytes=limit)
        tested.count(plan)
        sizes = {entry.codes.shape[1:].numel() for entry in tested._cache._entries.values()}
        assert (16 * 10 * 10 in sizes) == kept


def test_the_outputs_of_shallowcaps_are_kept_for_5000_images() -> None:
    """256 maps of 20x20 in bytes, for MNIST's validation images, in the cache's default size."""
    assert DEFAULT_BYTES // SHARE >= 256 * 20 * 20 * 5000
