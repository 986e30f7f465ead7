"""Validation comes from training, balanced and repeatable; test is not touched."""

import pytest
import torch
from torch import Tensor

from qcapsnets.data import ImageSet, Splits, split
from qcapsnets.errors import DataError


def numbered(labels: Tensor, size: int = 2) -> ImageSet:
    """Images that carry their own number, so that one can tell where each went."""
    images = torch.zeros(len(labels), 1, size, size, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(len(labels)) % 256
    images[:, 0, 0, 1] = torch.arange(len(labels)) // 256
    return ImageSet(images, labels, classes=10)


def numbers(images: ImageSet) -> list[int]:
    low, high = images.images[:, 0, 0, 0].long(), images.images[:, 0, 0, 1].long()
    return (high * 256 + low).tolist()


TRAIN = numbered(torch.arange(1000) % 10)
TEST = numbered(torch.arange(100) % 10)


def test_validation_and_train_share_the_training_images_out() -> None:
    splits = split(TRAIN, TEST, validation=200)
    train, validation = numbers(splits.train), numbers(splits.validation)
    assert len(validation) == 200
    assert sorted(train + validation) == list(range(1000))
    assert train == sorted(train)


def test_validation_is_balanced() -> None:
    splits = split(TRAIN, TEST, validation=200)
    assert splits.validation.labels.bincount().tolist() == [20] * 10


def test_classes_keep_their_proportions() -> None:
    labels = torch.tensor([0] * 600 + [1] * 300 + [2] * 97 + [3] * 3)
    splits = split(numbered(labels), TEST, validation=100)
    assert splits.validation.labels.bincount().tolist() == [60, 30, 10]
    assert len(split(numbered(labels), TEST, validation=999).train) == 1


def test_the_seed_decides() -> None:
    first, again, other = (split(TRAIN, TEST, 100, seed=seed) for seed in (5, 5, 6))
    assert numbers(first.validation) == numbers(again.validation)
    assert numbers(first.validation) != numbers(other.validation)


def test_the_global_generator_is_left_alone() -> None:
    state = torch.get_rng_state()
    split(TRAIN, TEST, 100)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_test_images_pass_through() -> None:
    assert split(TRAIN, TEST, 100).test is TEST


@pytest.mark.parametrize("validation", [0, -1, 1000, 5000])
def test_an_empty_split_is_refused(validation: int) -> None:
    with pytest.raises(DataError, match=r"leaves an empty split: choose 1\.\.999"):
        split(TRAIN, TEST, validation)


def test_an_impossible_seed_is_refused() -> None:
    with pytest.raises(DataError, match="seed = -1"):
        split(TRAIN, TEST, 100, seed=-1)


def test_splits_must_fit_together() -> None:
    larger = numbered(TEST.labels, size=3)
    with pytest.raises(DataError, match=r"test is ImageSet\(100 images of 1x3x3, 10 classes\)"):
        Splits(TRAIN, TEST, larger)
