"""Latency of one image on one thread: generated C, PyTorch FP32 and ONNX Runtime FP32, in one run.

.venv/bin/python benchmarks/c_latency.py [--model shallowcaps] [--wordlength 8] [--rounds 15]

The three take turns, and processor time is counted, so that a busy machine slows all of them
alike; the least time of each is compared. Weights are random: the time does not depend on them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qcapsnets.data import load, to_inputs
from qcapsnets.data.formats import write_idx
from qcapsnets.export import export_c
from qcapsnets.export.onnx import export_onnx
from qcapsnets.export.verify import build as compile_c
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.models import CapsNet, build


def milliseconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return 1e3 * (time.process_time() - start)


def onnx_session(model: CapsNet, path: Path) -> Any:
    import onnxruntime

    export_onnx(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def contenders(model: CapsNet, wordlength: int, folder: Path) -> dict[str, Callable[[], float]]:
    """Each gives the time of one image in milliseconds."""
    images = load("mnist-mini").test.images[:10]
    calibration = Calibration.record(model, images)
    quantized = quantize(model, Plan.uniform(model, wordlength), calibration)
    program = compile_c(export_c(quantized, folder / "c").folder, flags="-O3 -march=native")
    write_idx(folder / "images.idx", images.squeeze(1))
    session = onnx_session(model, folder / "model.onnx")
    image: Tensor = to_inputs(images[:1])
    command = [str(program), "--time", str(folder / "images.idx")]

    def in_c() -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout) / 1e3

    def in_pytorch() -> float:
        with torch.inference_mode():
            return milliseconds(lambda: model(image))

    def in_onnxruntime() -> float:
        return milliseconds(lambda: session.run(None, {"images": image.numpy()}))

    return {"C": in_c, "PyTorch FP32": in_pytorch, "ONNX Runtime FP32": in_onnxruntime}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="shallowcaps")
    parser.add_argument("--wordlength", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build(given.model).eval()
    with tempfile.TemporaryDirectory() as folder:
        runners = contenders(model, given.wordlength, Path(folder))
        times = {name: [runner()] for name, runner in runners.items()}
        for _ in range(given.rounds):
            for name, runner in runners.items():
                times[name].append(runner())
    best = {name: min(values[1:]) for name, values in times.items()}
    middle = {name: sorted(values[1:])[given.rounds // 2] for name, values in times.items()}
    for name in best:
        ratio = best[name] / best["C"]
        print(f"{name:18} {best[name]:8.2f} ms (median {middle[name]:.2f})  {ratio:.2f} x C")


if __name__ == "__main__":
    main(sys.argv[1:])
