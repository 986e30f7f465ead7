"""A run folder: what `train` leaves behind, and what the other commands take up from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qcapsnets.cli.errors import CommandError

SETTINGS = "settings.toml"
CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"
SUMMARY = "training.json"
METRICS = "metrics.jsonl"
"""Names of files; those of a training are the training's own, and a test compares them."""


@dataclass(frozen=True)
class Run:
    """A folder by its path; it need not be there yet."""

    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / SETTINGS

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    @property
    def started(self) -> bool:
        return (self.folder / CHECKPOINT).exists()

    @property
    def finished(self) -> bool:
        return (self.folder / SUMMARY).exists()

    @classmethod
    def of(cls, target: Path) -> "tuple[Run, Path]":
        """The run and the network that a path means: a run folder, or a file."""
        if target.is_dir():
            run = cls(target)
            if not run.model.exists():
                raise CommandError(f"{target} {run._lack()}")
            return run, run.model
        if not target.exists():
            raise CommandError(
                f"there is no {target}: give a run folder or a {MODEL.partition('.')[2]} file"
            )
        return cls(target.parent), target

    def _lack(self) -> str:
        if self.started:
            return (
                f"holds a training that has no finished epoch yet: "
                f"`qcapsnets train {self.folder}` continues it"
            )
        return f"is no run folder, it lacks {MODEL}: `qcapsnets train {self.folder}` makes one"

    def trained_with(self) -> dict[str, Any]:
        """The settings of its training, as far as they are known."""
        from qcapsnets.cli.settings import read_settings
        from qcapsnets.cli.train import TrainSettings

        if not self.settings.exists():
            return {}
        return read_settings(self.settings, "train", TrainSettings)
