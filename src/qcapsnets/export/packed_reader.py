"""Reads a packed model (docs/format.md) with the standard library and NumPy alone.

This file imports nothing of the package, so it can be copied and used by itself:

    with open_packed("model.qcaps") as packed:
        packed.header["model"], packed.codes("conv.weight")

    python packed_reader.py model.qcaps        # prints the header

Every length in a file is compared with the bytes that are there before anything is allocated.
Codes are put together from single bytes, so the host's byte order does not matter.
"""

import hashlib
import json
import math
import mmap
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"\x89QCAPS\r\n"
VERSION = 1
PREFIX = struct.Struct("<8sII")  # magic, version, length of the header
DIGEST = 32  # sha256 of everything before it
PIECE = 1 << 16  # codes unpacked at a time, a multiple of 8
MOST_HEADER = 1 << 24

_FORMAT = re.compile(r"([su])([1-9][0-9]?)f(0|-?[1-9][0-9]?)")

Codes = NDArray[np.int64]


class PackedError(ValueError):
    """A file that is not a packed model, or not a whole one."""


@dataclass(frozen=True)
class Stored:
    """Where one tensor's codes are in the file, and what they look like."""

    name: str
    site: str
    shape: tuple[int, ...]
    wordlength: int
    fraction: int
    signed: bool
    offset: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return packed_size(self.count, self.wordlength)


def packed_size(count: int, wordlength: int) -> int:
    """Bytes that `count` codes take: no bit is left out but in the last byte."""
    return (count * wordlength + 7) // 8


class Packed:
    """An open file: its header, and codes on request."""

    def __init__(self, content: mmap.mmap, path: Path) -> None:
        self._content, self.path = content, path
        self.header, start = _read_header(content, path)
        self.tensors = {stored.name: stored for stored in _layout(self.header, start, path)}
        end = max((s.offset + s.size for s in self.tensors.values()), default=start)
        if end + DIGEST != len(content):
            raise PackedError(
                f"{path} has {len(content)} bytes, but its header describes {end + DIGEST}: "
                "it is cut or has been changed; export it again"
            )
        _check_digest(content, path)

    def __enter__(self) -> "Packed":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._content.close()

    def codes(self, name: str) -> Codes:
        """All codes of a tensor, in its shape."""
        stored = self.tensors[name]
        result = np.empty(stored.count, dtype=np.int64)
        for first, piece in self.pieces(name):
            result[first : first + len(piece)] = piece
        return result.reshape(stored.shape)

    def pieces(self, name: str) -> Iterator[tuple[int, Codes]]:
        """The index of the first, and the codes, of consecutive parts of a tensor."""
        stored = self.tensors[name]
        for first in range(0, stored.count, PIECE):
            count = min(PIECE, stored.count - first)
            start = stored.offset + first * stored.wordlength // 8
            data = self._content[start : start + packed_size(count, stored.wordlength)]
            yield first, unpack(data, count, stored.wordlength, signed=stored.signed)


