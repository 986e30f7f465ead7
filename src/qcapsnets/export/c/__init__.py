"""C99 for one quantized network, that computes the same integers."""

from qcapsnets.export.c.emitters import Emitter, register_emitter
from qcapsnets.export.c.exporter import TILE_BYTES, ExportedC, export_c
from qcapsnets.export.c.program import Codes, List, Map, Program, Value

__all__ = [
    "TILE_BYTES",
    "Codes",
    "Emitter",
    "ExportedC",
    "List",
    "Map",
    "Program",
    "Value",
    "export_c",
    "register_emitter",
]
