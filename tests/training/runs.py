"""A short recipe, and what a run left behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qcapsnets.training import Progress, Recipe

SHORT = Recipe(epochs=2, batch_size=30, decoder=None, checkpoint_every=3)


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
