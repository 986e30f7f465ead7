"""A network in a file: safetensors, with the recipe to build it again in the header.

The header's metadata has one entry, `qcapsnets`, a JSON object with the model's name, its options
and whatever facts the writer knows of it. Half-precision files (the zoo) are read as float32.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from qcapsnets.errors import ModelError, QCapsNetsError
from qcapsnets.files import write_atomically
from qcapsnets.models.catalogue import build
from qcapsnets.models.network import CapsNet

HEADER = "qcapsnets"


@dataclass(frozen=True, eq=False)
class TensorFile:
    """Named tensors and a JSON object."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]


def write_tensors(path: Path, file: TensorFile, error: type[QCapsNetsError] = ModelError) -> None:
    """Write named tensors with a JSON header, atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in file.tensors.items()}
    write_atomically(path, save(tensors, {HEADER: json.dumps(file.header)}), error)


def read_tensors(path: Path, error: type[QCapsNetsError] = ModelError) -> TensorFile:
    """Read what `write_tensors` wrote; anything else is an error of the given kind."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[HEADER])
            return TensorFile({name: file.get_tensor(name) for name in file.keys()}, header)  # noqa: SIM118
    except FileNotFoundError:
        raise error(f"there is no file {path}: give the path of a .safetensors file") from None
    except KeyError:
        raise error(
            f"{path} has no {HEADER!r} header: it was not written by this program"
        ) from None
    except (SafetensorError, OSError, ValueError) as problem:
        raise error(f"{path} cannot be read as safetensors: {problem}") from None


def save_model(model: CapsNet, path: Path, *, half: bool = False, **facts: Any) -> None:
    """Write a network; `half` stores float16, for files that are shipped."""
    state = model.state_dict()
    if half:
        state = {name: t.half() if t.is_floating_point() else t for name, t in state.items()}
    header = {"model": model.name, "options": model.options, "facts": facts}
    write_tensors(path, TensorFile(state, header))


def load_model(path: Path) -> tuple[CapsNet, dict[str, Any]]:
    """The network in a file, in float32, and the facts stored with it."""
    file = read_tensors(path)
    if "model" not in file.header:
        raise ModelError(f"{path} holds no network: its header names no model")
    model = build(file.header["model"], **file.header.get("options", {}))
    load_state(model, file.tensors, path)
    return model, file.header.get("facts", {})


def load_state(model: CapsNet, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy tensors into a network; another network's tensors are an error that names one."""
    expected = model.state_dict()
    for name in [*expected, *tensors]:
        given = tuple(tensors[name].shape) if name in tensors else "missing"
        needed = tuple(expected[name].shape) if name in expected else "not part of it"
        if given != needed:
            raise ModelError(
                f"{path} is of another model than {model.name}: {name!r} is {given} there "
                f"and {needed} here; build the model with the file's own options"
            )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])
