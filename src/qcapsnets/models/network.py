"""A network is a sequence of named layers, and nothing else.

Because it is a sequence, what is computed before the first changed layer can be kept and reused.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from qcapsnets.errors import ModelError
from qcapsnets.models.layers import Layer
from qcapsnets.models.sites import Site

UNNAMED = "unnamed"
"""The name of a network that was composed by hand; `build` gives the others theirs."""


class CapsNet(nn.Sequential):
    """Named layers in order, for images of one shape, with capsules of the classes at the end."""

    quantization: object | None = None
    """How it was quantized, in a copy that `qcapsnets.fixedpoint` made."""

    def __init__(
        self, layers: Mapping[str, Layer], *, image_shape: tuple[int, int, int], classes: int
    ) -> None:
        super().__init__()
        self.image_shape, self.classes = image_shape, classes
        self.name = UNNAMED
        self.options: dict[str, Any] = {}
        for name, layer in layers.items():
            self._add(name, layer)
        connect(self)

    def _add(self, name: str, layer: Layer) -> None:
        if any(layer is other for other in self.children()):
            raise ModelError(
                f"layer {name!r} is in the network already: each stores its output in a place of "
                "its own, so make a new one"
            )
        try:
            self.add_module(name, layer)
        except (KeyError, TypeError) as error:
            raise ModelError(f"{name!r} cannot be a layer: {error.args[0]}") from None

    def __getitem__(self, index: Any) -> Any:
        """A layer; or, of a slice, its layers one after the other, which is no whole network."""
        if isinstance(index, slice):
            return nn.Sequential(OrderedDict(list(self.named_children())[index]))
        return super().__getitem__(index)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, channels, height, width] -> class capsules [batch, classes, dimension]."""
        if x.dim() != 4 or tuple(x.shape[1:]) != self.image_shape:
            raise ModelError(
                f"{self.name} was given images of {_shape(x.shape[1:])}, but takes "
                f"{_shape(self.image_shape)}: build it with that size and channels, or resize"
            )
        for layer in self:
            x = layer(x)
        return x


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) + " (channels x height x width)"


def layers_of(model: nn.Sequential) -> dict[str, Layer]:
    """The named layers of a network; anything else in the sequence is an error."""
    layers = dict(model.named_children())
    for name, layer in layers.items():
        if not isinstance(layer, Layer):
            raise ModelError(
                f"layer {name!r} is a {type(layer).__name__}: "
                "a network is a sequence of qcapsnets.models.Layer"
            )
    if not layers:
        raise ModelError("the network has no layer: give it at least one")
    return layers  # type: ignore[return-value]  # checked above, one by one


def connect(model: nn.Sequential) -> None:
    """Tell each layer where its input is stored."""
    first, *others = layers_of(model).values()
    place = first.begin()
    for layer in others:
        place = layer.connect(place)


def sites_of(model: nn.Module) -> Iterator[tuple[str, Site]]:
    """Sites with their full names, such as `digit.votes`."""
    return ((name, site) for name, site in model.named_modules() if isinstance(site, Site))
