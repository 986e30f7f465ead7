"""A quantized network for the oracle, and every array that torch stores in it, as codes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from tests.oracle import network as oracle
from tests.oracle.numbers import Format, parse
from torch import Tensor, nn

from qcapsnets.fixedpoint import quantization_of
from qcapsnets.fixedpoint.storage import Fixed, FixedWeights
from qcapsnets.models import (
    Block,
    CapsNet,
    Conv,
    ConvCaps,
    Layer,
    RoutedCaps,
    RoutedConvCaps,
    Site,
    Term,
    layers_of,
    sites_of,
)

PARAMETERS = {
    "weights": "weight",
    "biases": "bias",
    "routing_biases": "routing_bias",
    "scales": "scale",
    "shifts": "shift",
}

Key = tuple[str, int]
"""A site and a step."""


def fixed_sites(model: nn.Module) -> Iterator[tuple[str, Site, Fixed]]:
    for name, site in sites_of(model):
        if isinstance(site.storage, Fixed):
            yield name, site, site.storage


def storages(model: nn.Module) -> dict[str, Fixed]:
    return {name: storage for name, _, storage in fixed_sites(model)}


def formats(model: nn.Module) -> dict[str, Format]:
    return {name: parse(str(storage.format)) for name, storage in storages(model).items()}


def real_weights(model: nn.Module) -> dict[str, Any]:
    """The weights before they are rounded, as exact fractions, by site."""
    parameters = dict(model.named_parameters())
    found = {}
    for name, storage in storages(model).items():
        if isinstance(storage, FixedWeights):
            layer, _, site = name.rpartition(".")
            found[name] = fractions(parameters[f"{layer}.{PARAMETERS[site]}"].tolist())
    return found


def fractions(reals: Any) -> Any:
    """Floats as exact fractions."""
    if isinstance(reals, list):
        return [fractions(real) for real in reals]
    return reals.as_integer_ratio()


def oracle_of(quantized: CapsNet, *, draws: bool | None = None) -> oracle.Network:
    """The same network in plain integers, from the same real weights."""
    way = quantization_of(quantized).way
    layers = {name: describe(layer) for name, layer in layers_of(quantized).items()}
    scheme, reals = way.rounding.name, real_weights(quantized)
    return oracle.Network(layers, formats(quantized), reals, scheme, way.seed, draws)


def describe(layer: Layer) -> Any:
    """What the oracle must know of a layer beside its sites."""
    if isinstance(layer, Block):
        l1, l2, l3, skip = map(describe, (layer.l1, layer.l2, layer.l3, layer.skip))
        return oracle.Block(l1, l2, l3, skip, layer.carry)
    if isinstance(layer, RoutedCaps):
        return oracle.RoutedCaps(layer.iterations, layer.routing_bias is not None)
    assert isinstance(layer, Conv | ConvCaps | RoutedConvCaps)
    steps = layer.convolution.stride, layer.convolution.padding
    if isinstance(layer, Conv):
        return oracle.Conv(*steps, layer.norm is not None)
    if isinstance(layer, ConvCaps):
        return oracle.ConvCaps(layer.dimension, *steps)
    bias = layer.routing_bias is not None
    return oracle.RoutedConvCaps(layer.dimension, *steps, layer.iterations, bias)


class Watched(Fixed):
    """Keeps what it stores, for all images."""

    def __init__(self, fixed: Fixed, trace: dict[Key, list[Tensor]]) -> None:
        super().__init__(fixed.name, fixed.format, fixed.way)
        self.trace = trace
        self.used = fixed.used

    def store(self, x: Tensor, *, step: int = 0) -> Tensor:
        return self.watch(super().store(x, step=step), step)

    def consume(self, x: Tensor, *, step: int = 0) -> Tensor:
        return self.store(x, step=step)

    def squash(self, s: Term, *, dim: int, step: int = 0) -> Tensor:
        return self.watch(super().squash(s, dim=dim, step=step), step)

    def softmax(self, b: Term, *, dim: int, step: int = 0) -> Tensor:
        return self.watch(super().softmax(b, dim=dim, step=step), step)

    def watch(self, stored: Tensor, step: int) -> Tensor:
        self.trace.setdefault((self.name, step), []).append(stored.detach())
        return stored


@contextmanager
def watched(model: nn.Module) -> Iterator[dict[Key, list[Tensor]]]:
    """Everything but weights that is stored while the context lasts, by site and step."""
    trace: dict[Key, list[Tensor]] = {}
    before = [(site, storage) for _, site, storage in fixed_sites(model)]
    try:
        for site, storage in before:
            if storage.per_image:
                site.storage = Watched(storage, trace)
        yield trace
    finally:
        for site, storage in before:
            site.storage = storage


@torch.no_grad()
def codes_of(model: nn.Module, inputs: Tensor) -> dict[Key, Tensor]:
    """The codes of every array stored, [images, ...], by site and step."""
    with watched(model) as trace:
        model(inputs)
    where = storages(model)
    return {
        (site, step): where[site].format.codes(_all(parts, inputs))
        for (site, step), parts in trace.items()
    }


def _all(parts: list[Tensor], inputs: Tensor) -> Tensor:
    """Chunks of images together; what is the same for all images of a chunk, for each."""
    if sum(map(len, parts)) == len(inputs):
        return torch.cat(parts)
    return parts[0].expand(len(inputs), *parts[0].shape[1:])


def differences(quantized: CapsNet, inputs: Tensor, *, draws: bool | None = None) -> list[str]:
    """Where torch and the oracle differ; empty if every code of every site is the same."""
    expected = oracle_of(quantized, draws=draws)
    found = codes_of(quantized, inputs)
    wrong = [
        name
        for name, storage in storages(quantized).items()
        if isinstance(storage, FixedWeights) and storage.codes().tolist() != expected.weights[name]
    ]
    for image in range(len(inputs)):
        expected.run(inputs[image].mul(256).int().tolist())
        wrong += [f"{key} is stored by one only" for key in expected.trace.keys() ^ found.keys()]
        wrong += [
            f"{site} step {step} of image {image}"
            for (site, step), codes in expected.trace.items()
            if (site, step) in found and found[site, step][image].tolist() != codes
        ]
    return wrong
