"""A user's own data: what is taken, and what is refused with one line."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from qcapsnets.data.convert import image_sets, to_bytes
from qcapsnets.errors import DataError

Pair = tuple[Tensor, Tensor]


class Listed(Dataset[Any]):
    """Items as given, and like many a Dataset no IndexError at the end."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index % len(self.items)]


class Streamed(IterableDataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class Endless(Dataset[Any]):
    def __getitem__(self, index: int) -> Any:
        return index


def pairs(images: Tensor, labels: Tensor) -> list[Any]:
    return [(image, int(label)) for image, label in zip(images, labels, strict=True)]


def test_tensors_get_a_channel_axis_and_classes(own_images: Pair) -> None:
    train, test = image_sets(own_images, own_images)
    assert (train.channels, train.height, train.width, train.classes) == (1, 6, 6, 10)
    assert torch.equal(test.images[:, 0], own_images[0])


def test_classes_cover_both_sets_or_are_as_given(own_images: Pair) -> None:
    images, labels = own_images
    first_five = labels < 5
    train, test = image_sets((images[first_five], labels[first_five]), own_images)
    assert (train.classes, test.classes) == (10, 10)
    assert image_sets(own_images, own_images, classes=12)[0].classes == 12
    with pytest.raises(DataError, match=r"label 9 is outside 0\.\.8"):
        image_sets(own_images, own_images, classes=9)


def test_datasets_of_all_kinds_agree_with_tensors(own_images: Pair) -> None:
    images, labels = own_images
    items = pairs(images.unsqueeze(1), labels)
    for dataset in (TensorDataset(*own_images), Listed(items), Streamed(items)):
        train, _ = image_sets(dataset, own_images)
        assert torch.equal(train.images[:, 0], images)
        assert torch.equal(train.labels, labels)


def test_floats_become_the_nearest_bytes() -> None:
    every_byte = torch.arange(256, dtype=torch.uint8)
    for precision in (torch.float32, torch.float64, torch.float16):
        assert torch.equal(to_bytes(every_byte.to(precision) / 255), every_byte)


def test_labels_of_any_whole_type(own_images: Pair) -> None:
    images, labels = own_images
    train, _ = image_sets((images, labels.to(torch.uint8)), own_images)
    assert train.labels.dtype == torch.int64


@pytest.mark.parametrize("value", [float("nan"), 1.01, -0.01, 255.0, float("inf")])
def test_floats_outside_0_to_1(own_images: Pair, value: float) -> None:
    images = torch.zeros(40, 6, 6)
    images[3, 2, 1] = value
    with pytest.raises(DataError, match=r"train: float images hold NaN or values outside \[0, 1\]"):
        image_sets((images, own_images[1]), own_images)


IMAGE = torch.zeros(6, 6, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (torch.zeros(3), "Tensor given: give a pair of tensors"),
        ((IMAGE, [1, 2]), "tuple given: give a pair of tensors"),
        ((IMAGE.long().expand(2, 6, 6), torch.zeros(2)), r"images are torch\.int64"),
        ((IMAGE, torch.zeros(6).long()), r"images of shape \[6, 6\]"),
        ((IMAGE.expand(2, 6, 6), torch.zeros(2)), "labels are torch.float32: give whole numbers"),
        ((IMAGE.expand(2, 6, 6), torch.zeros(3).long()), r"labels of shape \[3\] for 2 images"),
        ((IMAGE.expand(0, 6, 6), torch.zeros(0).long()), "give one image or more"),
        (Listed([]), "the Dataset is empty"),
        (Listed([(IMAGE, 0), (IMAGE[:5], 0)]), r"image 1 has shape \[5, 6\], the first \[6, 6\]"),
        (Listed([(IMAGE, 0.5)]), "item 0 of the Dataset is not a pair"),
        (Listed([IMAGE]), "item 0 of the Dataset is not a pair"),
        (Listed([([[0]], 1)]), "item 0 of the Dataset is not a pair"),
        (Listed([7]), "item 0 of the Dataset is not a pair"),
        (Endless(), "Endless has no length"),
    ],
)
def test_refuses_with_one_line(source: Any, message: str, own_images: Pair) -> None:
    with pytest.raises(DataError, match=f"test: .*{message}") as caught:
        image_sets(own_images, source)
    assert "\n" not in str(caught.value)
