"""The float network on the images of a search: computed once, shared by every scheme."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.data import ImageSet, to_inputs
from qcapsnets.errors import EvaluationError
from qcapsnets.models import CapsNet, lengths

BATCH = 50


@dataclass(frozen=True, eq=False)
class Reference:
    """Which images the float network gets right, and all images from the hardest to the easiest.

    An image is as hard as the lead of its class over the next is small (negative where wrong).
    """

    right: Tensor
    order: Tensor

    @property
    def correct(self) -> int:
        """How many images are right."""
        return int(self.right.sum())

    @property
    def accuracy(self) -> float:
        """The share of images that are right."""
        return self.correct / len(self.right)

    @property
    def fingerprint(self) -> str:
        """A short name for exactly these answers and this order."""
        digest = hashlib.sha256(self.right.numpy().tobytes())
        digest.update(self.order.numpy().tobytes())
        return digest.hexdigest()[:16]

    @classmethod
    def of(cls, model: CapsNet, images: ImageSet) -> "Reference":
        """One pass of the float network."""
        scores = torch.cat([_scores(model, part) for part in images.images.split(BATCH)])
        own = scores.gather(1, images.labels[:, None]).squeeze(1)
        rest = scores.scatter(1, images.labels[:, None], float("-inf")).amax(1)
        lead = own - rest
        if not torch.isfinite(scores).all():
            raise EvaluationError(
                "the float network gives scores that are not finite: train it again"
            )
        return cls(scores.argmax(1) == images.labels, lead.argsort(stable=True))


def _scores(model: CapsNet, images: Tensor) -> Tensor:
    device = next(model.parameters()).device
    with torch.no_grad():
        return lengths(model.eval()(to_inputs(images.to(device)))).double().cpu()
