"""The networks of the export tests: both architectures made small, and one composed by hand."""

from collections.abc import Callable

import torch

from qcapsnets.models import (
    Block,
    CapsNet,
    Conv,
    ConvCaps,
    RoutedCaps,
    RoutedConvCaps,
    build,
    register,
)

GAIN = 4.0
"""Random weights are made larger, so that capsules do not fade to zero over many layers."""


def enlarged(model: CapsNet, gain: float = GAIN) -> CapsNet:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("weight") and "norm" not in name:
                parameter.mul_(gain)
            if name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def shallow() -> CapsNet:
    return enlarged(build("shallowcaps-small", conv_channels=12, primary_capsules=3))


def deep() -> CapsNet:
    model = build("deepcaps-small", conv_channels=6, capsules=3, class_dimension=6)
    with torch.no_grad():  # statistics as if it had been trained
        model.get_buffer("conv.norm.running_mean").uniform_(-0.1, 0.3)
        model.get_buffer("conv.norm.running_var").uniform_(0.5, 2.0)
    return enlarged(model)


def composed() -> CapsNet:
    """Odd sizes, a stride of 3, routing twice, a block that carries, one pass without routing."""
    return enlarged(
        CapsNet(
            {
                "first": Conv(1, 5, kernel=5, stride=3, padding=2, batch_norm=True),
                "second": Conv(5, 7, kernel=1),
                "caps": ConvCaps(7, 3, 5, kernel=3, padding=1),
                "maps": RoutedConvCaps(5, 2, 3, kernel=2, iterations=2, bias=True),
                "block": Block(
                    ConvCaps(6, 2, 3, kernel=3, stride=2, padding=1),
                    ConvCaps(6, 2, 3, kernel=3, padding=1),
                    ConvCaps(6, 2, 3, kernel=1),
                    ConvCaps(6, 2, 3, kernel=3, padding=1),
                    carry=True,
                ),
                "wide": RoutedCaps(212, 3, 6, 4, iterations=1, bias=True),
                "digit": RoutedCaps(6, 4, 10, 5, iterations=3),
            },
            image_shape=(1, 28, 28),
            classes=10,
        )
    )


NETWORKS: dict[str, Callable[[], CapsNet]] = {
    "shallow": shallow,
    "deep": deep,
    "composed": composed,
}


@register("export-tiny")
def tiny(classes: int = 2) -> CapsNet:
    """Weights that anyone can write down, for golden bytes."""
    model = CapsNet(
        {
            "caps": ConvCaps(1, 1, 2, kernel=2),
            "digit": RoutedCaps(1, 2, classes, 2, iterations=2),
        },
        image_shape=(1, 2, 2),
        classes=classes,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(parameter.numel()).view_as(parameter) / 4 - 0.75)
    return model
