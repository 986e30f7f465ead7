"""What every site of a quantized network stores for each image, as codes."""

import copy
from collections import defaultdict

import torch
from torch import Tensor

from qcapsnets.data import to_inputs
from qcapsnets.fixedpoint.quantize import fixed_sites
from qcapsnets.fixedpoint.storage import Fixed
from qcapsnets.models import CapsNet, Kind, Term

Visit = tuple[str, int]
"""A site's name and the step: its visits within one image, such as routing iterations."""


class Observed(Fixed):
    """A storage that remembers what it stored."""

    def __init__(self, fixed: Fixed, seen: dict[Visit, list[Tensor]]) -> None:
        super().__init__(fixed.name, fixed.format, fixed.way)
        self.seen = seen

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        return self._note(super().store(x, step=step), step)

    def consume(self, x: Tensor, *, step: int = 0) -> Tensor:
        return self.store(x, step=step)

    def squash(self, s: Term, *, dim: int, step: int = 0) -> Tensor:
        return self._note(super().squash(s, dim=dim, step=step), step)

    def softmax(self, b: Term, *, dim: int, step: int = 0) -> Tensor:
        return self._note(super().softmax(b, dim=dim, step=step), step)

    def _note(self, stored: Tensor, step: int) -> Tensor:
        self.seen[self.name, step].append(self.format.codes(stored.detach().cpu()))
        return stored


@torch.no_grad()
def observe(model: CapsNet, images: Tensor) -> dict[Visit, Tensor]:
    """Codes [images, ...] by site and step, image by image; weights are left out."""
    copied = copy.deepcopy(model)
    seen: dict[Visit, list[Tensor]] = defaultdict(list)
    for _, site, storage in fixed_sites(copied):
        if site.kind is not Kind.WEIGHT:
            site.storage = Observed(storage, seen)
    device = next(copied.parameters()).device
    for image in images.split(1):
        copied(to_inputs(image).to(device))
    return {visit: torch.cat(codes) for visit, codes in seen.items()}
