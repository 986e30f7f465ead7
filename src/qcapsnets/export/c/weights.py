"""Weights in C: 16-bit words without a wasted bit, in the order in which they are needed.

Two arrangements. A *stream* is a sequence of bits, code after code, lowest bit first, that can be
read from any code on. *Lanes* are made for vector units: a group of 16*L codes is L lanes side by
side, each of 16 codes in N words; word w of lane l is word w*L + l of the group, and code c of
lane l is code c*L + l. So one shift serves L codes at a time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qcapsnets.export.packed_reader import pack
from qcapsnets.fixedpoint.format import FixedPoint

WORD = 16
MOST_LANES = (16, 8, 4)
SPARE = 2
"""Words after a stream, which reading its last code may touch."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedArray:
    """An array of `weights.c`."""

    name: str
    format: FixedPoint
    words: NDArray[np.uint16]
    lanes: int
    count: int
    note: str

    @property
    def size(self) -> int:
        """Bytes."""
        return 2 * len(self.words)

    def unpack(self, out: str, first: str, count: str, operand: str) -> str:
        """C: codes `first` to `first + count` into `out`."""
        n, signed = self.format.wordlength, int(self.format.signed)
        if self.lanes:
            group = f"{WORD * self.lanes}"
            words = f"{self.name} + ({first}) / {group} * {n * self.lanes}"
            return f"q_unpack_{self.format.wordlength}{'s' if signed else 'u'}_{self.lanes}(" + (
                f"{out}, {words}, ({count}) / {group});"
            )
        kind = operand.removesuffix("_t").removeprefix("int")
        long = "_long" if n > WORD else ""
        return f"q_unpack{kind}{long}({out}, {self.name}, {first}, {count}, {n}, {signed});"

    @property
    def lane_key(self) -> tuple[int, bool, int] | None:
        """Which unpacking function it needs, if it is in lanes."""
        return (self.format.wordlength, self.format.signed, self.lanes) if self.lanes else None


def packed_array(
    name: str, format: FixedPoint, codes: Codes, note: str, *, tiles: tuple[int, ...] = ()
) -> PackedArray:
    """Pack codes; if all `tiles` (counts of codes read at a time) divide evenly, in lanes."""
    flat = codes.reshape(-1)
    lanes = _lanes(format, tiles)
    words = _in_lanes(flat, format.wordlength, lanes) if lanes else _stream(flat, format)
    return PackedArray(name, format, words, lanes, len(flat), note)


def _lanes(format: FixedPoint, tiles: tuple[int, ...]) -> int:
    fits = format.min_code >= -(1 << 15) and format.max_code < 1 << 15
    if not fits or not tiles:
        return 0
    return next((n for n in MOST_LANES if all(t % (WORD * n) == 0 for t in tiles)), 0)


def _stream(codes: Codes, format: FixedPoint) -> NDArray[np.uint16]:
    data = pack(codes, format.wordlength)
    data += b"\0" * (-len(data) % 2) + b"\0\0" * SPARE
    return np.frombuffer(data, dtype="<u2").astype(np.uint16)


def _in_lanes(codes: Codes, n: int, lanes: int) -> NDArray[np.uint16]:
    groups = codes.reshape(-1, WORD, lanes).transpose(0, 2, 1)  # [group, lane, code]
    data = np.frombuffer(pack(np.ascontiguousarray(groups), n), dtype="<u2")
    words = data.reshape(-1, lanes, n).transpose(0, 2, 1)  # 16 codes fill n words exactly
    return np.ascontiguousarray(words).reshape(-1).astype(np.uint16)
