"""The packed file to the byte, and the reader that stands alone."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qcapsnets.export import packed_reader, save_packed
from qcapsnets.export.packed_reader import PackedError, open_packed, pack, unpack
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import CapsNet, build

GOLDEN_HEADER = (
    '{"model":"export-tiny","options":{},"image_shape":[1,2,2],"classes":2,'
    '"plan":{"caps":{"weight":5,"activation":5,"routing":null},'
    '"digit":{"weight":5,"activation":5,"routing":5}},'
    '"rounding":"nearest","seed":1,"points":"mse","fingerprint":"b081e9bbdb94b0b2",'
    '"facts":{"accuracy":0.5},"weight_bits":90,'
    '"formats":{"caps.weights":"s5f3","caps.biases":"s5f4","caps.preactivation":"s5f3",'
    '"caps.activation":"s5f4","caps.image":"u8f8","digit.weights":"s5f3","digit.votes":"s5f5",'
    '"digit.logits":"s5f8","digit.coupling":"u5f5","digit.preactivation":"s5f6",'
    '"digit.activation":"s5f8"},'
    '"tensors":[{"name":"caps.weight","site":"caps.weights","shape":[2,1,2,2]},'
    '{"name":"caps.bias","site":"caps.biases","shape":[2]},'
    '{"name":"digit.weight","site":"digit.weights","shape":[2,1,2,2]}]}    '
)
GOLDEN = (
    bytes.fromhex("8951434150530d0a 01000000 00030000")
    + GOLDEN_HEADER.encode()
    + bytes.fromhex("9a7b208841 1403 9a7b208841")  # -6 -4 -2 0 2 4 6 8;  -12 -8;  -6 .. 8
    + bytes.fromhex("57ad35d6f625672107af5e00476ed3bdeafa3ec1217b9294e470abe68fabd0ca")
)


@pytest.fixture
def tiny() -> CapsNet:
    model = build("export-tiny")
    pixels = torch.arange(0, 256, 4).to(torch.uint8).view(16, 1, 2, 2)
    calibration = Calibration.record(model, pixels)
    return quantize(model, Plan.uniform(model, 5), calibration, "nearest", 1)


def test_the_bytes_of_a_small_model_are_known(tiny: CapsNet, tmp_path: Path) -> None:
    save_packed(tiny, tmp_path / "tiny.qcaps", accuracy=0.5)
    assert (tmp_path / "tiny.qcaps").read_bytes() == GOLDEN


def test_golden_bytes_are_read_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "golden.qcaps").write_bytes(GOLDEN)
    with open_packed(tmp_path / "golden.qcaps") as packed:
        assert packed.header == json.loads(GOLDEN_HEADER)
        assert packed.codes("caps.weight").reshape(-1).tolist() == [-6, -4, -2, 0, 2, 4, 6, 8]
        assert packed.codes("caps.bias").tolist() == [-12, -8]
        assert packed.codes("digit.weight").shape == (2, 1, 2, 2)


def test_the_reader_works_alone(tmp_path: Path) -> None:
    """Copied elsewhere, with no way to import the package."""
    (tmp_path / "golden.qcaps").write_bytes(GOLDEN)
    shutil.copy(packed_reader.__file__, tmp_path / "reader.py")
    code = (
        "import sys; sys.path.insert(0, '.'); sys.modules['qcapsnets'] = None;"
        "sys.modules['torch'] = None; import reader;"
        "print(reader.open_packed('golden.qcaps').codes('caps.bias').tolist())"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[-12, -8]"
    shown = subprocess.run(
        [sys.executable, "reader.py", "golden.qcaps"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["model"] == "export-tiny"


def bits_one_by_one(codes: list[int], wordlength: int) -> bytes:
    """The same from the page alone: bit b of code i is bit i*N + b of the file, lowest first."""
    total = 0
    for i, code in enumerate(codes):
        total |= (code & ((1 << wordlength) - 1)) << (i * wordlength)
    return total.to_bytes((len(codes) * wordlength + 7) // 8, "little")


@given(st.data(), st.integers(2, 32), st.booleans())
def test_packing_is_the_page_and_unpacking_its_inverse(
    data: st.DataObject, wordlength: int, signed: bool
) -> None:
    low = -(1 << (wordlength - 1)) if signed else 0
    high = (1 << (wordlength - signed)) - 1
    codes = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=40))
    packed = pack(np.array(codes), wordlength)
    assert packed == bits_one_by_one(codes, wordlength)
    assert unpack(packed, len(codes), wordlength, signed=signed).tolist() == codes


@pytest.mark.parametrize("order", ["<i4", ">i4", "<i8", ">i8", "<i2", ">i2"])
def test_the_bytes_do_not_depend_on_the_byte_order_of_the_host(order: str) -> None:
    codes = np.array([-100, 7, 99, -1, 0], dtype=order)
    assert pack(codes, 9) == bits_one_by_one([-100, 7, 99, -1, 0], 9)
    assert unpack(pack(codes, 9), 5, 9, signed=True).tolist() == [-100, 7, 99, -1, 0]


def test_a_long_tensor_is_unpacked_in_pieces(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(-16, 16, packed_reader.PIECE + 77)
    header = json.dumps(
        {
            "formats": {"w": "s5f0"},
            "tensors": [{"name": "w", "site": "w", "shape": [len(codes)]}],
        }
    ).encode()
    prefix = packed_reader.PREFIX.pack(packed_reader.MAGIC, 1, len(header))
    content = prefix + header + pack(codes, 5)
    (tmp_path / "long").write_bytes(content + hashlib.sha256(content).digest())
    with open_packed(tmp_path / "long") as packed:
        assert len(list(packed.pieces("w"))) == 2
        assert (packed.codes("w") == codes).all()


def test_other_files_and_newer_versions_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "model.qcaps"
    for content, message in {
        b"": "cannot be read",
        b"short": "cut",
        b"PK\x03\x04" + GOLDEN[4:]: "no packed model",
        GOLDEN[:8] + b"\x02\0\0\0" + GOLDEN[12:]: "version 2, and this program reads 1: install",
        GOLDEN[:8] + b"\0\0\0\x01" + GOLDEN[12:]: "version 16777216",  # big-endian 1
        GOLDEN[:-40] + b"!" + GOLDEN[-39:]: "wrong checksum",
        GOLDEN[:-1]: "it is cut",
        GOLDEN + b"\0": "it is cut or has been changed",
        GOLDEN[:12] + b"\xff\xff\xff\x7f" + GOLDEN[16:]: "header of 2147483647 bytes",
    }.items():
        path.write_bytes(content)
        with pytest.raises(PackedError, match=message):
            open_packed(path)
    with pytest.raises(PackedError, match="nowhere"):
        open_packed(tmp_path / "nowhere")
