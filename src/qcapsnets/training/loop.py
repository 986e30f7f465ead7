"""The training loop: plain, resumable, and the same bit for bit however often it was killed.

Nothing random has a state that must be saved: the order of images is a function of (seed, epoch),
the augmentation of (seed, step), the learning rate of the step. So a checkpoint is the weights, the
optimizer's moments and a step, and what follows from it is what would have followed anyway.
"""

import json
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from qcapsnets.data import Augmentation, ImageSet, Splits, to_inputs
from qcapsnets.errors import TrainingError
from qcapsnets.files import write_atomically
from qcapsnets.models import DECODERS, CapsNet, lengths
from qcapsnets.models.weights import load_model, save_model
from qcapsnets.training.checkpoint import load_checkpoint, restore, save_checkpoint
from qcapsnets.training.losses import MarginLoss, reconstruction_loss
from qcapsnets.training.measure import accuracy
from qcapsnets.training.metrics import Metrics
from qcapsnets.training.recipe import Recipe

CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"
SUMMARY = "training.json"
METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class Progress:
    """Where a training stands."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    best: float | None


@dataclass(frozen=True)
class TrainingResult:
    """What came out: the best epoch by validation accuracy."""

    model: str
    steps: int
    best_epoch: int
    validation_accuracy: float
    folder: str

    def __rich__(self) -> str:
        return (
            f"{self.model}: validation accuracy [bold]{self.validation_accuracy:.2%}[/] "
            f"(epoch {self.best_epoch}), weights in {self.folder}/{MODEL}"
        )


class Objective(nn.Module):
    """A network, its decoder, and the loss of both."""

    def __init__(self, model: CapsNet, recipe: Recipe) -> None:
        super().__init__()
        self.model = model
        self.weight = recipe.reconstruction
        self.decoder = _decoder(model, recipe) if recipe.decoder and self.weight else None

    def forward(self, images: Tensor, labels: Tensor, margin: MarginLoss) -> tuple[Tensor, Tensor]:
        v = self.model(images)
        loss = margin(v, labels)
        if self.decoder is not None:
            drawn = self.decoder(v, labels)
            loss = loss + self.weight * reconstruction_loss(drawn, images)
        return loss, (lengths(v.detach()).argmax(1) == labels).sum()


def _decoder(model: CapsNet, recipe: Recipe) -> nn.Module:
    """A fresh decoder, the same for the same seed."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(recipe.seed)
        probe = model.eval()(torch.zeros(1, *model.image_shape, device=_device(model)))
        return DECODERS[recipe.decoder or ""](model.classes, probe.shape[2], model.image_shape)


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device


def train(
    model: CapsNet,
    splits: Splits,
    recipe: Recipe,
    folder: Path,
    *,
    augmentation: Augmentation | None = None,
    fabric: Fabric | None = None,
    observe: Callable[[Progress], None] | None = None,
) -> TrainingResult:
    """Train `model` in place and leave it with its best weights; a killed run goes on."""
    _check_fit(model, splits, recipe)
    fabric = fabric or Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    run = _Run(model, splits, recipe, folder, augmentation or Augmentation(), fabric)
    run.resume()
    while run.step < run.steps:
        loss = run.advance()
        if observe is not None:
            observe(run.progress(loss))
    return run.finish()


def _check_fit(model: CapsNet, splits: Splits, recipe: Recipe) -> None:
    images = splits.train
    given = (images.channels, images.height, images.width)
    if given != model.image_shape or images.classes != model.classes:
        raise TrainingError(
            f"the data has images of {given} and {images.classes} classes, {model.name} takes "
            f"{model.image_shape} and {model.classes}: build the model with the data's shape"
        )
    if recipe.batch_size > len(images):
        raise TrainingError(
            f"batch_size is {recipe.batch_size}, but there are only {len(images)} training images: "
            "choose a smaller one"
        )


