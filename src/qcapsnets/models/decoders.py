"""Decoders: they draw the image again from the capsule of its class, in training only."""

from torch import Tensor, nn

from qcapsnets.errors import ModelError

CONVOLUTIONAL_SIZES = {28: 7, 32: 8, 64: 16}
"""Image sizes that the convolutional decoder draws, and the map that it starts from."""


def _masked(v: Tensor, labels: Tensor) -> Tensor:
    """The capsule of each image's class: [batch, classes, dimension] -> [batch, dimension]."""
    return v[range_of(labels), labels]


def range_of(labels: Tensor) -> Tensor:
    """0, 1, 2, ... one for each label, on its device."""
    return labels.new_ones(labels.shape).cumsum(0) - 1


class Decoder(nn.Module):
    """Draws an image in [0, 1] from the capsule of a class; which class it was is masked in."""

    def __init__(self, classes: int, dimension: int, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.classes, self.dimension, self.image_shape = classes, dimension, image_shape
        self.network = self.build()

    def build(self) -> nn.Sequential:
        """The layers from [batch, inputs] to something of the image's size."""
        raise NotImplementedError

    def inputs(self, v: Tensor, labels: Tensor) -> Tensor:
        """What the network sees of the capsules."""
        raise NotImplementedError

    def forward(self, v: Tensor, labels: Tensor) -> Tensor:
        image: Tensor = self.network(self.inputs(v, labels))
        return image.view(-1, *self.image_shape)


class FullyConnectedDecoder(Decoder):
    """512, 1024, image [Sabour 2017]; all other capsules are masked with zeros."""

    def build(self) -> nn.Sequential:
        channels, height, width = self.image_shape
        return nn.Sequential(
            nn.Linear(self.classes * self.dimension, 512),
            nn.ReLU(inplace=True),
            nn.Linear(512, 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, channels * height * width),
            nn.Sigmoid(),
        )

    def inputs(self, v: Tensor, labels: Tensor) -> Tensor:
        mask = nn.functional.one_hot(labels, self.classes).to(v.dtype)
        return (v * mask.unsqueeze(-1)).flatten(1)


class ConvolutionalDecoder(Decoder):
    """Deconvolutions from the one capsule of the class, without its label [Rajasegaran 2019]."""

    def build(self) -> nn.Sequential:
        channels, height, width = self.image_shape
        start = CONVOLUTIONAL_SIZES.get(height)
        if start is None or height != width:
            allowed = ", ".join(map(str, CONVOLUTIONAL_SIZES))
            raise ModelError(
                f"the convolutional decoder cannot draw {height}x{width}: square images of "
                f"{allowed} only; use the fully connected one"
            )
        return nn.Sequential(
            nn.Linear(self.dimension, start * start * 16),
            nn.ReLU(inplace=True),
            nn.Unflatten(1, (16, start, start)),
            nn.ConvTranspose2d(16, 64, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(16, channels, 3, padding=1),
            nn.Sigmoid(),
        )

    def inputs(self, v: Tensor, labels: Tensor) -> Tensor:
        return _masked(v, labels)


DECODERS: dict[str, type[Decoder]] = {
    "fully-connected": FullyConnectedDecoder,
    "convolutional": ConvolutionalDecoder,
}
