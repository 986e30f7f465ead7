"""Checkpoints: one safetensors file with everything that a training needs to go on.

One file, so that it is either the old state or the new one, whatever kills the process.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from qcapsnets.errors import TrainingError
from qcapsnets.models.weights import TensorFile, read_tensors, write_tensors


def save_checkpoint(
    path: Path, module: nn.Module, optimizer: Optimizer, header: dict[str, Any]
) -> None:
    """Write parameters, buffers, the optimizer's moments and the header."""
    tensors = {f"module.{name}": t for name, t in module.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(t) for key, t in state.items()}
    write_tensors(path, TensorFile(tensors, header), TrainingError)


def load_checkpoint(path: Path) -> TensorFile:
    """Read a checkpoint; it is applied with `restore` once its header has been checked."""
    return read_tensors(path, TrainingError)


def restore(file: TensorFile, module: nn.Module, optimizer: Optimizer) -> None:
    """Put a checkpoint's tensors back where they came from."""
    module.load_state_dict(_below("module.", file.tensors))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _below("optimizer.", file.tensors).items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
