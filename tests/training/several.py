"""A training in two processes: `python -m tests.training.several FOLDER` starts the second.

Each writes what it saw to FOLDER/rank0.json or FOLDER/rank1.json; the test compares.
"""

import json
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from tests.networks import small_digits, tiny

from qcapsnets.data import Splits
from qcapsnets.errors import TrainingError
from qcapsnets.training import Progress, Recipe, train

RECIPE = Recipe(epochs=2, batch_size=31, decoder=None, checkpoint_every=2, augment=False)


def digits() -> Splits:
    """94 to train: batches of 31, 31, 31, which are shared unevenly, and one for nobody."""
    return small_digits(train=94, others=40)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    seen: list[int] = []

    def observe(progress: Progress) -> None:
        seen.append(progress.step)

    def error(recipe: Recipe, where: str) -> str:
        try:
            train(tiny(), digits(), recipe, folder / where, fabric=fabric)
        except TrainingError as problem:
            return str(problem)
        return "none"

    model = tiny(seed=0)
    result = train(model, digits(), RECIPE, folder / "run", fabric=fabric, observe=observe)
    facts: dict[str, Any] = {
        "result": asdict(result),
        "seen": seen,
        "weights": model.state_dict()["digit.weight"].flatten().tolist(),
        "not finite": error(replace(RECIPE, learning_rate=1e20), "bad"),
        "cannot write": error(RECIPE, "taken"),
        "too small": error(replace(RECIPE, batch_size=1), "small"),
    }
    (folder / f"rank{fabric.global_rank}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(Path(sys.argv[1]))
