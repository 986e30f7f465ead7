"""Quantized copies: every site filled, the float network untouched, plans changed in place."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import networks
from tests.fixedpoint.described import storages
from torch import Tensor

from qcapsnets.data import Splits, to_inputs
from qcapsnets.errors import FixedPointError, RegistryError
from qcapsnets.fixedpoint import (
    Calibration,
    FixedPoint,
    Plan,
    Quantization,
    Wordlengths,
    apply,
    counting,
    formats_of,
    inexact_sites,
    quantization_of,
    quantize,
)
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.fixedpoint.storage import FixedWeights
from qcapsnets.models import CapsNet, Kind, ScaleShift, Storage, sites_of
from qcapsnets.models.weights import fingerprint


class Case:
    def __init__(self, model: CapsNet, images: Tensor) -> None:
        self.model, self.inputs = model.eval(), to_inputs(images[:6])
        self.calibration = Calibration.record(model, images)

    def quantize(self, plan: Plan | int, *arguments: Any, **options: Any) -> CapsNet:
        plan = Plan.uniform(self.model, plan) if isinstance(plan, int) else plan
        return quantize(self.model, plan, self.calibration, *arguments, **options)

    @torch.no_grad()
    def outputs(self, model: CapsNet) -> Tensor:
        result: Tensor = model(self.inputs)
        return result


@pytest.fixture(scope="module")
def shallow(small_digits: Splits) -> Case:
    return Case(networks.tiny(), small_digits.train.images[:40])


@pytest.fixture(scope="module")
def deep(small_digits: Splits) -> Case:
    return Case(networks.tiny_deep(), small_digits.train.images[:40])


@pytest.fixture(params=["shallow", "deep"])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.getfixturevalue(request.param)
    return found


class TestQuantize:
    def test_leaves_the_float_network_untouched(self, case: Case) -> None:
        before = {n: t.numpy().tobytes() for n, t in case.model.state_dict().items()}
        outputs, text = case.outputs(case.model), repr(case.model)
        quantized = case.quantize(3, "stochastic")
        case.outputs(quantized)
        with torch.no_grad():
            for parameter in quantized.parameters():
                parameter.mul_(0)
        after = {n: t.numpy().tobytes() for n, t in case.model.state_dict().items()}
        assert after == before
        assert repr(case.model) == text
        assert case.model.quantization is None
        assert all(type(site.storage) is Storage for _, site in sites_of(case.model))
        assert torch.equal(case.outputs(case.model), outputs)

    def test_fills_every_site(self, case: Case) -> None:
        quantized = case.quantize(5)
        case.outputs(quantized)
        formats = formats_of(quantized)
        for name, site in sites_of(quantized):
            if site.kind is Kind.ACCUMULATOR:
                assert name not in formats
            elif site.kind is Kind.IMAGE:
                assert formats[name] == FixedPoint(8, 8, signed=False)
            else:
                assert formats[name].wordlength == 5
                assert formats[name].signed == site.signed
                assert isinstance(site.storage, FixedWeights) == (site.kind is Kind.WEIGHT)

    def test_batch_norm_becomes_scale_and_shift(self, deep: Case) -> None:
        quantized = deep.quantize(6)
        assert isinstance(quantized.get_submodule("conv").norm, ScaleShift)
        assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in quantized.modules())
        assert {"conv.norm.scales", "conv.norm.shifts"} <= formats_of(quantized).keys()

    def test_pixels_pass_unchanged(self, case: Case) -> None:
        quantized = case.quantize(2)
        site = next(site for _, site in sites_of(quantized) if site.kind is Kind.IMAGE)
        every = torch.arange(256).view(1, 1, 16, 16).float().div(256)
        assert torch.equal(site(every), every)

    @pytest.mark.parametrize("scheme", ["nearest", "nearest-even", "stochastic", "truncation"])
    def test_approaches_the_float_network(self, case: Case, scheme: str) -> None:
        expected = case.outputs(case.model)
        errors = [
            float((case.outputs(case.quantize(n, scheme, points="max")) - expected).abs().max())
            for n in (4, 8, 12, 16)
        ]
        assert errors[3] < errors[2] < errors[1]
        assert errors[3] < 1e-3 * float(expected.abs().max())

    def test_32_bits_are_measured_though_inexact(self, case: Case) -> None:
        quantized = case.quantize(32)
        assert (case.outputs(quantized) - case.outputs(case.model)).abs().max() < 1e-6
        assert inexact_sites(quantized)

    def test_remembers_how(self, shallow: Case) -> None:
        plan = Plan.uniform(shallow.model, 7)
        quantized = shallow.quantize(plan, "nearest-even", 5, points="max")
        how = quantization_of(quantized)
        assert isinstance(how, Quantization)
        assert (how.plan, how.points) == (plan, "max")
        assert how.calibration is shallow.calibration
        assert (how.way.rounding.name, how.way.seed) == ("nearest-even", 5)

    def test_binary_points_by_choice(self, shallow: Case) -> None:
        by = {p: formats_of(shallow.quantize(4, points=p)) for p in ("mse", "max", "unit")}
        assert all(f.fraction == 4 - f.signed for n, f in by["unit"].items() if "image" not in n)
        assert all(by["mse"][name].fraction >= f.fraction for name, f in by["max"].items())
        assert len({str(formats) for formats in by.values()}) == 3

    def test_may_be_quantized_again(self, case: Case) -> None:
        """A quantized network is a network: its weights are the real ones still."""
        quantized = case.quantize(3)
        again = Calibration.record(quantized, (case.inputs * 256).byte())
        other = quantize(quantized, Plan.uniform(quantized, 16), again)
        assert (case.outputs(other) - case.outputs(case.model)).abs().max() < 1e-3

    def test_unknown_scheme(self, shallow: Case) -> None:
        with pytest.raises(RegistryError, match="unknown rounding scheme 'up': known are trunc"):
            shallow.quantize(6, "up")

    def test_unknown_points(self, shallow: Case) -> None:
        with pytest.raises(FixedPointError, match="'median' are unknown"):
            shallow.quantize(6, points="median")

    def test_a_plan_of_another_network(self, shallow: Case, deep: Case) -> None:
        with pytest.raises(FixedPointError, match="the plan misses"):
            shallow.quantize(Plan.uniform(deep.model, 6))

    def test_a_calibration_of_another_network(self, shallow: Case, deep: Case) -> None:
        with pytest.raises(FixedPointError, match="record a new one"):
            quantize(shallow.model, Plan.uniform(shallow.model, 6), deep.calibration)

    def test_from_a_file(self, case: Case, tmp_path: Path) -> None:
        case.calibration.save(tmp_path / "calibration")
        again = Calibration.load(tmp_path / "calibration")
        plan = Plan.uniform(case.model, 5)
        assert torch.equal(
            case.outputs(quantize(case.model, plan, again)), case.outputs(case.quantize(plan))
        )


class TestApply:
    def test_equals_a_fresh_copy(self, case: Case) -> None:
        plans = [
            Plan.uniform(case.model, 6),
            Plan.uniform(case.model, 6).replacing(weight={"digit": 3}, routing={"digit": 2}),
            Plan.uniform(case.model, 2, "layer"),
            Plan.uniform(case.model, 26),
            Plan.uniform(case.model, 6),
        ]
        for scheme in ("nearest", "stochastic"):
            changing = case.quantize(9, scheme, seed=4)
            for plan in plans:
                apply(changing, plan)
                fresh = case.quantize(plan, scheme, seed=4)
                assert torch.equal(case.outputs(changing), case.outputs(fresh))
                assert formats_of(changing) == formats_of(fresh)
                assert inexact_sites(changing) == inexact_sites(fresh)
                assert quantization_of(changing).plan == plan

    def test_touches_only_what_changes(self, shallow: Case) -> None:
        quantized = shallow.quantize(6)
        before = storages(quantized)
        plan = Plan.uniform(shallow.model, 6)
        assert apply(quantized, plan) == []
        assert storages(quantized) == before
        changed = apply(quantized, plan.replacing(weight={"primary": 4}, routing={"digit": 5}))
        assert set(changed) == {
            "primary.weights",
            "primary.biases",
            "digit.logits",
            "digit.preactivation",
        }
        after = storages(quantized)
        assert {name for name in after if after[name] is not before[name]} == set(changed)

    def test_a_bad_plan_changes_nothing(self, shallow: Case) -> None:
        quantized = shallow.quantize(6)
        before = formats_of(quantized)
        with pytest.raises(FixedPointError, match="misses primary, digit"):
            apply(quantized, Plan({"conv": Wordlengths(3, 3)}))
        assert formats_of(quantized) == before
        assert quantization_of(quantized).plan == Plan.uniform(shallow.model, 6)

    def test_to_a_float_network(self, shallow: Case) -> None:
        with pytest.raises(FixedPointError, match="shallowcaps is not quantized: pass it through"):
            apply(shallow.model, Plan.uniform(shallow.model, 6))


class TestPrepared:
    def test_computes_the_same(self, case: Case) -> None:
        difference = case.outputs(prepared(case.model)) - case.outputs(case.model)
        assert difference.abs().max() < 1e-5

    def test_is_a_float_copy_in_evaluation_mode(self, case: Case) -> None:
        quantized = case.quantize(3)
        result = prepared(quantized.train())
        assert not result.training
        assert result.quantization is None
        assert all(type(site.storage) is Storage for _, site in sites_of(result))
        assert quantization_of(quantized)


def test_counting_is_off_before_and_after(shallow: Case) -> None:
    quantized = shallow.quantize(3)
    with counting(quantized) as counts:
        shallow.outputs(quantized)
    assert counts["conv.activation"].stored == 6 * 16 * 10 * 10
    assert all(storage.counts is None for storage in storages(quantized).values())
    shallow.outputs(quantized)
    assert counts["conv.activation"].stored == 6 * 16 * 10 * 10


def test_a_copy_of_a_quantized_network_may_take_another_plan(case: Case) -> None:
    quantized = case.quantize(6)
    twin = copy.deepcopy(quantized)
    apply(twin, Plan.uniform(case.model, 3))
    assert torch.equal(case.outputs(twin), case.outputs(case.quantize(3)))
    assert torch.equal(case.outputs(quantized), case.outputs(case.quantize(6)))
    assert fingerprint(twin) == fingerprint(quantized)
