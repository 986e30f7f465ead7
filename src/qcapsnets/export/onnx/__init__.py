"""ONNX for a network, in float or quantized (extra `onnx`)."""

from qcapsnets.export.onnx.exporter import Agreement, ExportedOnnx, compare_onnx, export_onnx

__all__ = ["Agreement", "ExportedOnnx", "compare_onnx", "export_onnx"]
