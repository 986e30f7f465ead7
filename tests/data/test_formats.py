"""IDX and CIFAR files: whole ones are read, broken ones are named."""

import gzip
import lzma
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.data.conftest import cifar_records
from torch import Tensor

from qcapsnets.data.formats import read_cifar, read_idx_images, read_idx_labels, write_idx
from qcapsnets.errors import DataError

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}
IMAGE_FILE = struct.pack(">4I", 0x803, 2, 2, 3) + bytes(range(12))
LABEL_FILE = struct.pack(">2I", 0x801, 3) + bytes([0, 9, 4])


def put(folder: Path, content: bytes, suffix: str = "") -> Path:
    path = folder / f"file{suffix}"
    path.write_bytes(content)
    return path


def refused(read: Callable[[Path], object], path: Path, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def labels_of_ten(path: Path) -> Tensor:
    return read_idx_labels(path, 10)


@pytest.mark.parametrize("suffix", PACK)
def test_reads_idx(tmp_path: Path, suffix: str) -> None:
    images = read_idx_images(put(tmp_path, PACK[suffix](IMAGE_FILE), suffix))
    assert images.dtype == torch.uint8
    assert torch.equal(images, torch.arange(12, dtype=torch.uint8).view(2, 1, 2, 3))
    labels = read_idx_labels(put(tmp_path, PACK[suffix](LABEL_FILE), suffix), 10)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [0, 9, 4]


@pytest.mark.parametrize("suffix", PACK)
def test_reads_cifar(tmp_path: Path, suffix: str) -> None:
    images, labels = read_cifar(put(tmp_path, PACK[suffix](cifar_records(3, label=7)), suffix))
    assert images.shape == (3, 3, 32, 32)
    assert labels.tolist() == [7, 7, 7]
    # Red row by row, then green, then blue: pixel p of image n holds (n + p) mod 256.
    assert images[2, 1, 4, 5] == (2 + 1024 + 4 * 32 + 5) % 256


def test_writes_the_official_bytes(tmp_path: Path) -> None:
    path = tmp_path / "images"
    write_idx(path, torch.arange(12, dtype=torch.uint8).view(2, 2, 3))
    assert path.read_bytes() == IMAGE_FILE
    write_idx(path, torch.tensor([0, 9, 4]))
    assert path.read_bytes() == LABEL_FILE
    assert list(tmp_path.iterdir()) == [path]


def test_gzip_is_written_without_name_or_time(tmp_path: Path) -> None:
    first, second = tmp_path / "one.gz", tmp_path / "two.gz"
    for path in (first, second):
        write_idx(path, torch.tensor([0, 9, 4]))
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[3:8] == bytes(5)  # no name, time 0
    assert read_idx_labels(first, 10).tolist() == [0, 9, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header is cut after 0 bytes"),
        (IMAGE_FILE[:10], "header is cut after 10 bytes"),
        (IMAGE_FILE[:-1], "cut after 11 of 12 bytes"),
        (IMAGE_FILE + b"x", "more follows the 12 bytes"),
        (b"\x89PNG" + IMAGE_FILE[4:], "magic number is 0x89504e47, not 0x00000803"),
        (LABEL_FILE + bytes(9), "magic number is 0x00000801, not 0x00000803"),
        (struct.pack(">4I", 0x803, 0, 2, 3), r"shape \[0, 2, 3\] is empty"),
        (struct.pack(">4I", 0x803, *[2**32 - 1] * 3) + b"x", "cut after 1 of"),
    ],
)
@pytest.mark.parametrize("suffix", PACK)
def test_broken_idx_images(tmp_path: Path, content: bytes, message: str, suffix: str) -> None:
    refused(read_idx_images, put(tmp_path, PACK[suffix](content), suffix), message)


def test_a_label_outside_the_classes(tmp_path: Path) -> None:
    content = LABEL_FILE[:-1] + bytes([10])
    refused(labels_of_ten, put(tmp_path, content), r"label 10 of image 2 is outside 0\.\.9")
    refused(read_cifar, put(tmp_path, cifar_records(2, label=12)), "label 12 of image 0")


@pytest.mark.parametrize("content", [b"", cifar_records(2)[:-1], cifar_records(1) + b"x"])
def test_broken_cifar(tmp_path: Path, content: bytes) -> None:
    refused(read_cifar, put(tmp_path, content), "records of 3073 bytes each")


def test_a_cifar_file_that_never_ends(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(3073 * 10_001))
    refused(read_cifar, put(tmp_path, bomb, ".gz"), r"1\.\.10000 records")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("read", [read_idx_images, read_cifar])
def test_broken_compression(tmp_path: Path, suffix: str, read: Callable[[Path], object]) -> None:
    whole = PACK[suffix](IMAGE_FILE if read is read_idx_images else cifar_records(2))
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :]
    for content in (whole[:-4], whole[: middle + 1], flipped, b"no compression at all"):
        refused(read, put(tmp_path, content, suffix), "is broken")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    refused(read_idx_images, tmp_path / "nothing", "cannot be read")
    refused(read_idx_images, tmp_path, "cannot be read")
