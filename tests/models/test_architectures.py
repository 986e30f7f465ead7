"""ShallowCaps and DeepCaps: sizes of reference-numbers.md, sites, geometry; composition."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from tests.networks import Recorder, record, tiny, tiny_deep
from torch import Tensor

from qcapsnets.errors import ModelError
from qcapsnets.models import (
    Block,
    CapsNet,
    Contraction,
    Conv,
    ConvCaps,
    DeepCapsConfig,
    Joined,
    Kind,
    Layer,
    RoutedCaps,
    ShallowCapsConfig,
    Site,
    build,
    deepcaps,
    layers_of,
    shallowcaps,
    sites_of,
)
from qcapsnets.models.layers import as_capsules


def parameters(model: CapsNet) -> list[int]:
    """Per layer; a batch norm counts as scale and shift."""
    return [sum(p.numel() for p in layer.parameters()) for layer in layers_of(model).values()]


def recorded(model: CapsNet) -> dict[str, Recorder]:
    recorders = record(model)
    with torch.no_grad():
        model.eval()(torch.zeros(1, *model.image_shape))
    return recorders


def outputs(model: CapsNet) -> tuple[list[int], dict[str, int]]:
    """Numbers that each layer stores at its end, and votes, for one image."""
    recorders = recorded(model)
    numbers = [recorders[f"{name}.activation"].stored[-1].numel() for name in layers_of(model)]
    votes = {n: r.stored[0].numel() for n, r in recorders.items() if n.endswith(".votes")}
    return numbers, votes


def test_parameters_of_shallowcaps() -> None:
    assert parameters(build("shallowcaps")) == [20_992, 5_308_672, 1_474_560]
    with_bias = parameters(build("shallowcaps", routing_bias=True))
    assert with_bias == [20_992, 5_308_672, 1_474_720]
    assert sum(with_bias) == 6_804_384


def test_parameters_of_deepcaps() -> None:
    blocks = [590_336, 2_065_408, 2_360_320, 1_789_184]
    full = parameters(build("deepcaps"))
    assert full == [1_536, *blocks, 1_638_720]
    assert sum(full) == 8_445_504
    without = parameters(build("deepcaps", routing_bias=False))
    assert without == [1_536, *blocks[:3], blocks[3] - 32 * 8, 1_638_720 - 10 * 32]
    large = parameters(build("deepcaps", size=64, channels=3))
    assert large == [3_840, *blocks, 6_553_920]
    assert sum(large) == 13_363_008


def test_outputs_of_shallowcaps() -> None:
    assert outputs(build("shallowcaps")) == ([102_400, 9_216, 160], {"digit.votes": 184_320})


def test_outputs_of_deepcaps() -> None:
    assert outputs(build("deepcaps")) == (
        [100_352, 25_088, 12_544, 4_096, 1_024, 320],
        {"block4.skip.votes": 32_768, "digit.votes": 204_800},
    )


def test_outputs_of_deepcaps_for_64x64() -> None:
    assert outputs(build("deepcaps", size=64, channels=3)) == (
        [524_288, 131_072, 65_536, 16_384, 4_096, 320],
        {"block4.skip.votes": 131_072, "digit.votes": 819_200},
    )


class Worker(Recorder):
    """Counts the products of every sum."""

    products = 0

    def contract(self, contraction: Contraction, own: Tensor, *args: Any, **options: Any) -> Tensor:
        result = super().contract(contraction, own, *args, **options)
        self.products += contraction.terms(own) * result.numel()
        return result


@pytest.mark.parametrize("name", ["shallowcaps", "deepcaps"])
def test_small_ones_have_a_fifteenth_of_the_work(name: str) -> None:
    def multiplications(model: CapsNet) -> int:
        """Products in all sums for one image."""
        worker = Worker()
        for _, site in sites_of(model):
            site.storage = worker
        with torch.no_grad():
            model.eval()(torch.zeros(1, *model.image_shape))
        return worker.products

    ratio = multiplications(build(name)) / multiplications(build(f"{name}-small"))
    assert 13 < ratio < 18


WEIGHTS = ["weights", "biases"]
CAPS = [*WEIGHTS, "preactivation", "activation"]
ROUTED = ["weights", "votes", "logits", "coupling", "preactivation", "activation"]


def below(prefix: str, names: list[str]) -> list[str]:
    return [f"{prefix}.{name}" for name in names]


def test_sites_of_shallowcaps() -> None:
    assert sorted(name for name, _ in sites_of(tiny())) == sorted(
        [
            *below("conv", ["image", *WEIGHTS, "activation"]),
            *below("primary", CAPS),
            *below("digit", ROUTED),
        ]
    )


def test_sites_of_deepcaps() -> None:
    expected = below("conv", ["image", *WEIGHTS, "accumulator", "activation"])
    for block in ("block1", "block2", "block3", "block4"):
        expected.append(f"{block}.activation")
        for part in ("l1", "l2", "l3"):
            expected += below(f"{block}.{part}", CAPS)
        if block != "block4":
            expected += below(f"{block}.skip", CAPS)
    expected += below("block4.skip", [*ROUTED, "biases", "routing_biases"])
    expected += below("digit", [*ROUTED, "routing_biases"])
    assert sorted(name for name, _ in sites_of(tiny_deep())) == sorted(expected)


def unit_names(model: CapsNet, layer: str) -> dict[str, set[str]]:
    names = {site: name for name, site in sites_of(model)}
    units = layers_of(model)[layer].units()
    return {unit: {names[site] for site in sites} for unit, sites in units.items()}


def test_a_plain_layer_is_one_unit() -> None:
    expected = {"": set(below("conv", ["image", *WEIGHTS, "activation"]))}
    assert unit_names(tiny(), "conv") == expected


def test_a_block_has_four_units_and_its_sum_belongs_to_l3() -> None:
    assert unit_names(tiny_deep(), "block1") == {
        "l1": set(below("block1.l1", CAPS)),
        "l2": set(below("block1.l2", CAPS)),
        "l3": {*below("block1.l3", CAPS), "block1.activation"},
        "skip": set(below("block1.skip", CAPS)),
    }


@pytest.mark.parametrize("model", [tiny(), tiny_deep()], ids=["shallow", "deep"])
def test_every_site_is_in_one_unit(model: CapsNet) -> None:
    in_units = [
        site
        for layer in layers_of(model).values()
        for sites in layer.units().values()
        for site in sites
    ]
    assert len(in_units) == len(set(in_units))
    assert set(in_units) == {site for _, site in sites_of(model)}


def test_each_layer_reads_where_the_one_before_stored() -> None:
    model = tiny_deep()
    layers = layers_of(model)
    assert layers["conv"].source is layers["conv"].image
    for before, after in (("conv", "block1"), ("block1", "block2"), ("block3", "block4")):
        assert layers[after].source is layers[before].activation
    block = layers["block4"]
    assert isinstance(block, Block)
    assert block.l1.source is layers["block3"].activation
    assert block.l2.source is block.skip.source is block.l1.activation
    assert block.l3.source is block.l2.activation


def test_the_capsule_layer_of_deepcaps_reads_both_last_blocks() -> None:
    layers = layers_of(tiny_deep())
    source = layers["digit"].source
    assert isinstance(source, Joined)
    assert source.places == (layers["block3"].activation, layers["block4"].activation)


def test_joined_places_describe_their_numbers_together() -> None:
    class Named(Recorder):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def join(self, other: Any) -> "Named":
            return Named(f"{self.name}+{other.name}")

    sites = [Site(Kind.ACTIVATION) for _ in range(3)]
    for site, name in zip(sites, "abc", strict=True):
        site.storage = Named(name)
    joined = Joined(tuple(sites)).storage
    assert isinstance(joined, Named)
    assert joined.name == "a+b+c"


def test_the_capsule_layer_of_deepcaps_sees_block3_then_block4() -> None:
    model = tiny_deep().eval()
    recorders = record(model)
    x = torch.rand(2, 1, 14, 14)
    for layer in list(layers_of(model).values())[:-1]:
        x = layer(x)
    third, fourth = (recorders[f"block{n}.activation"].stored[0] for n in (3, 4))
    assert third.shape == (2, 2, 4, 2, 2)
    assert fourth.shape == (2, 2, 4, 1, 1)
    assert torch.equal(x, torch.cat([as_capsules(third), as_capsules(fourth)], dim=1))


@pytest.mark.parametrize("name", ["deepcaps", "deepcaps-small"])
def test_a_fresh_deepcaps_tells_images_apart_in_every_block(name: str) -> None:
    """Squash shrinks short capsules quadratically: weights that are too small end all signals."""
    torch.manual_seed(0)
    x = torch.rand(8, 1, 28, 28)
    with torch.no_grad():
        for layer in layers_of(build(name)).values():
            x = layer(x)
            assert x.std(0).mean() > 0.05


@pytest.mark.parametrize("size", [17, 21, 28, 32, 33, 64])
@pytest.mark.parametrize(("channels", "classes"), [(1, 10), (3, 7)])
def test_shallowcaps_of_other_sizes(size: int, channels: int, classes: int) -> None:
    config = ShallowCapsConfig(
        size, channels, classes, conv_channels=4, primary_capsules=2, class_dimension=5
    )
    model = shallowcaps(config)
    assert model(torch.rand(2, channels, size, size)).shape == (2, classes, 5)


@pytest.mark.parametrize("size", [1, 2, 9, 15, 28, 32, 33, 64])
@pytest.mark.parametrize(("channels", "classes"), [(1, 10), (3, 7)])
def test_deepcaps_of_other_sizes(size: int, channels: int, classes: int) -> None:
    options: dict[str, Any] = {"capsules": 2, "first_dimension": 2, "dimension": 3}
    config = DeepCapsConfig(size, channels, classes, conv_channels=4, class_dimension=5, **options)
    model = deepcaps(config)
    assert model(torch.rand(2, channels, size, size)).shape == (2, classes, 5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 8}, "9x9 kernel does not fit a 8x8 map"),
        ({"size": 16}, "9x9 kernel does not fit a 8x8 map"),
        ({"conv_kernel": 29}, "29x29 kernel does not fit a 28x28 map"),
        ({"primary_kernel": 21}, "21x21 kernel does not fit a 20x20 map"),
    ],
)
def test_an_impossible_geometry_is_an_error(options: dict[str, int], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build("shallowcaps", **options)


@pytest.mark.parametrize("name", ["shallowcaps", "deepcaps"])
@pytest.mark.parametrize("option", ["size", "channels", "classes", "conv_channels", "iterations"])
@pytest.mark.parametrize("value", [0, -3, 2.0, "28", None, True])
def test_sizes_are_whole_and_positive(name: str, option: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"{option} was given as {value!r}: .* from 1 up"):
        build(name, **{option: value})


@pytest.mark.parametrize("value", [1, "yes", None])
def test_the_routing_bias_is_true_or_false(value: object) -> None:
    with pytest.raises(ModelError, match=f"routing_bias was given as {value!r}: .*true or false"):
        build("deepcaps", routing_bias=value)


def test_a_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        ShallowCapsConfig().size = 3  # type: ignore[misc]


@pytest.mark.parametrize("shape", [(2, 3, 14, 14), (2, 1, 28, 28), (2, 1, 14, 13), (1, 14, 14)])
def test_wrong_images_are_an_error_with_both_shapes(shape: tuple[int, ...]) -> None:
    given = "x".join(map(str, shape[1:]))
    with pytest.raises(ModelError, match=f"shallowcaps was given images of {given} .*1x14x14"):
        tiny()(torch.zeros(shape))


def composed() -> CapsNet:
    """A network of one's own: two capsule layers on top of each other."""
    layers: dict[str, Layer] = {
        "first": ConvCaps(1, 2, 4, kernel=3, stride=2),
        "middle": RoutedCaps(2 * 6 * 6, 4, 6, 5, iterations=2),
        "last": RoutedCaps(6, 5, 3, 4, bias=True),
    }
    return CapsNet(layers, image_shape=(1, 14, 14), classes=3)


