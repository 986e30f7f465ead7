"""Images whose class changed when the network was quantized.

They are looked for among the images that the float network was least sure of, which is where they
are: an image changes class when noise outweighs the lead of its class over the next.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from qcapsnets.data import ImageSet, to_inputs
from qcapsnets.models import CapsNet, lengths

BATCH = 50
Kind = Literal["became wrong", "became right", "still wrong"]


@dataclass(frozen=True)
class Answer:
    """A class, and the length of its capsule."""

    label: int
    score: float


@dataclass(frozen=True, eq=False)
class Change:
    """One image: its label, and what both networks take it for."""

    index: int
    image: Tensor
    label: int
    before: Answer
    after: Answer

    @property
    def kind(self) -> Kind:
        if self.before.label == self.label:
            return "became wrong"
        return "became right" if self.after.label == self.label else "still wrong"


@dataclass(frozen=True, eq=False)
class Changes:
    """All changes among the `looked_at` of `total` images that were hardest in float."""

    looked_at: int
    total: int
    changes: tuple[Change, ...]

    def of_kind(self, kind: Kind) -> list[Change]:
        """Those of one kind."""
        return [change for change in self.changes if change.kind == kind]


@torch.no_grad()
def scores_of(model: CapsNet, images: Tensor) -> Tensor:
    """Lengths of the class capsules [images, classes] of images (bytes)."""
    device = next(model.parameters()).device
    parts = images.split(BATCH)
    return torch.cat([lengths(model.eval()(to_inputs(p).to(device))).double().cpu() for p in parts])


def changes_of(model: CapsNet, quantized: CapsNet, images: ImageSet, most: int) -> Changes:
    """Changes among the `most` hardest images, the largest changes of score first."""
    before = scores_of(model, images.images)
    top = before.topk(2, dim=1).values
    hardest = (top[:, 0] - top[:, 1]).argsort(stable=True)[:most]
    after = scores_of(quantized, images.images[hardest])
    changed = before[hardest].argmax(1) != after.argmax(1)
    found = [
        _change(images, int(hardest[place]), before[hardest[place]], after[place])
        for place in changed.nonzero().flatten().tolist()
    ]
    found.sort(key=lambda change: abs(change.after.score - change.before.score), reverse=True)
    return Changes(len(hardest), len(images), tuple(found))


def _change(images: ImageSet, index: int, before: Tensor, after: Tensor) -> Change:
    label = int(images.labels[index])
    return Change(index, images.images[index], label, _answer(before), _answer(after))


def _answer(scores: Tensor) -> Answer:
    label = int(scores.argmax())
    return Answer(label, float(scores[label]))
