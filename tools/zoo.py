"""Put a trained network into the zoo: float16 weights, and a JSON beside them that tells of them.

    python tools/zoo.py runs/digits zoo/NAME.safetensors

The accuracy is that of the weights as they are stored, on all test images.
"""

import argparse
import hashlib
import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from qcapsnets import __version__
from qcapsnets.cli.output import Output
from qcapsnets.cli.runs import SUMMARY, Run
from qcapsnets.cli.trained import Trained, trained
from qcapsnets.errors import ModelError, QCapsNetsError
from qcapsnets.evaluation import wilson
from qcapsnets.files import write_atomically
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import fingerprint, load_model, save_model
from qcapsnets.training import fingerprint as data_fingerprint
from qcapsnets.training import predict

SUFFIX = ".safetensors"


def as_stored(model: CapsNet) -> CapsNet:
    """A copy whose weights are those that float16 keeps of them."""
    copy = deepcopy(model).eval()
    with torch.no_grad():
        for name, tensor in copy.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(tensor.half().float())
                if not torch.isfinite(tensor).all():
                    raise ModelError(f"{name!r} has numbers that float16 cannot hold: keep float32")
    return copy


def measured(model: CapsNet, found: Trained) -> dict[str, Any]:
    """Right answers on the test images, with a 95 % interval."""
    test = found.splits.test
    right = int((predict(model, test.images) == test.labels).sum())
    low, high = wilson(right, len(test))
    return {
        "accuracy": right / len(test),
        "right": right,
        "total": len(test),
        "interval": [low, high],
        "images": data_fingerprint(test),
    }


def story(run: Run) -> dict[str, Any]:
    """How a network was trained; also how the one was that its training began with."""
    summary, begun = json.loads((run.folder / SUMMARY).read_text()), run.trained_with()
    told = {
        "recipe": summary["recipe"],
        "augmentation": summary["augmentation"],
        "precision": begun.get("precision"),
        "training": summary["result"],
    }
    start = begun.get("start")
    return told if start is None else told | {"start": beginning(Path(start))}


def beginning(start: Path) -> dict[str, Any]:
    """What is known of the network that a training began with: its story, or its weights."""
    run, weights = Run.of(start)
    return story(run) if run.finished else {"fingerprint": fingerprint(load_model(weights)[0])}


def described(found: Trained, model: CapsNet) -> dict[str, Any]:
    """Everything that a reader would ask of a network in the zoo."""
    begun = found.run.trained_with()
    told = story(found.run)
    return {
        "model": model.name,
        "options": model.options,
        "parameters": sum(p.numel() for p in model.parameters()),
        "fingerprint": fingerprint(model),
        "data": found.data,
        "size": begun.get("size"),
        "validation": len(found.splits.validation),
        "seed": told["recipe"]["seed"],
        **told,
        "test": measured(model, found),
        "versions": {"qcapsnets": __version__, "torch": torch.__version__},
    }


def add(run: Path, path: Path, *, data_folder: Path | None = None) -> dict[str, Any]:
    """Write the weights and what is known of them; what is known."""
    if path.suffix != SUFFIX:
        raise ModelError(f"{path} must end in {SUFFIX}")
    if not (run / SUMMARY).exists():
        raise ModelError(f"{run} holds no finished training: `qcapsnets train {run}` goes on")
    begun = Run(run).trained_with()
    # naming the data keeps a part of it from being taken in its place
    found = trained(run, Output(), data=begun.get("data"), data_folder=data_folder)
    model = as_stored(found.model)
    facts = described(found, model)
    kept = ("data", "size", "validation", "seed")
    save_model(
        model,
        path,
        half=True,
        **{key: facts[key] for key in kept},
        test_accuracy=facts["test"]["accuracy"],
    )
    content = path.read_bytes()
    facts["file"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_atomically(path.with_suffix(".json"), json.dumps(facts, indent=2) + "\n", ModelError)
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="folder of a finished training")
    parser.add_argument("file", type=Path, help="zoo/NAME.safetensors")
    parser.add_argument("--data-folder", type=Path, default=None, help="where data sets are")
    arguments = parser.parse_args()
    try:
        facts = add(arguments.run, arguments.file, data_folder=arguments.data_folder)
    except QCapsNetsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    test = facts["test"]
    print(f"{arguments.file}: {test['accuracy']:.2%} of {test['total']:,} test images are right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
