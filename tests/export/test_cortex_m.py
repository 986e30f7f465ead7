"""A microcontroller for real: the small model on a Cortex-M3 in qemu, the same integers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from qcapsnets.export import export_c
from qcapsnets.export.c import ExportedC
from qcapsnets.export.observe import observe
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import CapsNet, build

TOOLS = ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")
HERE = Path(__file__).parent / "cortex_m"
FLAGS = "-mcpu=cortex-m3 -mthumb -O2 -std=gnu99 -ffreestanding -nostartfiles -DQCAPS_OBSERVE"
INSTRUCTIONS_A_TICK = 40
"""With -icount shift=0 an instruction takes 1 ns of virtual time; the timer runs at 25 MHz."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(shutil.which, TOOLS)),
        reason="needs gcc-arm-none-eabi and qemu-system-arm (apt-get install them)",
    ),
]


def small(images: Tensor, rounding: str) -> CapsNet:
    torch.manual_seed(3)
    model = build("shallowcaps-small").eval()
    return quantize(model, Plan.uniform(model, 6), Calibration.record(model, images), rounding, 5)


def compiled(exported: ExportedC, images: Tensor) -> Path:
    folder = exported.folder
    pixels = ",".join(map(str, images.flatten().tolist()))
    (folder / "images.c").write_text(
        "#include <stdint.h>\n"
        f"const uint8_t test_images[] = {{{pixels}}};\nconst int test_count = {len(images)};\n"
    )
    sources = [HERE / "startup.c", *(folder / f for f in ("images.c", "model.c", "weights.c"))]
    command = ["arm-none-eabi-gcc", *FLAGS.split(), f"-I{folder}", "-T", str(HERE / "board.ld")]
    command += ["-Wall", "-Wextra", *map(str, sources), "-o", str(folder / "model.elf"), "-lgcc"]
    command += ["-specs=nano.specs", "-lc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "model.elf"


def fnv(codes: Tensor, size: int, value: int) -> int:
    for byte in codes.flatten().numpy().astype(f"<i{size}").tobytes():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def expected_hash(model: CapsNet, exported: ExportedC, image: Tensor) -> int:
    """The same over what PyTorch stores, in the order in which C computes it."""
    seen = observe(model, image)
    by_site = {o.site: o for o in exported.observations}
    order = [("conv.activation", 0), ("primary.preactivation", 0), ("primary.activation", 0)]
    order.append(("digit.votes", 0))
    for step in range(3):
        sites = ["coupling", "preactivation", "activation", *(["logits"] if step < 2 else [])]
        order += [(f"digit.{site}", step) for site in sites]
    value = 2166136261
    for visit in order:
        view = by_site[visit[0]]
        back = torch.argsort(torch.tensor(view.axes)).tolist()
        value = fnv(seen[visit][0].permute(*back), 1, value)
    return value


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_the_same_integers_on_a_cortex_m(rounding: str, images: Tensor, tmp_path: Path) -> None:
    model = small(images, rounding)
    exported = export_c(model, tmp_path / "c", tile_bytes=8 * 1024)
    assert exported.ram < 64 * 1024
    program = compiled(exported, images[:2])
    sizes = subprocess.run(
        ["arm-none-eabi-size", str(program)], capture_output=True, text=True, check=True
    ).stdout
    command = [
        "qemu-system-arm",
        "-M",
        "mps2-an385",
        "-nographic",
        "-semihosting",
        "-icount",
        "shift=0",
        "-kernel",
    ]
    done = subprocess.run(
        [*command, str(program)], capture_output=True, text=True, timeout=600, check=False
    )
    output = done.stdout + done.stderr
    hashes = [int(x, 16) for x in re.findall(r"hash ([0-9a-f]{8})", output)]
    ticks = [int(x, 16) for x in re.findall(r"ticks ([0-9a-f]{8})", output)]
    assert len(ticks) == 2
    print(sizes, exported.flash, exported.ram, [t * INSTRUCTIONS_A_TICK for t in ticks])
    assert hashes == [expected_hash(model, exported, image) for image in images[:2].split(1)]
