"""The generated files: they compile without a warning, and keep the promises made of them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.export.conftest import Quantizer
from torch import Tensor

from qcapsnets.accounting import peak_working_set
from qcapsnets.data.formats import write_idx
from qcapsnets.export import ExportedC, export_c
from qcapsnets.export.observe import observe
from qcapsnets.export.verify import build, run_observed
from qcapsnets.fixedpoint.quantize import quantization_of

FILES = ["Makefile", "arithmetic.h", "main.c", "model.c", "model.h", "weights.c"]
MODEL = ["arithmetic.h", "model.c", "model.h", "weights.c"]

needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture(scope="module")
def exported(quantized: Quantizer, tmp_path_factory: pytest.TempPathFactory) -> ExportedC:
    return export_c(quantized("composed", 7, "stochastic"), tmp_path_factory.mktemp("c") / "out")


def text(exported: ExportedC, name: str) -> str:
    return (exported.folder / name).read_text()


def test_these_files_are_written(exported: ExportedC) -> None:
    assert sorted(path.name for path in exported.folder.iterdir()) == FILES


def without_comments(code: str) -> str:
    return re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)


def test_the_model_needs_no_library_no_floats_and_no_heap(exported: ExportedC) -> None:
    for name in MODEL:
        code = without_comments(text(exported, name))
        headers = set(re.findall(r"#include <(.*?)>", code))
        assert headers <= {"stdint.h", "stddef.h", "string.h"}
        assert not re.search(r"\b(float|double|malloc|calloc|free)\b", code)
        assert not re.search(r"\d\.\d", code)


def test_a_person_can_follow_it(exported: ExportedC) -> None:
    code = text(exported, "model.c")
    for part in ("block.l1: convolution into capsules", "Sabour 2017", "|sum| < 2^", "s7f"):
        assert part in code
    order = [code.index(f"    {call}();") for call in ("first", "second", "caps", "digit_route")]
    assert order == sorted(order)


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O3"])
def test_it_compiles_without_a_warning(
    cc: str, flags: str, quantized: Quantizer, tmp_path: Path
) -> None:
    if not shutil.which(cc):
        pytest.skip(f"{cc} is not installed")
    model = quantized("shallow" if flags == "-O3" else "composed", 6, "nearest-even")
    folder = export_c(model, tmp_path / "c").folder
    build(folder, "classify", flags=f"{flags} -Wconversion -Wno-sign-conversion", cc=cc)


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_it_is_clean_under_the_sanitizers(
    cc: str, quantized: Quantizer, images: Tensor, tmp_path: Path
) -> None:
    if not shutil.which(cc):
        pytest.skip(f"{cc} is not installed")
    if cc == "clang" and not list(Path("/usr/lib").glob("**/libclang_rt.asan*x86_64*")):
        pytest.skip("clang has no sanitizers here")
    model = quantized("composed", 12, "stochastic")
    result = export_c(model, tmp_path / "c", tile_bytes=1024)
    flags = "-O0 -fsanitize=address,undefined -fno-sanitize-recover=all"
    program = build(result.folder, "observe", flags=flags, cc=cc)
    expected = observe(model, images[:1])
    for visit, codes in run_observed(images[:1], result.observations, program, tmp_path):
        assert (codes == expected[visit][0]).all(), visit


@needs_cc
def test_main_classifies_idx_images(quantized: Quantizer, images: Tensor, tmp_path: Path) -> None:
    model = quantized("shallow", 8)
    program = build(export_c(model, tmp_path / "c").folder, flags="-O1")
    write_idx(tmp_path / "images.idx", images[:6].squeeze(1))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    capsules = observe(model, images[:6])["digit.activation", 2]
    classes = capsules.square().sum(-1).argmax(-1).tolist()
    assert [int(line) for line in run(str(tmp_path / "images.idx")).stdout.split()] == classes
    few = run(str(tmp_path / "images.idx"), "2")
    assert [int(line) for line in few.stdout.split()] == classes[:2]
    assert "bytes of static arrays" in run("--budget").stdout
    assert float(run("--time", str(tmp_path / "images.idx")).stdout) > 0
    for wrong in (tmp_path / "nothing.idx", tmp_path / "c" / "model.c"):
        failed = run(str(wrong))
        assert failed.returncode == 2
        assert str(wrong) in failed.stderr
    content = (tmp_path / "images.idx").read_bytes()
    (tmp_path / "cut.idx").write_bytes(content[:-5])
    assert "cut short" in run(str(tmp_path / "cut.idx")).stderr


def test_the_budget_is_what_is_there(exported: ExportedC) -> None:
    code = text(exported, "model.c")
    arrays = re.findall(r"static int(\d+)_t q_memory\d+\[(\d+)\]", code)
    assert sum(int(width) // 8 * int(count) for width, count in arrays) == exported.ram
    weights = without_comments(text(exported, "weights.c"))
    words = re.findall(r"const uint(\d+)_t \w+\[(\d+)\]", weights)
    assert sum(int(width) // 8 * int(count) for width, count in words) == exported.flash


@pytest.mark.parametrize("name", ["shallow", "deep", "composed"])
def test_memory_is_the_accounts_peak_and_scratch(
    name: str, quantized: Quantizer, tmp_path: Path
) -> None:
    """At 8 bits a code is a byte, so the fullest step holds what the account says, and little more.

    More: routing keeps its logits, couplings and votes together for all iterations, and the
    capsules of a map are copied into the order of maps. Less: the image stays with the caller.
    """
    model = quantized(name, 8)
    result = export_c(model, tmp_path / "c")
    peak = peak_working_set(model, quantization_of(model).plan).bits // 8
    image = 28 * 28
    assert peak - image <= result.arrays <= 1.15 * peak
    assert result.arrays <= result.ram
    small = export_c(model, tmp_path / "small", tile_bytes=1024)
    assert small.arrays == result.arrays
    assert small.ram < result.ram
