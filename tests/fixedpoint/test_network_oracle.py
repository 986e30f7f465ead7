"""Whole layers and networks: torch against plain integers, with ==, at every site."""

import random
from collections import OrderedDict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.fixedpoint import described, strategies
from tests.fixedpoint.described import differences
from tests.fixedpoint.strategies import SCHEMES
from tests.oracle import network as oracle
from tests.oracle import numbers
from torch import Tensor, nn

from qcapsnets.data import load, to_inputs
from qcapsnets.fixedpoint import (
    Calibration,
    FixedPoint,
    Plan,
    Points,
    Wordlengths,
    formats_of,
    inexact_sites,
    quantize,
    register_rounding,
    roundings,
)
from qcapsnets.fixedpoint.plan import parts_of, routed
from qcapsnets.fixedpoint.storage import Fixed, FixedWeights, Way
from qcapsnets.models import (
    Block,
    CapsNet,
    Conv,
    ConvCaps,
    Kind,
    Layer,
    RoutedCaps,
    RoutedConvCaps,
    Site,
    build,
    routing,
    sites_of,
)

SHALLOW: dict[str, Any] = {
    "size": 20,
    "conv_channels": 4,
    "primary_capsules": 2,
    "primary_dimension": 4,
    "class_dimension": 4,
}
DEEP: dict[str, Any] = {
    "size": 14,
    "conv_channels": 3,
    "capsules": 2,
    "first_dimension": 2,
    "dimension": 4,
    "class_dimension": 4,
}
POINTS: tuple[Points, ...] = ("mse", "max", "unit")


def composed() -> CapsNet:
    """A third network: routed convolution in mid-network, other strides, one and two iterations."""
    layers: dict[str, Layer] = {
        "first": ConvCaps(1, 2, 3, kernel=5, stride=3),
        "conv": Conv(6, 4, kernel=2, batch_norm=True),
        "caps": ConvCaps(4, 3, 2, kernel=2, padding=1),
        "shared": RoutedConvCaps(2, 2, 3, kernel=2, stride=2, iterations=2, bias=True),
        "middle": RoutedCaps(8, 3, 4, 3, iterations=1),
        "last": RoutedCaps(4, 3, 10, 4, iterations=2, bias=True),
    }
    return CapsNet(layers, image_shape=(1, 14, 14), classes=10)


@cache
def network(kind: str) -> tuple[CapsNet, Calibration, Tensor]:
    """A network with random weights, its calibration, and some inputs."""
    torch.manual_seed(3)
    makers = {
        "shallowcaps-small": lambda: build("shallowcaps-small", **SHALLOW, routing_bias=True),
        "deepcaps-small": lambda: build("deepcaps-small", **DEEP),
        "composed": composed,
    }
    model = makers[kind]().eval()
    shake(model)
    images = load("mnist-mini", size=model.image_shape[1]).train.images
    return model, Calibration.record(model, images[:30]), to_inputs(images[30:33])


@torch.no_grad()
def shake(model: nn.Module) -> None:
    """Weights large enough for long capsules and logits that differ; batch norms that do much."""
    for parameter in model.parameters():
        parameter.mul_(2)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.01, 3)
            module.weight.normal_()
            module.bias.normal_()
        elif isinstance(module, RoutedConvCaps):
            module.bias.normal_(std=0.2)


def random_plan(model: CapsNet, seed: int) -> Plan:
    """2 to 16 bits, mixed, at one granularity or the other."""
    choose = random.Random(seed)
    parts = parts_of(model, choose.choice(["block", "layer"]))
    return Plan(
        {
            name: Wordlengths(
                choose.randint(2, 16),
                choose.randint(2, 16),
                choose.randint(2, 16) if routed(sites) else None,
            )
            for name, sites in parts.items()
        }
    )


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("kind", "plans", "images"),
    [("shallowcaps-small", 3, 1), ("deepcaps-small", 1, 1), ("composed", 2, 1)],
)
def test_random_plans(kind: str, plans: int, images: int, scheme: str, points: Points) -> None:
    model, calibration, inputs = network(kind)
    for plan in range(plans):
        seed = 1000 * plan + sum(map(ord, scheme + points))
        quantized = quantize(
            model, random_plan(model, seed), calibration, scheme, seed=seed, points=points
        )
        assert differences(quantized, inputs[:images]) == []
        assert inexact_sites(quantized) == []


