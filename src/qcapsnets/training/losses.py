"""Losses: the margin between the class and the rest, and the drawing of the image.

L_k = T_k max(0, m+ - |v_k|)^2 + lambda (1 - T_k) max(0, |v_k| - m-)^2   [Sabour 2017, eq. 4]
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import one_hot

from qcapsnets.models import lengths


@dataclass(frozen=True)
class MarginLoss:
    """m+, m- and lambda; summed over the classes, mean over the batch."""

    present: float = 0.9
    absent: float = 0.1
    down_weight: float = 0.5

    def __call__(self, v: Tensor, labels: Tensor) -> Tensor:
        score = lengths(v)
        target = one_hot(labels, v.shape[1]).to(score.dtype)
        missed = target * (self.present - score).relu().square()
        false = (1 - target) * (score - self.absent).relu().square()
        return (missed + self.down_weight * false).sum(1).mean()


MARGIN = MarginLoss()
HARD_MARGIN = MarginLoss(present=0.95, absent=0.05, down_weight=0.8)


def reconstruction_loss(drawn: Tensor, images: Tensor) -> Tensor:
    """Squared difference, summed over the pixels, mean over the batch."""
    return (drawn - images).square().flatten(1).sum(1).mean()
