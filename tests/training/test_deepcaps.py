"""DeepCaps at the size of the paper: too slow to train here, but its steps are taken."""

from pathlib import Path

from qcapsnets.data import Augmentation, ImageSet, Splits, load
from qcapsnets.data.augment import resize
from qcapsnets.models import build
from qcapsnets.training import Recipe, train


def in_colour(images: ImageSet, count: int) -> ImageSet:
    """Digits of 64x64 pixels, the same in three channels."""
    few = images.select(range(count))
    return ImageSet(resize(few.images, 64).repeat(1, 3, 1, 1), few.labels, few.classes)


def test_deepcaps_of_64x64_takes_a_few_steps(tmp_path: Path) -> None:
    digits = load("mnist-mini")
    parts = digits.train, digits.validation, digits.test
    splits = Splits(*(in_colour(part, 8) for part in parts))
    model = build("deepcaps", size=64, channels=3)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    recipe = Recipe(epochs=1, batch_size=3, decoder="convolutional", margin="margin-then-hard")
    result = train(model, splits, recipe, tmp_path, augmentation=Augmentation(shift=5, flip=0.5))
    assert result.steps == 3
    changed = [bool((a != b).any()) for a, b in zip(before, model.parameters(), strict=True)]
    assert all(changed)
