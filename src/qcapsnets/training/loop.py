"""The training loop: plain, resumable, and the same bit for bit however often it was killed.

Nothing random has a state that must be saved: the images of a step (see batches.py) and whatever a
layer draws are functions of the seed and the step, so is the learning rate. So a checkpoint is the
weights, the optimizer's moments and a step, and what follows from it is what would have followed
anyway.

With several processes, each takes its share of every batch, and what touches the disk is done by
the first one, which tells the others how it went.
"""

import json
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from rich.markup import escape
from torch import Tensor

from qcapsnets.data import Augmentation, Splits
from qcapsnets.errors import QCapsNetsError, TrainingError
from qcapsnets.files import discard_leftovers, write_atomically
from qcapsnets.lock import locked
from qcapsnets.models import CapsNet, lengths
from qcapsnets.models.weights import TensorFile, load_state, read_tensors, save_model
from qcapsnets.training.batches import Batch, Batches, fingerprint, seed_of
from qcapsnets.training.checkpoint import check_identity, load_checkpoint, restore, save_checkpoint
from qcapsnets.training.losses import reconstruction_loss
from qcapsnets.training.measure import accuracy
from qcapsnets.training.metrics import Metrics
from qcapsnets.training.objective import Objective
from qcapsnets.training.recipe import Recipe

CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"
SUMMARY = "training.json"
METRICS = "metrics.jsonl"
ADVICE = "train with a lower learning rate in another folder"

T = TypeVar("T")


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
            f"{escape(self.model)}: validation accuracy [bold]{self.validation_accuracy:.2%}[/] "
            f"(epoch {self.best_epoch}), weights in {escape(self.folder)}/{MODEL}"
        )


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
    """Train `model` in place and leave it with its best weights; a killed run goes on.

    `observe` is called after every step, in the first process only.
    """
    _check_fit(model, splits, recipe)
    fabric = fabric or Fabric(accelerator="cpu", devices=1)
    _launch(fabric)
    with ExitStack() as held, torch.random.fork_rng(devices=[]):  # the steps seed the global one
        run = _Run(model, splits, recipe, folder, augmentation or Augmentation(), fabric)
        run.check_start()
        run.by_first(lambda: held.enter_context(locked(folder, TrainingError)))
        run.resume()
        while run.step < run.steps:
            loss = run.advance()
            if observe is not None and fabric.is_global_zero:
                observe(run.progress(loss))
        return run.finish()


