"""An interrupted training goes on to the same bits, and never from another's checkpoint."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.networks import tiny, tiny_deep
from tests.training.runs import SHORT, files, metrics, stop_after
from torch import Tensor, nn

from qcapsnets.data import Augmentation, ImageSet, Splits
from qcapsnets.errors import TrainingError
from qcapsnets.models import CapsNet, ConvCaps, Kind, Layer, RoutedCaps, Site
from qcapsnets.models.weights import load_model, load_weights
from qcapsnets.training import Progress, accuracy, train

# Going on


Build = Callable[[], CapsNet]


class Dropout(Layer):
    """A layer of a user's own that draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.activation = Site(Kind.ACTIVATION)

    def compute(self, x: Tensor) -> Tensor:
        output: Tensor = self.activation(self.dropout(x))
        return output


def composed(dropout: bool = True, dimension: int = 4) -> CapsNet:
    """A network without a name."""
    torch.manual_seed(0)
    layers: dict[str, Layer] = {
        "first": ConvCaps(1, 2, 4, kernel=5, stride=3),
        "last": RoutedCaps(2 * 4 * 4, 4, 10, dimension),
    }
    if dropout:
        layers = {"first": layers["first"], "drop": Dropout(), "last": layers["last"]}
    return CapsNet(layers, image_shape=(1, 14, 14), classes=10)


@pytest.mark.parametrize(
    ("build", "decoder"),
    [(tiny, None), (tiny_deep, "fully-connected"), (composed, None)],
    ids=["shallow", "deep, with decoder", "own, with dropout"],
)
def test_a_training_that_was_interrupted_ends_with_the_same_bits(
    few: Splits, tmp_path: Path, build: Build, decoder: str | None
) -> None:
    recipe = replace(SHORT, decoder=decoder)
    augmentation = Augmentation(shift=2, rotate=5, flip=0.2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = train(build(), few, recipe, whole, augmentation=augmentation)
    for step in (1, 3, 4, 7):
        with pytest.raises(KeyboardInterrupt):
            train(build(), few, recipe, parts, augmentation=augmentation, observe=stop_after(step))
    result = train(build(), few, recipe, parts, augmentation=augmentation)
    assert replace(result, folder=expected.folder) == expected
    assert files(parts) == files(whole)
    assert without_times(metrics(parts)) == without_times(metrics(whole))


def without_times(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def test_a_resumed_training_goes_on_from_its_checkpoint(few: Splits, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), few, SHORT, tmp_path, observe=stop_after(5))
    seen: list[Progress] = []
    train(tiny(seed=1), few, SHORT, tmp_path, observe=seen.append)  # its own weights do not count
    assert [p.step for p in seen] == [4, 5, 6, 7, 8]


def test_how_often_checkpoints_are_written_changes_no_weight(few: Splits, tmp_path: Path) -> None:
    train(tiny(), few, SHORT, tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        train(
            tiny(), few, replace(SHORT, checkpoint_every=2), tmp_path / "b", observe=stop_after(5)
        )
    train(tiny(), few, replace(SHORT, checkpoint_every=50), tmp_path / "b")
    for name in ("model.safetensors", "checkpoint.safetensors"):
        assert files(tmp_path / "a")[name] == files(tmp_path / "b")[name]


def test_a_finished_training_returns_at_once(few: Splits, tmp_path: Path) -> None:
    first = train(tiny(), few, SHORT, tmp_path)
    before, lines = files(tmp_path), metrics(tmp_path)
    seen: list[Progress] = []
    model = tiny(seed=3)
    again = train(model, few, SHORT, tmp_path, observe=seen.append)
    assert again == first
    assert seen == []
    assert (files(tmp_path), metrics(tmp_path)) == (before, lines)
    assert accuracy(model, few.validation) == first.validation_accuracy


def test_another_seed_is_another_training(few: Splits, tmp_path: Path) -> None:
    """In the order of images alone, as there is neither a decoder nor an augmentation."""
    for seed in (0, 1):
        train(tiny(), few, replace(SHORT, seed=seed, epochs=1), tmp_path / str(seed))
    a, b = (load_model(tmp_path / str(seed) / "model.safetensors")[0] for seed in (0, 1))
    assert not torch.equal(a.state_dict()["digit.weight"], b.state_dict()["digit.weight"])


def test_half_written_files_of_a_killed_run_are_removed(few: Splits, tmp_path: Path) -> None:
    (tmp_path / ".checkpoint.safetensors.99999.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    train(tiny(), few, replace(SHORT, epochs=1), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "checkpoint.safetensors",
        "metrics.jsonl",
        "model.safetensors",
        "notes.txt",
        "training.json",
    ]


def test_the_clock_goes_on_after_a_resume(few: Splits, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), few, SHORT, tmp_path, observe=stop_after(4))
    lines = metrics(tmp_path)
    lines[0]["seconds"] = 1000.0
    (tmp_path / "metrics.jsonl").write_text(json.dumps(lines[0]) + "\n")
    train(tiny(), few, SHORT, tmp_path)
    assert all(line["seconds"] >= 1000 for line in metrics(tmp_path) if "seconds" in line)


# Another training's checkpoint


@pytest.fixture
def begun(few: Splits, tmp_path: Path) -> Path:
    """A folder with a training that was interrupted."""
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), few, SHORT, tmp_path, observe=stop_after(4))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epochs": 3}, "recipe.epochs is 2 there and 3 here"),
        ({"learning_rate": 0.5}, "recipe.learning_rate is 0.001 there and 0.5 here"),
        ({"seed": 4}, "recipe.seed is 0 there and 4 here"),
        ({"augment": False}, "recipe.augment is True there and False here"),
    ],
)
def test_another_recipe_is_refused(
    few: Splits, begun: Path, change: dict[str, Any], said: str
) -> None:
    before = files(begun)
    with pytest.raises(TrainingError, match=f"is of another training: {said}"):
        train(tiny(), few, replace(SHORT, **change), begun)
    assert files(begun) == before


