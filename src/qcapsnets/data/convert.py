"""A user's own images: a pair of tensors, or a torch Dataset, as an `ImageSet`."""

import operator
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from qcapsnets.data.images import ImageSet
from qcapsnets.errors import DataError

Source: TypeAlias = tuple[Tensor, Tensor] | Dataset[Any]


def image_sets(
    train: Source, test: Source, classes: int | None = None
) -> tuple[ImageSet, ImageSet]:
    """Both sets with the same classes: as many as given, else as their labels need."""
    train_images, train_labels = _named("train", train)
    test_images, test_labels = _named("test", test)
    if classes is None:
        classes = 1 + max(int(train_labels.max()), int(test_labels.max()))
    return (
        ImageSet(train_images, train_labels, classes),
        ImageSet(test_images, test_labels, classes),
    )


def to_bytes(images: Tensor) -> Tensor:
    """Bytes as they are; floats within [0, 1] as the nearest of 0..255."""
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point():
        raise DataError(f"images are {images.dtype}: give torch.uint8, or floats within [0, 1]")
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise DataError("float images hold NaN or values outside [0, 1]: scale them to [0, 1]")
    return (images.float() * 255).round().to(torch.uint8)


def _named(part: str, source: Source) -> tuple[Tensor, Tensor]:
    try:
        images, labels = _tensors(source)
        images = _with_channels(images)
        return to_bytes(images), _as_labels(labels, len(images))
    except DataError as error:
        raise DataError(f"{part}: {error}") from error


def _tensors(source: Source) -> tuple[Tensor, Tensor]:
    if isinstance(source, Dataset):
        return _collect(source)
    match source:
        case [Tensor() as images, Tensor() as labels]:
            return images.detach().cpu(), labels.detach().cpu()
    raise DataError(
        f"{type(source).__name__} given: give a pair of tensors (images, labels) or a torch Dataset"
    )


def _collect(dataset: Dataset[Any]) -> tuple[Tensor, Tensor]:
    images: list[Tensor] = []
    labels: list[int] = []
    for index, item in enumerate(_items(dataset)):
        image, label = _item(index, item)
        if images and image.shape != images[0].shape:
            raise DataError(
                f"image {index} has shape {list(image.shape)}, the first {list(images[0].shape)}: "
                "give all images the same shape"
            )
        images.append(to_bytes(image.detach().cpu()))
        labels.append(label)
    if not images:
        raise DataError("the Dataset is empty: give one image or more")
    return torch.stack(images), torch.tensor(labels)


def _items(dataset: Dataset[Any]) -> Iterator[Any]:
    if isinstance(dataset, IterableDataset):
        return iter(dataset)
    if not hasattr(dataset, "__len__"):
        raise DataError(f"{type(dataset).__name__} has no length: give it a __len__")
    return (dataset[index] for index in range(len(dataset)))


def _item(index: int, item: Any) -> tuple[Tensor, int]:
    try:
        image, label = item
        if isinstance(image, Tensor):
            return image, operator.index(label)
    except (TypeError, ValueError):
        pass
    raise DataError(
        f"item {index} of the Dataset is not a pair (image tensor, whole-number label): "
        "convert it in the Dataset"
    )


def _with_channels(images: Tensor) -> Tensor:
    if images.ndim not in (3, 4):
        raise DataError(
            f"images of shape {list(images.shape)}: "
            "give [images, height, width] or [images, channels, height, width]"
        )
    return images.unsqueeze(1) if images.ndim == 3 else images


def _as_labels(labels: Tensor, images: int) -> Tensor:
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise DataError(f"labels are {labels.dtype}: give whole numbers")
    if labels.shape != (images,) or images == 0:
        raise DataError(
            f"labels of shape {list(labels.shape)} for {images} images: "
            "give one image or more, and one label for each"
        )
    return labels.to(torch.int64)
