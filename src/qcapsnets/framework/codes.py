"""A quantized model in a file: the integer codes of its weights, and the formats of every site."""

from pathlib import Path

from qcapsnets.errors import SearchError
from qcapsnets.fixedpoint.quantize import fixed_sites, formats_of, quantization_of
from qcapsnets.fixedpoint.storage import FixedWeights
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import TensorFile, write_tensors


def save_codes(quantized: CapsNet, path: Path) -> None:
    """Write the codes of all weights, in the narrowest types, with the plan and the formats."""
    how = quantization_of(quantized)
    tensors = {
        name: storage.codes().to(storage.format.narrowest_dtype)
        for name, _, storage in fixed_sites(quantized)
        if isinstance(storage, FixedWeights)
    }
    header = {
        "quantized": quantized.name,
        "options": quantized.options,
        "plan": how.plan.to_json(),
        "formats": {name: str(format) for name, format in formats_of(quantized).items()},
        "rounding": how.way.rounding.name,
        "seed": how.way.seed,
        "points": how.points,
    }
    write_tensors(path, TensorFile(tensors, header), SearchError)
