"""Exact verdicts, at less than the cost of a count."""

import gc
import random
import weakref
from collections.abc import Callable

import pytest
import torch

from qcapsnets.accounting import Operations
from qcapsnets.data import ImageSet
from qcapsnets.errors import EvaluationError
from qcapsnets.evaluation import Evaluator, Measurement, Reference
from qcapsnets.evaluation.evaluator import LARGEST_BATCH, batch_end
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import CapsNet
from qcapsnets.training import predict

SCHEMES = ("truncation", "nearest", "nearest-even", "stochastic")
EvaluatorOf = Callable[..., Evaluator]


def random_plan(source: random.Random, longest: int = 9) -> Plan:
    def q() -> int:
        return source.randint(2, longest)

    return Plan(
        {
            "conv": Wordlengths(q(), q()),
            "primary": Wordlengths(q(), q()),
            "digit": Wordlengths(q(), q(), q()),
        }
    )


def rights(
    net: CapsNet, images: ImageSet, calibration: Calibration, plan: Plan, rounding: str
) -> int:
    """How many images a freshly quantized network gets right."""
    quantized = quantize(net, plan, calibration, rounding)
    return int((predict(quantized, images.images) == images.labels).sum())


@pytest.mark.parametrize("rounding", SCHEMES)
def test_a_verdict_is_that_of_a_full_evaluation(
    net: CapsNet,
    images: ImageSet,
    calibration: Calibration,
    evaluator: EvaluatorOf,
    rounding: str,
) -> None:
    source, total = random.Random(rounding), len(images)
    tested = evaluator(rounding=rounding)
    for _ in range(4):
        plan = random_plan(source)
        right = rights(net, images, calibration, plan, rounding)
        for minimum in (right, right + 1, total, source.randint(0, total)):
            tested.known.clear()
            assert tested.at_least(plan, minimum) == (right >= minimum)
        assert tested.accuracy(plan) == right / total


def test_verdicts_and_counts_in_any_order(
    net: CapsNet, images: ImageSet, calibration: Calibration, evaluator: EvaluatorOf
) -> None:
    """What is known of a plan from one question never spoils the answer to the next."""
    source, tested = random.Random(1), evaluator()
    plans = [random_plan(source, longest=5) for _ in range(4)]
    counts = {plan: rights(net, images, calibration, plan, "nearest") for plan in plans}
    for _ in range(100):
        plan = source.choice(plans)
        minimum = counts[plan] + source.randint(-12, 12)
        assert tested.at_least(plan, minimum) == (counts[plan] >= minimum)
    assert [tested.accuracy(plan) * len(images) for plan in plans] == pytest.approx(
        list(counts.values())
    )


def test_a_hopeless_plan_is_given_up_early(
    net: CapsNet, evaluator: EvaluatorOf, reference: Reference
) -> None:
    tested, hopeless = evaluator(), Plan.uniform(net, 2)
    allowed = tested.total - reference.correct
    assert not tested.at_least(hopeless, reference.correct)
    seen = tested.measured(hopeless).seen
    assert allowed < seen <= allowed + 20 < tested.total / 2


def test_counting_goes_on_where_it_stopped(
    net: CapsNet, evaluator: EvaluatorOf, reference: Reference
) -> None:
    tested, plan = evaluator(reuse=False), Plan.uniform(net, 2)
    seen: list[int] = []

    def watch(now: Measurement) -> None:
        seen.append(now.seen)

    tested.count(plan, reference.correct, watch)
    first = len(seen)
    tested.count(plan, None, watch)
    assert seen == sorted(set(seen))
    assert 0 < first < len(seen)
    assert seen[-1] == tested.total
    assert tested.work == Operations.of(net).macs * tested.total


def test_what_is_known_is_not_computed_again(net: CapsNet, evaluator: EvaluatorOf) -> None:
    tested, plan = evaluator(reuse=False), Plan.uniform(net, 5)
    accuracy = tested.accuracy(plan)
    work = tested.work
    assert tested.accuracy(plan) == accuracy
    assert tested.at_least(plan, round(accuracy * tested.total))
    assert not tested.at_least(plan, round(accuracy * tested.total) + 1)
    assert tested.work == work


