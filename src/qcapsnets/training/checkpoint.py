"""Checkpoints: one safetensors file with everything that a training needs to go on.

One file, so that it is either the old state or the new one, whatever kills the process.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from qcapsnets.errors import TrainingError
from qcapsnets.models.weights import TensorFile, load_state, read_tensors, write_tensors


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


def check_identity(file: TensorFile, identity: dict[str, Any], path: Path) -> None:
    """A checkpoint of another training is an error that names the first difference."""
    theirs = {key: file.header.get(key) for key in identity}
    difference = _difference(theirs, json.loads(json.dumps(identity, default=repr)))
    if difference is not None:
        name, there, here = difference
        raise TrainingError(
            f"{path} is of another training: {name} is {there!r} there and {here!r} here; "
            "use the same settings or another folder"
        )


def _difference(theirs: Any, ours: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """The first place where two JSON values differ: its name and both values."""
    if theirs == ours:
        return None
    if isinstance(theirs, dict) and isinstance(ours, dict):
        keys = dict.fromkeys([*ours, *theirs])
        different = next(key for key in keys if theirs.get(key) != ours.get(key))
        inner = f"{name}.{different}" if name else different
        return _difference(theirs.get(different), ours.get(different), inner)
    return name, theirs, ours


def restore(file: TensorFile, module: nn.Module, optimizer: Optimizer, path: Path) -> None:
    """Put a checkpoint's tensors back where they came from."""
    load_state(module, _below("module.", file.tensors), path, TrainingError)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _below("optimizer.", file.tensors).items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
