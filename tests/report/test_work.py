"""Work and energy, against what accounting counts and against hands."""

import pytest
from tests import networks

from qcapsnets.accounting import Inventory, Operations, add_energy, multiply_energy
from qcapsnets.accounting.operations import FP32_MAC_PICOJOULES
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.models import CapsNet
from qcapsnets.report.shares import ROWS, shares_of
from qcapsnets.report.work import Work, products_of


@pytest.fixture(params=[networks.tiny, networks.tiny_deep])
def model(request: pytest.FixtureRequest) -> CapsNet:
    network: CapsNet = request.param()
    return network


def test_products_are_those_of_accounting(model: CapsNet) -> None:
    assert sum(p.macs for p in products_of(model)) == Operations.of(model).macs


def test_float_costs_a_float_mac_each(model: CapsNet) -> None:
    work = Work.of(model)
    assert work.picojoules == pytest.approx(FP32_MAC_PICOJOULES * work.macs)
    assert work.squash == Operations.of(model).total("squash")
    assert work.softmax == Operations.of(model).total("softmax")


@pytest.mark.parametrize("granularity", ["block", "layer"])
def test_shorter_is_cheaper(model: CapsNet, granularity: str) -> None:
    energies = [
        Work.of(model, Plan.uniform(model, bits, granularity)).picojoules  # type: ignore[arg-type]
        for bits in (16, 8, 4)
    ]
    assert energies == sorted(energies, reverse=True)


def test_a_product_takes_the_longer_operand(tiny: CapsNet) -> None:
    first = products_of(tiny)[0]
    assert (first.own, first.other, first.terms) == ("conv.weights", ("conv.image",), 25)
    plan = Plan.uniform(tiny, 4)
    spent = first.picojoules(Inventory.of(tiny).wordlengths(plan))
    width = 4 + 8 + 5  # weights, pixels, and 25 terms
    assert spent == pytest.approx(first.macs * (multiply_energy(8) + add_energy(width)))


@pytest.mark.parametrize("granularity", ["block", "layer"])
def test_shares_are_parts_of_all(model: CapsNet, granularity: str) -> None:
    plan = Plan.uniform(model, 5, granularity)  # type: ignore[arg-type]
    shares = shares_of(model, plan)
    assert list(shares) == list(Inventory.of(model).parts["block"])
    for row in range(len(ROWS)):
        assert sum(own[row].percent for own in shares.values()) == pytest.approx(100)
    assert sum(own[1].bits for own in shares.values()) == Inventory.of(model).weight_bits(plan)
