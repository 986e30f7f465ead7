"""How many images a network gets right."""

import pytest
import torch
from tests.networks import tiny_deep

from qcapsnets.data import ImageSet, Splits
from qcapsnets.models import CapsNet, lengths
from qcapsnets.training import accuracy, predict


def test_the_longest_class_capsule_is_the_prediction(tiny: CapsNet, small_digits: Splits) -> None:
    images = small_digits.test
    with torch.no_grad():
        expected = lengths(tiny(images.inputs())).argmax(1)
    assert torch.equal(predict(tiny, images.images), expected)


@pytest.mark.parametrize("batch_size", [1, 7, 50, 1000])
def test_batches_change_nothing(tiny: CapsNet, small_digits: Splits, batch_size: int) -> None:
    images = small_digits.test.images[:50]
    assert torch.equal(predict(tiny, images, batch_size=batch_size), predict(tiny, images))


def test_accuracy_is_the_share_of_right_labels(tiny: CapsNet, small_digits: Splits) -> None:
    images = small_digits.test.images[:8]
    labels = predict(tiny, images)
    labels[:2] = (labels[:2] + 1) % 10
    assert accuracy(tiny, ImageSet(images, labels, 10)) == 0.75


def test_measuring_changes_neither_mode_nor_weights_nor_gradients(small_digits: Splits) -> None:
    model = tiny_deep()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for training in (True, False):
        model.train(training)
        accuracy(model, small_digits.test)
        assert model.training is training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_images_follow_the_type_of_the_weights(small_digits: Splits, dtype: torch.dtype) -> None:
    model = tiny_deep().to(dtype)
    assert predict(model, small_digits.test.images[:5]).shape == (5,)


def test_no_image_is_no_prediction(tiny: CapsNet, small_digits: Splits) -> None:
    assert predict(tiny, small_digits.test.images[:0]).shape == (0,)
