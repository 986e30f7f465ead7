"""The generated C against PyTorch: every number at every site, compared with `==`."""

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qcapsnets.data.formats import write_idx
from qcapsnets.errors import ExportError
from qcapsnets.export.c.exporter import TILE_BYTES, ExportedC, export_c, python_byte_order
from qcapsnets.export.c.program import Observation
from qcapsnets.export.observe import Visit, observe
from qcapsnets.models import CapsNet, layers_of

AT_A_TIME = 16
"""Images whose numbers are held in memory."""


@dataclass(frozen=True)
class Difference:
    """The first number that differs."""

    image: int
    site: str
    step: int
    element: tuple[int, ...]
    c: int
    pytorch: int

    @property
    def layer(self) -> str:
        return self.site.rpartition(".")[0]

    def __str__(self) -> str:
        return (
            f"image {self.image}, layer {self.layer}, site {self.site}, step {self.step}, "
            f"element {self.element}: C has {self.c}, PyTorch has {self.pytorch}"
        )


@dataclass(frozen=True)
class Verification:
    """What was compared, and what differed."""

    images: int
    sites: int
    numbers: int
    differing: int
    first: Difference | None

    @property
    def equal(self) -> bool:
        return self.differing == 0

    def __str__(self) -> str:
        compared = f"{self.numbers:,} numbers at {self.sites} sites of {self.images} images"
        if self.first is None:
            return f"{compared}: no difference"
        return f"{compared}: {self.differing:,} differ; the first is {self.first}"


def compiler() -> str:
    """The C compiler: $CC, or cc, gcc or clang, whichever is there."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise ExportError("there is no C compiler: install gcc or clang, or name one in CC")


def build(
    folder: Path, target: str = "classify", *, flags: str = "-O2", cc: str | None = None
) -> Path:
    """Compile an exported folder; the program's path."""
    command = ["make", "-C", str(folder), target, f"CC={cc or compiler()}", f"CFLAGS={flags}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ExportError("there is no make: install it, or compile the files yourself") from None
    if done.returncode:
        raise ExportError(f"{folder} does not compile: {done.stderr.strip()[:2000]}")
    return folder / target


def verify(
    model: CapsNet,
    images: Tensor,
    *,
    folder: Path | None = None,
    flags: str = "-O2",
    cc: str | None = None,
    tile_bytes: int = TILE_BYTES,
) -> Verification:
    """Export, compile, run C and PyTorch on images (bytes), and compare what every site stores."""
    if len(images) == 0:
        raise ExportError("verify was given no image: give it one or more")
    with tempfile.TemporaryDirectory(prefix="qcapsnets-") as temporary:
        exported = export_c(model, folder or Path(temporary) / "c", tile_bytes=tile_bytes)
        program = build(exported.folder, "observe", flags=flags, cc=cc)
        results = [
            _compare(model, part, start * AT_A_TIME, exported, program, Path(temporary))
            for start, part in enumerate(images.split(AT_A_TIME))
        ]
    return _together(results)


def _together(results: Sequence[Verification]) -> Verification:
    return Verification(
        sum(r.images for r in results),
        results[0].sites,
        sum(r.numbers for r in results),
        sum(r.differing for r in results),
        next((r.first for r in results if r.first), None),
    )


def _compare(
    model: CapsNet, images: Tensor, first: int, exported: ExportedC, program: Path, folder: Path
) -> Verification:
    expected = observe(model, images)
    expected = {visit: codes for visit, codes in expected.items() if not _is_image(model, visit)}
    counted = dict.fromkeys(expected, 0)
    differing = numbers = 0
    difference: Difference | None = None
    for visit, codes in run_observed(images, exported.observations, program, folder):
        image = counted.get(visit, 0)
        counted[visit] = image + 1
        wanted = expected[visit][image] if visit in expected else torch.empty(0)
        if wanted.shape != codes.shape:
            raise ExportError(
                f"site {visit[0]}, step {visit[1]}, holds {tuple(codes.shape)} in C and "
                f"{tuple(wanted.shape)} in PyTorch: its emitter is wrong"
            )
        wrong = codes != wanted
        numbers += codes.numel()
        differing += int(wrong.sum())
        if difference is None and wrong.any():
            place = tuple(int(i) for i in wrong.nonzero()[0])
            at = codes[place], wanted[place]
            difference = Difference(first + image, *visit, place, *(int(x) for x in at))
    missing = [visit for visit, count in counted.items() if count != len(images)]
    if missing:
        raise ExportError(f"C did not show {missing[0]} for every image: its emitter is wrong")
    sites = len({site for site, _ in expected})
    return Verification(len(images), sites, numbers, differing, difference)


def _is_image(model: CapsNet, visit: Visit) -> bool:
    """The image itself is given to both."""
    return visit[0] == f"{next(iter(layers_of(model)))}.image"


def run_observed(
    images: Tensor, observations: Sequence[Observation], program: Path, folder: Path
) -> Iterator[tuple[Visit, Tensor]]:
    """Run the program on images; what each site stored, in PyTorch's order, as it happened."""
    path, shown = folder / "images.idx", folder / "observed.bin"
    write_idx(path, images.squeeze(1) if images.shape[1] == 1 else images)
    command = [str(program.resolve()), str(path), str(len(images)), str(shown)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(f"the C program failed ({done.returncode}): {done.stderr.strip()[:2000]}")
    yield from records(shown.read_bytes(), observations)


def records(content: bytes, observations: Sequence[Observation]) -> Iterator[tuple[Visit, Tensor]]:
    """What `qcaps_observe` of main.c wrote."""
    order, start = python_byte_order(), 0
    while start < len(content):
        number, step, size, count = struct.unpack_from(f"{order}4i", content, start)
        start += 16
        seen = observations[number]
        kind = f"{order}{'u' if seen.ctype.startswith('u') else 'i'}{size}"
        codes = np.frombuffer(content, kind, count, start).astype(np.int64)
        start += count * size
        yield (seen.site, step), torch.from_numpy(codes.reshape(seen.shape).transpose(seen.axes))
