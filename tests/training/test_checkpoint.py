"""Checkpoints: everything that a training needs to go on, in one file that is whole."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from qcapsnets.errors import TrainingError
from qcapsnets.models.weights import TensorFile
from qcapsnets.training.checkpoint import (
    check_identity,
    load_checkpoint,
    restore,
    save_checkpoint,
)


def trainee(steps: int, seed: int = 0) -> tuple[nn.Module, torch.optim.Adam]:
    """A module with a buffer after some steps of Adam."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(steps):
        advance(module, optimizer)
    return module, optimizer


def advance(module: nn.Module, optimizer: torch.optim.Adam) -> None:
    optimizer.zero_grad()
    images = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(1))
    module(images).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_what_follows_a_restore_is_what_would_have_followed(tmp_path: Path, steps: int) -> None:
    path = tmp_path / "checkpoint"
    module, optimizer = trainee(steps)
    save_checkpoint(path, module, optimizer, {"step": steps})
    advance(module, optimizer)
    other, other_optimizer = trainee(0, seed=7)
    file = load_checkpoint(path)
    assert file.header == {"step": steps}
    restore(file, other, other_optimizer, path)
    advance(other, other_optimizer)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def test_another_module_is_an_error_that_names_a_tensor(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    save_checkpoint(path, *trainee(1), {})
    other = nn.Sequential(nn.Conv2d(1, 3, 3))
    optimizer = torch.optim.Adam(other.parameters())
    with pytest.raises(TrainingError, match=r"another model: '0\.weight' is \(2, 1, 3, 3\) there"):
        restore(load_checkpoint(path), other, optimizer, path)


IDENTITY: dict[str, Any] = {
    "model": "deepcaps",
    "options": {"size": 14, "kernels": (3, 3)},
    "recipe": {"epochs": 2, "learning_rate": 1},
}
HEADER: dict[str, Any] = {
    "model": "deepcaps",
    "options": {"size": 14, "kernels": [3, 3]},
    "recipe": {"epochs": 2, "learning_rate": 1.0},
    "step": 4,
}


def test_the_same_training_is_recognised() -> None:
    check_identity(TensorFile({}, HEADER), IDENTITY, Path("here"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "shallowcaps"}, "model is 'shallowcaps' there and 'deepcaps' here"),
        ({"recipe": {"epochs": 3, "learning_rate": 1}}, "recipe.epochs is 3 there and 2 here"),
        ({"recipe": {"epochs": 2}}, "recipe.learning_rate is None there and 1 here"),
        ({"options": {}}, "options.size is None there and 14 here"),
        ({"options": HEADER["options"] | {"x": 1}}, "options.x is 1 there and None here"),
        ({"recipe": None}, "recipe is None there and {.*} here"),
    ],
)
def test_another_training_is_refused_by_its_first_difference(
    change: dict[str, Any], said: str
) -> None:
    with pytest.raises(TrainingError, match=f"here is of another training: {said}; use the same"):
        check_identity(TensorFile({}, HEADER | change), IDENTITY, Path("here"))
