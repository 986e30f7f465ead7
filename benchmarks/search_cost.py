"""What a search costs: `fast` against `literal`, the paper's own descent, in one run.

Both search for one rounding scheme, with the same network, calibration and images. Compared are
the multiply-accumulates really computed, processor time and wall time, and the chosen bits.

    python benchmarks/search_cost.py                              # small networks, trained briefly
    QCAPSNETS_DATA=... python benchmarks/search_cost.py --checkpoint run/model.safetensors \
        --data mnist --tolerance 0.2% --budget 45Mbit

Without a checkpoint, shallowcaps-small and deepcaps-small learn the bundled digits first; their
weights are kept in the folder given by --keep, so that another run can start at once.
"""

import argparse
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from qcapsnets.accounting import Operations, weight_bits
from qcapsnets.data import ImageSet, Splits, datasets, load
from qcapsnets.evaluation import Reference
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.models import CapsNet, build
from qcapsnets.models.weights import load_model
from qcapsnets.search import Event, Job, Outcome, Settings, Tolerance, run
from qcapsnets.search.settings import Mode
from qcapsnets.training import Recipe, train

TARGETS = {"shallowcaps": (5, 4), "deepcaps": (8, 6)}
"""At least so many times fewer multiply-accumulates, and less time."""
EPOCHS = {"shallowcaps-small": 10, "deepcaps-small": 10}
CALIBRATION_IMAGES = 500


@dataclass(frozen=True)
class Spent:
    """What one mode came to, and what that took."""

    outcome: Outcome
    processor: float
    wall: float

    @property
    def macs(self) -> int:
        return sum(step.cost.macs for step in self.outcome.steps)

    @property
    def plans(self) -> int:
        return sum(step.cost.plans for step in self.outcome.steps)

    @property
    def images(self) -> int:
        return sum(step.cost.images for step in self.outcome.steps)


def trained(name: str, splits: Splits, folder: Path) -> CapsNet:
    """A small network that has seen the digits a few times."""
    torch.manual_seed(0)
    model = build(name)
    recipe = Recipe(epochs=EPOCHS[name], learning_rate=3e-3, batch_size=50, decoder=None)
    augmentation = datasets["mnist-mini"].augmentation
    result = train(model, splits, recipe, folder / name, augmentation=augmentation, observe=None)
    print(f"{name}: {result.validation_accuracy:.2%} of the validation images are right")
    return model.eval()


def searched(job: Job, mode: Mode, settings: Settings, folder: Path) -> Spent:
    """Search once."""
    chosen = Job(**(vars(job) | {"settings": settings, "journal": folder / f"{mode}.jsonl"}))
    processor, wall = time.process_time(), time.perf_counter()

    def tell(event: Event) -> None:
        print(f"\r  {mode}: step {event.step}, {event.plans} plans, {event.images} images", end="")

    outcome = run(chosen, tell)
    print("\r" + " " * 70, end="\r")
    return Spent(outcome, time.process_time() - processor, time.perf_counter() - wall)


def bits(plan: Plan) -> str:
    """Wordlengths in the order of the layers: weights | activations | routing."""
    rows = list(plan.values())
    routing = [q.routing for q in rows if q.routing is not None]
    parts = [q.weight for q in rows], [q.activation for q in rows], routing
    return " | ".join(" ".join(map(str, part)) for part in parts)


def report(model: CapsNet, fast: Spent, literal: Spent) -> None:
    """Side by side, step by step."""
    each = Operations.of(model).macs
    for name, spent in (("literal", literal), ("fast", fast)):
        print(
            f"  {name:8}{spent.macs / 1e9:9.2f} GMAC {spent.processor:8.1f} s processor "
            f"{spent.wall:8.1f} s wall {spent.plans:4} plans {spent.images:7} images, path "
            f"{spent.outcome.path}: {spent.macs / each / steps_total(spent):.2f} full passes"
        )
    for before, after in zip(literal.outcome.steps, fast.outcome.steps, strict=False):
        print(f"    step {before.name:3} literal {bits(before.plan):40} {before.right:5} right")
        print(f"    step {after.name:3} fast    {bits(after.plan):40} {after.right:5} right")
    for name, plan in fast.outcome.plans.items():
        other = literal.outcome.plans.get(name)
        if other is not None:
            ours, theirs = weight_bits(model, plan), weight_bits(model, other)
            print(f"    {name}: {ours:,} bits of weights; literal {theirs:,}")
    ratios = (
        literal.macs / fast.macs,
        literal.processor / fast.processor,
        literal.wall / fast.wall,
    )
    kind = next(kind for kind in TARGETS if model.name.startswith(kind))
    targets = TARGETS[kind]
    print(
        f"  {ratios[0]:.2f}x fewer multiply-accumulates (target {targets[0]}x), "
        f"{ratios[1]:.2f}x less processor time (target {targets[1]}x), {ratios[2]:.2f}x less wall"
    )


def steps_total(spent: Spent) -> int:
    return spent.outcome.steps[0].total


def compare(
    model: CapsNet, calibration: Calibration, images: ImageSet, chosen: argparse.Namespace
) -> None:
    reference = Reference.of(model, images)
    print(
        f"{model.name}: {reference.correct} of {len(images)} images right in float; "
        f"{Operations.of(model).macs / 1e6:.1f} million multiply-accumulates each"
    )
    for tolerance in chosen.tolerance:
        per_weight = weight_bits(model) // 32
        budget = math.ceil(chosen.bits * per_weight)
        print(f" tolerance {tolerance:.2%}, budget {budget / 1e6:.3f} Mbit, {chosen.rounding}")
        with tempfile.TemporaryDirectory() as folder:
            spent = {}
            modes: tuple[Mode, ...] = ("literal", "fast")
            for mode in modes:
                settings = Settings(Tolerance(tolerance), budget, points="mse", mode=mode)
                job = Job(
                    model,
                    images,
                    "benchmark",
                    calibration,
                    reference,
                    settings,
                    chosen.rounding,
                    Path(folder),
                )
                spent[mode] = searched(job, mode, settings, Path(folder))
        report(model, spent["fast"], spent["literal"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, help="a trained network")
    parser.add_argument("--data", default="mnist", help="its data set (with --checkpoint)")
    parser.add_argument("--images", type=int, help="search on the first so many")
    parser.add_argument("--tolerance", type=float, nargs="+", default=[0.002, 0.005, 0.02])
    parser.add_argument("--bits", type=float, default=6.0, help="budget, in bits a weight")
    parser.add_argument("--rounding", default="nearest")
    parser.add_argument("--models", nargs="+", default=list(EPOCHS))
    parser.add_argument("--keep", type=Path, help="where trained networks are kept")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        if chosen.checkpoint is not None:
            splits = load(chosen.data)
            networks = [load_model(chosen.checkpoint)[0].eval()]
        else:
            splits = load("mnist-mini")
            networks = [trained(name, splits, folder) for name in chosen.models]
        images = splits.validation
        if chosen.images is not None:
            images = images.select(range(min(chosen.images, len(images))))
        for model in networks:
            calibration = Calibration.record(model, splits.train.images[:CALIBRATION_IMAGES])
            compare(model, calibration, images, chosen)


if __name__ == "__main__":
    main()