@pytest.mark.parametrize("wordlength", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("kind", ["shallowcaps-small", "deepcaps-small", "composed"])
def test_uniform_plans(kind: str, wordlength: int) -> None:
    model, calibration, inputs = network(kind)
    quantized = quantize(model, Plan.uniform(model, wordlength), calibration)
    assert differences(quantized, inputs[1:2]) == []


def test_every_site_is_compared() -> None:
    """The comparison itself: each site is in it, and a difference of one code is found."""
    model, calibration, inputs = network("deepcaps-small")
    quantized = quantize(model, Plan.uniform(model, 5), calibration)
    compared = {site for site, _ in described.codes_of(quantized, inputs[:1])}
    weights = {name for name, site in sites_of(quantized) if site.kind is Kind.WEIGHT}
    assert compared | weights == set(formats_of(quantized))
    site = dict(sites_of(quantized))["block2.l3.activation"]
    assert isinstance(site.storage, Fixed)
    wrong = described.oracle_of(quantized)
    wrong.formats["block2.l3.activation"] = numbers.parse("s5f3")
    wrong.run(inputs[0].mul(256).int().tolist())
    right = described.codes_of(quantized, inputs[:1])
    assert wrong.trace["block2.l2.activation", 0] == right["block2.l2.activation", 0][0].tolist()
    assert wrong.trace["block2.l3.activation", 0] != right["block2.l3.activation", 0][0].tolist()


def half_down(q: Any, r: Any, d: Any, u: Any) -> Any:
    return 2 * r > d


def four_bits_of_chance(q: Any, r: Any, d: Any, u: Any) -> Any:
    return (u >> 20) * d < r * 16


@pytest.fixture(params=[(half_down, False), (four_bits_of_chance, True)], ids=["plain", "draws"])
def users_scheme(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, bool]]:
    """A scheme that a user registered, known to the oracle too."""
    up, draws = request.param
    register_rounding("users", up, draws=draws)
    rounded = numbers.rounded

    def with_it(scheme: str, n: int, d: int, draw: int = 0) -> int:
        q, r = divmod(n, d)
        return q + bool(up(q, r, d, draw)) if scheme == "users" else rounded(scheme, n, d, draw)

    monkeypatch.setattr(numbers, "rounded", with_it)
    yield "users", draws
    del roundings._values["users"]


@pytest.mark.parametrize("kind", ["shallowcaps-small", "deepcaps-small", "composed"])
def test_a_users_scheme(kind: str, users_scheme: tuple[str, bool]) -> None:
    scheme, draws = users_scheme
    model, calibration, inputs = network(kind)
    for seed in (1, 2):
        quantized = quantize(model, random_plan(model, seed), calibration, scheme, seed=9)
        assert differences(quantized, inputs[:1], draws=draws) == []


@pytest.mark.parametrize("kind", ["shallowcaps-small", "deepcaps-small"])
def test_chunks_of_images_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calibration, inputs = network(kind)
    quantized = quantize(model, Plan.uniform(model, 6), calibration, "stochastic", seed=2)
    monkeypatch.setattr(routing, "NUMBERS_IN_CACHE", 1)
    assert differences(quantized, inputs[:2]) == []


# One layer at a time, with formats that no calibration would choose.


def words(signed: bool = True, spread: int = 4) -> st.SearchStrategy[FixedPoint]:
    """2 to 16 bits, with the binary point within some places of the word's ends."""
    return st.integers(2, 16).flatmap(
        lambda n: st.builds(
            FixedPoint,
            wordlength=st.just(n),
            fraction=st.integers(n - 1 - spread, n - 1 + spread),
            signed=st.just(signed),
        )
    )


