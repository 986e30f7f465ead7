"""LeNet-5 and AlexNet: the counts that are well known, and the paper's first figure."""

import pytest
from tests.accounting.conftest import rendered

from qcapsnets.accounting import ALEXNET, LENET5, Comparison
from qcapsnets.accounting.baselines import footprint
from qcapsnets.models import build


def test_lenet() -> None:
    assert [shape.parameters for shape in LENET5] == [156, 2_416, 48_120, 10_164, 850]
    found = footprint("LeNet-5")
    assert (found.parameters, found.macs) == (61_706, 416_520)


def test_alexnet() -> None:
    parameters = [shape.parameters for shape in ALEXNET]
    convolutions = [34_944, 307_456, 885_120, 663_936, 442_624]
    assert parameters == [*convolutions, 37_752_832, 16_781_312, 4_097_000]
    found = footprint("AlexNet")
    assert (found.parameters, found.macs) == (60_965_224, 724_406_816)


def test_first_figure() -> None:
    """ShallowCaps is lighter than AlexNet, and computes more with each bit than either."""
    lenet, alexnet, capsules = Comparison.of([build("shallowcaps")]).footprints
    assert lenet.bits < capsules.bits < alexnet.bits
    assert lenet.macs_per_bit < alexnet.macs_per_bit < capsules.macs_per_bit
    assert capsules.macs_per_bit == pytest.approx(201_793_536 / (32 * 6_804_224))


def test_view() -> None:
    text = rendered(Comparison.of([build("shallowcaps-small")]))
    assert "AlexNet" in text
    assert "1,950.9 Mbit" in text
