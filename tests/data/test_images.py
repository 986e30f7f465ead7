"""ImageSet checks itself, and pixels become fixed-point numbers exactly."""

import pytest
import torch

from qcapsnets.data import ImageSet, load, to_inputs
from qcapsnets.errors import DataError


def make(
    shape: tuple[int, ...] = (4, 1, 5, 6),
    labels: tuple[int, ...] = (0, 1, 2, 2),
    classes: int = 3,
    pixels: torch.dtype = torch.uint8,
    label_type: torch.dtype = torch.int64,
) -> ImageSet:
    images = torch.zeros(shape, dtype=pixels)
    return ImageSet(images, torch.tensor(labels, dtype=label_type), classes)


def test_describes_itself() -> None:
    images = make()
    assert (len(images), images.channels, images.height, images.width) == (4, 1, 5, 6)
    assert repr(images) == "ImageSet(4 images of 1x5x6, 3 classes)"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shape": (4, 5, 6)}, r"shape \[4, 5, 6\]: give \[images, channels, height, width\]"),
        ({"shape": (0, 1, 5, 6), "labels": ()}, "empty: give one image or more"),
        ({"pixels": torch.float32}, "images are torch.float32: give bytes"),
        ({"labels": (0, 1, 2)}, r"labels of shape \[3\] for 4 images"),
        ({"label_type": torch.int32}, "labels are torch.int32: give torch.int64"),
        ({"labels": (0, 1, 2, 3)}, r"label 3 is outside 0\.\.2"),
        ({"labels": (0, 1, 2, -1)}, r"label -1 is outside 0\.\.2"),
        ({"labels": (0, 0, 0, 0), "classes": 1}, "classes = 1: there must be 2 or more"),
    ],
)
def test_refuses_what_is_no_set_of_images(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        make(**wrong)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_select_keeps_the_order_asked_for() -> None:
    chosen = make().select([2, 0])
    assert chosen.labels.tolist() == [2, 0]
    assert chosen.classes == 3
    assert make().select(torch.tensor([3])).labels.tolist() == [2]


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "one index or more"),
        ([4], r"there are images 0\.\.3"),
        ([-1], r"there are images 0\.\.3"),
        (torch.tensor([True, False, False, True]), "give indices as torch.int64"),
    ],
)
def test_select_refuses(indices: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make().select(indices)


def test_a_pixel_is_a_fixed_point_number_with_8_fractional_bits() -> None:
    every_byte = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    inputs = to_inputs(every_byte)
    assert inputs.dtype == torch.float32
    assert torch.equal((inputs * 256).long(), every_byte.long())
    assert inputs.max() == 255 / 256


def test_inputs_of_real_images() -> None:
    images = load("mnist-mini").test
    assert torch.equal(images.inputs() * 256, images.images.float())


def test_inputs_are_made_from_bytes_only() -> None:
    with pytest.raises(DataError, match=r"pixels are torch\.float32"):
        to_inputs(torch.zeros(1, 1, 2, 2))