@st.composite
def layers(draw: st.DrawFn) -> tuple[Layer, tuple[int, ...]]:
    """A small layer, and the shape of its input."""
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    steps = {"kernel": kernel, "stride": stride, "padding": draw(st.integers(0, 1))}
    dimension, iterations = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    bias, norm = draw(st.booleans()), draw(st.booleans())
    height, width = draw(st.integers(3, 4)), draw(st.integers(3, 4))
    kinds: dict[str, tuple[Layer, tuple[int, ...]]] = {
        "conv": (Conv(2, 3, **steps, batch_norm=norm), (2, height, width)),
        "caps": (ConvCaps(2, 2, dimension, **steps), (2, height, width)),
        "routed": (RoutedCaps(4, 2, 3, dimension, iterations=iterations, bias=bias), (4, 2)),
        "shared": (
            RoutedConvCaps(2, 2, dimension, **steps, iterations=iterations, bias=bias),
            (3, 2, height, width),
        ),
        "block": (block(dimension, iterations, bias), (1, dimension, height, width)),
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]


def block(dimension: int, iterations: int, bias: bool) -> Block:
    def caps(inputs: int, stride: int = 1) -> ConvCaps:
        return ConvCaps(inputs, 2, dimension, kernel=3, stride=stride, padding=1)

    skip = RoutedConvCaps(
        dimension, 2, dimension, kernel=3, padding=1, iterations=iterations, bias=bias
    )
    channels = 2 * dimension
    return Block(
        caps(dimension, 2),
        caps(channels),
        caps(channels),
        skip if bias else caps(channels),
        carry=iterations > 1,
    )


@st.composite
def calls(draw: st.DrawFn) -> tuple[nn.Sequential, Any, Tensor]:
    """A layer whose sites are filled at random, the oracle's, and the codes of one input."""
    layer, shape = draw(layers())
    source, scheme = draw(words(draw(st.booleans()))), draw(strategies.schemes)
    for module in layer.modules():
        if isinstance(module, Conv):
            module.fold()
    torch.manual_seed(draw(st.integers(0, 99)))
    scale = draw(st.sampled_from([0.1, 1.0, 4.0]))
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=scale)
    sequence = nn.Sequential(OrderedDict(layer=layer))
    way = Way(roundings[scheme], draw(st.integers(0, 2**64 - 1)))
    for name, site in sites_of(sequence):
        if site.kind is not Kind.ACCUMULATOR:
            format = draw(words(site.signed, 12 if site.kind is Kind.WEIGHT else 4))
            kind = FixedWeights if site.kind is Kind.WEIGHT else Fixed
            site.storage = kind(name, format, way)
    place = Site(Kind.ACTIVATION, signed=source.signed)
    place.storage = Fixed("source", source, way)
    layer.connect(place)
    extremes = [source.min_code, source.max_code]
    low, high = draw(st.sampled_from([(*extremes,), (source.max_code - 1, source.max_code)]))
    codes = torch.randint(low, high + 1, (2, *shape))
    return sequence, source, codes


@settings(deadline=None, max_examples=100)
@given(calls())
def test_layers_with_any_formats(call: tuple[nn.Sequential, FixedPoint, Tensor]) -> None:
    sequence, source, codes = call
    found = described.codes_of(sequence, source.values(codes))
    storages = described.storages(sequence)
    assume(all(storage.exact for storage in storages.values()))
    way, layer = next(iter(storages.values())).way, sequence[0]
    expected = oracle.Network(
        {},
        described.formats(sequence),
        described.real_weights(sequence),
        way.rounding.name,
        way.seed,
    )
    assert isinstance(layer, Layer)
    kind = oracle.Map if codes.ndim > 3 else oracle.Capsules
    for image, given_codes in enumerate(codes.tolist()):
        expected.trace.clear()
        expected.layer("layer", described.describe(layer), kind(given_codes, source.fraction))
        assert found.keys() == expected.trace.keys()
        for key, stored in expected.trace.items():
            assert found[key][image].tolist() == stored, key