def open_packed(path: Path | str) -> Packed:
    """Open and check a packed model: magic, version, lengths, checksum."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise PackedError(f"{path} cannot be read ({error}): give a packed model") from None
    try:
        return Packed(content, path)
    except BaseException:
        content.close()
        raise


def unpack(data: bytes, count: int, wordlength: int, *, signed: bool) -> Codes:
    """Codes from their bits; the first code is in the lowest bits of the first byte."""
    groups = -(-count // 8)  # 8 codes fill `wordlength` bytes
    padded = np.zeros(groups * wordlength + 8, dtype=np.uint8)
    padded[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    codes = np.empty((groups, 8), dtype=np.int64)
    for index in range(8):
        byte, shift = divmod(index * wordlength, 8)
        codes[:, index] = 0
        for place in range((shift + wordlength + 7) // 8):
            column = padded[byte + place :][: groups * wordlength : wordlength]
            codes[:, index] |= column.astype(np.int64) << 8 * place
        codes[:, index] >>= shift
    codes &= (1 << wordlength) - 1
    if signed:
        half = 1 << (wordlength - 1)
        codes ^= half
        codes -= half
    return codes.reshape(-1)[:count]


def pack(codes: NDArray[Any], wordlength: int) -> bytes:
    """The bits of codes, as `unpack` reads them; a negative code in two's complement."""
    count = codes.size
    flat = np.zeros(-(-count // 8) * 8, dtype=np.int64)
    flat[:count] = codes.reshape(-1)
    groups = (flat & ((1 << wordlength) - 1)).reshape(-1, 8)
    data = np.zeros((len(groups), wordlength), dtype=np.uint8)
    for index in range(8):
        byte, shift = divmod(index * wordlength, 8)
        shifted = groups[:, index] << shift
        for place in range((shift + wordlength + 7) // 8):
            data[:, byte + place] |= (shifted >> 8 * place & 0xFF).astype(np.uint8)
    return data.tobytes()[: packed_size(count, wordlength)]


def _read_header(content: mmap.mmap, path: Path) -> tuple[dict[str, Any], int]:
    """The JSON object, and where the codes begin."""
    if len(content) < PREFIX.size:
        raise PackedError(f"{path} has {len(content)} bytes: it is cut; export it again")
    magic, version, length = PREFIX.unpack(content[: PREFIX.size])
    if magic != MAGIC:
        raise PackedError(f"{path} is no packed model: it does not begin with {MAGIC!r}")
    if version != VERSION:
        raise PackedError(
            f"{path} has format version {version}, and this program reads {VERSION}: "
            "install a newer one"
        )
    if length > min(MOST_HEADER, len(content) - PREFIX.size - DIGEST):
        raise PackedError(f"{path} promises a header of {length} bytes: it is cut or changed")
    start = PREFIX.size + length
    try:
        header = json.loads(content[PREFIX.size : start].decode())
    except (ValueError, RecursionError) as error:
        raise PackedError(f"{path} has a header that is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise PackedError(f"{path} has a header that is no JSON object")
    return header, start


def _layout(header: dict[str, Any], offset: int, path: Path) -> Iterator[Stored]:
    tensors, formats = header.get("tensors"), header.get("formats")
    if not (isinstance(tensors, list) and isinstance(formats, dict)):
        raise PackedError(f"{path} has a header without tensors or formats")
    for entry in tensors:
        stored = _stored(entry, formats, offset, path)
        offset += stored.size
        yield stored


def _stored(entry: Any, formats: dict[str, Any], offset: int, path: Path) -> Stored:
    try:
        name, site, shape = entry["name"], entry["site"], tuple(entry["shape"])
        match = _FORMAT.fullmatch(formats[site])
    except (KeyError, TypeError):
        raise PackedError(f"{path} describes a tensor as {entry!r}: it was changed") from None
    whole = all(type(size) is int and 0 < size < 1 << 40 for size in shape)
    if match is None or not whole or not isinstance(name, str) or len(shape) > 8:
        raise PackedError(f"{path} describes a tensor as {entry!r}: it was changed")
    sign, wordlength, fraction = match.groups()
    if not 2 <= int(wordlength) <= 32:
        raise PackedError(f"{path} has codes of {wordlength} bits, and 2 to 32 are allowed")
    return Stored(name, site, shape, int(wordlength), int(fraction), sign == "s", offset)


def _check_digest(content: mmap.mmap, path: Path) -> None:
    digest = hashlib.sha256()
    end = len(content) - DIGEST
    for start in range(0, end, 1 << 20):
        digest.update(content[start : min(start + (1 << 20), end)])
    if digest.digest() != content[end:]:
        raise PackedError(f"{path} has a wrong checksum: it was changed or damaged; copy it again")


if __name__ == "__main__":
    with open_packed(sys.argv[1]) as opened:
        print(json.dumps(opened.header, indent=2))
