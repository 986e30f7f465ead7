"""From a quantized network to a folder of C99: model.h, model.c, weights.c, main.c, Makefile."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qcapsnets.errors import ExportError
from qcapsnets.export.c import block, convolution, routing  # noqa: F401  # they register
from qcapsnets.export.c.arena import Arena, place
from qcapsnets.export.c.emitters import emit
from qcapsnets.export.c.numbers import NARROW, SIZES
from qcapsnets.export.c.program import (
    Codes,
    List,
    Map,
    Observation,
    Program,
    Value,
    comment,
    templates,
)
from qcapsnets.export.parameters import parameters_of
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.exact import FLOAT64
from qcapsnets.fixedpoint.quantize import PIXEL, fixed_sites, inexact_sites, quantization_of
from qcapsnets.fixedpoint.storage import Fixed
from qcapsnets.models import CapsNet, layers_of

FILES = ("model.h", "arithmetic.h", "model.c", "weights.c", "main.c", "Makefile")
TILE_BYTES = 256 * 1024
"""For a desktop's second-level cache; some kilobytes suit a microcontroller."""
PER_LINE = 12


@dataclass(frozen=True)
class ExportedC:
    """What was written, and what it takes."""

    folder: Path
    flash: int
    """Bytes of weights and tables."""
    ram: int
    """Bytes of all static arrays."""
    arrays: int
    """Bytes that the arrays of codes would take without scratch, at their fullest moment."""
    observations: tuple[Observation, ...]


def export_c(model: CapsNet, folder: Path, *, tile_bytes: int = TILE_BYTES) -> ExportedC:
    """Write a quantized network as C into a new or empty folder."""
    check_folder(folder)
    check_exact(model)
    how = quantization_of(model)
    if how.way.rounding.c is None:
        raise ExportError(
            f"rounding scheme {how.way.rounding.name!r} has no C form: register it with "
            'c="...", its condition as a C expression over int64_t q, r, d and uint32_t u'
        )
    program = Program(tile_bytes)
    output = _emit(model, program)
    arenas = place(program.buffers)
    result = ExportedC(
        folder,
        sum(array.size for array in program.weights)
        + sum(4 * len(table) for table in program.tables.values()),
        sum(arena.size for arena in arenas),
        _fullest(program),
        tuple(program.observations),
    )
    _write(model, program, arenas, output, result)
    return result


def check_folder(folder: Path) -> None:
    """A folder with something in it is left alone."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder} is a file: give a folder that is new or empty")
    if folder.exists() and any(folder.iterdir()):
        raise ExportError(f"{folder} is not empty: give a folder that is new or empty")


def check_exact(model: CapsNet) -> None:
    """Every sum and every function must be what integers of 64 bits compute."""
    parameters_of(model)
    names = inexact_sites(model)
    storages = {name: storage for name, _, storage in fixed_sites(model)}
    if names:
        name = names[0]
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        raise ExportError(
            f"{name}{more} cannot be exported: {_reason(storages[name])}; "
            "shorten the wordlengths of its layer"
        )


def _reason(storage: Fixed) -> str:
    for how in storage.accumulations.values():
        if not how.exact:
            reach = how.result.magnitude.bit_length() + 1
            limit = FLOAT64.bit_length()
            return f"a sum over it can need {reach} bits, and {limit} are computed exactly"
    for function in storage.functions.values():
        if not function.exact:
            kind = type(function).__name__.lower()
            return (
                f"{kind} from {function.source} to {function.target} over {function.size} numbers "
                "needs more than 64 bits"
            )
    return "it is not exact"


def _emit(model: CapsNet, program: Program) -> Codes:
    """All layers; the class capsules at the end."""
    value = _image(model, program)
    for name, layer in layers_of(model).items():
        value = emit(layer, name, value, program)
    if len(value) != 1 or not isinstance(value[0].layout, List):
        raise ExportError(
            "the last layer does not hand on a list of class capsules: end with a RoutedCaps"
        )
    if value[0].layout.capsules != model.classes:
        raise ExportError(
            f"the last layer has {value[0].layout.capsules} capsules for {model.classes} classes"
        )
    program.call("", "class capsules", value[0])
    return value[0]


def _image(model: CapsNet, program: Program) -> Value:
    """The image as it is given, or a copy with its channels last."""
    layout = Map(*model.image_shape)
    if layout.channels == 1:
        given = program.array("q_image", "uint8_t", 0, "the caller's")
        given.name = "q_image"
        return (Codes(given, PIXEL, layout),)
    copy = program.array("image_map", "uint8_t", layout.count, f"{layout} of {PIXEL}")
    fn = program.identifier("image_to_map")
    program.add("image.c.j2", fn=fn, layout=layout, out=copy)
    program.call(f"{fn}();", "image", copy)
    return (Codes(copy, PIXEL, layout),)


def _fullest(program: Program) -> int:
    """Bytes of codes alive at the fullest step."""
    kept = [b for b in program.buffers if b.used and not b.scratch]
    steps = range(len(program.calls))
    return max(sum(b.size for b in kept if b.first <= now <= b.last) for now in steps)


def _write(
    model: CapsNet, program: Program, arenas: list[Arena], output: Codes, result: ExportedC
) -> None:
    how = quantization_of(model)
    layout = output.layout
    assert isinstance(layout, List)
    common: dict[str, Any] = {
        "model": model,
        "rounding": how.way.rounding,
        "seed": how.way.seed,
        "plan": str(how.plan),
        "fingerprint": how.calibration.model,
        "program": program,
        "arenas": arenas,
        "buffers": [b for b in program.buffers if b.used],
        "output": output,
        "dimension": layout.dimension,
        "result": result,
        "sizes": SIZES,
        "narrow": how.way.rounding.name in NARROW,
        "lane_kinds": sorted({a.lane_key for a in program.weights if a.lane_key}),
        "dot_kinds": [("int16", "int32"), ("int16", "int64"), ("int32", "int64")],
        "product": {"int16": "int32_t", "int32": "int64_t"},
        "formats": {s.name: str(s.format) for _, _, s in fixed_sites(model)},
        "comment": comment,
    }
    for name in FILES:
        text = templates.get_template(f"{name}.j2").render(**common)
        if name == "weights.c":
            text += "".join(_arrays(program))
        write_atomically(result.folder / name, text, ExportError)


def _arrays(program: Program) -> Iterable[str]:
    for array in program.weights:
        yield f"\n/* {comment(array.note)}{f', in {array.lanes} lanes' if array.lanes else ''} */\n"
        yield f"const uint16_t {array.name}[{len(array.words)}] = {{\n"
        yield from _lines(array.words.tolist())
        yield "};\n"
    for name, table in program.tables.items():
        yield f"\n/* exponentials for softmax */\nconst uint32_t {name}[{len(table)}] = {{\n"
        yield from _lines(table)
        yield "};\n"


def _lines(values: list[int]) -> Iterable[str]:
    for start in range(0, len(values), PER_LINE):
        yield "    " + ", ".join(map(str, values[start : start + PER_LINE])) + ",\n"


def python_byte_order() -> str:
    """Of this machine: observations are written in the order of the machine that runs the C."""
    return "<" if sys.byteorder == "little" else ">"
