"""A network small enough to count by hand, and views as text."""

import pytest
from rich.console import Console

from qcapsnets.models import CapsNet, Conv, ConvCaps, RoutedCaps


def by_hand(iterations: int = 3, *, bias: bool = True) -> CapsNet:
    """5x5 -> conv 3x3 to 2 maps of 3x3 -> 1 capsule of 4D on 2x2 -> 3 capsules of 2D."""
    layers = {
        "first": Conv(1, 2, kernel=3, batch_norm=True),
        "caps": ConvCaps(2, 1, 4, kernel=2),
        "last": RoutedCaps(4, 4, 3, 2, iterations=iterations, bias=bias),
    }
    return CapsNet(layers, image_shape=(1, 5, 5), classes=3)


@pytest.fixture
def little() -> CapsNet:
    return by_hand()


def rendered(view: object) -> str:
    """What a view shows, on one line."""
    console = Console(width=100)
    with console.capture() as captured:
        console.print(view)
    return " ".join(captured.get().split())
