"""Intervals and paired comparisons against values computed by hand."""

import pytest
import torch

from qcapsnets.evaluation import Paired, wilson


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        (9, 10, 0.5958500, 0.9821238),
        (0, 10, 0.0, 0.2775328),
        (10, 10, 0.7224672, 1.0),
        (1, 2, 0.0945312, 0.9054688),
        (9970, 10_000, 0.9957205, 0.9978977),
    ],
)
def test_wilson(right: int, total: int, low: float, high: float) -> None:
    assert wilson(right, total) == pytest.approx((low, high), abs=1e-6)


def test_wilson_solves_its_own_equation() -> None:
    """The ends of the interval are where |share - p| = z sqrt(p (1 - p) / n)."""
    z = 1.959963984540054
    for right, total in ((3, 17), (977, 1000), (4999, 5000)):
        for p in wilson(right, total):
            assert abs(right / total - p) == pytest.approx(z * (p * (1 - p) / total) ** 0.5)


@pytest.mark.parametrize(
    ("became_wrong", "became_right", "p_value"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 0, 2 / 32),
        (3, 1, 2 * (1 + 4) / 16),
        (2, 10, 2 * (1 + 12 + 66) / 4096),
        (6, 6, 1.0),
    ],
)
def test_the_sign_test(became_wrong: int, became_right: int, p_value: float) -> None:
    assert Paired(became_wrong, became_right).p_value == pytest.approx(p_value)


def test_a_network_that_lost_everything_still_has_a_p_value() -> None:
    assert Paired(9000, 10).p_value == 0.0
    # the normal approximation, with its correction for whole numbers: z = 92 / sqrt(2007)
    assert Paired(1050, 957).p_value == pytest.approx(0.0400, abs=1e-4)


def test_images_that_changed() -> None:
    before = torch.tensor([True, True, True, False, False])
    after = torch.tensor([True, False, False, True, False])
    assert Paired.of(before, after) == Paired(became_wrong=2, became_right=1)
