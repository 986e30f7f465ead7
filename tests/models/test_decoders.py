"""Decoders draw images of the right shape, from the capsule of the class alone."""

import pytest
import torch

from qcapsnets.errors import ModelError
from qcapsnets.models import DECODERS


def capsules(classes: int = 10) -> torch.Tensor:
    return torch.rand(3, classes, 16, generator=torch.Generator().manual_seed(0))


LABELS = torch.tensor([0, 4, 9])


@pytest.mark.parametrize("name", ["fully-connected", "convolutional"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64)])
def test_an_image_of_the_right_shape_is_drawn(name: str, shape: tuple[int, int, int]) -> None:
    drawn = DECODERS[name](10, 16, shape)(capsules(), LABELS)
    assert drawn.shape == (3, *shape)
    assert drawn.min() >= 0
    assert drawn.max() <= 1


def test_the_fully_connected_one_draws_any_shape() -> None:
    drawn = DECODERS["fully-connected"](10, 16, (2, 7, 9))(capsules(), LABELS)
    assert drawn.shape == (3, 2, 7, 9)


@pytest.mark.parametrize("shape", [(1, 14, 14), (1, 28, 32)])
def test_the_convolutional_one_says_what_it_can_draw(shape: tuple[int, int, int]) -> None:
    said = f"cannot draw {shape[1]}x{shape[2]}: square images of 28, 32, 64 only"
    with pytest.raises(ModelError, match=said):
        DECODERS["convolutional"](10, 16, shape)


@pytest.mark.parametrize("name", DECODERS)
def test_only_the_capsule_of_the_class_counts(name: str) -> None:
    torch.manual_seed(0)
    decoder = DECODERS[name](10, 16, (1, 28, 28))
    v = capsules()
    others = v.clone()
    for image, label in enumerate(LABELS):
        others[image, torch.arange(10) != label] = 7
    assert torch.equal(decoder(others, LABELS), decoder(v, LABELS))
    assert not torch.equal(decoder(v + 0.5, LABELS), decoder(v, LABELS))


def test_which_class_it_was_is_seen_by_the_fully_connected_one_only() -> None:
    v = torch.ones(1, 10, 16)
    for name, same in (("fully-connected", False), ("convolutional", True)):
        torch.manual_seed(0)
        decoder = DECODERS[name](10, 16, (1, 28, 28))
        drawn = [decoder(v, torch.tensor([label])) for label in (2, 3)]
        assert torch.equal(*drawn) is same


def test_the_fully_connected_one_is_that_of_sabour() -> None:
    decoder = DECODERS["fully-connected"](10, 16, (1, 28, 28))
    assert sum(p.numel() for p in decoder.parameters()) == 1_411_344
