"""Fine-tuning: gradients pass straight through, and a few steps at 3 bits win accuracy back."""

import pytest
import torch
from tests import networks

from qcapsnets.data import ImageSet, Splits, load, to_inputs
from qcapsnets.fixedpoint import Calibration, Plan, Points, formats_of, inexact_sites, quantize
from qcapsnets.models import CapsNet
from qcapsnets.training import MARGIN
from qcapsnets.training.measure import accuracy


def fit(model: CapsNet, images: ImageSet, steps: int, rate: float) -> None:
    """A plain loop: Adam, 50 images a step, the margin loss."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        chosen = torch.randint(len(images), (50,), generator=generator)
        optimizer.zero_grad()
        loss = MARGIN(model(to_inputs(images.images[chosen])), images.labels[chosen])
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
        optimizer.step()


@pytest.fixture(scope="module")
def digits() -> Splits:
    return load("mnist-mini", size=14)


@pytest.fixture(scope="module")
def trained(digits: Splits) -> tuple[CapsNet, Calibration]:
    """A tiny ShallowCaps after some seconds: about 88 % right."""
    model = networks.tiny()
    fit(model, digits.train, steps=150, rate=3e-3)
    return model.eval(), Calibration.record(model, digits.train.images[:300])


def test_the_float_network_has_learnt(trained: tuple[CapsNet, Calibration], digits: Splits) -> None:
    assert accuracy(trained[0], digits.validation) > 0.8


@pytest.mark.parametrize(("scheme", "points"), [("truncation", "mse"), ("nearest", "unit")])
def test_a_few_steps_at_3_bits_recover_accuracy(
    trained: tuple[CapsNet, Calibration], digits: Splits, scheme: str, points: Points
) -> None:
    """Both start near chance (0.09 and 0.22 when this was written) and come to about 0.8."""
    model, calibration = trained
    plan = Plan.uniform(model, 3)
    quantized = quantize(model, plan, calibration, scheme, points=points)
    formats, best = formats_of(quantized), accuracy(model, digits.validation)
    before = accuracy(quantized, digits.validation)
    fit(quantized, digits.train, steps=40, rate=3e-3)
    after = accuracy(quantized, digits.validation)
    assert before < best - 0.4
    assert after > before + (best - before) / 2
    assert formats_of(quantized) == formats
    assert inexact_sites(quantized) == []


@pytest.mark.parametrize("scheme", ["nearest", "stochastic"])
def test_a_step_at_8_bits_is_a_step_of_the_float_network(
    trained: tuple[CapsNet, Calibration], digits: Splits, scheme: str
) -> None:
    """The gradient points where the float network's does."""
    model, calibration = trained
    quantized = quantize(model, Plan.uniform(model, 8), calibration, scheme)
    inputs, labels = to_inputs(digits.train.images[:50]), digits.train.labels[:50]
    gradients = []
    for network in (model, quantized):
        loss = MARGIN(network(inputs), labels)
        found = torch.autograd.grad(loss, list(network.parameters()))
        gradients.append(torch.cat([g.flatten() for g in found]))
    ours, theirs = gradients
    assert ours @ theirs > 0.9 * ours.norm() * theirs.norm()
