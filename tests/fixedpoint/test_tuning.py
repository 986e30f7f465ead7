"""Binary points by what the answers lose: no site loses more than by the least squared error."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import networks
from torch import Tensor

from qcapsnets.data import Splits, to_inputs
from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import Calibration, FixedPoint, Plan, formats_of, quantize
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.fixedpoint.tuning import (
    IMAGES,
    LITTLE,
    WORDLENGTHS,
    Rounded,
    best_around,
    tuned,
)
from qcapsnets.models import (
    FLOAT,
    CapsNet,
    Conv,
    ConvCaps,
    Kind,
    RoutedCaps,
    lengths,
    sites_of,
)
from qcapsnets.training import Recipe, accuracy, train

RECIPE = Recipe(epochs=6, batch_size=20, learning_rate=0.003, augment=False, decoder=None)


@pytest.fixture(scope="module")
def model(small_digits: Splits, tmp_path_factory: pytest.TempPathFactory) -> CapsNet:
    """A network that has learned: fresh weights have no rare large ones."""
    model = networks.tiny()
    train(model, small_digits, RECIPE, tmp_path_factory.mktemp("trained"))
    return model


@pytest.fixture(scope="module")
def images(small_digits: Splits) -> Tensor:
    return small_digits.train.images[:100]


@pytest.fixture(scope="module")
def calibration(model: CapsNet, images: Tensor) -> Calibration:
    return tuned(Calibration.record(model, images), model, images)


def lost(model: CapsNet, x: Tensor, name: str, format: FixedPoint) -> float:
    """What the float network's answers lose if one site alone has a format."""
    copy = prepared(model)
    site = dict(sites_of(copy))[name]
    with torch.no_grad():
        expected = lengths(copy(x))
        site.storage = Rounded(format)
        return float((lengths(copy(x)) - expected).square().mean(dtype=torch.float64).sqrt())


def test_numbers_are_rounded_and_clipped() -> None:
    x = torch.tensor([-9.0, -1.1, -0.1, 0.125, 0.375, 0.74, 9.0])
    stored = Rounded(FixedPoint(3, 2)).store(x)
    assert stored.tolist() == [-1.0, -1.0, 0.0, 0.0, 0.5, 0.75, 0.75]
    assert x[0] == -9.0


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({3: 0.9, 4: 0.5, 5: 0.2, 6: 0.4}, 5),
        ({3: 0.2, 4: 0.1, 5: 0.2, 6: 0.4}, 4),
        ({2: 0.3, 3: 0.9, 4: 0.5, 5: 0.6, 6: 0.7}, 2),
        ({3: 0.9, 4: 0.5, 5: 0.9, 6: 0.1, 7: 0.9, 8: 0.05}, 8),
        ({4: 0.5, 5: 0.9, 6: 0.9, 7: 0.1}, 4),
        ({4: LITTLE, 5: 0.0}, 4),
    ],
    ids=["beside", "here", "coarser", "past worse ones", "too far away", "good enough"],
)
def test_the_best_around(losses: dict[int, float], expected: int) -> None:
    def lost(format: FixedPoint) -> float:
        return losses.get(format.fraction, 1.0)

    assert best_around(FixedPoint(8, 4), lost) == FixedPoint(8, expected)


def test_no_neighbour_loses_less(model: CapsNet, images: Tensor, calibration: Calibration) -> None:
    """At every site that loses anything worth it, whether or not its binary point was moved."""
    x = to_inputs(images[:IMAGES])
    moved = 0
    for name, (site, _) in Plan.uniform(model, 4).sites(model).items():
        by_error = calibration.format(name, 4, signed=site.signed, points="mse")
        chosen = calibration.format(name, 4, signed=site.signed, points="output")
        least = lost(model, x, name, chosen)
        if chosen == by_error and least <= LITTLE * (1 + 1e-6):
            continue
        for fraction in (by_error.fraction, chosen.fraction - 1, chosen.fraction + 1):
            other = replace(chosen, fraction=fraction)
            assert least <= lost(model, x, name, other) * (1 + 1e-6)
        moved += chosen != by_error
    assert moved > 0


def test_more_images_are_right_at_few_bits(
    model: CapsNet, small_digits: Splits, calibration: Calibration
) -> None:
    right = {
        points: sum(
            accuracy(
                quantize(model, Plan.uniform(model, q), calibration, "nearest-even", points=points),
                small_digits.validation,
            )
            for q in (3, 4, 5)
        )
        for points in ("mse", "output")
    }
    assert right["output"] > right["mse"]


