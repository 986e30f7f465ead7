"""Images that change class, found among the hardest."""

import torch
from tests.report.conftest import Ran

from qcapsnets.data import Splits
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import CapsNet
from qcapsnets.report.changes import Kind, changes_of, scores_of
from qcapsnets.training import predict

KINDS: tuple[Kind, ...] = ("became wrong", "became right", "still wrong")


def coarse(model: CapsNet, splits: Splits) -> CapsNet:
    """So few bits that many images change."""
    calibration = Calibration.record(model, splits.train.images[:50])
    return quantize(model, Plan.uniform(model, 3), calibration)


def test_all_changes_are_found_with_their_labels(learned: CapsNet, small_digits: Splits) -> None:
    quantized, test = coarse(learned, small_digits), small_digits.test
    before, after = (predict(network, test.images) for network in (learned, quantized))
    expected = (before != after).nonzero().flatten().tolist()
    assert len(expected) > 3
    found = changes_of(learned, quantized, test, most=len(test))
    assert sorted(change.index for change in found.changes) == expected
    for change in found.changes:
        assert change.label == test.labels[change.index]
        assert change.before.label == before[change.index]
        assert change.after.label == after[change.index]
        assert torch.equal(change.image, test.images[change.index])


def test_kinds_part_them(learned: CapsNet, small_digits: Splits) -> None:
    quantized, test = coarse(learned, small_digits), small_digits.test
    found = changes_of(learned, quantized, test, most=len(test))
    counts = {kind: len(found.of_kind(kind)) for kind in KINDS}
    assert sum(counts.values()) == len(found.changes)
    right = [predict(network, test.images) == test.labels for network in (learned, quantized)]
    assert counts["became wrong"] == int((right[0] & ~right[1]).sum())
    assert counts["became right"] == int((~right[0] & right[1]).sum())


def test_only_the_hardest_are_looked_at(learned: CapsNet, small_digits: Splits) -> None:
    quantized, test = coarse(learned, small_digits), small_digits.test
    top = scores_of(learned, test.images).topk(2, dim=1).values
    hardest = (top[:, 0] - top[:, 1]).argsort(stable=True)[:40].tolist()
    found = changes_of(learned, quantized, test, most=40)
    assert (found.looked_at, found.total) == (40, 200)
    assert {change.index for change in found.changes} <= set(hardest)


def test_the_same_network_changes_nothing(path_a: Ran) -> None:
    assert changes_of(path_a.model, path_a.model, path_a.splits.test, most=200).changes == ()
