"""DeepCaps: the deep capsule network of Rajasegaran et al. 2019."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from qcapsnets.models.config import Config
from qcapsnets.models.layers import Conv, ConvCaps, Convolving, Layer, as_capsules, output_size
from qcapsnets.models.network import CapsNet
from qcapsnets.models.routing import RoutedCaps, RoutedConvCaps
from qcapsnets.models.sites import Joined, Kind, Place, Site, Term

KERNEL, PADDING = 3, 1
BLOCKS = 4
GAIN = 2.5
"""Of fresh weights. A convolution with gain a of capsules of length v has |s| = a v, and squash
makes it v again where a^2 v (1 - v) = 1: never if a < 2, when what tells images apart dies out
within a few layers, and at v = 0.8 here."""


@dataclass(frozen=True)
class DeepCapsConfig(Config):
    """Sizes of the six layers; the defaults are the paper's."""

    conv_channels: int = 128
    capsules: int = 32
    first_dimension: int = 4
    dimension: int = 8
    class_dimension: int = 32
    iterations: int = 3
    routing_bias: bool = True


class Block(Layer):
    """l1 halves the map; l2 and l3 in parallel with a skip layer; the two are summed.

    A block that carries its input hands on both: the capsules that it was given, then its own.
    """

    def __init__(
        self, l1: ConvCaps, l2: ConvCaps, l3: ConvCaps, skip: Layer, *, carry: bool = False
    ) -> None:
        super().__init__()
        self.l1, self.l2, self.l3 = l1, l2, l3
        self.skip: Layer = skip
        self.activation = Site(Kind.ACTIVATION)
        self.carry = carry

    def connect(self, source: Place) -> Place:
        super().connect(source)
        shared = self.l1.connect(source)
        self.l3.connect(self.l2.connect(shared))
        self.skip.connect(shared)
        return Joined((source, self.activation)) if self.carry else self.activation

    def compute(self, x: Tensor) -> Tensor:
        shared = self.l1(x)
        skipped = Term(self.skip(shared), self.skip.activation)
        y = self.activation(self.l3.activation.storage.add(self.l3(self.l2(shared)), skipped))
        return torch.cat([as_capsules(x), as_capsules(y)], dim=1) if self.carry else y

    def entry(self) -> Convolving | None:
        return self.l1

    def units(self) -> dict[str, list[Site]]:
        layers = {"l1": self.l1, "l2": self.l2, "l3": self.l3, "skip": self.skip}
        parts = {name: layer.units()[""] for name, layer in layers.items()}
        if self.image is not None:
            parts["l1"].append(self.image)
        parts["l3"].append(self.activation)
        return parts


def _block(config: DeepCapsConfig, index: int, in_channels: int) -> Block:
    dimension = config.first_dimension if index == 1 else config.dimension
    channels = config.capsules * dimension

    def caps(inputs: int, stride: int = 1) -> ConvCaps:
        layer = ConvCaps(
            inputs, config.capsules, dimension, kernel=KERNEL, stride=stride, padding=PADDING
        )
        nn.init.normal_(layer.weight, std=GAIN / math.sqrt(layer.weight[0].numel()))
        nn.init.zeros_(layer.bias)
        return layer

    if index < BLOCKS:
        return Block(caps(in_channels, 2), caps(channels), caps(channels), caps(channels))
    skip = RoutedConvCaps(
        dimension,
        config.capsules,
        dimension,
        kernel=KERNEL,
        padding=PADDING,
        iterations=config.iterations,
        bias=config.routing_bias,
    )
    return Block(caps(in_channels, 2), caps(channels), caps(channels), skip, carry=True)


def _map_sizes(size: int) -> list[int]:
    """Sizes of the maps after conv and after each block."""
    sizes = [size]
    for _ in range(BLOCKS):
        sizes.append(output_size(sizes[-1], KERNEL, 2, PADDING))
    return sizes


def deepcaps(config: DeepCapsConfig) -> CapsNet:
    """conv -> block1 .. block4 -> digit, which sees the capsules of block3 and block4."""
    sizes = _map_sizes(config.size)
    layers: dict[str, Layer] = {
        "conv": Conv(
            config.channels, config.conv_channels, kernel=KERNEL, padding=PADDING, batch_norm=True
        )
    }
    channels = config.conv_channels
    for index in range(1, BLOCKS + 1):
        layers[f"block{index}"] = _block(config, index, channels)
        channels = config.capsules * (config.first_dimension if index == 1 else config.dimension)
    layers["digit"] = RoutedCaps(
        config.capsules * (sizes[-2] ** 2 + sizes[-1] ** 2),
        config.dimension,
        config.classes,
        config.class_dimension,
        iterations=config.iterations,
        bias=config.routing_bias,
    )
    return CapsNet(layers, image_shape=config.image_shape, classes=config.classes)
