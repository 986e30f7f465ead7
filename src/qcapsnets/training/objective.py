"""What is trained: a network and, while it learns, the decoder that draws its images again."""

import torch
from torch import Tensor, nn

from qcapsnets.errors import TrainingError
from qcapsnets.models import DECODERS, CapsNet
from qcapsnets.training.recipe import Recipe


class Objective(nn.Module):
    """A network and its decoder. The loss is taken outside, of what both give, in float32."""

    def __init__(self, model: CapsNet, recipe: Recipe) -> None:
        super().__init__()
        self.model = model
        dimension = _class_dimension(model)
        self.decoder = (
            _decoder(model, dimension, recipe.decoder, recipe.seed)
            if recipe.decoder and recipe.reconstruction
            else None
        )

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Class capsules, and the images as drawn from those of their labels."""
        v = self.model(images)
        return v, None if self.decoder is None else self.decoder(v, labels)


def _class_dimension(model: CapsNet) -> int:
    """The size of a class capsule; a network that ends in something else is an error."""
    weight = next(model.parameters())
    blank = torch.zeros(1, *model.image_shape, device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        v: Tensor = model.eval()(blank)
    if v.dim() != 3 or v.shape[1] != model.classes:
        raise TrainingError(
            f"{model.name} gives {'x'.join(map(str, v.shape[1:]))} for an image, not "
            f"{model.classes} classes x dimension: end it with a RoutedCaps of that many outputs"
        )
    return v.shape[2]


def _decoder(model: CapsNet, dimension: int, name: str, seed: int) -> nn.Module:
    """A fresh decoder, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DECODERS[name](model.classes, dimension, model.image_shape)
