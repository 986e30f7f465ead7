"""Work: counted by hand, against the textbook figures, and the energy of a multiply-accumulate."""

from typing import Any

import pytest
from tests.accounting.conftest import by_hand, rendered

from qcapsnets.accounting import Operations, add_energy, mac_energy, multiply_energy
from qcapsnets.accounting.operations import Evaluations
from qcapsnets.errors import FixedPointError
from qcapsnets.models import CapsNet, build


def test_work_by_hand(little: CapsNet) -> None:
    first, caps, last = Operations.of(little).layers
    assert first.macs_by_operation == {"Convolution": 18 * 9, "Scale": 18}
    assert caps.macs_by_operation == {"Convolution": 16 * 8}
    # 4 inputs of 4D vote for 3 outputs of 2D; three sums over the inputs, two agreements
    assert last.macs_by_operation == {"Vote": 24 * 4, "Combine": 3 * 6 * 4, "Agree": 2 * 12 * 2}
    assert first.functions == ()
    assert caps.functions == (Evaluations("squash", 4, 4, 1),)
    assert set(last.functions) == {
        Evaluations("softmax", 4, 3, 3),
        Evaluations("squash", 3, 2, 3),
    }


def test_one_iteration_has_no_agreement() -> None:
    *_, last = Operations.of(by_hand(1)).layers
    assert last.macs_by_operation.keys() == {"Vote", "Combine"}
    assert [found.iterations for found in last.functions] == [1, 1]


def test_shallowcaps() -> None:
    work = Operations.of(build("shallowcaps"))
    conv, primary, digit = work.layers
    assert conv.macs == 20 * 20 * 256 * 81
    assert primary.macs == 6 * 6 * 256 * 256 * 81
    assert digit.macs == 184_320 * (8 + 3 + 2)
    assert work.total("squash") == 1152 + 3 * 10
    assert work.total("softmax") == 3 * 1152


def test_routed_convolution_of_deepcaps() -> None:
    parts = {layer.name: layer for layer in Operations.of(build("deepcaps"), "layer").layers}
    skip = parts["block4.skip"]
    assert skip.macs_by_operation["SharedConvolution"] == 32_768 * 8 * 9
    assert set(skip.functions) == {
        Evaluations("softmax", 32, 128, 3),  # jointly over 32 capsules x 2 x 2
        Evaluations("squash", 128, 8, 3),
    }


def test_parts_add_up() -> None:
    model = build("deepcaps-small")
    assert Operations.of(model).macs == Operations.of(model, "layer").macs


def test_view() -> None:
    work = Operations.of(build("deepcaps-small"))
    text = rendered(work)
    assert "3 x 160 of 10" in text
    assert f"{work.macs:,}" in text
    assert work.to_json()["macs"] == work.macs


@pytest.mark.parametrize(
    ("energy", "bits", "measured"),
    [
        (add_energy, 8, 0.03),
        (add_energy, 16, 0.05),
        (add_energy, 32, 0.1),
        (multiply_energy, 8, 0.2),
        (multiply_energy, 32, 3.1),
    ],
)
def test_energies_fit_what_was_measured(energy: Any, bits: int, measured: float) -> None:
    assert energy(bits) == pytest.approx(measured, rel=0.2 if bits == 8 else 1e-3)


def test_energy_of_a_multiply_accumulate() -> None:
    assert mac_energy(8) == pytest.approx(0.003125 * 8 + 0.0029948 * 64 + 0.0010417 * 8)
    assert mac_energy(4) < mac_energy(5) < mac_energy(32)


@pytest.mark.parametrize("bits", [0, -1, 2.5, True])
def test_energy_of_no_wordlength(bits: Any) -> None:
    with pytest.raises(FixedPointError, match="give a whole number from 1 up"):
        mac_energy(bits)
