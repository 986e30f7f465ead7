"""A quantized network in one file whose size is the size claimed (docs/format.md).

save_packed(quantized, Path("model.qcaps"), accuracy=0.991)
model, facts = load_packed(Path("model.qcaps"))     # every site holds the same numbers again

The weights in the file are codes. A loaded network's parameters are those codes' values, which
every rounding scheme leaves alone, and its sites are filled from the formats in the header: no
calibration is needed, and none is possible.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from qcapsnets.errors import ExportError, QCapsNetsError
from qcapsnets.export.packed_reader import (
    DIGEST,
    MAGIC,
    PREFIX,
    VERSION,
    Packed,
    PackedError,
    open_packed,
    pack,
    packed_size,
)
from qcapsnets.export.parameters import Parameter, parameters_of
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.calibration import Calibration, Points
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.fixedpoint.quantize import Quantization, formats_of, quantization_of
from qcapsnets.fixedpoint.rounding import roundings
from qcapsnets.fixedpoint.storage import Fixed, FixedWeights, Way
from qcapsnets.models import CapsNet, Kind, build, sites_of
from qcapsnets.models.network import UNNAMED

ALIGNMENT = 8


@dataclass(frozen=True)
class PackedFile:
    """What was written: sizes in bytes."""

    path: Path
    size: int
    weights: int
    header: dict[str, Any]

    @property
    def weight_bits(self) -> int:
        """The bits that the plan claims."""
        return int(self.header["weight_bits"])


class FromFile(Calibration):
    """In place of a calibration, in a network that was loaded: its formats are settled."""

    def format(self, name: str, wordlength: int, *, signed: bool, points: Points) -> FixedPoint:
        raise ExportError(
            f"site {name!r} of a network from a packed file keeps its format: "
            "quantize the float network again for another plan"
        )


def save_packed(model: CapsNet, path: Path, **facts: Any) -> PackedFile:
    """Write a quantized network; `facts` (accuracies, a name) go into the header as they are."""
    parameters = parameters_of(model)
    header = _header(model, parameters, facts)
    try:
        text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise ExportError(
            f"cannot write {path}: its header is not JSON ({problem}); "
            "use plain numbers, strings and lists as options and facts"
        ) from None
    encoded = text.encode()
    encoded += b" " * (-(PREFIX.size + len(encoded)) % ALIGNMENT)
    parts = [PREFIX.pack(MAGIC, VERSION, len(encoded)), encoded]
    parts += (pack(p.codes().numpy(), p.format.wordlength) for p in parameters)
    content = b"".join(parts)
    write_atomically(path, content + hashlib.sha256(content).digest(), ExportError)
    weights = sum(packed_size(p.tensor.numel(), p.format.wordlength) for p in parameters)
    return PackedFile(path, len(content) + DIGEST, weights, header)


def _header(model: CapsNet, parameters: list[Parameter], facts: dict[str, Any]) -> dict[str, Any]:
    how = quantization_of(model)
    return {
        "model": model.name,
        "options": model.options,
        "image_shape": list(model.image_shape),
        "classes": model.classes,
        "plan": how.plan.to_json(),
        "rounding": how.way.rounding.name,
        "seed": how.way.seed,
        "points": how.points,
        "fingerprint": how.calibration.model,
        "facts": facts,
        "weight_bits": sum(p.tensor.numel() * p.format.wordlength for p in parameters),
        "formats": {name: str(format) for name, format in formats_of(model).items()},
        "tensors": [
            {"name": p.name, "site": p.site, "shape": list(p.tensor.shape)} for p in parameters
        ],
    }


def read_header(path: Path) -> dict[str, Any]:
    """What a packed file says of itself, after its checksum was found right."""
    with _opened(path) as packed:
        return packed.header


def load_packed(path: Path, model: CapsNet | None = None) -> tuple[CapsNet, dict[str, Any]]:
    """The quantized network in a file, and the facts stored with it.

    A network that was composed by hand has no name to build it by: build it (in float, with any
    weights) and pass it as `model`; it is left as it is.
    """
    with _opened(path) as packed:
        try:
            return _load(packed, model)
        except QCapsNetsError as problem:
            raise ExportError(f"{path} cannot be loaded: {problem}") from problem
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise ExportError(
                f"{path} has a header that this program did not write ({problem!r}): "
                "export it again"
            ) from problem


def _opened(path: Path) -> Packed:
    try:
        return open_packed(path)
    except PackedError as problem:
        raise ExportError(str(problem)) from None


def _load(packed: Packed, model: CapsNet | None) -> tuple[CapsNet, dict[str, Any]]:
    header = packed.header
    skeleton = _skeleton(header, model)
    way = Way(roundings[header["rounding"]], header["seed"])
    if type(way.seed) is not int or not 0 <= way.seed < 1 << 64:
        raise ExportError(f"seed {way.seed!r} is not a whole number from 0 to 2^64 - 1")
    _fill_sites(skeleton, header["formats"], way)
    _check_parameters(skeleton, packed)
    for stored in packed.tensors.values():
        _assign(skeleton, stored.name, _values(packed, stored.name))
    points = header["points"]
    if points not in get_args(Points):
        raise ExportError(f"binary points by {points!r} are unknown")
    calibration = FromFile(str(header["fingerprint"]), 0, {})
    plan = Plan.from_json(header["plan"])
    skeleton.quantization = Quantization(plan, calibration, way, points)
    return skeleton, dict(header["facts"])


def _skeleton(header: dict[str, Any], model: CapsNet | None) -> CapsNet:
    """The network without its weights: they are on PyTorch's `meta` device and take no memory.

    So options that ask for a network larger than the file cost nothing until they are found out.
    """
    if model is not None:
        return prepared(model).to("meta")
    name, options = header["model"], header["options"]
    if name == UNNAMED:
        raise ExportError(
            "the network in it was composed by hand and has no name to build it by: "
            "build it and pass it as `model`"
        )
    with torch.device("meta"):
        try:
            return prepared(build(name, **options))
        except (RuntimeError, TypeError, ValueError) as problem:  # sizes beyond all description
            reason = str(problem).partition("\n")[0]
            raise ExportError(f"{name!r} cannot be built with {options!r}: {reason}") from None


def _fill_sites(model: CapsNet, formats: dict[str, str], way: Way) -> None:
    names = {name for name, site in sites_of(model) if site.kind is not Kind.ACCUMULATOR}
    if different := names ^ formats.keys():
        raise ExportError(f"sites {sorted(different)} are either in the file or in the network")
    for name, site in sites_of(model):
        if site.kind is not Kind.ACCUMULATOR:
            kind = FixedWeights if site.kind is Kind.WEIGHT else Fixed
            site.storage = kind(name, FixedPoint.parse(formats[name]), way)


def _check_parameters(model: CapsNet, packed: Packed) -> None:
    """The file must have exactly the network's tensors, each with weights' site of its own."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    given = {stored.name: stored.shape for stored in packed.tensors.values()}
    if expected != given:
        name = next(n for n in [*expected, *given] if expected.get(n) != given.get(n))
        raise ExportError(
            f"{name!r} is {given.get(name, 'missing')} there and "
            f"{expected.get(name, 'not part of the network')} here"
        )
    weights = [name for name, site in sites_of(model) if site.kind is Kind.WEIGHT]
    if sorted(weights) != sorted(stored.site for stored in packed.tensors.values()):
        raise ExportError(f"its tensors do not fill the sites {', '.join(weights)}, each once")


def _values(packed: Packed, name: str) -> Tensor:
    """Values of the codes, piece by piece, in the narrowest float that holds the format."""
    stored = packed.tensors[name]
    format = FixedPoint(stored.wordlength, stored.fraction, stored.signed)
    dtype = torch.float32 if format.fits(torch.float32) else torch.float64
    values = torch.empty(stored.count, dtype=dtype)
    for first, codes in packed.pieces(name):
        values[first : first + len(codes)] = format.values(torch.from_numpy(codes), torch.float64)
    return values.view(stored.shape)


def _assign(model: CapsNet, name: str, values: Tensor) -> None:
    owner, _, attribute = name.rpartition(".")
    module = model.get_submodule(owner)
    setattr(module, attribute, nn.Parameter(values, requires_grad=False))
