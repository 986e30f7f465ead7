"""Export: a packed file whose size is the size claimed, C that matches bit for bit, and ONNX."""

from qcapsnets.export.c import ExportedC, export_c, register_emitter
from qcapsnets.export.packed import PackedFile, load_packed, read_header, save_packed
from qcapsnets.export.verify import Difference, Verification, verify

__all__ = [
    "Difference",
    "ExportedC",
    "PackedFile",
    "Verification",
    "export_c",
    "load_packed",
    "read_header",
    "register_emitter",
    "save_packed",
    "verify",
]