def test_a_network_of_ones_own_from_our_layers() -> None:
    model = composed()
    images = torch.rand(5, 1, 14, 14)
    v = model(images)
    assert v.shape == (5, 3, 4)
    v.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    middle = layers_of(model)["middle"]
    assert middle.source is layers_of(model)["first"].activation
    record(model)
    assert torch.allclose(model(images), v, atol=1e-6)


def test_a_block_can_come_first() -> None:
    def caps(inputs: int) -> ConvCaps:
        return ConvCaps(inputs, 2, 3, kernel=3, padding=1)

    block = Block(caps(1), caps(6), caps(6), caps(6))
    model = CapsNet(
        {"block": block, "last": RoutedCaps(2 * 5 * 5, 3, 4, 2)}, image_shape=(1, 5, 5), classes=4
    )
    assert model(torch.rand(2, 1, 5, 5)).shape == (2, 4, 2)
    assert "block.image" in unit_names(model, "block")["l1"]


def test_a_network_without_layers_is_an_error() -> None:
    with pytest.raises(ModelError, match="has no layer"):
        CapsNet({}, image_shape=(1, 14, 14), classes=3)


def test_what_is_no_layer_is_an_error() -> None:
    with pytest.raises(ModelError, match="layer 'relu' is a ReLU: a network is a sequence"):
        CapsNet({"relu": torch.nn.ReLU()}, image_shape=(1, 14, 14), classes=3)  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["a.b", "name", "", "forward"])
def test_a_name_that_no_layer_can_have_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match=f"'{name}' cannot be a layer: "):
        CapsNet({name: Conv(1, 1, kernel=1)}, image_shape=(1, 14, 14), classes=3)


def test_the_same_layer_twice_is_an_error() -> None:
    layer = Conv(1, 1, kernel=1)
    with pytest.raises(ModelError, match="layer 'b' is in the network already"):
        CapsNet({"a": layer, "b": layer}, image_shape=(1, 14, 14), classes=3)


def test_a_slice_of_a_network_is_its_layers() -> None:
    model = tiny().eval()
    images = torch.rand(2, *model.image_shape)
    head, tail = model[:1], model[1:]
    assert [*dict(head.named_children()), *dict(tail.named_children())] == list(layers_of(model))
    assert torch.equal(tail(head(images)), model(images))
    assert model[0] is next(iter(model))
