"""`export`, `verify` and `inspect` of packed models."""

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Program, refused
from tests.cli.test_examples import pack

PACKED = "models/Q.qcaps"


def test_c_and_onnx_and_what_is_said_of_them(program: Program) -> None:
    pack(Path(PACKED))
    ended = program("export", PACKED, "c", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["flash_bytes"] > 10_000
    assert Path("c/model.c").exists()
    refused(program("export", PACKED, "c"), "c is not empty")
    said = program("export", PACKED, "tight", "--tile", "8").out
    assert f"tight: C99 with {ended.json['flash_bytes']:,} bytes" in said
    refused(program("export", PACKED, "d", "--to", "rust"), "choose one of c, onnx, qonnx")
    refused(program("export", PACKED, "d", "--tile", "0"), "1 KiB or more")
    refused(program("export", "nothing.qcaps", "d"), "nothing.qcaps")
    pytest.importorskip("onnx", reason="needs the extra `onnx`")
    assert " nodes" in program("export", "models", "model.onnx", "--to", "onnx").out
    refused(program("export", "models", "model.onnx", "--to", "onnx"), "exists already")


def test_inspect_shows_a_packed_model(program: Program) -> None:
    pack(Path(PACKED))
    ended = program("inspect", PACKED, "--json")
    assert ended.json["model"] == "shallowcaps-small"
    assert ended.json["bytes"] == Path(PACKED).stat().st_size
    assert "digit" in program("inspect", PACKED).out
    Path(PACKED).write_bytes(Path(PACKED).read_bytes()[:-1] + b"?")
    refused(program("inspect", PACKED), "wrong checksum")


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_verify_compares_every_number(program: Program) -> None:
    pack(Path(PACKED))
    ended = program("verify", "models", "--images", "1")
    assert ended.code == 0, ended.err
    assert "no difference" in ended.out
    refused(program("verify", PACKED, "--images", "0"), "1 or more")
    pack(Path("models/R.qcaps"))
    refused(program("verify", "models"), "holds 2 packed models", "models/R.qcaps")
    Path("empty").mkdir()
    refused(program("verify", "empty"), "holds no packed model")
