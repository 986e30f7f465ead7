"""ShallowCaps: the capsule network of Sabour et al. 2017."""

from dataclasses import dataclass

from qcapsnets.models.config import Config
from qcapsnets.models.layers import Conv, ConvCaps, output_size
from qcapsnets.models.network import CapsNet
from qcapsnets.models.routing import RoutedCaps


@dataclass(frozen=True)
class ShallowCapsConfig(Config):
    """Sizes of the three layers; the defaults are the paper's."""

    conv_channels: int = 256
    conv_kernel: int = 9
    primary_capsules: int = 32
    primary_dimension: int = 8
    primary_kernel: int = 9
    primary_stride: int = 2
    class_dimension: int = 16
    iterations: int = 3
    routing_bias: bool = False


def shallowcaps(config: ShallowCapsConfig) -> CapsNet:
    """conv -> primary -> digit."""
    after_conv = output_size(config.size, config.conv_kernel, 1, 0)
    after_primary = output_size(after_conv, config.primary_kernel, config.primary_stride, 0)
    layers = {
        "conv": Conv(config.channels, config.conv_channels, kernel=config.conv_kernel),
        "primary": ConvCaps(
            config.conv_channels,
            config.primary_capsules,
            config.primary_dimension,
            kernel=config.primary_kernel,
            stride=config.primary_stride,
        ),
        "digit": RoutedCaps(
            config.primary_capsules * after_primary**2,
            config.primary_dimension,
            config.classes,
            config.class_dimension,
            iterations=config.iterations,
            bias=config.routing_bias,
        ),
    }
    return CapsNet(layers, image_shape=config.image_shape, classes=config.classes)
