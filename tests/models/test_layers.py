"""Layers without routing: their arithmetic, their sites and how they are linked."""

import copy

import pytest
import torch
import torch.nn.functional as F
from tests.networks import tiny, tiny_deep
from torch import nn

from qcapsnets.errors import ModelError
from qcapsnets.models import Conv, ConvCaps, Kind, ScaleShift, sites_of, squash
from qcapsnets.models.layers import as_capsules, as_channels, output_size


def batch(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def trained_norm(channels: int) -> nn.BatchNorm2d:
    """A batch norm with statistics and parameters that are not the initial ones."""
    norm = nn.BatchNorm2d(channels)
    with torch.no_grad():
        for value in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            assert value is not None
            value.copy_(batch(channels) + 0.5)
            value[0] = 0.01
    return norm.eval()


def test_conv_is_convolution_and_relu() -> None:
    layer = Conv(2, 3, kernel=3, stride=2, padding=1)
    layer.begin()
    x = batch(4, 2, 7, 7) - 0.5
    expected = F.conv2d(x, layer.weight, layer.bias, 2, 1).relu()
    assert torch.allclose(layer(x), expected, atol=1e-6)
    assert (expected == 0).any()


def test_batch_norm_comes_after_the_relu() -> None:
    layer = Conv(2, 3, kernel=3, batch_norm=True).eval()
    layer.norm = trained_norm(3)
    layer.begin()
    x = batch(4, 2, 7, 7) - 0.5
    expected = layer.norm(F.conv2d(x, layer.weight, layer.bias).relu())
    assert torch.allclose(layer(x), expected, atol=1e-6)


def test_a_folded_norm_is_the_norm_in_evaluation() -> None:
    norm, x = trained_norm(5), batch(2, 5, 3, 3)
    folded = ScaleShift.fold(norm)
    place = Conv(1, 1, kernel=1, batch_norm=True).accumulator
    assert place is not None
    assert torch.allclose(folded(x, place), norm(x), atol=1e-6, rtol=1e-6)


def test_folding_changes_no_output_and_leaves_only_scale_and_shift() -> None:
    layer = Conv(2, 3, kernel=3, batch_norm=True).eval()
    layer.norm = trained_norm(3)
    layer.begin()
    x = batch(4, 2, 7, 7)
    before = layer(x)
    layer.fold()
    layer.fold()
    assert torch.allclose(layer(x), before, atol=1e-5)
    names = {name for name, _ in layer.named_parameters()}
    assert names == {"weight", "bias", "norm.scale", "norm.shift"}
    assert {name for name, _ in sites_of(layer)} >= {"norm.scales", "norm.shifts", "accumulator"}


def test_a_norm_without_statistics_cannot_be_folded() -> None:
    with pytest.raises(ModelError, match="without running statistics"):
        ScaleShift.fold(nn.BatchNorm2d(3, track_running_stats=False))


def test_conv_caps_squashes_each_capsule_over_its_own_channels() -> None:
    layer = ConvCaps(2, 3, 4, kernel=3)
    layer.begin()
    x = batch(2, 2, 5, 5) * 5
    s = F.conv2d(x, layer.weight, layer.bias)
    v = layer(x)
    assert v.shape == (2, 3, 4, 3, 3)
    for capsule in range(3):
        channels = s[:, 4 * capsule : 4 * capsule + 4]
        assert torch.allclose(v[:, capsule], squash(channels, dim=1), atol=1e-6)


def test_capsules_and_channels_are_the_same_numbers_in_the_same_order() -> None:
    x = torch.arange(2 * 3 * 4 * 5 * 6).view(2, 3, 4, 5, 6)
    assert as_channels(x).shape == (2, 12, 5, 6)
    assert torch.equal(as_channels(x)[:, 7], x[:, 1, 3])
    assert torch.equal(as_channels(x[:, 0]), x[:, 0])
    assert as_capsules(x).shape == (2, 3 * 5 * 6, 4)
    assert torch.equal(as_capsules(x)[1, 1 * 30 + 2 * 6 + 3], x[1, 1, :, 2, 3])
    assert torch.equal(as_capsules(as_capsules(x)), as_capsules(x))


@pytest.mark.parametrize(("size", "kernel", "stride", "padding"), [(28, 9, 1, 0), (5, 3, 2, 1)])
def test_output_size_is_that_of_a_convolution(
    size: int, kernel: int, stride: int, padding: int
) -> None:
    maps = F.conv2d(batch(1, 1, size, size), batch(1, 1, kernel, kernel), None, stride, padding)
    assert output_size(size, kernel, stride, padding) == maps.shape[2]


def test_a_kernel_that_does_not_fit_is_an_error() -> None:
    assert output_size(3, 5, 1, 1) == 1
    with pytest.raises(ModelError, match="5x5 kernel does not fit a 2x2 map with padding 1"):
        output_size(2, 5, 1, 1)


def test_channels_that_do_not_fit_are_named() -> None:
    layer = Conv(2, 3, kernel=3)
    layer.begin()
    with pytest.raises(ModelError, match="convolution of 2 channels was given 1: match"):
        layer(batch(1, 1, 5, 5))


def test_a_layer_alone_says_where_it_belongs() -> None:
    with pytest.raises(ModelError, match="a Conv stands alone: make it a layer of a CapsNet"):
        Conv(2, 3, kernel=3)(batch(1, 2, 5, 5))


def test_signs_of_sites() -> None:
    """Non-negative numbers are stored without a sign: the image, ReLU outputs, couplings."""
    unsigned = {name for name, site in sites_of(tiny()) if not site.signed}
    assert unsigned == {"conv.image", "conv.activation", "digit.coupling"}
    unsigned = {name for name, site in sites_of(tiny_deep()) if not site.signed}
    assert unsigned == {"conv.image", "block4.skip.coupling", "digit.coupling"}


def test_a_copy_is_linked_to_its_own_sites() -> None:
    model = tiny_deep()
    twin = copy.deepcopy(model)
    own = {id(site) for _, site in sites_of(twin)}
    assert id(twin.block1.source) in own  # type: ignore[union-attr]
    assert twin.block1.source is twin.conv.activation  # type: ignore[union-attr]
    assert [id(place) for place in twin.digit.source.places] == [  # type: ignore[union-attr]
        id(twin.block3.activation),  # type: ignore[union-attr]
        id(twin.block4.activation),  # type: ignore[union-attr]
    ]
    assert repr(twin) == repr(model)


def test_only_the_first_layer_owns_the_image() -> None:
    images = [name for name, site in sites_of(tiny_deep()) if site.kind is Kind.IMAGE]
    assert images == ["conv.image"]