class _Run:
    """The state of one training."""

    def __init__(
        self,
        model: CapsNet,
        splits: Splits,
        recipe: Recipe,
        folder: Path,
        augmentation: Augmentation,
        fabric: Fabric,
    ) -> None:
        self.model, self.splits, self.recipe, self.folder = model, splits, recipe, folder
        self.augmentation, self.fabric = augmentation, fabric
        self.objective = Objective(model, recipe)
        self.optimizer = torch.optim.Adam(self.objective.parameters(), lr=recipe.learning_rate)
        self.wrapped, self.wrapped_optimizer = fabric.setup(self.objective, self.optimizer)
        self.metrics = Metrics(folder / METRICS)
        self.per_epoch = math.ceil(len(splits.train) / recipe.batch_size)
        self.steps = recipe.epochs * self.per_epoch
        self.step = 0
        self.best_accuracy: float | None = None
        self.best_epoch = 0
        self.seen = self.right = 0
        self.started = time.monotonic()
        self.identity = {
            "model": model.name,
            "options": model.options,
            "recipe": {k: v for k, v in recipe.to_json().items() if k != "checkpoint_every"},
            "augmentation": asdict(augmentation) if recipe.augment else None,
            "data": fingerprint(splits.train),
        }

    def resume(self) -> None:
        """Take up the last checkpoint, or write the first one."""
        path = self.folder / CHECKPOINT
        if path.exists():
            file = load_checkpoint(path)
            self._check_identity(file.header, path)
            restore(file, self.objective, self.optimizer)
            self.step = file.header["step"]
            self.best_accuracy = file.header["best_accuracy"]
            self.best_epoch = file.header["best_epoch"]
            self.seen, self.right = file.header["seen"], file.header["right"]
        elif self.fabric.is_global_zero:
            self.save()
        if self.fabric.is_global_zero:
            self.metrics.rewind(self.step)

    def _check_identity(self, header: dict[str, Any], path: Path) -> None:
        for key, value in json.loads(json.dumps(self.identity)).items():
            if header.get(key) != value:
                raise TrainingError(
                    f"{path} is of another training: its {key} is {header.get(key)!r}, not "
                    f"{value!r}; use the same settings or another folder"
                )

    def advance(self) -> float:
        """One step, and what is due after it."""
        loss = self._update(*self._batch())
        self.step += 1
        if self.step % self.per_epoch == 0:
            self._end_epoch()
        if self.step % self.recipe.checkpoint_every == 0 or self.step == self.steps:
            self._checkpoint(loss)
        return loss

    def _batch(self) -> tuple[Tensor, Tensor]:
        """This process's share of the step's images."""
        epoch, index = divmod(self.step, self.per_epoch)
        order = _generator(self.recipe.seed, "order", epoch)
        shuffled = torch.randperm(len(self.splits.train), generator=order)
        size = self.recipe.batch_size
        chosen = shuffled[index * size : (index + 1) * size]
        chosen = chosen[self.fabric.global_rank :: self.fabric.world_size]
        device = self.fabric.device
        images = to_inputs(self.splits.train.images[chosen].to(device))
        if self.recipe.augment:
            generator = _generator(
                self.recipe.seed, f"augment {self.fabric.global_rank}", self.step, device
            )
            images = self.augmentation(images, generator=generator)
        return images, self.splits.train.labels[chosen].to(device)

    def _update(self, images: Tensor, labels: Tensor) -> float:
        rate = self.recipe.rate(self.step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.wrapped.train()
        margin = self.recipe.loss(self.step, self.steps)
        loss, right = self.wrapped(images, labels, margin)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(
                f"the loss is {value} at step {self.step + 1}: lower the learning rate; "
                f"the last good checkpoint is {self.folder / CHECKPOINT}"
            )
        self.wrapped_optimizer.zero_grad()
        self.fabric.backward(loss)
        self.wrapped_optimizer.step()
        self.seen += len(labels)
        self.right += int(right)
        return value

    def _end_epoch(self) -> None:
        epoch = self.step // self.per_epoch
        measured = accuracy(self.model, self.splits.validation)
        if self.fabric.is_global_zero:
            self.metrics.append(step=self.step, epoch=epoch, validation_accuracy=measured)
        if self.best_accuracy is None or measured > self.best_accuracy:
            self.best_accuracy, self.best_epoch = measured, epoch
            if self.fabric.is_global_zero:
                save_model(
                    self.model, self.folder / MODEL, validation_accuracy=measured, epoch=epoch
                )

    def _checkpoint(self, loss: float) -> None:
        if self.fabric.is_global_zero:
            self.metrics.append(
                step=self.step,
                loss=loss,
                train_accuracy=self.right / max(1, self.seen),
                rate=self.recipe.rate(self.step - 1, self.steps),
                seconds=round(time.monotonic() - self.started, 1),
            )
            self.seen = self.right = 0
            self.save()

    def save(self) -> None:
        """Write the state as it is now."""
        header = self.identity | {
            "step": self.step,
            "best_accuracy": self.best_accuracy,
            "best_epoch": self.best_epoch,
            "seen": self.seen,
            "right": self.right,
        }
        save_checkpoint(self.folder / CHECKPOINT, self.objective, self.optimizer, header)

    def progress(self, loss: float) -> Progress:
        """For whoever watches."""
        epoch = (self.step - 1) // self.per_epoch + 1
        return Progress(self.step, self.steps, epoch, self.recipe.epochs, loss, self.best_accuracy)

    def finish(self) -> TrainingResult:
        """Leave the model with its best weights, and a summary beside them."""
        self.fabric.barrier()
        best, _ = load_model(self.folder / MODEL)
        self.model.load_state_dict(best.state_dict())
        self.model.eval()
        result = TrainingResult(
            model=self.model.name,
            steps=self.steps,
            best_epoch=self.best_epoch,
            validation_accuracy=self.best_accuracy or 0.0,
            folder=str(self.folder),
        )
        if self.fabric.is_global_zero:
            facts = {
                "result": {k: v for k, v in asdict(result).items() if k != "folder"},
                **self.identity,
            }
            write_atomically(
                self.folder / SUMMARY, json.dumps(facts, indent=2) + "\n", TrainingError
            )
        return result


def _generator(
    seed: int, purpose: str, index: int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Random numbers that depend on nothing but their purpose and place."""
    return torch.Generator(device).manual_seed(
        (seed << 32) ^ zlib.crc32(f"{purpose} {index}".encode())
    )


def fingerprint(images: ImageSet) -> str:
    """A short name for exactly these images and labels."""
    check = zlib.crc32(images.images.cpu().numpy().tobytes())
    return f"{len(images)}-{zlib.crc32(images.labels.cpu().numpy().tobytes(), check):08x}"
