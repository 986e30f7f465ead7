"""Static memory: arrays that are not needed at the same time share their place.

There is one block of memory for each width of a number. Sharing between widths would need casts
that C forbids (an object is read as the type that it was declared with).
"""

from collections import defaultdict
from dataclasses import dataclass, field

from qcapsnets.export.c.numbers import SIZES

ALIGNMENT = 64
"""Bytes: arrays begin on a cache line."""


@dataclass(eq=False)
class Buffer:
    """An array that is needed from one step of the program to another."""

    name: str
    ctype: str
    count: int
    note: str
    scratch: bool = False
    first: int = 1 << 30
    last: int = -1
    offset: int = field(default=0, compare=False)

    @property
    def width(self) -> int:
        """Bits of a number."""
        return 8 * SIZES[self.ctype]

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * SIZES[self.ctype]

    @property
    def used(self) -> bool:
        """Whether any step touches it; the caller's own image takes nothing."""
        return self.count > 0 and self.last >= self.first


@dataclass(frozen=True)
class Arena:
    """All arrays of one width, and how many numbers of that width they need together."""

    width: int
    count: int

    @property
    def size(self) -> int:
        return self.count * self.width // 8


def place(buffers: list[Buffer]) -> list[Arena]:
    """Give every array its place; the largest first, each as low as those already placed allow."""
    by_width: dict[int, list[Buffer]] = defaultdict(list)
    for buffer in sorted((b for b in buffers if b.used), key=lambda b: -b.size):
        placed = by_width[buffer.width]
        buffer.offset = _lowest(buffer, placed)
        placed.append(buffer)
    return [
        Arena(width, max(b.offset + b.count for b in placed))
        for width, placed in sorted(by_width.items())
    ]


def _lowest(buffer: Buffer, placed: list[Buffer]) -> int:
    offset, step = 0, ALIGNMENT * 8 // buffer.width
    alive = [b for b in placed if b.first <= buffer.last and buffer.first <= b.last]
    for other in sorted(alive, key=lambda b: b.offset):
        if offset + buffer.count <= other.offset:
            break
        offset = max(offset, -(-(other.offset + other.count) // step) * step)
    return offset
