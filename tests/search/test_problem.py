"""Constraints as exact counts of images and bits."""

from fractions import Fraction
from typing import Any

import pytest
from tests import networks

from qcapsnets.accounting import Inventory, parameters_of
from qcapsnets.errors import FixedPointError, SearchError
from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.models import CapsNet
from qcapsnets.search import Problem, Settings, Tolerance


def of(
    model: CapsNet, *, correct: int = 90, total: int = 100, tolerance: float = 0.01, **options: Any
) -> Problem:
    options = {"budget": 10**9} | options
    settings = Settings(Tolerance(tolerance, options.pop("absolute", False)), **options)
    return Problem.of(model, settings, correct, total)


def test_layers_of_shallowcaps(tiny: CapsNet) -> None:
    problem = of(tiny)
    assert problem.layers == ("conv", "primary", "digit")
    assert problem.routed == ("digit",)
    assert sum(problem.parameters) == 36_288


@pytest.mark.parametrize(
    ("granularity", "layers", "routed"),
    [
        ("block", 6, ("block4", "digit")),
        ("layer", 18, ("block4.skip", "digit")),
    ],
)
def test_layers_of_deepcaps(granularity: Any, layers: int, routed: tuple[str, ...]) -> None:
    model = networks.tiny_deep()
    problem = of(model, granularity=granularity)
    assert len(problem.layers) == len(problem.parameters) == layers
    assert problem.routed == routed
    assert problem.sizes == parameters_of(model, granularity)
    assert problem.output_sizes == Inventory.of(model).outputs(granularity)
    # the plans that steps make of it are plans for that network
    plan = problem.uniform(7, 6)
    plan = problem.with_activations(plan, dict.fromkeys(problem.layers[3:], 4))
    plan = problem.with_weights(plan, dict.fromkeys(problem.layers[1:], 5))
    assert len(plan.sites(model)) > layers
    assert plan[routed[1]] == Wordlengths(5, 4, 4)
    assert plan["conv"] == Wordlengths(7, 6)


@pytest.mark.parametrize(
    ("correct", "total", "tolerance", "target", "step_1"),
    [
        (9970, 10_000, 0.002, 9951, 9970),  # 9950.06 and 9969.003 in floats' best case
        (9970, 10_000, 0.2 / 100, 9951, 9970),
        (10_000, 10_000, 0.002, 9980, 9999),  # exactly 9980 and 9999
        (1000, 1000, 0.7 / 100, 993, 1000),  # 0.7 / 100 is less than 0.007 in binary
        (1000, 1000, 0.007, 993, 1000),
        (1000, 1000, 1.1 / 100, 989, 1000),  # 1.1 / 100 is more than 0.011
        (1000, 1000, 0.1, 900, 995),
        (977, 1000, 0.0, 977, 977),
        (977, 1000, 1.0, 0, 929),  # 928.15
        (3, 7, 1 / 3, 3, 3),  # a third of 3 images, as far as twelve digits tell
    ],
)
def test_counts_are_exact(
    tiny: CapsNet, correct: int, total: int, tolerance: float, target: int, step_1: int
) -> None:
    problem = of(tiny, correct=correct, total=total, tolerance=tolerance)
    assert problem.count(problem.target) == target
    assert problem.count(problem.step_1_target) == step_1


def test_the_target_is_the_formula(tiny: CapsNet) -> None:
    problem = of(tiny, correct=9970, total=10_000, tolerance=0.002)
    accuracy = Fraction(9970, 10_000)
    assert problem.target == accuracy * (1 - Fraction(2, 1000))
    assert problem.step_1_target == accuracy * (1 - Fraction(5, 100) * Fraction(2, 1000))


def test_an_absolute_tolerance_is_of_the_accuracy_itself(tiny: CapsNet) -> None:
    problem = of(tiny, correct=900, total=1000, tolerance=0.1, absolute=True)
    assert problem.target == Fraction(800, 1000)
    assert problem.step_1_target == Fraction(895, 1000)
    assert of(tiny, correct=50, total=1000, tolerance=0.1, absolute=True).target == 0


def test_a_count_reaches_an_accuracy_and_one_less_does_not(tiny: CapsNet) -> None:
    problem = of(tiny, total=997)
    for numerator in range(0, 1000, 7):
        accuracy = Fraction(numerator, 1000)
        count = problem.count(accuracy)
        assert Fraction(count, 997) >= accuracy > Fraction(count - 1, 997)


def test_the_smallest_budget_is_named(tiny: CapsNet) -> None:
    smallest = 2 * 36_288
    with pytest.raises(SearchError, match=r"budget is 72,575 bits.*72,576 bits \(0.073 Mbit\)"):
        of(tiny, budget=smallest - 1)
    falling = of(tiny, budget=smallest).largest_falling(8)
    assert set(falling.values()) == {2}


def test_a_budget_beyond_the_float_model_is_fine(tiny: CapsNet) -> None:
    assert list(of(tiny, budget=10**12).largest_falling(9).values()) == [9, 8, 7]


def test_weight_bits(tiny: CapsNet) -> None:
    problem, counts = of(tiny), parameters_of(tiny)
    plan = Plan(
        {"conv": Wordlengths(7, 2), "primary": Wordlengths(5, 2), "digit": Wordlengths(3, 2, 2)}
    )
    expected = 7 * counts["conv"] + 5 * counts["primary"] + 3 * counts["digit"]
    assert problem.weight_bits(plan) == expected


def test_an_unknown_layer_is_an_error(tiny: CapsNet) -> None:
    problem = of(tiny)
    with pytest.raises(FixedPointError, match="convv"):
        problem.with_weights(problem.uniform(4, 4), {"convv": 3})