def test_another_model_is_refused(few: Splits, begun: Path) -> None:
    with pytest.raises(TrainingError, match="model is 'shallowcaps' there and 'deepcaps' here"):
        train(tiny_deep(), few, SHORT, begun)
    with pytest.raises(TrainingError, match=r"options\.routing_bias is None there and True here"):
        train(tiny(routing_bias=True), few, SHORT, begun)


def test_other_augmentation_is_refused(few: Splits, begun: Path) -> None:
    with pytest.raises(TrainingError, match=r"augmentation\.shift is 0 there and 2 here"):
        train(tiny(), few, SHORT, begun, augmentation=Augmentation(shift=2))


@pytest.mark.parametrize("part", ["train", "validation"])
def test_other_data_is_refused(few: Splits, begun: Path, part: str) -> None:
    images = getattr(few, part)
    changed = ImageSet(images.images.clone(), images.labels, images.classes)
    changed.images[7, 0, 5, 5] += 1
    with pytest.raises(TrainingError, match=rf"data.{part} is '\d+-\w+' there and '\d+-\w+' here"):
        train(tiny(), replace(few, **{part: changed}), SHORT, begun)


def test_another_network_without_a_name_is_refused(few: Splits, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(composed(), few, SHORT, tmp_path, observe=stop_after(4))
    with pytest.raises(
        TrainingError, match=r"another model: 'model\.last\.weight' is .*, 4\) there"
    ):
        train(composed(dimension=6), few, SHORT, tmp_path)


def test_a_network_without_a_name_is_trained_and_loaded(few: Splits, tmp_path: Path) -> None:
    model = composed()
    result = train(model, few, SHORT, tmp_path)
    other = composed()
    load_weights(other, tmp_path / "model.safetensors")
    assert accuracy(other, few.validation) == result.validation_accuracy


@pytest.mark.parametrize("keep", [0, 5, 500, -1])
def test_a_truncated_checkpoint_is_an_error(few: Splits, begun: Path, keep: int) -> None:
    path = begun / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    before = files(begun)
    with pytest.raises(TrainingError, match=r"checkpoint\.safetensors cannot be read as safe"):
        train(tiny(), few, SHORT, begun)
    assert files(begun) == before


def test_a_model_in_the_place_of_a_checkpoint_is_an_error(few: Splits, begun: Path) -> None:
    (begun / "model.safetensors").replace(begun / "checkpoint.safetensors")
    with pytest.raises(TrainingError, match="is of another training: recipe is None there"):
        train(tiny(), few, SHORT, begun)
