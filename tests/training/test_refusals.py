"""Losses that are not finite, and data, networks and folders that do not fit."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.networks import tiny, tiny_deep
from tests.training.runs import SHORT

from qcapsnets.data import Splits
from qcapsnets.errors import ModelError, TrainingError
from qcapsnets.models import CapsNet, Conv, ConvCaps, Layer, RoutedCaps
from qcapsnets.models.weights import load_model
from qcapsnets.training import Progress, accuracy, train
from qcapsnets.training.checkpoint import load_checkpoint

# Loss that is not finite


def test_a_loss_that_is_not_finite_stops_and_keeps_a_good_checkpoint(
    few: Splits, tmp_path: Path
) -> None:
    recipe = replace(SHORT, learning_rate=1e20, checkpoint_every=1)
    with pytest.raises(
        TrainingError,
        match=r"the loss is (nan|inf) after step 1: train with a lower learning rate .*"
        r"the last good checkpoint, of step 0, is .*checkpoint\.safetensors",
    ) as error:
        train(tiny(), few, recipe, tmp_path)
    assert "\n" not in str(error.value)
    assert_good(tmp_path, few)
    assert not (tmp_path / "model.safetensors").exists()


def assert_good(folder: Path, few: Splits) -> None:
    """The checkpoint can be read, and its weights give capsules that are finite."""
    file = load_checkpoint(folder / "checkpoint.safetensors")
    model = tiny()
    prefix = "module.model."
    model.load_state_dict(
        {n.removeprefix(prefix): t for n, t in file.tensors.items() if n.startswith(prefix)}
    )
    assert model(few.train.inputs()).isfinite().all()


def test_between_checkpoints_the_step_is_named(few: Splits, tmp_path: Path) -> None:
    def poison(progress: Progress) -> None:
        if progress.step == 4:
            next(model.parameters()).data.fill_(float("nan"))

    model = tiny()
    with pytest.raises(TrainingError, match=r"the loss is nan at step 5: .* of step 3, is"):
        train(model, few, SHORT, tmp_path, observe=poison)
    assert_good(tmp_path, few)
    assert accuracy(load_model(tmp_path / "model.safetensors")[0], few.validation) >= 0


def test_the_last_update_is_checked_too(few: Splits, tmp_path: Path) -> None:
    recipe = replace(SHORT, epochs=1, batch_size=100, learning_rate=1e20)
    with pytest.raises(TrainingError, match="after step 1"):
        train(tiny(), few, recipe, tmp_path)
    assert not (tmp_path / "model.safetensors").exists()
    assert not (tmp_path / "training.json").exists()


def test_a_model_that_is_bad_from_the_start_writes_nothing(few: Splits, tmp_path: Path) -> None:
    model = tiny()
    next(model.parameters()).data[0] = float("nan")
    with pytest.raises(
        TrainingError, match=r"nan before the first step: repair .*; nothing was written"
    ):
        train(model, few, SHORT, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# What does not fit


def test_a_batch_larger_than_the_data_is_an_error(few: Splits, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="batch_size is 101, but there are only 100 training"):
        train(tiny(), few, replace(SHORT, batch_size=101), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_batch_of_all_images_is_none(few: Splits, tmp_path: Path) -> None:
    assert train(tiny(), few, replace(SHORT, batch_size=100), tmp_path).steps == 2


def test_a_last_batch_of_one_image_is_trained_on(few: Splits, tmp_path: Path) -> None:
    """Batch norm included."""
    result = train(tiny_deep(), few, replace(SHORT, batch_size=33, epochs=1), tmp_path)
    assert result.steps == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 28}, r"images of \(1, 14, 14\) .* takes \(1, 28, 28\)"),
        ({"channels": 3}, r"images of \(1, 14, 14\) .* takes \(3, 14, 14\)"),
        ({"classes": 9}, r"10 classes, shallowcaps takes .* and 9"),
    ],
)
def test_data_of_another_shape_is_an_error(
    few: Splits, tmp_path: Path, options: dict[str, int], said: str
) -> None:
    with pytest.raises(TrainingError, match=said):
        train(tiny(**options), few, SHORT, tmp_path)


def test_a_network_that_does_not_end_in_classes_is_an_error(few: Splits, tmp_path: Path) -> None:
    first = ConvCaps(1, 1, 4, kernel=5, stride=8)
    networks: dict[str, dict[str, Layer]] = {
        "10x10x10": {"conv": Conv(1, 10, kernel=5)},
        "9x2": {"caps": first, "digit": RoutedCaps(4, 4, 9, 2)},
    }
    for given, layers in networks.items():
        model = CapsNet(layers, image_shape=(1, 14, 14), classes=10)
        with pytest.raises(TrainingError, match=f"unnamed gives {given} for an image, not 10 cl"):
            train(model, few, SHORT, tmp_path)


def test_a_decoder_that_cannot_draw_is_an_error_at_the_start(few: Splits, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot draw 14x14"):
        train(tiny(), few, replace(SHORT, decoder="convolutional"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_file_in_the_place_of_the_folder_is_an_error(few: Splits, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(TrainingError, match=r"cannot write .*run: ") as error:
        train(tiny(), few, SHORT, tmp_path / "run")
    assert "\n" not in str(error.value)
    assert (tmp_path / "run").read_text() == "mine"


def test_a_second_training_in_the_folder_is_refused(few: Splits, tmp_path: Path) -> None:
    def second(progress: Progress) -> None:
        if progress.step == 1:
            with pytest.raises(TrainingError, match="another process works in"):
                train(tiny(), few, SHORT, tmp_path)

    first = train(tiny(), few, SHORT, tmp_path, observe=second)
    assert first == train(tiny(), few, SHORT, tmp_path)