def test_what_was_measured_elsewhere_is_taken_over(net: CapsNet, evaluator: EvaluatorOf) -> None:
    plan, here, there = Plan.uniform(net, 4), evaluator(reuse=False), evaluator(reuse=False)
    half = there.count(plan, there.total)  # until the first mistake
    assert 0 < half.seen < there.total
    here.remember(plan, half)
    here.remember(plan, Measurement(0, 0, here.total))  # less than is known
    assert here.accuracy(plan) == evaluator().accuracy(plan)
    assert here.work == Operations.of(net).macs * (here.total - half.seen)


def test_questions_that_need_no_image(net: CapsNet, evaluator: EvaluatorOf) -> None:
    tested, plan = evaluator(), Plan.uniform(net, 4)
    assert tested.at_least(plan, 0)
    assert not tested.at_least(plan, tested.total + 1)
    assert tested.work == 0


def test_cold_work_is_that_of_accounting(net: CapsNet, evaluator: EvaluatorOf) -> None:
    tested = evaluator()
    tested.accuracy(Plan.uniform(net, 6))
    assert tested.work == Operations.of(net).macs * tested.total


def test_batches_cover_every_image_once() -> None:
    start, sizes = 0, []
    while start < 5000:
        sizes.append(batch_end(start) - start)
        start = batch_end(start)
    assert sizes == sorted(sizes)
    assert max(sizes) == LARGEST_BATCH
    assert sum(sizes[:5]) <= 50


@pytest.mark.parametrize("rounding", SCHEMES)
def test_a_plan_gives_the_same_answer_everywhere(
    net: CapsNet,
    images: ImageSet,
    calibration: Calibration,
    evaluator: EvaluatorOf,
    rounding: str,
) -> None:
    """In another instance, with other batches, after other plans."""
    plan = random_plan(random.Random(7), longest=6)
    first, second = evaluator(rounding=rounding, seed=5), evaluator(rounding=rounding, seed=5)
    second.accuracy(Plan.uniform(net, 3))
    assert first.count(plan) == second.count(plan)
    quantized = quantize(net, plan, calibration, rounding, 5)
    answers = [predict(quantized, images.images, batch_size=n) for n in (7, 50, 120)]
    assert all(torch.equal(answers[0], other) for other in answers[1:])
    assert int((answers[0] == images.labels).sum()) == first.count(plan).right


def test_seeds_matter_to_stochastic_rounding_only(net: CapsNet, evaluator: EvaluatorOf) -> None:
    plan = Plan.uniform(net, 3)
    for rounding, differ in (("stochastic", True), ("nearest", False)):
        counts = {evaluator(rounding=rounding, seed=s).count(plan).right for s in range(3)}
        assert (len(counts) > 1) == differ


def test_an_accuracy_of_some_images_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="only 10 of 20 images"):
        _ = Measurement(10, 5, 20).accuracy
    assert Measurement(20, 5, 20).accuracy == 0.25


@pytest.mark.parametrize(
    ("seen", "right", "minimum", "verdict"),
    [
        (0, 0, 10, None),
        (10, 10, 10, True),
        (10, 9, 10, None),
        (11, 0, 10, False),  # at most 9 can be right
        (10, 0, 10, None),  # the other 10 could all be right
        (20, 9, 10, False),
        (0, 0, 0, True),
        (0, 0, 21, False),
    ],
)
def test_verdicts(seen: int, right: int, minimum: int, verdict: bool | None) -> None:
    measured = Measurement(seen, right, 20)
    assert measured.verdict(minimum) is verdict
    assert measured.settles(minimum) == (verdict is not None)


def test_an_evaluator_is_freed_with_its_last_user(net: CapsNet, evaluator: EvaluatorOf) -> None:
    """Without waiting for the garbage collector, which does not see how large a cache is."""
    gc.disable()
    try:
        tested = evaluator()
        tested.accuracy(Plan.uniform(net, 4))
        cache = weakref.ref(tested._cache)
        del tested
        assert cache() is None
    finally:
        gc.enable()
