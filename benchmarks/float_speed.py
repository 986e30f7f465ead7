"""Float speed and memory: our networks against a textbook implementation, in one run.

The textbook version takes PyTorch's convolutions and writes routing as the equations do:
votes by one einsum, kept for all images, then three iterations over them under autograd.

    python benchmarks/float_speed.py [--model shallowcaps] [--batch 100] [--rounds 5]

Times are the best of several rounds, taken in turns; peak memory is that of a fresh process.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from qcapsnets.models import CapsNet, Conv, Convolution, RoutedCaps, RoutedConvCaps, build, squash
from qcapsnets.models.layers import as_capsules
from qcapsnets.training import MARGIN


def textbook_routing(votes: Tensor, iterations: int, bias: Tensor | None) -> Tensor:
    """Votes [batch, i, j, d] -> [batch, j, d], literally."""
    b = torch.zeros(votes.shape[:3])
    for step in range(iterations):
        c = b.softmax(2)
        s = (c.unsqueeze(-1) * votes).sum(1) + (0 if bias is None else bias)
        v = squash(s)
        if step < iterations - 1:
            b = b + (v.unsqueeze(1) * votes).sum(-1)
    return v


class TextbookCaps(RoutedCaps):
    """Fully connected capsules as in the equations."""

    def compute(self, x: Tensor) -> Tensor:
        votes = torch.einsum("jikd,bik->bijd", self.weight, as_capsules(x))
        return textbook_routing(votes, self.iterations, self.routing_bias)


class TextbookConvCaps(RoutedConvCaps):
    """Routed convolution as in the equations."""

    def route(self, votes: Tensor, bias: object) -> Tensor:
        term = self.bias_term(repeat=votes.shape[2] // self.capsules)
        return textbook_routing(votes, self.iterations, None if term is None else term.value)


class TextbookConvolution(Convolution):
    """PyTorch's convolution, whatever its size."""

    def _convolve(self, own: Tensor, other: Tensor, bias: Tensor | None) -> Tensor:
        return F.conv2d(other, own, bias, self.stride, self.padding)


def textbook(model: CapsNet) -> CapsNet:
    """The same network with textbook routing."""
    for layer in model.modules():
        if type(layer) is RoutedCaps:
            layer.__class__ = TextbookCaps
        elif type(layer) is RoutedConvCaps:
            layer.__class__ = TextbookConvCaps
        elif isinstance(layer, Conv):
            plain = layer.convolution
            layer.convolution = TextbookConvolution(plain.stride, plain.padding)
    return model


def make(kind: str, name: str) -> CapsNet:
    """One of the two, with the same weights."""
    torch.manual_seed(0)
    model = build(name)
    return textbook(model) if kind == "textbook" else model


def job(model: CapsNet, mode: str, batch: int) -> Callable[[], None]:
    """One training step (without the optimizer, which is the same) or one evaluation pass."""
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(batch, *model.image_shape, generator=generator)
    labels = torch.randint(model.classes, (batch,), generator=generator)

    def training() -> None:
        model.train().zero_grad()
        MARGIN(model(images), labels).backward()

    def evaluation() -> None:
        with torch.no_grad():
            model.eval()(images)

    return training if mode == "training" else evaluation


def best_times(jobs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Best seconds of each job, taken in turns."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, run in jobs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_megabytes(kind: str, name: str, mode: str, batch: int) -> float:
    """Peak memory of a fresh process that does two rounds."""
    arguments = ["--model", name, "--batch", str(batch), "--only", kind, mode]
    output = subprocess.check_output([sys.executable, __file__, *arguments], text=True)
    return float(output)


def run_alone(kind: str, mode: str, name: str, batch: int) -> None:
    run = job(make(kind, name), mode, batch)
    run()
    run()
    print(peak_of_this_process())


def peak_of_this_process() -> float:
    """Megabytes; Linux's own high-water mark, since getrusage also counts the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="shallowcaps")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs=2, metavar=("KIND", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        kind, mode = options.only
        run_alone(kind, mode, options.model, options.batch)
        return
    models = {kind: make(kind, options.model) for kind in ("textbook", "ours")}
    images = torch.rand(8, *models["ours"].image_shape)
    with torch.no_grad():
        difference = (models["ours"].eval()(images) - models["textbook"].eval()(images)).abs().max()
    print(f"{options.model}, batch {options.batch}, {torch.get_num_threads()} threads")
    print(f"largest difference of outputs: {difference:.1e}")
    for mode in ("training", "evaluation"):
        jobs = {kind: job(model, mode, options.batch) for kind, model in models.items()}
        seconds = best_times(jobs, options.rounds)
        memory = {k: peak_megabytes(k, options.model, mode, options.batch) for k in models}
        rates = ", ".join(f"{k} {options.batch / s:.0f} images/s" for k, s in seconds.items())
        print(
            f"{mode}: {rates}: {seconds['textbook'] / seconds['ours']:.2f}x faster; peak memory "
            f"{memory['textbook']:.0f} -> {memory['ours']:.0f} MB"
        )


if __name__ == "__main__":
    main()
