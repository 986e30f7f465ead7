"""Augmentation moves what it should, as far as it should, the same way each time."""

import math

import pytest
import torch
from torch import Tensor

from qcapsnets.data import Augmentation, load, to_inputs
from qcapsnets.data.augment import resize
from qcapsnets.errors import DataError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def digits() -> Tensor:
    return to_inputs(load("mnist-mini").test.images[:200])


def shifted(image: Tensor, down: int, right: int) -> Tensor:
    """The slow way: pixel by pixel, 0 from outside."""
    _, height, width = image.shape
    result = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            source_row, source_column = row - down, column - right
            if 0 <= source_row < height and 0 <= source_column < width:
                result[:, row, column] = image[:, source_row, source_column]
    return result


def test_the_default_returns_its_input(digits: Tensor) -> None:
    assert Augmentation()(digits, generator=seeded()) is digits


def test_shifts_move_pixels_exactly() -> None:
    images = torch.rand(60, 2, 4, 6, generator=seeded())
    moved = Augmentation(shift=1)(images, generator=seeded())
    offsets = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    found = set()
    for before, after in zip(images, moved, strict=True):
        fitting = [offset for offset in offsets if torch.equal(shifted(before, *offset), after)]
        assert len(fitting) == 1
        found.add(fitting[0])
    assert found == set(offsets)


def test_flips_all_with_certainty(digits: Tensor) -> None:
    flipped = Augmentation(flip=1.0)(digits, generator=seeded())
    assert torch.equal(flipped, digits.flip(-1))


def test_flips_as_often_as_asked() -> None:
    images = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).expand(4000, 1, 1, 2)
    flipped = Augmentation(flip=0.2)(images, generator=seeded())
    assert flipped[:, 0, 0, 0].mean().item() == pytest.approx(0.2, abs=0.02)


def test_a_small_rotation_changes_little(digits: Tensor) -> None:
    turned = Augmentation(rotate=2.0)(digits, generator=seeded())
    difference = (turned - digits).abs().mean(dim=(1, 2, 3))
    assert difference.max() > 0
    assert difference.mean() < 0.02
    assert turned.sum().item() == pytest.approx(digits.sum().item(), rel=0.01)


def test_rotation_turns_by_the_angle_whatever_the_aspect() -> None:
    """A point at the end of a lever ends where the drawn angle says."""
    images = torch.zeros(500, 1, 41, 81)
    images[:, :, 18:23, 58:63] = 1.0  # a spot 20 pixels right of the centre
    turned = Augmentation(rotate=30.0)(images, generator=seeded())[:, 0]
    rows = (turned.sum(2) * (torch.arange(41) - 20)).sum(1) / turned.sum((1, 2))
    columns = (turned.sum(1) * (torch.arange(81) - 40)).sum(1) / turned.sum((1, 2))
    angles = torch.atan2(rows, columns) * 180 / math.pi
    assert torch.allclose(torch.hypot(rows, columns), torch.tensor(20.0), atol=0.2)
    assert angles.abs().max() <= 30.5
    assert angles.max() > 25
    assert angles.min() < -25


def test_everything_at_once_stays_in_range_and_repeats(digits: Tensor) -> None:
    augmentation = Augmentation(shift=5, rotate=2.0, flip=0.5)
    first, again, other = (augmentation(digits, generator=seeded(s)) for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == digits.shape
    assert first.dtype == digits.dtype
    assert first.min() >= 0
    assert first.max() <= 1


def test_draws_differ_between_images(digits: Tensor) -> None:
    same = digits[:1].expand(50, -1, -1, -1)
    augmented = Augmentation(shift=2, rotate=2.0)(same, generator=seeded())
    assert len({image.numpy().tobytes() for image in augmented}) == 50


def test_the_input_and_the_global_generator_are_left_alone(digits: Tensor) -> None:
    before, state = digits.clone(), torch.get_rng_state()
    Augmentation(shift=2, rotate=2.0, flip=0.5)(digits, generator=seeded())
    assert torch.equal(digits, before)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shift": -1}, "shift = -1"),
        ({"rotate": -2.0}, "rotate = -2"),
        ({"rotate": math.nan}, "rotate = nan"),
        ({"flip": 1.5}, "flip = 1.5: give a probability"),
    ],
)
def test_impossible_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Augmentation(**settings)  # type: ignore[arg-type]


def test_refuses_what_it_cannot_augment() -> None:
    with pytest.raises(DataError, match="augment floats"):
        Augmentation(shift=1)(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), generator=seeded())
    with pytest.raises(DataError, match="augment floats"):
        Augmentation(shift=1)(torch.zeros(4, 4), generator=seeded())
    with pytest.raises(DataError, match="out of sight"):
        Augmentation(shift=4)(torch.zeros(2, 1, 4, 8), generator=seeded())


def test_resize_interpolates_bytes() -> None:
    images = torch.tensor([0, 100], dtype=torch.uint8).view(1, 1, 1, 2).expand(250, 3, 2, 2)
    resized = resize(images, 4)
    assert resized.dtype == torch.uint8
    assert resized.shape == (250, 3, 4, 4)
    assert (resized == torch.tensor([0, 25, 75, 100])).all()


def test_resize_keeps_a_constant_and_shrinks() -> None:
    white = torch.full((3, 1, 28, 28), 255, dtype=torch.uint8)
    for size in (7, 28, 64):
        assert (resize(white, size) == 255).all()
    assert resize(white, 28) is white
    with pytest.raises(DataError, match="size = 0"):
        resize(white, 0)
