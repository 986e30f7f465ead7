"""ONNX for each kind of layer. Shapes are of one image; the batch comes first and is free."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qcapsnets.errors import ExportError
from qcapsnets.export.onnx.graph import Graph
from qcapsnets.models import Block, Conv, ConvCaps, Layer, Routed, RoutedCaps, RoutedConvCaps
from qcapsnets.models.contractions import Convolution
from qcapsnets.models.layers import ScaleShift

BATCH = -1


@dataclass(frozen=True)
class Value:
    """A result and its shape for one image."""

    name: str
    shape: tuple[int, ...]


OnnxEmitter = Callable[[Any, Value, Graph], Value]


def emit(layer: Layer, x: Value, graph: Graph, name: str) -> Value:
    """Add one layer."""
    emitter = EMITTERS.get(type(layer))
    if emitter is None:
        known = ", ".join(kind.__name__ for kind in EMITTERS)
        raise ExportError(
            f"layer {name!r} is a {type(layer).__name__}, which has no ONNX form (known are "
            f"{known}): add one to qcapsnets.export.onnx.layers.EMITTERS"
        )
    return emitter(layer, x, graph)


def _as_channels(x: Value, graph: Graph) -> Value:
    if len(x.shape) == 3:
        return x
    shape = (x.shape[0] * x.shape[1], *x.shape[2:])
    return Value(graph.reshape(x.name, BATCH, *shape), shape)


def _as_capsules(x: Value, graph: Graph) -> Value:
    if len(x.shape) == 2:
        return x
    capsules, dimension, height, width = x.shape
    count = capsules * height * width
    last = graph.transpose(x.name, 0, 1, 3, 4, 2)
    return Value(graph.reshape(last, BATCH, count, dimension), (count, dimension))


def _convolve(layer: Any, x: Value, graph: Graph) -> Value:
    convolution: Convolution = layer.convolution
    outputs, _, kernel, _ = layer.weight.shape
    name = graph.op(
        "Conv",
        x.name,
        graph.weight(layer.weights, layer.weight),
        graph.weight(layer.biases, layer.bias),
        strides=[convolution.stride] * 2,
        pads=[convolution.padding] * 4,
    )
    sizes = (
        (size + 2 * convolution.padding - kernel) // convolution.stride + 1 for size in x.shape[1:]
    )
    return Value(name, (outputs, *sizes))


def _conv(layer: Conv, x: Value, graph: Graph) -> Value:
    y = _convolve(layer, _as_channels(x, graph), graph)
    name = graph.op("Relu", y.name)
    if isinstance(layer.norm, ScaleShift):
        sides = (layer.norm.scales, layer.norm.scale), (layer.norm.shifts, layer.norm.shift)
        scale, shift = (
            graph.reshape(graph.weight(site, value), 1, y.shape[0], 1, 1) for site, value in sides
        )
        name = graph.op("Add", graph.op("Mul", name, scale), shift)
    return Value(graph.store(layer.activation, name, y.shape), y.shape)


def _conv_caps(layer: ConvCaps, x: Value, graph: Graph) -> Value:
    s = _convolve(layer, _as_channels(x, graph), graph)
    stored = graph.store(layer.preactivation, s.name, s.shape)
    shape = (layer.capsules, layer.dimension, *s.shape[1:])
    v = graph.squash(graph.reshape(stored, BATCH, *shape), 2)
    return Value(graph.store(layer.activation, v, shape), shape)


def _route(layer: Routed, votes: Value, graph: Graph, places: int) -> Value:
    """Votes [i, j, d] -> capsules [j, d]."""
    inputs, outputs, dimension = votes.shape
    pairs, capsules = (inputs, outputs), (outputs, dimension)
    by_output = graph.transpose(votes.name, 0, 2, 1, 3)  # [j, i, d]
    bias = _routing_bias(layer, graph, places)
    b = graph.constant(np.zeros((1, *pairs), dtype=np.float32))
    v = ""
    for step in range(layer.iterations):
        c = graph.store(layer.coupling, graph.op("Softmax", b, axis=2), pairs, step=step)
        rows = graph.op("Unsqueeze", graph.transpose(c, 0, 2, 1), graph.constant(np.array([2])))
        s = graph.reshape(graph.op("MatMul", rows, by_output), BATCH, *capsules)
        s = s if bias is None else graph.op("Add", s, bias)
        s = graph.store(layer.preactivation, s, capsules, step=step)
        v = graph.store(layer.activation, graph.squash(s, 2), capsules, step=step)
        if step < layer.iterations - 1:
            column = graph.op("Unsqueeze", v, graph.constant(np.array([3])))
            agreement = graph.reshape(graph.op("MatMul", by_output, column), BATCH, outputs, inputs)
            total = graph.op("Add", graph.transpose(agreement, 0, 2, 1), b)
            b = graph.store(layer.logits, total, pairs, step=step)
    return Value(v, capsules)


def _routing_bias(layer: Routed, graph: Graph, places: int) -> str | None:
    if layer.routing_bias is None or layer.routing_biases is None:
        return None
    capsules, dimension = layer.routing_bias.shape
    bias = graph.weight(layer.routing_biases, layer.routing_bias)
    each = graph.reshape(bias, capsules, 1, dimension)
    sizes = graph.constant(np.array([1, places, 1], dtype=np.int64))
    repeated = graph.op("Tile", each, sizes)
    return graph.reshape(repeated, 1, capsules * places, dimension)


def _routed_caps(layer: RoutedCaps, x: Value, graph: Graph) -> Value:
    u = _as_capsules(x, graph)
    outputs, inputs, length, dimension = layer.weight.shape
    weight = graph.transpose(graph.weight(layer.weights, layer.weight), 1, 2, 0, 3)
    matrices = graph.reshape(weight, inputs, length, outputs * dimension)
    rows = graph.op("Unsqueeze", u.name, graph.constant(np.array([2])))
    shape = inputs, outputs, dimension
    votes = graph.reshape(graph.op("MatMul", rows, matrices), BATCH, *shape)
    stored = graph.store(layer.votes, votes, shape)
    return _route(layer, Value(stored, shape), graph, 1)


def _routed_conv_caps(layer: RoutedConvCaps, x: Value, graph: Graph) -> Value:
    capsules, dimension, height, width = x.shape
    maps = Value(graph.reshape(x.name, BATCH, dimension, height, width), x.shape[1:])
    y = _convolve(layer, maps, graph)
    places = math.prod(y.shape[1:])
    split = graph.reshape(y.name, BATCH, capsules, layer.capsules, layer.dimension, places)
    shape = capsules, layer.capsules * places, layer.dimension
    votes = graph.reshape(graph.transpose(split, 0, 1, 2, 4, 3), BATCH, *shape)
    v = _route(layer, Value(graph.store(layer.votes, votes, shape), shape), graph, places)
    result = (layer.capsules, layer.dimension, *y.shape[1:])
    back = graph.reshape(v.name, BATCH, layer.capsules, *y.shape[1:], layer.dimension)
    return Value(graph.transpose(back, 0, 1, 4, 2, 3), result)


def _block(layer: Block, x: Value, graph: Graph) -> Value:
    shared = emit(layer.l1, x, graph, "l1")
    skipped = emit(layer.skip, shared, graph, "skip")
    third = emit(layer.l3, emit(layer.l2, shared, graph, "l2"), graph, "l3")
    total = graph.op("Add", third.name, skipped.name)
    y = Value(graph.store(layer.activation, total, third.shape), third.shape)
    if not layer.carry:
        return y
    both = _as_capsules(x, graph), _as_capsules(y, graph)
    joined = graph.op("Concat", both[0].name, both[1].name, axis=1)
    return Value(joined, (both[0].shape[0] + both[1].shape[0], both[0].shape[1]))


EMITTERS: dict[type[Layer], OnnxEmitter] = {
    Conv: _conv,
    ConvCaps: _conv_caps,
    RoutedCaps: _routed_caps,
    RoutedConvCaps: _routed_conv_caps,
    Block: _block,
}
