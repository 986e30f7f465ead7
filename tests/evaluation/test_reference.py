"""The float network's answers: what is right, and the hardest images first."""

import pytest
import torch

from qcapsnets.data import ImageSet, to_inputs
from qcapsnets.errors import EvaluationError
from qcapsnets.evaluation import Reference
from qcapsnets.models import CapsNet, lengths
from qcapsnets.training import predict


def test_right_is_what_the_network_predicts(
    net: CapsNet, images: ImageSet, reference: Reference
) -> None:
    assert torch.equal(reference.right, predict(net, images.images) == images.labels)
    assert 0.5 < reference.accuracy < 1
    assert reference.accuracy == reference.correct / len(images)


def test_the_order_is_hardest_first(net: CapsNet, images: ImageSet, reference: Reference) -> None:
    with torch.no_grad():
        scores = lengths(net(to_inputs(images.images)))
    leads = []
    for row, label in zip(scores.tolist(), images.labels.tolist(), strict=True):
        leads.append(row[label] - max(s for j, s in enumerate(row) if j != label))
    ordered = torch.tensor(leads)[reference.order]
    assert (ordered.diff() >= -1e-6).all()
    assert sorted(reference.order.tolist()) == list(range(len(images)))
    wrong = len(images) - reference.correct
    assert not reference.right[reference.order[:wrong]].any()
    assert reference.right[reference.order[wrong:]].all()


def test_the_fingerprint_knows_the_order(reference: Reference) -> None:
    other = Reference(reference.right, reference.order.flip(0))
    assert other.fingerprint != reference.fingerprint
    same = Reference(reference.right.clone(), reference.order.clone())
    assert same.fingerprint == reference.fingerprint


def test_scores_that_are_not_finite_are_refused(tiny: CapsNet, images: ImageSet) -> None:
    with torch.no_grad():
        next(tiny.parameters()).fill_(float("nan"))
    with pytest.raises(EvaluationError, match="not finite"):
        Reference.of(tiny, images)
