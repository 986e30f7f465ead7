"""Noise by site: against plain computation, for both kinds of networks."""

import math

import pytest
import torch
from tests import networks
from torch import Tensor

from qcapsnets.data import Splits, to_inputs
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import fixed_sites, formats_of, quantize
from qcapsnets.models import CapsNet, Kind
from qcapsnets.report.noise import Ratio, SiteNoise, noise_of


@pytest.fixture(scope="module")
def images(small_digits: Splits) -> Tensor:
    return small_digits.validation.images[:30]


@pytest.fixture(scope="module", params=[networks.tiny, networks.tiny_deep])
def model(request: pytest.FixtureRequest) -> CapsNet:
    network: CapsNet = request.param()
    return network.eval()


def measured(model: CapsNet, images: Tensor, bits: int) -> dict[str, SiteNoise]:
    quantized = quantize(model, Plan.uniform(model, bits), Calibration.record(model, images))
    return {site.name: site for site in noise_of(model, quantized, images)}


def test_every_site_that_a_plan_rules_is_heard(model: CapsNet, images: Tensor) -> None:
    plan = Plan.uniform(model, 6)
    quantized = quantize(model, plan, Calibration.record(model, images))
    found = noise_of(model, quantized, images)
    formats = formats_of(quantized)
    ruled = {name: str(formats[name]) for name in plan.sites(quantized)}
    assert {site.name: str(site.format) for site in found} == ruled
    assert all(site.counts.stored > 0 for site in found)


def test_each_bit_more_is_six_decibels(tiny: CapsNet, images: Tensor) -> None:
    few, many = (measured(tiny, images, bits)["primary.weights"] for bits in (6, 10))
    assert few.all.decibels is not None
    assert many.all.decibels is not None
    assert many.all.decibels - few.all.decibels == pytest.approx(4 * 6.02, abs=2.5)


def test_noise_of_a_first_activation_by_hand(tiny: CapsNet, images: Tensor) -> None:
    calibration = Calibration.record(tiny, images)
    quantized = quantize(tiny, Plan.uniform(tiny, 5), calibration)
    found = {site.name: site for site in noise_of(tiny, quantized, images)}["conv.activation"]
    inputs = to_inputs(images)
    with torch.no_grad():
        signal, noisy = tiny.eval()[0](inputs).double(), quantized[0](inputs).double()
    expected = 10 * math.log10(float(signal.square().sum() / (noisy - signal).square().sum()))
    assert found.all.decibels == pytest.approx(expected)
    assert found.zeros == pytest.approx(float((noisy == 0).double().mean()))
    assert found.counts.stored == noisy.numel()


def test_own_noise_is_part_of_all_noise(tiny: CapsNet, images: Tensor) -> None:
    sites = measured(tiny, images, 6).values()
    for site in sites:
        if site.kind is Kind.WEIGHT:
            assert site.own == site.all
    last = next(site for site in sites if site.name == "digit.activation")
    assert last.own.decibels is not None
    assert last.all.decibels is not None
    assert last.own.decibels > last.all.decibels


def test_a_range_that_is_too_small_saturates(tiny: CapsNet, images: Tensor) -> None:
    with torch.no_grad():
        tiny.get_parameter("conv.weight").mul_(20)
    calibration = Calibration.record(tiny, images)
    quantized = quantize(tiny, Plan.uniform(tiny, 8), calibration, points="unit")
    found = {site.name: site for site in noise_of(tiny, quantized, images)}
    assert found["conv.weights"].saturated > 0.1
    assert found["conv.activation"].saturated > 0.1


def test_listening_leaves_the_network_as_it_was(model: CapsNet, images: Tensor) -> None:
    quantized = quantize(model, Plan.uniform(model, 5), Calibration.record(model, images))
    inputs = to_inputs(images[:5])
    with torch.no_grad():
        before = quantized(inputs)
    storages = [storage for _, _, storage in fixed_sites(quantized)]
    noise_of(model, quantized, images[:10])
    assert [storage for _, _, storage in fixed_sites(quantized)] == storages
    with torch.no_grad():
        assert torch.equal(quantized(inputs), before)


def test_nothing_lost_is_exact() -> None:
    ratio = Ratio()
    ratio.add(torch.ones(3), torch.ones(3))
    assert ratio.decibels is None
    ratio.add(torch.zeros(3), torch.ones(3))
    assert ratio.decibels == 0


def test_noise_without_a_signal_is_a_number_still() -> None:
    ratio = Ratio()
    ratio.add(torch.zeros(3), torch.ones(3))
    assert ratio.decibels == -100
