"""Generated C against PyTorch: no number differs, anywhere, under any scheme."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.export.conftest import Quantizer
from tests.export.networks import enlarged
from torch import Tensor

from qcapsnets.data import load
from qcapsnets.errors import ExportError
from qcapsnets.export import load_packed, save_packed, verify
from qcapsnets.export.verify import Verification
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.fixedpoint.quantize import apply, quantize
from qcapsnets.fixedpoint.rounding import register_rounding, roundings
from qcapsnets.models import CapsNet, Conv, ConvCaps, RoutedCaps

pytestmark = pytest.mark.skipif(
    not shutil.which("cc") or not shutil.which("make"), reason="needs a C compiler and make"
)

SCHEMES = ("truncation", "nearest", "nearest-even", "stochastic")
NAMES = ("shallow", "deep", "composed")


def mixed(model: CapsNet) -> Plan:
    """Other wordlengths in every layer, so that types and widths change between them."""
    words = [16, 3, 9, 2, 12, 7, 5]
    plan = Plan.uniform(model, 8)
    return Plan(
        {
            name: Wordlengths(words[i], words[i - 1], q.routing and words[i - 2])
            for i, (name, q) in enumerate(plan.items())
        }
    )


PLANS = {
    ("shallow", "truncation"): 5,
    ("shallow", "nearest"): 8,
    ("shallow", "nearest-even"): 16,
    ("shallow", "stochastic"): 6,
    ("deep", "truncation"): 2,
    ("deep", "nearest"): 12,
    ("deep", "nearest-even"): 4,
    ("deep", "stochastic"): None,
    ("composed", "truncation"): None,
    ("composed", "nearest"): 3,
    ("composed", "nearest-even"): 10,
    ("composed", "stochastic"): 7,
}


@pytest.mark.parametrize("rounding", SCHEMES)
@pytest.mark.parametrize("name", NAMES)
def test_no_number_differs(name: str, rounding: str, quantized: Quantizer, images: Tensor) -> None:
    wordlength = PLANS[name, rounding]
    plan = mixed(quantized.float_model(name)) if wordlength is None else wordlength
    result = verify(quantized(name, plan, rounding), images[:3], flags="-O0")
    assert result.equal, str(result)
    assert result.numbers > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("plan", [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, None])
@pytest.mark.parametrize("rounding", SCHEMES)
@pytest.mark.parametrize("name", NAMES)
def test_no_number_differs_under_any_plan(
    name: str, rounding: str, plan: int | None, quantized: Quantizer, images: Tensor
) -> None:
    wordlengths = mixed(quantized.float_model(name)) if plan is None else plan
    result = verify(quantized(name, wordlengths, rounding, seed=11), images[:5], flags="-O1")
    assert result.equal, str(result)


def test_small_tiles_change_nothing(quantized: Quantizer, images: Tensor) -> None:
    """As for a microcontroller: parts of sums, some positions at a time."""
    result = verify(quantized("composed", 8), images[:2], flags="-O0", tile_bytes=256)
    assert result.equal, str(result)


def test_several_channels_and_colour_images() -> None:
    torch.manual_seed(1)
    model = enlarged(
        CapsNet(
            {
                "int": Conv(3, 6, kernel=3, padding=1),  # a keyword of C
                "caps-1": ConvCaps(6, 2, 4, kernel=3, stride=2),
                "q_digit": RoutedCaps(18, 4, 4, 3, iterations=2),
            },
            image_shape=(3, 8, 8),
            classes=4,
        )
    )
    pixels = load("mnist-mini").test.images[:12, 0, 8:16, 8:16].reshape(4, 3, 8, 8).contiguous()
    quantized = quantize(
        model, Plan.uniform(model, 7), Calibration.record(model, pixels), "stochastic", 2**63 + 5
    )
    result = verify(quantized, pixels, flags="-O0")
    assert result.equal, str(result)


def test_a_packed_file_gives_the_same_c(
    quantized: Quantizer, images: Tensor, tmp_path: Path
) -> None:
    save_packed(quantized("shallow", 4, "stochastic"), tmp_path / "model.qcaps")
    result = verify(load_packed(tmp_path / "model.qcaps")[0], images[:2], flags="-O0")
    assert result.equal, str(result)


@pytest.fixture
def own_scheme() -> Iterator[str]:
    """Away from zero only from three quarters on."""
    register_rounding("late", lambda q, r, d, u: 4 * r >= 3 * d, c="4 * r >= 3 * d")
    yield "late"
    roundings._values.pop("late")


def test_a_scheme_of_the_users_own(own_scheme: str, quantized: Quantizer, images: Tensor) -> None:
    result = verify(quantized("shallow", 6, own_scheme), images[:2], flags="-O0")
    assert result.equal, str(result)


def test_a_difference_is_named(
    quantized: Quantizer, images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C of one model against the numbers of another."""
    module = sys.modules["qcapsnets.export.verify"]
    model = quantized("shallow", 8)
    other = quantized("shallow", 8)
    plan = Plan.uniform(other, 8).replacing(weight={"primary": 4})
    apply(other, plan)
    real = module.observe
    monkeypatch.setattr(module, "observe", lambda _, images: real(other, images))
    result = module.verify(model, images[:2], flags="-O0")
    assert isinstance(result, Verification)
    assert not result.equal
    assert result.first is not None
    assert (result.first.layer, result.first.image) == ("primary", 0)
    text = str(result)
    for part in ("image 0", "layer primary", "site primary.preactivation", "step 0", "element (0,"):
        assert part in text
    assert f"C has {result.first.c}, PyTorch has {result.first.pytorch}" in text


def test_no_image_and_no_compiler(
    quantized: Quantizer, images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExportError, match="one or more"):
        verify(quantized("shallow"), images[:0])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ExportError, match="install gcc or clang"):
        verify(quantized("shallow"), images[:1])
