"""Tensors on a grid, kept as narrow integer codes, the least recently used out first."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from qcapsnets.fixedpoint.exact import Range

NARROW = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
DEFAULT_BYTES = 2 << 30


def narrowest(range_: Range) -> torch.dtype | None:
    """The smallest integer type for the codes of a range, if there is one."""
    for dtype in NARROW:
        limits = torch.iinfo(dtype)
        if limits.min <= range_.low and range_.high <= limits.max:
            return dtype
    return None


@dataclass(frozen=True, eq=False)
class Codes:
    """A tensor of values on a grid, as integers; as it is where those take as many bytes."""

    codes: Tensor
    fraction: int
    dtype: torch.dtype

    @classmethod
    def of(cls, values: Tensor, fraction: int, narrow: torch.dtype) -> "Codes":
        """The codes of values, which `narrow` must be able to hold."""
        if narrow.itemsize >= values.element_size():
            return cls(values.clone(), 0, values.dtype)
        return cls(values.mul(2.0**fraction).to(narrow), fraction, values.dtype)

    def values(self) -> Tensor:
        """The same tensor again, the caller's own."""
        values = self.codes.to(self.dtype, copy=True)
        return values.mul_(2.0**-self.fraction) if self.fraction else values

    @property
    def bytes(self) -> int:
        return self.codes.numel() * self.codes.element_size()


class Cache:
    """Codes by key, within a number of bytes."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit, self.used = limit, 0
        self._entries: OrderedDict[Hashable, Codes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> Sequence[Hashable]:
        """Keys, the next to go first."""
        return tuple(self._entries)

    def get(self, key: Hashable) -> Tensor | None:
        """The tensor under `key`, which becomes the last to go."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.values()

    def put(self, key: Hashable, entry: Codes) -> None:
        """Keep a tensor, dropping older ones as needed; one larger than the limit is not kept."""
        if entry.bytes > self.limit:
            return
        old = self._entries.pop(key, None)
        self.used += entry.bytes - (0 if old is None else old.bytes)
        self._entries[key] = entry
        while self.used > self.limit:
            _, dropped = self._entries.popitem(last=False)
            self.used -= dropped.bytes
