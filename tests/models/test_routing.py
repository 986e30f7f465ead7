"""Dynamic routing against loops that follow the equations literally; axes, paths, gradients."""

from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from tests.models import literal
from tests.networks import Recorder, record
from torch import Tensor

from qcapsnets.errors import ModelError
from qcapsnets.models import CapsNet, ConvCaps, Routed, RoutedCaps, RoutedConvCaps, sites_of
from qcapsnets.models import routing as routing_module
from qcapsnets.models.sites import Kind

CASES = pytest.mark.parametrize("iterations", [1, 2, 3])
BIASES = pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
PATHS = pytest.mark.parametrize("votes", [False, True], ids=["voteless", "votes"])

R = TypeVar("R", bound=Routed)


def random_like(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def prepared(layer: R, *, votes: bool) -> R:
    """In float64 and connected, with numbers large enough that routing matters."""
    layer.double()
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = random_like(tuple(parameter.shape), seed)
    layer.begin()
    if votes:
        record(layer)
    return layer


def capsule_layer(*, iterations: int = 3, bias: bool = True, votes: bool = False) -> RoutedCaps:
    return prepared(RoutedCaps(5, 3, 4, 2, iterations=iterations, bias=bias), votes=votes)


def routed_convolution(
    *, iterations: int = 3, bias: bool = True, votes: bool = False, stride: int = 1
) -> RoutedConvCaps:
    layer = RoutedConvCaps(
        2, 3, 4, kernel=3, stride=stride, padding=1, iterations=iterations, bias=bias
    )
    return prepared(layer, votes=votes)


def bias_of(layer: Routed) -> list[list[float]] | None:
    return None if layer.routing_bias is None else layer.routing_bias.tolist()


@CASES
@BIASES
@PATHS
def test_a_capsule_layer_is_the_equations(iterations: int, bias: bool, votes: bool) -> None:
    layer = capsule_layer(iterations=iterations, bias=bias, votes=votes)
    u = random_like((3, 5, 3), seed=9)
    for image, v in zip(u, layer(u), strict=True):
        expected = literal.capsule_layer(
            image.tolist(), layer.weight.tolist(), iterations, bias_of(layer)
        )
        assert torch.allclose(v, torch.tensor(expected).double(), atol=1e-12)


@CASES
@BIASES
@pytest.mark.parametrize("stride", [1, 2])
def test_a_routed_convolution_is_the_equations_with_a_joint_softmax(
    iterations: int, bias: bool, stride: int
) -> None:
    layer = routed_convolution(iterations=iterations, bias=bias, stride=stride)
    x = random_like((2, 3, 2, 3, 4), seed=9)
    v = layer(x).detach()
    for number, image in enumerate(x):
        expected = literal.routed_convolution(
            image.tolist(),
            layer.weight.tolist(),
            layer.bias.tolist(),
            capsules=3,
            stride=stride,
            padding=1,
            iterations=iterations,
            routing_bias=bias_of(layer),
        )
        assert len(expected) == v[number].numel()
        for place, value in expected.items():
            assert float(v[number][place]) == pytest.approx(value, abs=1e-12)


def test_routing_matters_in_these_cases() -> None:
    """The comparisons above would not see an axis if all couplings stayed the same."""
    u = random_like((3, 5, 3), seed=9)
    once, thrice = capsule_layer(iterations=1)(u), capsule_layer(iterations=3)(u)
    assert (once - thrice).abs().max() > 0.05


def test_couplings_sum_to_one_over_the_classes() -> None:
    layer = capsule_layer()
    recorders = record(layer)
    layer(random_like((3, 5, 3), seed=9))
    for c in recorders["coupling"].stored:
        assert c.shape[1:] == (5, 4)
        assert torch.allclose(c.sum(2), torch.ones(1).double())


def test_couplings_sum_to_one_over_capsules_height_and_width_together() -> None:
    layer = routed_convolution()
    recorders = record(layer)
    layer(random_like((2, 3, 2, 3, 4), seed=9))
    for c in recorders["coupling"].stored:
        assert c.shape[1:] == (3, 3 * 3 * 4)  # from 3 capsules to 3 capsules on a map of 3x4
        assert torch.allclose(c.sum(2), torch.ones(1).double())


def test_sites_are_visited_once_an_iteration_and_logits_once_less() -> None:
    layer = capsule_layer(iterations=3)
    recorders = record(layer)
    layer(random_like((3, 5, 3), seed=9))
    visits = {name: len(recorder.stored) for name, recorder in recorders.items()}
    assert visits == {
        "weights": 1,
        "votes": 1,
        "logits": 2,
        "coupling": 3,
        "preactivation": 3,
        "activation": 3,
        "routing_biases": 1,
        "image": 1,
    }


@BIASES
def test_both_paths_have_the_same_gradients(bias: bool) -> None:
    gradients = []
    for votes in (False, True):
        layer = capsule_layer(bias=bias, votes=votes)
        u = random_like((3, 5, 3), seed=9).requires_grad_()
        (layer(u) * random_like((3, 4, 2), seed=8)).sum().backward()
        gradients.append([u.grad, *(p.grad for p in layer.parameters())])
    for voteless, formed in zip(*gradients, strict=True):
        assert voteless is not None
        assert formed is not None
        assert voteless.abs().max() > 1e-3
        assert torch.allclose(voteless, formed, atol=1e-12)


def test_float_forms_no_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    def route(*_: object) -> Tensor:
        raise AssertionError("votes were formed")

    monkeypatch.setattr(RoutedCaps, "_route", route)
    capsule_layer()(random_like((3, 5, 3), seed=9))


@pytest.mark.parametrize(
    "name", ["weights", "votes", "logits", "coupling", "preactivation", "activation"]
)
def test_no_site_that_is_filled_alone_is_passed_over(name: str) -> None:
    layer = capsule_layer()
    u = random_like((3, 5, 3), seed=9)
    expected = layer(u)
    recorder = dict(sites_of(layer))[name].storage = Recorder()
    assert torch.allclose(layer(u), expected, atol=1e-12)
    assert recorder.stored


@PATHS
def test_images_are_routed_a_few_at_a_time_to_the_same_result(
    monkeypatch: pytest.MonkeyPatch, votes: bool
) -> None:
    layer = capsule_layer(votes=votes)
    u = random_like((7, 5, 3), seed=9)
    together = layer(u)
    monkeypatch.setattr(routing_module, "NUMBERS_IN_CACHE", 4 * 5 * 3 * 2)
    assert torch.allclose(layer(u), together, atol=1e-14)


@pytest.mark.parametrize("make", [capsule_layer, routed_convolution])
def test_only_iterated_routing_has_routing_sites(make: Callable[..., Routed]) -> None:
    for iterations, kind in ((1, Kind.ACTIVATION), (2, Kind.ROUTING)):
        layer = make(iterations=iterations)
        assert layer.logits.kind == layer.preactivation.kind == kind
        assert layer.votes.kind == layer.coupling.kind == layer.activation.kind == Kind.ACTIVATION
    assert [name for name, site in sites_of(layer) if not site.signed] == ["coupling", "image"]


def test_mixed_precision_trains_and_routes_in_float32() -> None:
    layer = RoutedCaps(5, 3, 4, 2, bias=True)
    layer.begin()
    u = random_like((3, 5, 3), seed=9).float().requires_grad_()
    expected = layer(u)
    with torch.autocast("cpu", torch.bfloat16):
        v = layer(u.bfloat16())
    v.square().sum().backward()
    assert v.dtype == torch.float32
    assert torch.allclose(v, expected, atol=1e-2)
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
    assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("iterations", [0, -1])
def test_routing_needs_an_iteration(iterations: int) -> None:
    with pytest.raises(ModelError, match=f"iterations was given as {iterations}: .* 1 or more"):
        RoutedCaps(5, 3, 4, 2, iterations=iterations)


def test_capsules_that_do_not_fit_are_named_with_both_shapes() -> None:
    net = CapsNet(
        {"primary": ConvCaps(1, 2, 3, kernel=3), "digit": RoutedCaps(5, 3, 4, 2)},
        image_shape=(1, 4, 4),
        classes=4,
    )
    with pytest.raises(ModelError, match=r"5 capsules of 3 numbers are routed, .* gives 8 of 3"):
        net(torch.zeros(2, 1, 4, 4))


@pytest.mark.parametrize("shape", [(1, 6, 4, 4), (1, 2, 5, 4, 4)])
def test_maps_that_do_not_fit_a_routed_convolution_are_named(shape: tuple[int, ...]) -> None:
    layer = routed_convolution()
    with pytest.raises(
        ModelError, match="capsules of 2 was given " + "x".join(map(str, shape[1:]))
    ):
        layer(torch.zeros(shape).double())
