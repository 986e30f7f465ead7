"""A network in a file: safetensors, with the recipe to build it again in the header.

The header's metadata has one entry, `qcapsnets`, a JSON object with the model's name, its options
and whatever facts the writer knows of it. Half-precision files (the zoo) are read as float32.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from qcapsnets.errors import ModelError, QCapsNetsError
from qcapsnets.files import write_atomically
from qcapsnets.models.catalogue import build
from qcapsnets.models.network import UNNAMED, CapsNet

HEADER = "qcapsnets"


@dataclass(frozen=True, eq=False)
class TensorFile:
    """Named tensors and a JSON object."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]


def write_tensors(path: Path, file: TensorFile, error: type[QCapsNetsError] = ModelError) -> None:
    """Write named tensors with a JSON header, atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in file.tensors.items()}
    try:
        header = json.dumps(file.header)
    except (TypeError, ValueError) as problem:
        raise error(
            f"cannot write {path}: its header is not JSON ({problem}); "
            "use plain numbers, strings and lists as options and facts"
        ) from None
    write_atomically(path, save(tensors, {HEADER: header}), error)


def read_tensors(path: Path, error: type[QCapsNetsError] = ModelError) -> TensorFile:
    """Read what `write_tensors` wrote; anything else is an error of the given kind."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[HEADER])
            if not isinstance(header, dict):
                raise error(f"{path} has no JSON object as its {HEADER!r} header")
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
    name, options = file.header.get("model"), file.header.get("options", {})
    if not (isinstance(name, str) and isinstance(options, dict)):
        raise ModelError(f"{path} holds no network: its header names no model")
    if name == UNNAMED:
        raise ModelError(
            f"{path} holds a network that has no name to build it by: register its builder "
            "before it is saved, or build it and call load_weights"
        )
    model = build(name, **options)
    load_state(model, file.tensors, path)
    return model, file.header.get("facts", {})


def load_weights(model: CapsNet, path: Path) -> dict[str, Any]:
    """Copy the weights in a file into a network that is built already; the facts with them."""
    file = read_tensors(path)
    load_state(model, file.tensors, path)
    facts: dict[str, Any] = file.header.get("facts", {})
    return facts


def load_state(
    module: nn.Module,
    tensors: dict[str, Tensor],
    path: Path,
    error: type[QCapsNetsError] = ModelError,
) -> None:
    """Copy tensors into a network; another network's tensors are an error that names one."""
    expected = module.state_dict()
    for name in [*expected, *tensors]:
        given = tuple(tensors[name].shape) if name in tensors else "missing"
        needed = tuple(expected[name].shape) if name in expected else "not part of it"
        if given != needed:
            raise error(
                f"{path} is of another model: {name!r} is {given} there and {needed} here; "
                "build the model with the file's own options"
            )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])


def fingerprint(model: CapsNet) -> str:
    """A short name for exactly this network: its architecture and every weight."""
    digest = hashlib.sha256(json.dumps([model.name, model.options], sort_keys=True).encode())
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
