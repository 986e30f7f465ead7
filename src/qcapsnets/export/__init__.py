"""Export: a packed file whose size is the size claimed, C that matches bit for bit, and ONNX."""

from qcapsnets.export.packed import PackedFile, load_packed, read_header, save_packed

__all__ = ["PackedFile", "load_packed", "read_header", "save_packed"]
