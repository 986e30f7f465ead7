"""Which test images a model gets right: computed once for all runs that share verdicts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qcapsnets import __version__
from qcapsnets.data import ImageSet
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import fingerprint
from qcapsnets.search.shared import SharedLines
from qcapsnets.search.verdicts import ARITHMETIC
from qcapsnets.training import fingerprint as data_fingerprint

Facts = dict[str, Any]


@dataclass
class Tested:
    """The answers of the models of one network; without lines to keep them in, always computed."""

    total: int
    lines: SharedLines | None = None
    _wrong: list[tuple[Facts, list[int]]] = field(default_factory=list)

    @classmethod
    def of(cls, model: CapsNet, images: ImageSet, folder: Path | None) -> "Tested":
        """Those kept in a folder, if there is one."""
        if folder is None:
            return cls(len(images))
        identity = {
            "version": __version__,
            "arithmetic": ARITHMETIC,
            "model": fingerprint(model),
            "test images": data_fingerprint(images),
        }
        return cls(len(images), SharedLines(folder, "test", identity))

    def right(self, of: Facts, compute: Callable[[], Tensor]) -> Tensor:
        """Whether each image is right with the model that `of` tells from all others."""
        if self.lines is None:
            return compute()
        self._wrong += (_read(line, self.total, self.lines) for line in self.lines.new())
        known = next((wrong for facts, wrong in self._wrong if facts == of), None)
        if known is not None:
            right = torch.ones(self.total, dtype=torch.bool)
            right[known] = False
            return right
        right = compute()
        self.lines.append({"of": of, "wrong": (~right).nonzero().flatten().tolist()})
        return right


def _read(line: Facts, total: int, lines: SharedLines) -> tuple[Facts, list[int]]:
    of, wrong = line.get("of"), line.get("wrong")
    if isinstance(of, dict) and isinstance(wrong, list) and all(_index(i, total) for i in wrong):
        return of, wrong
    raise lines.broken()


def _index(value: Any, total: int) -> bool:
    return type(value) is int and 0 <= value < total
