"""Speed and memory of quantized networks against the float network, as ratios in one run.

    python benchmarks/quantized_speed.py [--model shallowcaps] [--batch 100] [--rounds 5]

Weights are random, images and calibration are real (mnist-mini). Times are the best of several
rounds of evaluation, taken in turns; peak memory is that of a fresh process, which also builds,
calibrates (the float network too, so that both did) and rounds the weights.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from qcapsnets.data import load, to_inputs
from qcapsnets.fixedpoint import Calibration, Plan, inexact_sites, quantize
from qcapsnets.models import CapsNet, build

SCHEMES = ("nearest", "truncation", "nearest-even", "stochastic")
WORDLENGTHS = (6, 8, 12)
MOST = {(6, "stochastic"): 2.2, 6: 1.4, 8: 2.4}
"""How many times as long as the float network ShallowCaps may take."""
MOST_MEMORY = 1.5
"""The same of its peak memory. Neither is for 12 bits."""
FLOAT = "float"


def kinds() -> list[str]:
    """`6 nearest`, and so on."""
    return [f"{n} {scheme}" for n in WORDLENGTHS for scheme in SCHEMES]


def allowed(kind: str) -> float | None:
    wordlength, scheme = int(kind.split()[0]), kind.split()[1]
    return MOST.get((wordlength, scheme), MOST.get(wordlength))


class Bench:
    """One network, its calibration, and a batch of images of its size."""

    def __init__(self, name: str, batch: int) -> None:
        torch.manual_seed(0)
        self.model = build(name).eval()
        self.images = load("mnist-mini", size=self.model.image_shape[1]).train.images[:batch]
        self.calibration = Calibration.record(self.model, self.images[:50], batch_size=10)

    def network(self, kind: str) -> CapsNet:
        """The float network, or one quantized at a wordlength by a scheme."""
        if kind == FLOAT:
            return self.model
        wordlength, scheme = kind.split()
        plan = Plan.uniform(self.model, int(wordlength))
        quantized = quantize(self.model, plan, self.calibration, scheme)
        wrong = inexact_sites(quantized)
        if wrong:
            raise SystemExit(f"{kind}: inexact at {', '.join(wrong)}")
        return quantized

    def job(self, kind: str) -> Callable[[], None]:
        """One evaluation pass, after one that rounds the weights."""
        network, inputs = self.network(kind), to_inputs(self.images)

        def evaluate() -> None:
            with torch.no_grad():
                network(inputs)

        evaluate()
        return evaluate


def best_times(jobs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Best seconds of each job, taken in turns."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, run in jobs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_of_this_process() -> float:
    """Megabytes: the kernel's own high-water mark (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines)["VmHWM"].split()[0]) / 1024


def peak_megabytes(kind: str, name: str, batch: int) -> float:
    """Peak memory of a fresh process that evaluates twice."""
    arguments = ["--model", name, "--batch", str(batch), "--only", kind]
    return float(subprocess.check_output([sys.executable, __file__, *arguments], text=True))


def verdict(ratio: float, most: float | None) -> str:
    if most is None:
        return f"{ratio:5.2f}x"
    return f"{ratio:5.2f}x (at most {most:.1f}x{'' if ratio <= most else ': MISSED'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="shallowcaps")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="KIND", help=argparse.SUPPRESS)
    options = parser.parse_args()
    bench = Bench(options.model, options.batch)
    if options.only:
        bench.job(options.only)()
        print(peak_of_this_process())
        return
    seconds = best_times({k: bench.job(k) for k in (FLOAT, *kinds())}, options.rounds)
    memory = {k: peak_megabytes(k, options.model, options.batch) for k in (FLOAT, *kinds())}
    print(f"{options.model}, batch {options.batch}, {torch.get_num_threads()} threads")
    print(f"float: {options.batch / seconds[FLOAT]:.0f} images/s, {memory[FLOAT]:.0f} MB")
    for kind in kinds():
        most = allowed(kind)
        duration = verdict(seconds[kind] / seconds[FLOAT], most)
        space = verdict(memory[kind] / memory[FLOAT], most and MOST_MEMORY)
        print(f"{kind:>14}: time {duration}, peak memory {space}")


if __name__ == "__main__":
    main()
