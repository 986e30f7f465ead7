"""Write a network as ONNX, and compare it with ours in ONNX Runtime."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qcapsnets.data import to_inputs
from qcapsnets.errors import ExportError
from qcapsnets.export.onnx.graph import OPSET, QONNX, Graph, Nodes
from qcapsnets.export.onnx.layers import Value, emit
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.fixedpoint.storage import Fixed
from qcapsnets.models import CapsNet, layers_of, lengths, sites_of


@dataclass(frozen=True)
class ExportedOnnx:
    """What was written."""

    path: Path
    size: int
    nodes: int


@dataclass(frozen=True)
class Agreement:
    """ONNX Runtime against ours: how many classes agree, and by how much lengths differ."""

    images: int
    agreeing: int
    largest: float
    mean: float

    def __str__(self) -> str:
        return (
            f"{self.agreeing} of {self.images} classes agree; lengths differ by "
            f"{self.largest:.2g} at most, {self.mean:.2g} on average"
        )


def export_onnx(model: CapsNet, path: Path, *, nodes: Nodes = "qdq") -> ExportedOnnx:
    """Write a network, quantized or float: images [n, c, h, w] in 0..255/256 -> capsules, lengths.

    `nodes` are `qdq` (QuantizeLinear and DequantizeLinear, for any runtime) or `qonnx` (`Quant`
    nodes of exactly the wordlengths, for tools that know QONNX).
    """
    import onnx
    from onnx import TensorProto, helper

    if nodes not in ("qdq", "qonnx"):
        raise ExportError(f"nodes {nodes!r} are unknown: choose qdq or qonnx")
    graph = Graph(nodes)
    quantized = any(isinstance(site.storage, Fixed) for _, site in sites_of(model))
    source = model if quantized else prepared(model)
    with torch.no_grad():
        value = Value("images", model.image_shape)
        for name, layer in layers_of(source).items():
            value = emit(layer, value, graph, name)
    capsules = graph.op("Identity", value.name)
    graph.nodes[-1].output[0] = capsules = "capsules"
    axis = graph.constant(torch.tensor([2]).numpy())
    graph.op("ReduceL2", capsules, axis, keepdims=0)
    graph.nodes[-1].output[0] = "lengths"
    made = helper.make_graph(
        graph.nodes,
        model.name,
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", *model.image_shape])],
        [
            helper.make_tensor_value_info("capsules", TensorProto.FLOAT, ["n", *value.shape]),
            helper.make_tensor_value_info("lengths", TensorProto.FLOAT, ["n", value.shape[0]]),
        ],
        list(graph.constants.values()),
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if nodes == "qonnx":
        opsets.append(helper.make_opsetid(QONNX, 1))
    proto = helper.make_model(made, opset_imports=opsets, ir_version=10, producer_name="qcapsnets")
    onnx.checker.check_model(proto)
    content = proto.SerializeToString()
    write_atomically(path, content, ExportError)
    return ExportedOnnx(path, len(content), len(graph.nodes))


def compare_onnx(model: CapsNet, path: Path, images: Tensor, *, batch_size: int = 50) -> Agreement:
    """Run a file in ONNX Runtime on images (bytes), beside the network that it was made from."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    agreeing, largest, total = 0, 0.0, 0.0
    for part in images.split(batch_size):
        inputs = to_inputs(part)
        with torch.no_grad():
            ours = lengths(model(inputs)).double()
        theirs = torch.from_numpy(session.run(["lengths"], {"images": inputs.numpy()})[0]).double()
        difference = (ours - theirs).abs()
        agreeing += int((ours.argmax(-1) == theirs.argmax(-1)).sum())
        largest = max(largest, float(difference.max()))
        total += float(difference.mean()) * len(part)
    return Agreement(len(images), agreeing, largest, total / len(images))