def test_every_kind_of_site_and_wordlength(model: CapsNet, calibration: Calibration) -> None:
    assert calibration.fractions is not None
    assert calibration.fractions.keys() == Plan.uniform(model, 4).sites(model).keys()
    assert all(list(found) == list(WORDLENGTHS) for found in calibration.fractions.values())


def test_long_wordlengths_are_those_of_the_least_squared_error(
    model: CapsNet, calibration: Calibration
) -> None:
    plan = Plan.uniform(model, WORDLENGTHS[-1] + 1)
    found = (formats_of(quantize(model, plan, calibration, points=p)) for p in ("mse", "output"))
    assert next(found) == next(found)


def test_deepcaps(small_digits: Splits) -> None:
    """Folded batch norms, blocks of several sites and a routed convolution."""
    model, images = networks.tiny_deep(), small_digits.train.images[:20]
    calibration = tuned(Calibration.record(model, images), model, images)
    ruled = Plan.uniform(model, 5).sites(prepared(model))
    assert calibration.fractions is not None
    assert calibration.fractions.keys() == ruled.keys()
    assert {site.kind for site, _ in ruled.values()} == {
        Kind.WEIGHT,
        Kind.ACTIVATION,
        Kind.ROUTING,
    }
    quantize(model, Plan.uniform(model, 5), calibration, points="output")


def test_channels_that_hardly_ever_fire(small_digits: Splits, tmp_path: Path) -> None:
    """Their factors in the batch norm are huge, and must not take the bits of all others."""
    torch.manual_seed(0)
    layers = {
        "conv": Conv(1, 16, kernel=5, batch_norm=True),
        "primary": ConvCaps(16, 4, 8, kernel=5, stride=2),
        "digit": RoutedCaps(36, 8, 10, 8, iterations=3),
    }
    model = CapsNet(layers, image_shape=(1, 14, 14), classes=10)
    train(model, small_digits, RECIPE, tmp_path)
    model.get_parameter("digit.weight").data *= 5  # clear answers, as after a longer training
    model.get_parameter("conv.bias").data[0] = -9.0
    model.get_parameter("conv.norm.weight").data[0] = 16.0
    model.get_buffer("conv.norm.running_var")[0] = 0.0
    images, name = small_digits.train.images[:IMAGES], "conv.norm.scales"
    calibration = tuned(Calibration.record(model, images), model, images)
    for wordlength in (8, 9):
        by_error = calibration.format(name, wordlength, signed=True, points="mse")
        chosen = calibration.format(name, wordlength, signed=True, points="output")
        x = to_inputs(images)
        assert lost(model, x, name, chosen) < lost(model, x, name, by_error) / 2


def test_the_network_is_left_alone(model: CapsNet, calibration: Calibration) -> None:
    assert all(site.storage is FLOAT for _, site in sites_of(model))
    calibration.check(model)


def test_it_comes_back_from_a_file(calibration: Calibration, tmp_path: Path) -> None:
    calibration.save(tmp_path / "a.safetensors")
    assert Calibration.load(tmp_path / "a.safetensors").fractions == calibration.fractions


@pytest.mark.parametrize("fractions", [3, {"site": 3}, {"site": {"x": 1}}, {"site": {"4": "y"}}])
def test_a_table_that_makes_no_sense(fractions: Any, tmp_path: Path) -> None:
    from qcapsnets.models.weights import TensorFile, write_tensors

    header = {"calibration": "x", "images": 3, "extremes": {}, "fractions": fractions}
    write_tensors(tmp_path / "a", TensorFile({}, header))
    with pytest.raises(FixedPointError, match="holds no calibration"):
        Calibration.load(tmp_path / "a")


def test_without_tuning_it_is_refused(model: CapsNet, images: Tensor) -> None:
    plain = Calibration.record(model, images)
    with pytest.raises(FixedPointError, match="not tuned for binary points by 'output'"):
        quantize(model, Plan.uniform(model, 4), plain, points="output")


def test_no_image_or_another_network(model: CapsNet, calibration: Calibration) -> None:
    with pytest.raises(FixedPointError, match="no image"):
        tuned(calibration, model, torch.zeros(0, 1, 14, 14, dtype=torch.uint8))
    with pytest.raises(FixedPointError, match="record a new one"):
        tuned(calibration, networks.tiny(seed=1), torch.zeros(1, 1, 14, 14, dtype=torch.uint8))
