"""Training as a whole, in this process: learning, and keeping the best weights."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.networks import tiny
from tests.training.runs import SHORT, metrics
from torch import Tensor
from torch.nn.utils import get_total_norm

from qcapsnets.data import ImageSet, Splits
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import load_model
from qcapsnets.training import Progress, Recipe, TrainingResult, accuracy, loop, train
from qcapsnets.training.checkpoint import load_checkpoint

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


@pytest.mark.parametrize("clip", [None, 0.01])
def test_gradients_are_shortened_if_asked(
    few: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clip: float | None
) -> None:
    norms: list[float] = []
    update = loop._Run._update

    def spy(run: Any, batch: Any) -> float:
        loss = update(run, batch)
        norms.append(float(get_total_norm([p.grad for p in run.objective.parameters()])))
        return loss

    monkeypatch.setattr(loop._Run, "_update", spy)
    train(tiny(), few, replace(SHORT, clip=clip), tmp_path)
    if clip is None:
        assert min(norms) > 0.01
    else:
        assert norms == pytest.approx([clip] * len(norms), rel=1e-3)


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
