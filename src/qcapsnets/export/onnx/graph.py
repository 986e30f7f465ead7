"""A graph in the making: nodes, constants, and what a site does to what passes it.

A site of a float network does nothing. A quantized one rounds by its scheme, in float, and then
passes a QuantizeLinear/DequantizeLinear pair of the narrowest standard type, or a QONNX `Quant`
node of exactly its wordlength; both leave a rounded number as it is. Formats that no standard type
holds are rounded and clipped alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from qcapsnets.errors import ExportError
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.generator import draws
from qcapsnets.fixedpoint.rounding import DRAW_BITS
from qcapsnets.fixedpoint.storage import Fixed
from qcapsnets.models import Site

Nodes = Literal["qdq", "qonnx"]
QONNX = "qonnx.custom_op.general"
OPSET = 21
TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
TYPES |= {"int16": TensorProto.INT16, "uint16": TensorProto.UINT16}


def standard_type(format: FixedPoint) -> str | None:
    """The narrowest type of QuantizeLinear that holds a format."""
    for name in ("uint8", "int8", "uint16", "int16"):
        info = np.iinfo(name)
        if format.signed != name.startswith("u") and (
            info.min <= format.min_code and format.max_code <= info.max
        ):
            return name
    return None


@dataclass
class Graph:
    """Nodes in order; every method returns the name of its result."""

    nodes_for: Nodes = "qdq"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """One node with one result."""
        output = f"{kind.lower()}_{len(self.nodes)}"
        node = helper.make_node(kind, list(inputs), [output], domain=domain, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, value: NDArray[Any] | float | Sequence[int]) -> str:
        """A constant; equal small ones are kept once."""
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        small = array.size <= 16
        name = f"c_{array.dtype}_{array.shape}_{array.tobytes().hex()}" if small else ""
        name = name or f"tensor_{len(self.constants)}"
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))

    def transpose(self, x: str, *axes: int) -> str:
        return self.op("Transpose", x, perm=list(axes))

    def weight(self, site: Site, tensor: Tensor) -> str:
        """Weights: codes and a DequantizeLinear where a standard type fits, else their values."""
        stored = site(tensor).detach().cpu()
        if not isinstance(site.storage, Fixed):
            return self.constant(stored.numpy())
        format = site.storage.format
        kind = standard_type(format)
        if self.nodes_for == "qonnx":
            return self._quant(self.constant(stored.float().numpy()), format)
        if kind is None:
            return self.constant(stored.float().numpy())
        codes = self.constant(format.codes(stored).numpy().astype(kind))
        return self.op("DequantizeLinear", codes, self.constant(format.step))

    def store(self, site: Site, x: str, shape: Sequence[int], *, step: int = 0) -> str:
        """What is read back after writing x; `shape` is one image's, as the layer stores it."""
        if not isinstance(site.storage, Fixed):
            return x
        storage = site.storage
        format = storage.format
        rounded = self._rounded(storage, x, shape, step)
        if self.nodes_for == "qonnx":
            return self._quant(self.op("Mul", rounded, self.constant(format.step)), format)
        low, high = (self.constant(float(c)) for c in (format.min_code, format.max_code))
        clipped = self.op("Clip", rounded, low, high)
        value = self.op("Mul", clipped, self.constant(format.step))
        kind = standard_type(format)
        if kind is None:
            return value
        scale, zero = self.constant(format.step), self.constant(np.zeros((), dtype=kind))
        return self.op(
            "DequantizeLinear", self.op("QuantizeLinear", value, scale, zero), scale, zero
        )

    def _rounded(self, storage: Fixed, x: str, shape: Sequence[int], step: int) -> str:
        """x in steps, rounded by the scheme."""
        scaled = self.op("Mul", x, self.constant(2.0**storage.format.fraction))
        name = storage.way.rounding.name
        if name == "truncation":
            return self.op("Floor", scaled)
        if name == "nearest":  # as the simulator: ceil(floor(2x)/2)
            doubled = self.op("Floor", self.op("Mul", scaled, self.constant(2.0)))
            return self.op("Ceil", self.op("Mul", doubled, self.constant(0.5)))
        if name == "nearest-even":
            return self.op("Round", scaled)
        if name == "stochastic":
            return self._by_chance(storage, scaled, shape, step)
        raise ExportError(
            f"rounding scheme {name!r} has no ONNX form: use truncation, nearest, nearest-even "
            "or stochastic"
        )

    def _by_chance(self, storage: Fixed, scaled: str, shape: Sequence[int], step: int) -> str:
        drawn = draws(storage.way.seed, storage.name, step, shape).double()
        threshold = self.constant(drawn.mul(2.0**-DRAW_BITS).numpy().astype(np.float32)[None])
        floor = self.op("Floor", scaled)
        up = self.op("Greater", self.op("Sub", scaled, floor), threshold)
        return self.op("Add", floor, self.op("Cast", up, to=TensorProto.FLOAT))

    def _quant(self, x: str, format: FixedPoint) -> str:
        zero, bits = self.constant(0.0), self.constant(float(format.wordlength))
        return self.op(
            "Quant",
            x,
            self.constant(format.step),
            zero,
            bits,
            domain=QONNX,
            signed=int(format.signed),
            narrow=0,
            rounding_mode="ROUND",
        )

    def squash(self, s: str, axis: int) -> str:
        """s |s| / (1 + |s|^2), in float."""
        axes = self.constant(np.array([axis], dtype=np.int64))
        squared = self.op("ReduceSumSquare", s, axes, keepdims=1)
        tiny = self.constant(float(np.finfo(np.float32).tiny))
        root = self.op("Sqrt", self.op("Max", squared, tiny))
        below = self.op("Add", squared, self.constant(1.0))
        return self.op("Mul", s, self.op("Div", root, below))
