"""Layers without routing: convolution, and convolution into capsules.

Capsules on a map travel as [batch, capsules, dimension, height, width], so that flattening the
first two axes gives the channels of a convolution; capsules in a list as [batch, count, dimension].
"""

import math
from typing import Self

import torch
from torch import Tensor, nn

from qcapsnets.errors import ModelError
from qcapsnets.models.contractions import Convolution, Scale
from qcapsnets.models.sites import Kind, Place, Site, Term


def output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    """Height (or width) of a convolution's output; an empty one is an error."""
    result = (size + 2 * padding - kernel) // stride + 1
    if size + 2 * padding < kernel:
        raise ModelError(
            f"a {kernel}x{kernel} kernel does not fit a {size}x{size} map with padding {padding}: "
            "use larger images or a smaller kernel"
        )
    return result


def as_channels(x: Tensor) -> Tensor:
    """[batch, capsules, dimension, h, w] or [batch, channels, h, w] -> [batch, channels, h, w]."""
    return x.flatten(1, -3)


def as_capsules(x: Tensor) -> Tensor:
    """[batch, capsules, dimension, h, w] -> [batch, capsules * h * w, dimension]."""
    return x if x.dim() == 3 else x.movedim(2, -1).flatten(1, -2)


class Layer(nn.Module):
    """A named step of a network, which knows where its input is stored.

    The first layer of a network owns the site of the image; the others refer to the site in
    which the layer before them left its output. `connect` makes that link.
    """

    activation: Site

    def __init__(self) -> None:
        super().__init__()
        self.image: Site | None = None
        self._source: tuple[Place, ...] = ()

    @property
    def source(self) -> Place:
        """Where the input is stored."""
        if not self._source:
            raise ModelError(
                f"a {type(self).__name__} stands alone: make it a layer of a CapsNet, "
                "which tells it where its input is stored"
            )
        return self._source[0]

    def connect(self, source: Place) -> Place:
        """Learn where the input is stored; tell where the output is."""
        self._source = (source,)
        return self.activation

    def begin(self) -> Place:
        """Own the image, as the first layer of a network."""
        if self.image is None:
            self.image = Site(Kind.IMAGE, signed=False)
        return self.connect(self.image)

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x if self.image is None else self.image(x))

    def compute(self, x: Tensor) -> Tensor:
        """The layer's mathematics, from a stored input to a stored output."""
        raise NotImplementedError

    def entry(self) -> "Convolving | None":
        """The convolution that reads the layer's input first, if one does."""
        return None

    def units(self) -> dict[str, list[Site]]:
        """Sites by the name of the smallest part that can have wordlengths of its own."""
        return {"": [site for site in self.modules() if isinstance(site, Site)]}


class Convolving(Layer):
    """What every layer with a convolution has: weights, biases and their sites."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, stride: int, padding: int
    ) -> None:
        super().__init__()
        self.convolution = Convolution(stride, padding)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.weights = Site(Kind.WEIGHT)
        self.biases = Site(Kind.WEIGHT)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        bound = 1 / math.sqrt(self.weight[0].numel())
        nn.init.uniform_(self.bias, -bound, bound)

    def entry(self) -> "Convolving":
        return self

    def convolve(self, x: Tensor, into: Site | None = None) -> Tensor:
        """Convolution plus bias, not rounded."""
        channels = as_channels(x)
        if channels.shape[1] != self.weight.shape[1]:
            raise ModelError(
                f"a convolution of {self.weight.shape[1]} channels was given "
                f"{channels.shape[1]}: match in_channels to the layer before"
            )
        return self.weights.storage.contract(
            self.convolution,
            self.weights(self.weight),
            Term(channels, self.source),
            plus=Term(self.biases(self.bias)[:, None, None], self.biases),
            into=into,
        )


class ScaleShift(nn.Module):
    """A batch norm with its running statistics folded in: one factor, one offset per channel."""

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(scale)
        self.shift = nn.Parameter(shift)
        self.scales = Site(Kind.WEIGHT)
        self.shifts = Site(Kind.WEIGHT)

    @classmethod
    def fold(cls, norm: nn.BatchNorm2d) -> Self:
        """What a trained batch norm does in evaluation."""
        if norm.running_mean is None or norm.running_var is None:
            raise ModelError("a batch norm without running statistics cannot be folded")
        deviation = torch.sqrt(norm.running_var.double() + norm.eps)
        scale = norm.weight.detach().double() / deviation
        shift = norm.bias.detach().double() - norm.running_mean.double() * scale
        return cls(scale.float(), shift.float())

    def forward(self, x: Tensor, place: Place) -> Tensor:
        return self.scales.storage.contract(
            Scale(),
            self.scales(self.scale),
            Term(x, place),
            plus=Term(self.shifts(self.shift)[:, None, None], self.shifts),
        )


class Conv(Convolving):
    """Convolution, ReLU and, if asked for, batch norm."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel, stride, padding)
        self.norm: nn.BatchNorm2d | ScaleShift | None = (
            nn.BatchNorm2d(out_channels) if batch_norm else None
        )
        self.accumulator = Site(Kind.ACCUMULATOR) if batch_norm else None
        self.activation = Site(Kind.ACTIVATION, signed=batch_norm)

    def fold(self) -> None:
        """Turn the batch norm, if there is one, into its scale and shift."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.norm = ScaleShift.fold(self.norm)

    def compute(self, x: Tensor) -> Tensor:
        y = self.convolve(x, into=self.accumulator).relu_()
        if isinstance(self.norm, nn.BatchNorm2d):
            y = self.norm(y)
        elif self.norm is not None and self.accumulator is not None:
            y = self.norm(y, self.accumulator)
        return self.activation.storage.consume(y)


class ConvCaps(Convolving):
    """Convolution into capsules, each squashed: PrimaryCaps, and the ConvCaps of DeepCaps."""

    def __init__(
        self,
        in_channels: int,
        capsules: int,
        dimension: int,
        *,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__(in_channels, capsules * dimension, kernel, stride, padding)
        self.capsules, self.dimension = capsules, dimension
        self.preactivation = Site(Kind.ACTIVATION)
        self.activation = Site(Kind.ACTIVATION)

    def compute(self, x: Tensor) -> Tensor:
        s: Tensor = self.preactivation(self.convolve(x))
        s = s.unflatten(1, (self.capsules, self.dimension))
        return self.activation.storage.squash(Term(s, self.preactivation), dim=2)
