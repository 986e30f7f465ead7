"""The official file formats: IDX (MNIST, Fashion-MNIST) and CIFAR binary; plain, .gz or .xz.

Sizes in a header are believed only as far as bytes follow: a file that promises more than it
holds, or holds more than it promises, is an error that names the file.
"""

import gzip
import lzma
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import torch
from torch import Tensor

from qcapsnets.errors import DataError

IDX_BYTES = 0x00000800  # unsigned bytes; the lowest byte adds the number of dimensions
CIFAR_SHAPE = (3, 32, 32)
CIFAR_RECORD = 1 + math.prod(CIFAR_SHAPE)
CIFAR_RECORDS = 10_000  # the most that an official file holds
CHUNK = 1 << 20


def read_idx_images(path: Path) -> Tensor:
    """Images of an IDX file, uint8 [N, 1, H, W]."""
    return _read_idx(path, dimensions=3).unsqueeze(1)


def read_idx_labels(path: Path, classes: int) -> Tensor:
    """Labels of an IDX file, int64 [N], within 0..classes-1."""
    return _as_labels(path, _read_idx(path, dimensions=1), classes)


def read_cifar(path: Path, classes: int = 10) -> tuple[Tensor, Tensor]:
    """Images uint8 [N, 3, 32, 32] and labels int64 [N] of records of a label and its pixels."""
    with _opened(path) as stream:
        payload = _read_at_most(stream, CIFAR_RECORD * CIFAR_RECORDS + 1)
    if len(payload) % CIFAR_RECORD or not payload:
        raise _broken(
            path, f"its length is not 1..{CIFAR_RECORDS} records of {CIFAR_RECORD} bytes each"
        )
    records = torch.frombuffer(payload, dtype=torch.uint8).view(-1, CIFAR_RECORD)
    labels = _as_labels(path, records[:, 0], classes)
    return records[:, 1:].reshape(-1, *CIFAR_SHAPE), labels


def write_idx(path: Path, values: Tensor) -> None:
    """Write bytes [N, H, W] or [N] as IDX, gzipped if `path` ends in .gz; the same bytes always."""
    header = struct.pack(f">{1 + values.ndim}I", IDX_BYTES + values.ndim, *values.shape)
    content = header + values.to(torch.uint8).contiguous().numpy().tobytes()
    if path.suffix == ".gz":
        content = gzip.compress(content, compresslevel=9, mtime=0)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


def _read_idx(path: Path, dimensions: int) -> Tensor:
    with _opened(path) as stream:
        shape = _idx_shape(path, _read_at_most(stream, 4 + 4 * dimensions), dimensions)
        promised = math.prod(shape)
        payload = _read_at_most(stream, promised + 1)
    if promised == 0:
        raise _broken(path, f"its shape {list(shape)} is empty")
    if len(payload) < promised:
        raise _broken(path, f"it is cut after {len(payload)} of {promised} bytes")
    if len(payload) > promised:
        raise _broken(path, f"more follows the {promised} bytes that its header promises")
    return torch.frombuffer(payload, dtype=torch.uint8).reshape(shape)


def _idx_shape(path: Path, header: bytearray, dimensions: int) -> tuple[int, ...]:
    expected = IDX_BYTES + dimensions
    if len(header) < 4 + 4 * dimensions:
        raise _broken(path, f"its header is cut after {len(header)} bytes")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", header)
    if magic != expected:
        raise _broken(path, f"its magic number is 0x{magic:08x}, not 0x{expected:08x}")
    return tuple(shape)


def _as_labels(path: Path, values: Tensor, classes: int) -> Tensor:
    if (highest := int(values.max())) >= classes:
        where = int(values.argmax())
        raise _broken(path, f"label {highest} of image {where} is outside 0..{classes - 1}")
    return values.to(torch.int64)


def _read_at_most(stream: BinaryIO, limit: int) -> bytearray:
    """Bytes up to `limit`. Memory grows with what arrives, never with what was promised."""
    content = bytearray()
    while len(content) < limit:
        chunk = stream.read(min(CHUNK, limit - len(content)))
        if not chunk:
            break
        content += chunk
    return content


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with _open(path) as stream:
            yield stream
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise _broken(path, str(error)) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}): "
            "correct the path or its permissions"
        ) from error


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path))
    if path.suffix == ".xz":
        return cast(BinaryIO, lzma.open(path))
    return path.open("rb")


def _broken(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is broken ({reason}): replace it by a fresh copy")
