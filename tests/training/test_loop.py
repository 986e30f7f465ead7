"""Training as a whole, in this process: learning, the best weights, going on, refusing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.networks import tiny, tiny_deep
from torch import Tensor, nn

from qcapsnets.data import Augmentation, ImageSet, Splits
from qcapsnets.errors import ModelError, TrainingError
from qcapsnets.models import CapsNet, Conv, ConvCaps, Kind, Layer, RoutedCaps, Site
from qcapsnets.models.weights import load_model, load_weights
from qcapsnets.training import Progress, Recipe, TrainingResult, accuracy, loop, train
from qcapsnets.training.checkpoint import load_checkpoint

SHORT = Recipe(epochs=2, batch_size=30, decoder=None, checkpoint_every=3)


@pytest.fixture(scope="session")
def few(small_digits: Splits) -> Splits:
    """100 digits to train and 40 to validate: four steps of 30, the last of 10, an epoch."""
    return Splits(
        small_digits.train.select(range(100)),
        small_digits.validation.select(range(40)),
        small_digits.test,
    )


def files(folder: Path) -> dict[str, bytes]:
    """Content of all files but the metrics, which hold times."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "metrics.jsonl"}


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def stop_after(step: int) -> Callable[[Progress], None]:
    """Ctrl-C, right after a step."""

    def observe(progress: Progress) -> None:
        if progress.step == step:
            raise KeyboardInterrupt

    return observe


# Learning


def test_a_tiny_network_learns_digits(small_digits: Splits, tmp_path: Path) -> None:
    model = tiny()
    recipe = Recipe(epochs=4, batch_size=30, learning_rate=5e-3, decoder=None)
    result = train(model, small_digits, recipe, tmp_path)
    assert result.validation_accuracy > 0.6
    assert accuracy(model, small_digits.validation) == result.validation_accuracy
    assert accuracy(model, small_digits.test) > 0.6
    assert not model.training
    loaded, facts = load_model(tmp_path / "model.safetensors")
    assert accuracy(loaded, small_digits.validation) == result.validation_accuracy
    assert facts == {"validation_accuracy": result.validation_accuracy, "epoch": result.best_epoch}


def test_the_decoder_is_trained_too_and_left_out_of_the_model(few: Splits, tmp_path: Path) -> None:
    recipe = replace(SHORT, decoder="fully-connected", epochs=1)
    train(tiny(), few, recipe, tmp_path)
    tensors = load_checkpoint(tmp_path / "checkpoint.safetensors").tensors
    assert "module.decoder.network.0.weight" in tensors
    model, _ = load_model(tmp_path / "model.safetensors")
    assert not any("decoder" in name for name in model.state_dict())


def test_reconstruction_changes_what_is_learnt(few: Splits, tmp_path: Path) -> None:
    weights = []
    for number, weight in enumerate((0.0, 0.0005, 0.05)):
        model = tiny()
        recipe = replace(SHORT, decoder="fully-connected", reconstruction=weight, epochs=1)
        train(model, few, recipe, tmp_path / str(number))
        weights.append(next(model.parameters()).detach().clone())
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_the_result_says_where_the_weights_are(few: Splits, tmp_path: Path) -> None:
    result = train(tiny(), few, replace(SHORT, epochs=1), tmp_path)
    assert (result.model, result.steps, result.best_epoch) == ("shallowcaps", 4, 1)
    assert f"{tmp_path}/model.safetensors" in result.__rich__()
    summary = json.loads((tmp_path / "training.json").read_text())
    assert summary["result"]["validation_accuracy"] == result.validation_accuracy
    assert summary["recipe"]["batch_size"] == 30


def test_a_folder_in_brackets_is_no_markup() -> None:
    result = TrainingResult("net", 1, 1, 0.5, "runs/[red]")
    assert r"runs/\[red]/model.safetensors" in result.__rich__()


def test_metrics_have_a_line_for_each_epoch_and_each_checkpoint(
    few: Splits, tmp_path: Path
) -> None:
    result = train(tiny(), few, SHORT, tmp_path)
    lines = metrics(tmp_path)
    epochs = {line["epoch"]: line["step"] for line in lines if "validation_accuracy" in line}
    assert epochs == {1: 4, 2: 8}
    checkpoints = [line for line in lines if "loss" in line]
    assert [line["step"] for line in checkpoints] == [3, 6, 8]
    assert all(0 <= line["train_accuracy"] <= 1 for line in checkpoints)
    assert [line["rate"] for line in checkpoints] == [SHORT.rate(s, 8) for s in (2, 5, 7)]
    assert max(line.get("validation_accuracy", 0) for line in lines) == result.validation_accuracy


def test_progress_is_told_after_every_step(few: Splits, tmp_path: Path) -> None:
    seen: list[Progress] = []
    train(tiny(), few, SHORT, tmp_path, observe=seen.append)
    assert [p.step for p in seen] == list(range(1, 9))
    assert [p.epoch for p in seen] == [1] * 4 + [2] * 4
    assert seen[2].best is None
    assert seen[3].best is not None


def test_every_image_is_seen_once_an_epoch_in_another_order(
    few: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []
    update = loop._Run._update

    def spy(run: Any, batch: Any) -> float:
        seen.append(batch.images.flatten(1).mul(256).to(torch.uint8))
        return update(run, batch)

    monkeypatch.setattr(loop._Run, "_update", spy)
    train(tiny(), few, replace(SHORT, augment=False), tmp_path)
    assert [len(images) for images in seen] == [30, 30, 30, 10] * 2
    first, second = torch.cat(seen[:4]), torch.cat(seen[4:])
    assert not torch.equal(first, second)
    everything = sorted(few.train.images.flatten(1).tolist())
    assert sorted(first.tolist()) == sorted(second.tolist()) == everything


def test_a_training_does_not_disturb_other_random_numbers(few: Splits, tmp_path: Path) -> None:
    model = tiny()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(model, few, replace(SHORT, epochs=1), tmp_path)
    assert torch.equal(torch.rand(3), expected)


# The best weights


def scripted(monkeypatch: pytest.MonkeyPatch, accuracies: list[float]) -> list[dict[str, Tensor]]:
    """Make validation say these accuracies; the weights at the end of each epoch."""
    weights: list[dict[str, Tensor]] = []

    def measured(model: CapsNet, images: ImageSet) -> float:
        weights.append({name: t.clone() for name, t in model.state_dict().items()})
        return accuracies[len(weights) - 1]

    monkeypatch.setattr(loop, "accuracy", measured)
    return weights


@pytest.mark.parametrize(
    ("accuracies", "best"),
    [([0.2, 0.9, 0.5], 2), ([0.5, 0.5, 0.5], 1), ([0.1, 0.2, 0.3], 3), ([0.0, 0.0, 0.0], 1)],
)
def test_the_weights_of_the_best_epoch_are_kept(
    few: Splits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    accuracies: list[float],
    best: int,
) -> None:
    weights = scripted(monkeypatch, accuracies)
    model = tiny()
    result = train(model, few, replace(SHORT, epochs=3), tmp_path)
    assert (result.best_epoch, result.validation_accuracy) == (best, accuracies[best - 1])
    loaded, _ = load_model(tmp_path / "model.safetensors")
    for name, tensor in weights[best - 1].items():
        assert torch.equal(model.state_dict()[name], tensor)
        assert torch.equal(loaded.state_dict()[name], tensor)


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
