"""ONNX: opens, runs in ONNX Runtime, and agrees with ours as far as float squash allows."""

from pathlib import Path

import pytest
from tests.export.conftest import Quantizer
from torch import Tensor

from qcapsnets.errors import ExportError

onnx = pytest.importorskip("onnx", reason="needs the extra `onnx`")
pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")

from qcapsnets.export.onnx import compare_onnx, export_onnx  # noqa: E402
from qcapsnets.export.onnx.graph import standard_type  # noqa: E402
from qcapsnets.fixedpoint.format import FixedPoint  # noqa: E402


@pytest.mark.parametrize("name", ["shallow", "deep", "composed"])
def test_a_float_network_is_the_same(
    name: str, quantized: Quantizer, images: Tensor, tmp_path: Path
) -> None:
    model = quantized.float_model(name)
    export_onnx(model, tmp_path / "model.onnx")
    agreement = compare_onnx(model, tmp_path / "model.onnx", images)
    assert agreement.agreeing == agreement.images == len(images)
    assert agreement.largest < 1e-5


@pytest.mark.parametrize("rounding", ["truncation", "nearest", "nearest-even", "stochastic"])
@pytest.mark.parametrize("name", ["shallow", "composed"])
def test_a_quantized_network_agrees_closely(
    name: str, rounding: str, quantized: Quantizer, images: Tensor, tmp_path: Path
) -> None:
    """Random weights leave classes close together, so a few may change places."""
    model = quantized(name, 8, rounding)
    export_onnx(model, tmp_path / "model.onnx")
    agreement = compare_onnx(model, tmp_path / "model.onnx", images)
    assert agreement.agreeing >= 0.95 * agreement.images
    assert agreement.largest < 0.02
    assert f"of {len(images)} classes agree" in str(agreement)


def kinds(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_standard_nodes_or_qonnx_on_request(quantized: Quantizer, tmp_path: Path) -> None:
    model = quantized("shallow", 5)
    export_onnx(model, tmp_path / "a.onnx")
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds(tmp_path / "a.onnx")
    export_onnx(model, tmp_path / "b.onnx", nodes="qonnx")
    assert "Quant" in kinds(tmp_path / "b.onnx")
    assert "QuantizeLinear" not in kinds(tmp_path / "b.onnx")
    with pytest.raises(ExportError, match="choose qdq or qonnx"):
        export_onnx(model, tmp_path / "c.onnx", nodes="other")  # type: ignore[arg-type]


def test_formats_and_their_types() -> None:
    types = {
        text: standard_type(FixedPoint.parse(text))
        for text in ("s8f3", "u8f8", "s5f1", "u9f9", "s16f2", "u16f0", "s17f1", "u17f1")
    }
    assert list(types.values()) == [
        "int8", "uint8", "int8", "uint16", "int16", "uint16", None, None,
    ]  # fmt: skip
