"""How many images a network gets right."""

import torch
from torch import Tensor

from qcapsnets.data import ImageSet, to_inputs
from qcapsnets.models import CapsNet, lengths

BATCH = 100


def predict(model: CapsNet, images: Tensor, *, batch_size: int = BATCH) -> Tensor:
    """The class of each image (bytes [n, channels, height, width]), without gradients."""
    weight = next(model.parameters())
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            parts = [
                lengths(model(to_inputs(part.to(weight.device)).to(weight.dtype))).argmax(1)
                for part in images.split(batch_size)
            ]
    finally:
        model.train(training)
    return torch.cat(parts).cpu()


def accuracy(model: CapsNet, images: ImageSet, *, batch_size: int = BATCH) -> float:
    """Share of images whose longest class capsule is that of their label."""
    right = predict(model, images.images, batch_size=batch_size) == images.labels.cpu()
    return right.double().mean().item()