def _launch(fabric: Fabric) -> None:
    """Start the other processes, unless whoever made `fabric` has done so."""
    if getattr(fabric, "_launched", False):
        return
    try:
        fabric.launch()
    except TypeError as error:  # strategies that spawn need the function that they are to run
        raise TrainingError(
            f"{type(fabric.strategy).__name__} cannot start its processes from here ({error}): "
            "call train within fabric.launch(function), or use the strategy 'ddp'"
        ) from error


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
        self.fabric = fabric
        self.batches = Batches(splits.train, recipe, augmentation, fabric)
        self.per_epoch = self.batches.per_epoch
        self.steps = recipe.epochs * self.per_epoch
        self.objective = Objective(model, recipe)
        self.optimizer = torch.optim.Adam(self.objective.parameters(), lr=recipe.learning_rate)
        self.wrapped, self.wrapped_optimizer = fabric.setup(self.objective, self.optimizer)
        self.metrics = Metrics(folder / METRICS)
        self.step = 0
        self.saved: int | None = None
        self.best_accuracy: float | None = None
        self.best_epoch = 0
        self.seen = self.right = 0
        self.started = time.monotonic()
        self.identity = {
            "model": model.name,
            "options": model.options,
            "recipe": {k: v for k, v in recipe.to_json().items() if k != "checkpoint_every"},
            "augmentation": asdict(augmentation) if recipe.augment else None,
            "data": {
                "train": fingerprint(splits.train),
                "validation": fingerprint(splits.validation),
            },
        }

    def check_start(self) -> None:
        """A new training begins with weights that are good, or leaves no trace."""
        if not self.by_first((self.folder / CHECKPOINT).exists):
            self._probe(
                self.batches.at(self.step), "before the first step: repair the model's weights"
            )

    def resume(self) -> None:
        """Take up the last checkpoint, or write the first one."""
        file = self.by_first(self._find_checkpoint)
        if file is None:
            self.by_first(self._save)
            self.saved = 0
        else:
            restore(file, self.objective, self.optimizer, self.folder / CHECKPOINT)
            self.fabric.strategy.precision.load_state_dict(file.header["precision"])
            self.step = self.saved = file.header["step"]
            self.best_accuracy = file.header["best_accuracy"]
            self.best_epoch = file.header["best_epoch"]
        self.started -= self.by_first(lambda: self.metrics.rewind(self.step))

    def _find_checkpoint(self) -> TensorFile | None:
        discard_leftovers(self.folder)
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        file = load_checkpoint(path)
        check_identity(file, self.identity, path)
        return file

    def advance(self) -> float:
        """One step, and what is due after it."""
        batch = self.batches.at(self.step)
        loss = self._update(batch)
        self.step += 1
        ends = self.step % self.per_epoch == 0
        due = self.step % self.recipe.checkpoint_every == 0 or self.step == self.steps
        if ends or due:
            self._probe(batch, f"after step {self.step}: {ADVICE}")
        if ends:
            self._end_epoch()
        if due:
            self._checkpoint(loss)
        return loss

    def _update(self, batch: Batch) -> float:
        rate = self.recipe.rate(self.step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.wrapped.train()
        rank = self.fabric.global_rank
        torch.manual_seed(seed_of(self.recipe.seed, f"layers {rank}", self.step))
        loss, right = self._loss(batch)
        value = self._checked(loss, f"at step {self.step + 1}: {ADVICE}")
        self.wrapped_optimizer.zero_grad()
        self.fabric.backward(loss)
        if self.recipe.clip is not None:
            self.fabric.clip_gradients(
                self.wrapped, self.wrapped_optimizer, max_norm=self.recipe.clip
            )
        self.wrapped_optimizer.step()
        self.seen += len(batch.labels)
        self.right += int(right)
        return value

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of this process's share, and how many of it are right."""
        v, drawn = self.wrapped(batch.images, batch.labels)
        loss = self.recipe.loss(self.step, self.steps)(v, batch.labels)
        if drawn is not None:
            loss = loss + self.recipe.reconstruction * reconstruction_loss(drawn, batch.images)
        right = (lengths(v.detach()).argmax(1) == batch.labels).sum()
        return loss * batch.weight, right

    def _checked(self, loss: Tensor, problem: str) -> float:
        """The mean over all processes; one that is not finite ends the training in all of them."""
        value = float(self.fabric.all_reduce(loss.detach().clone()))  # type: ignore[arg-type]
        if not math.isfinite(value):
            kept = f"the last good checkpoint, of step {self.saved}, is {self.folder / CHECKPOINT}"
            raise TrainingError(
                f"the loss is {value} {problem}; "
                f"{'nothing was written' if self.saved is None else kept}"
            )
        return value

    def _probe(self, batch: Batch, problem: str) -> None:
        """Nothing is written that holds weights which have gone bad."""
        self.wrapped.eval()
        with torch.no_grad():
            loss, _ = self._loss(batch)
        self._checked(loss, problem)

    def _end_epoch(self) -> None:
        measured = self.by_first(self._measure)
        if self._is_best(measured):
            self.best_accuracy, self.best_epoch = measured, self.step // self.per_epoch

    def _measure(self) -> float:
        """Validation accuracy; if it is the best so far, the weights are kept."""
        epoch = self.step // self.per_epoch
        measured = accuracy(self.model, self.splits.validation)
        self.metrics.append(step=self.step, epoch=epoch, validation_accuracy=measured)
        if self._is_best(measured):
            path = self.folder / MODEL
            save_model(self.model, path, validation_accuracy=measured, epoch=epoch)
        return measured

    def _is_best(self, measured: float) -> bool:
        return self.best_accuracy is None or measured > self.best_accuracy

    def _checkpoint(self, loss: float) -> None:
        counts = torch.tensor([self.seen, self.right], device=self.fabric.device)
        seen, right = self.fabric.all_reduce(counts, reduce_op="sum").tolist()  # type: ignore[union-attr]
        self.seen = self.right = 0
        self.by_first(lambda: self._record(loss, right / max(1, seen)))
        self.saved = self.step

    def _record(self, loss: float, train_accuracy: float) -> None:
        self.metrics.append(
            step=self.step,
            loss=loss,
            train_accuracy=train_accuracy,
            rate=self.recipe.rate(self.step - 1, self.steps),
            seconds=round(time.monotonic() - self.started, 1),
        )
        self._save()

    def _save(self) -> None:
        """Write the state as it is now."""
        header = self.identity | {
            "step": self.step,
            "best_accuracy": self.best_accuracy,
            "best_epoch": self.best_epoch,
            "precision": self.fabric.strategy.precision.state_dict(),
        }
        save_checkpoint(self.folder / CHECKPOINT, self.objective, self.optimizer, header)

    def progress(self, loss: float) -> Progress:
        """For whoever watches."""
        epoch = (self.step - 1) // self.per_epoch + 1
        return Progress(self.step, self.steps, epoch, self.recipe.epochs, loss, self.best_accuracy)

    def finish(self) -> TrainingResult:
        """Leave the model with its best weights, and a summary beside them."""
        path = self.folder / MODEL
        best = self.by_first(lambda: read_tensors(path))
        load_state(self.model, best.tensors, path)
        self.model.eval()
        result = TrainingResult(
            model=self.model.name,
            steps=self.steps,
            best_epoch=self.best_epoch,
            validation_accuracy=self.best_accuracy or 0.0,
            folder=str(self.folder),
        )
        self.by_first(lambda: self._summarise(result))
        return result

    def _summarise(self, result: TrainingResult) -> None:
        facts = {k: v for k, v in asdict(result).items() if k != "folder"}
        text = json.dumps({"result": facts, **self.identity}, indent=2) + "\n"
        write_atomically(self.folder / SUMMARY, text, TrainingError)

    def by_first(self, work: Callable[[], T]) -> T:
        """What `work` comes to in the first process, in every process; so does its error."""
        outcome: T | QCapsNetsError | None = None
        if self.fabric.is_global_zero:
            try:
                outcome = work()
            except QCapsNetsError as error:
                outcome = error
        outcome = self.fabric.broadcast(outcome)
        if isinstance(outcome, QCapsNetsError):
            raise outcome
        return outcome  # type: ignore[return-value]  # None only if that is what it came to
