"""The losses, by hand."""

import pytest
import torch

from qcapsnets.training import HARD_MARGIN, MARGIN, MarginLoss, reconstruction_loss


def capsules(*lengths: list[float]) -> torch.Tensor:
    """[batch, classes, 2], each of the given length."""
    return torch.tensor([[[0.6 * x, -0.8 * x] for x in row] for row in lengths])


def test_margin_loss_by_hand() -> None:
    v = capsules([0.5, 0.3, 0.05])
    # present: (0.9 - 0.5)^2; absent: 0.5 (0.3 - 0.1)^2, and 0.05 is below 0.1
    assert MARGIN(v, torch.tensor([0])).item() == pytest.approx(0.16 + 0.5 * 0.04)
    # present: (0.9 - 0.05)^2; absent: 0.5 ((0.5 - 0.1)^2 + (0.3 - 0.1)^2)
    assert MARGIN(v, torch.tensor([2])).item() == pytest.approx(0.7225 + 0.5 * 0.2)


def test_hard_margin_loss_by_hand() -> None:
    v = capsules([0.5, 0.3, 0.05])
    assert HARD_MARGIN(v, torch.tensor([0])).item() == pytest.approx(0.45**2 + 0.8 * 0.25**2)


def test_margins_are_those_of_the_paper() -> None:
    assert MarginLoss(present=0.9, absent=0.1, down_weight=0.5) == MARGIN
    assert MarginLoss(present=0.95, absent=0.05, down_weight=0.8) == HARD_MARGIN


def test_a_confident_and_right_network_has_no_loss() -> None:
    v = capsules([0.95, 0.05], [0.02, 0.91])
    assert MARGIN(v, torch.tensor([0, 1])).item() == 0


def test_margin_loss_is_the_mean_over_the_batch() -> None:
    v = capsules([0.5, 0.3], [0.2, 0.9])
    both = MARGIN(v, torch.tensor([0, 1]))
    single = [MARGIN(v[i : i + 1], torch.tensor([i])) for i in range(2)]
    assert both.item() == pytest.approx((single[0] + single[1]).item() / 2)


def test_the_gradient_of_capsules_that_are_zero_is_finite() -> None:
    v = torch.zeros(2, 3, 4, requires_grad=True)
    MARGIN(v, torch.tensor([0, 1])).backward()
    assert v.grad is not None
    assert v.grad.isfinite().all()


def test_reconstruction_loss_is_summed_over_pixels_and_mean_over_the_batch() -> None:
    drawn, images = torch.zeros(2, 1, 2, 2), torch.zeros(2, 1, 2, 2)
    drawn[0], images[1, 0, 0, 0] = 0.5, 2
    assert reconstruction_loss(drawn, images).item() == pytest.approx((4 * 0.25 + 4) / 2)
