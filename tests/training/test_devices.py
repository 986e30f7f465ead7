"""Precision, several processes, and a Fabric that its owner has launched."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from tests.networks import tiny
from tests.training.several import RECIPE, digits

from qcapsnets.data import Splits
from qcapsnets.errors import TrainingError
from qcapsnets.training import Progress, Recipe, train
from qcapsnets.training.batches import steps_per_epoch
from qcapsnets.training.checkpoint import load_checkpoint

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each of two processes saw."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "taken").write_text("a file in the way")
    command = [sys.executable, "-m", "tests.training.several", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    facts = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]
    return {"folder": folder, "ranks": facts}


def test_two_processes_end_with_the_same_weights_and_result(both: dict[str, Any]) -> None:
    first, second = both["ranks"]
    assert first["weights"] == second["weights"]
    assert first["result"] == second["result"]
    assert first["result"]["steps"] == 6


def test_only_the_first_process_is_observed_and_writes(both: dict[str, Any]) -> None:
    first, second = both["ranks"]
    assert (first["seen"], second["seen"]) == ([1, 2, 3, 4, 5, 6], [])
    lines = (both["folder"] / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 3, 4, 6, 6]
    assert [path.name for path in (both["folder"] / "run").glob(".*")] == [".lock"]


def test_two_processes_learn_what_one_learns(
    both: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their shares are disjoint and weighted by size, so that gradients are those of the batch."""
    monkeypatch.setattr("qcapsnets.training.batches.steps_per_epoch", lambda *_: 3)
    model = tiny(seed=0)
    train(model, digits(), RECIPE, tmp_path)
    expected = model.state_dict()["digit.weight"].flatten()
    assert torch.tensor(both["ranks"][0]["weights"]).allclose(expected, atol=1e-5)
    assert not expected.allclose(tiny(seed=0).state_dict()["digit.weight"].flatten(), atol=1e-3)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("not finite", "the loss is "),
        ("cannot write", "cannot write "),
        ("too small", "batch_size is 1, but there are 2 processes"),
    ],
)
def test_an_error_ends_both_processes_with_the_same_line(
    both: dict[str, Any], problem: str, said: str
) -> None:
    lines = [facts[problem] for facts in both["ranks"]]
    assert lines[0] == lines[1]
    assert lines[0].startswith(said)


@pytest.mark.parametrize(
    ("images", "batch", "processes", "steps"),
    [(100, 30, 1, 4), (90, 30, 1, 3), (91, 30, 1, 4), (91, 30, 2, 3), (92, 30, 2, 4), (4, 4, 4, 1)],
)
def test_steps_of_an_epoch(images: int, batch: int, processes: int, steps: int) -> None:
    assert steps_per_epoch(images, batch, processes) == steps


def test_processes_that_must_be_spawned_are_refused_in_one_line(
    small_digits: Splits, tmp_path: Path
) -> None:
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn")
    with pytest.raises(TrainingError, match=r"call train within fabric\.launch\(function\)"):
        train(tiny(), small_digits, RECIPE, tmp_path, fabric=fabric)


def test_a_fabric_that_is_launched_is_taken_as_it_is(
    small_digits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    monkeypatch.setattr(fabric, "launch", lambda: pytest.fail("launched twice"))
    train(tiny(), digits(), replace(RECIPE, epochs=1), tmp_path, fabric=fabric)


SHORT = Recipe(epochs=1, batch_size=25, checkpoint_every=2)
"""Four steps on 94 images, with the decoder."""


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
def test_other_precisions_train_and_resume(tmp_path: Path, precision: Any) -> None:
    def go(folder: str, stop: int | None = None) -> None:
        def observe(progress: Progress) -> None:
            if progress.step == stop:
                raise KeyboardInterrupt

        fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
        train(tiny(), digits(), SHORT, tmp_path / folder, fabric=fabric, observe=observe)

    go("whole")
    with pytest.raises(KeyboardInterrupt):
        go("parts", stop=3)
    go("parts")
    for name in ("checkpoint.safetensors", "model.safetensors"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    file = load_checkpoint(tmp_path / "whole" / "checkpoint.safetensors")
    dtype = {"bf16-true": torch.bfloat16, "64-true": torch.float64}.get(precision, torch.float32)
    assert file.tensors["module.model.digit.weight"].dtype == dtype


def test_the_scale_of_the_loss_in_float16_is_resumed(tmp_path: Path) -> None:
    """It grows as a training goes well; one that started again would not end with the same bits."""

    def fabric() -> Fabric:
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
        return Fabric(accelerator="cpu", plugins=MixedPrecision("16-mixed", "cpu", scaler))

    def stop(progress: Progress) -> None:
        if progress.step == 2:
            raise KeyboardInterrupt

    recipe = replace(SHORT, decoder=None)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), digits(), recipe, tmp_path, fabric=fabric(), observe=stop)
    file = load_checkpoint(tmp_path / "checkpoint.safetensors")
    assert file.header["precision"]["scale"] == 8 * 2**2
    train(tiny(), digits(), recipe, tmp_path, fabric=fabric())
    file = load_checkpoint(tmp_path / "checkpoint.safetensors")
    assert file.header["precision"]["scale"] == 8 * 2**4
