"""`qcapsnets export`: a packed model as C or as ONNX."""

from pathlib import Path
from typing import Annotated, Any

import typer

from qcapsnets.cli.errors import CommandError
from qcapsnets.cli.options import Json, example
from qcapsnets.cli.output import Output
from qcapsnets.cli.packed import packed_model

NAME = "export"
EXAMPLE = example("qcapsnets export runs/digits/models/model_satisfied.qcaps c-code --to c")
TARGETS = ("c", "onnx", "qonnx")


def command(
    model: Annotated[Path, typer.Argument(help="A packed model (.qcaps), or a folder with one.")],
    output_path: Annotated[
        Path, typer.Argument(metavar="OUT", help="A new folder (c), or a new file (onnx).")
    ],
    to: Annotated[str, typer.Option("--to", help="c, onnx or qonnx.")] = "c",
    tile: Annotated[
        int, typer.Option("--tile", help="KiB of weights and inputs at a time in C; 8 for an MCU.")
    ] = 256,
    json: Json = False,
) -> None:
    """Write a packed model as C99 that computes the same integers, or as ONNX."""
    output = Output(as_json=json)
    facts = export(model, output_path, to, tile)
    output.show(_sentence(facts))
    output.give(facts)


def _sentence(facts: dict[str, Any]) -> str:
    if "file" in facts:
        return f"{facts['file']}: {facts['bytes']:,} bytes, {facts['nodes']} nodes"
    folder = facts["folder"]
    return (
        f"{folder}: C99 with {facts['flash_bytes']:,} bytes of weights and tables in flash and "
        f"{facts['ram_bytes']:,} bytes of RAM\n"
        f"make -C {folder} && {folder}/classify images.idx"
    )


def export(model: Path, out: Path, to: str = "c", tile: int = 256) -> dict[str, Any]:
    """What was written."""
    if to not in TARGETS:
        raise CommandError(f"--to {to} is unknown: choose one of {', '.join(TARGETS)}")
    if tile < 1:
        raise CommandError(f"--tile {tile}: give 1 KiB or more")
    loaded, _ = packed_model(model)
    if to == "c":
        from qcapsnets.export import export_c

        written = export_c(loaded, out, tile_bytes=tile * 1024)
        return {"folder": str(out), "flash_bytes": written.flash, "ram_bytes": written.ram}
    if out.exists():
        raise CommandError(f"{out} exists already: give a new file")
    try:
        from qcapsnets.export.onnx import export_onnx
    except ModuleNotFoundError as error:
        raise CommandError(
            f"ONNX needs {error.name}: install it with pip install 'qcapsnets[onnx]'"
        ) from None
    file = export_onnx(loaded, out, nodes="qonnx" if to == "qonnx" else "qdq")
    return {"file": str(out), "bytes": file.size, "nodes": file.nodes}
