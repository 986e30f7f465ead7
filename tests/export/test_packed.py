"""Packed models: what comes back is what was saved, in the size that was claimed."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.export.conftest import Quantizer
from torch import Tensor, nn

from qcapsnets.accounting import weight_bits
from qcapsnets.data import to_inputs
from qcapsnets.errors import ExportError, FixedPointError
from qcapsnets.export import load_packed, read_header, save_packed
from qcapsnets.export.observe import observe
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import apply, formats_of, quantization_of, quantize
from qcapsnets.fixedpoint.rounding import roundings
from qcapsnets.models import CapsNet, build

SCHEMES = ("truncation", "nearest", "nearest-even", "stochastic")


def roundtrip(model: CapsNet, folder: Path, skeleton: CapsNet | None = None) -> CapsNet:
    save_packed(model, folder / "model.qcaps")
    return load_packed(folder / "model.qcaps", skeleton)[0]


@pytest.mark.parametrize("rounding", SCHEMES)
@pytest.mark.parametrize("name", ["shallow", "deep", "composed"])
def test_every_site_of_a_loaded_model_holds_the_same_numbers(
    name: str, rounding: str, quantized: Quantizer, images: Tensor, tmp_path: Path
) -> None:
    wordlength = {"truncation": 5, "nearest": 12, "nearest-even": 2, "stochastic": 7}[rounding]
    model = quantized(name, wordlength, rounding)
    skeleton = quantized.float_model(name) if name == "composed" else None
    loaded = roundtrip(model, tmp_path, skeleton)
    before, after = observe(model, images[:2]), observe(loaded, images[:2])
    assert before.keys() == after.keys()
    for key, values in before.items():
        assert torch.equal(values, after[key]), key
    assert formats_of(loaded) == formats_of(model)


def test_codes_of_32_bits_survive(images: Tensor, tmp_path: Path) -> None:
    """2^31 - 1 is no float32: parameters as long as that are loaded as float64."""
    model = build("export-tiny")
    pixels = images[:4, :, 12:14, 12:14].contiguous()
    calibration = Calibration.record(model, pixels)
    model = quantize(model, Plan.uniform(model, 32), calibration, points="max")
    loaded = roundtrip(model, tmp_path)
    assert loaded.get_parameter("digit.weight").dtype == torch.float64
    assert torch.equal(model(to_inputs(pixels)), loaded(to_inputs(pixels)))


@pytest.mark.parametrize("wordlength", [2, 6, 8, 16])
def test_the_size_on_disk_is_the_size_claimed(
    wordlength: int, quantized: Quantizer, tmp_path: Path
) -> None:
    for name in ("shallow", "deep"):
        model = quantized(name, wordlength)
        file = save_packed(model, tmp_path / "model.qcaps")
        plan = quantization_of(model).plan
        assert file.weight_bits == weight_bits(model, plan)
        assert file.size == (tmp_path / "model.qcaps").stat().st_size
        assert file.size <= file.weight_bits / 8 * 1.01 + 16 * 1024


def test_facts_and_header_come_back(quantized: Quantizer, tmp_path: Path) -> None:
    path = tmp_path / "model.qcaps"
    save_packed(quantized("shallow", 6, "stochastic"), path, accuracy=0.98, split="test")
    loaded, facts = load_packed(path)
    assert facts == {"accuracy": 0.98, "split": "test"}
    header = read_header(path)
    assert header["rounding"] == "stochastic"
    assert header["seed"] == 7
    how = quantization_of(loaded)
    assert (how.plan, how.way.seed) == (Plan.uniform(loaded, 6), 7)
    save_packed(loaded, tmp_path / "again.qcaps", **facts)
    assert (tmp_path / "again.qcaps").read_bytes() == path.read_bytes()


def test_loading_takes_no_more_than_twice_the_unpacked_size(tmp_path: Path) -> None:
    """Weights only: PyTorch's own memory is measured by a hook on what NumPy and Python take."""
    model = build("shallowcaps-small", conv_channels=64, primary_capsules=16)
    pixels = torch.zeros(1, 1, 28, 28, dtype=torch.uint8)
    calibration = Calibration.record(model, pixels)
    path = tmp_path / "model.qcaps"
    save_packed(quantize(model, Plan.uniform(model, 3), calibration), path)
    unpacked = sum(p.numel() * 4 for p in model.parameters())
    tracemalloc.start()
    load_packed(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < unpacked  # and the parameters themselves are `unpacked`


def test_another_plan_needs_the_float_network(quantized: Quantizer, tmp_path: Path) -> None:
    loaded = roundtrip(quantized("shallow", 6), tmp_path)
    with pytest.raises(ExportError, match="quantize the float network again"):
        apply(loaded, Plan.uniform(loaded, 5))


def test_a_float_model_and_wrong_facts_are_refused(quantized: Quantizer, tmp_path: Path) -> None:
    with pytest.raises(FixedPointError, match="not quantized"):
        save_packed(quantized.float_model("shallow"), tmp_path / "a")
    for fact in ({1, 2}, float("nan")):
        with pytest.raises(ExportError, match="plain numbers"):
            save_packed(quantized("shallow"), tmp_path / "a", fact=fact)
    assert not list(tmp_path.iterdir())


def test_a_tensor_that_no_site_stores_is_refused(quantized: Quantizer, tmp_path: Path) -> None:
    model = quantized("shallow")
    model.get_submodule("conv").register_parameter("extra", nn.Parameter(torch.zeros(3)))
    with pytest.raises(ExportError, match=r"conv\.extra .*Site\(Kind\.WEIGHT\)"):
        save_packed(model, tmp_path / "a")


def test_a_model_without_a_name_needs_a_skeleton(quantized: Quantizer, tmp_path: Path) -> None:
    model = quantized("composed")
    with pytest.raises(ExportError, match="pass it as `model`"):
        roundtrip(model, tmp_path)
    with pytest.raises(ExportError, match="cannot be loaded"):
        roundtrip(model, tmp_path, quantized.float_model("deep"))


def test_schemes_of_the_tests_are_all_that_there_are() -> None:
    assert set(SCHEMES) <= set(roundings)


def test_facts_may_be_anything_plain(quantized: Quantizer, tmp_path: Path) -> None:
    facts: dict[str, Any] = {"accuracies": {"test": 0.5}, "names": ["ä", "b"]}
    save_packed(quantized("shallow"), tmp_path / "a", **facts)
    assert load_packed(tmp_path / "a")[1] == facts
