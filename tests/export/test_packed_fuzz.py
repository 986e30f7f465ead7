"""Hostile packed files: our error, or a model whose checksum is right. No crash, no blow-up."""

import hashlib
import json
import random
import tracemalloc
from pathlib import Path

import pytest
import torch
from tests.export.test_packed_format import GOLDEN, GOLDEN_HEADER

from qcapsnets.errors import ExportError
from qcapsnets.export import load_packed
from qcapsnets.export.packed_reader import DIGEST, PREFIX

BOUND = 4 << 20
"""Bytes that reading a file of 850 may take, once PyTorch has imported all that it will."""


def mutated(rng: random.Random, content: bytes) -> bytes:
    """One to four changes: a bit, a byte, a cut, a repeat, an insertion, a foreign number."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        where = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[where] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[where] = rng.randrange(256)
        elif kind == 2:
            del data[where:]
        elif kind == 3:
            data[where:where] = data[where : where + rng.randint(1, 64)]
        elif kind == 4:
            data[where:where] = rng.randbytes(rng.randint(1, 16))
        else:
            digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
            if digits:
                data[rng.choice(digits)] = ord(rng.choice("0123456789-e"))
    return bytes(data)


def signed(content: bytes) -> bytes:
    """With lengths and checksum made right again, as somebody hostile would."""
    end = content.find(b"]}    ") + 6
    if end < PREFIX.size + 6 or len(content) < PREFIX.size:
        return content
    body = content[:12] + (end - PREFIX.size).to_bytes(4, "little") + content[16:-DIGEST]
    return body + hashlib.sha256(body).digest()


def attack(path: Path, count: int, seed: int) -> int:
    """How many of `count` mutated files load; every other one must be our error."""
    rng = random.Random(seed)
    loaded = 0
    for index in range(count):
        content = mutated(rng, GOLDEN)
        path.write_bytes(signed(content) if index % 2 else content)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        try:
            load_packed(path)
        except ExportError:
            pass
        else:
            data = path.read_bytes()
            assert hashlib.sha256(data[:-DIGEST]).digest() == data[-DIGEST:]
            loaded += 1
        assert tracemalloc.get_traced_memory()[1] - before < BOUND
    return loaded


@pytest.mark.parametrize(
    "count", [500, pytest.param(20_000, marks=pytest.mark.slow)], ids=["500", "20000"]
)
def test_mutated_files_give_our_error_or_load(count: int, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "model.qcaps").write_bytes(GOLDEN)
    load_packed(tmp_path / "inside" / "model.qcaps")
    tracemalloc.start()
    try:
        loaded = attack(tmp_path / "inside" / "model.qcaps", count, seed=count)
    finally:
        tracemalloc.stop()
    assert 0 < loaded < count
    assert [p.name for p in tmp_path.iterdir()] == ["inside"]


def with_header(text: str) -> bytes:
    body = GOLDEN[:12] + len(text.encode()).to_bytes(4, "little") + text.encode()
    body += GOLDEN[PREFIX.size + len(GOLDEN_HEADER) : -DIGEST]
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"options":{}', '"options":{"classes":1000000000000}', "1000000000000"),
        ('"options":{}', '"options":{"classes":' + "9" * 400 + "}", "cannot be"),
        ('"options":{}', '"options":{"classes":-3}', "cannot be"),
        ('"options":{}', '"options":[1]', "cannot be"),
        ('"options":{}', '"options":{"nonsense":1}', "nonsense"),
        ('"model":"export-tiny"', '"model":"unheard-of"', "unheard-of"),
        ('"model":"export-tiny"', '"model":["a"]', "cannot be"),
        ('"seed":1', '"seed":-1', "seed -1"),
        ('"seed":1', '"seed":1.5', "seed 1.5"),
        ('"rounding":"nearest"', '"rounding":"up"', "up"),
        ('"points":"mse"', '"points":"x"', "'x'"),
        ('"digit.votes":"s5f5"', '"digit.votes":"s99f5"', "99"),
        ('"digit.votes":"s5f5"', '"digit.vote":"s5f5"', "digit.vote"),
        ('"site":"digit.weights"', '"site":"caps.weights"', "each once"),
        ('"name":"digit.weight"', '"name":"../weight"', "is missing there"),
        ('"shape":[2,1,2,2]}]', '"shape":[1099511627775,1099511627775]}]', "cut or has been"),
        ('"shape":[2,1,2,2]}]', '"shape":[8]}]', "digit.weight"),
        ('"plan":{', '"plan":{"x":3,', "plan"),
        ('"facts":{"accuracy":0.5}', '"facts":3', "did not write"),
        ('{"model"', "[" * 100_000 + '{"model"', "not JSON"),
    ],
)
def test_a_header_with_a_right_checksum_is_not_believed(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    assert old in GOLDEN_HEADER
    (tmp_path / "a").write_bytes(with_header(GOLDEN_HEADER.replace(old, new)))
    with pytest.raises(ExportError, match=message):
        load_packed(tmp_path / "a")


def test_an_unchanged_header_loads(tmp_path: Path) -> None:
    header = json.dumps(json.loads(GOLDEN_HEADER), indent=1)
    (tmp_path / "a").write_bytes(with_header(header))
    model, _ = load_packed(tmp_path / "a")
    assert torch.equal(model.get_parameter("caps.bias").detach(), torch.tensor([-0.75, -0.5]))
