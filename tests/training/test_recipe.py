"""A recipe: schedules as functions of the step, and what it refuses."""

import json
from typing import Any

import pytest

from qcapsnets.errors import TrainingError
from qcapsnets.training import HARD_MARGIN, MARGIN, Recipe

STEPS = 101


def test_decay_is_that_of_the_paper() -> None:
    recipe = Recipe(schedule="decay", learning_rate=0.001)
    rates = {0: 1.0, 1999: 1.0, 2000: 0.96, 3999: 0.96, 4000: 0.96**2, 20_000: 0.96**10}
    for step, factor in rates.items():
        assert recipe.rate(step, 100_000) == pytest.approx(0.001 * factor)


def test_one_cycle_starts_low_peaks_at_three_tenths_and_ends_near_zero() -> None:
    recipe = Recipe(learning_rate=0.002)
    rates = [recipe.rate(step, STEPS) for step in range(STEPS)]
    assert rates[0] == pytest.approx(0.002 / 25)
    assert rates[15] == pytest.approx(0.002 * (1 + 1 / 25) / 2)  # half-way up the cosine
    assert rates[30] == max(rates) == pytest.approx(0.002)
    assert rates[65] == pytest.approx(0.002 * (1 + 1e-4) / 2)
    assert rates[100] == pytest.approx(0.002 * 1e-4)
    assert rates[:31] == sorted(rates[:31])
    assert rates[30:] == sorted(rates[30:], reverse=True)


def test_a_constant_rate_is_constant() -> None:
    recipe = Recipe(schedule="constant", learning_rate=0.01)
    assert {recipe.rate(step, STEPS) for step in range(STEPS)} == {0.01}


def test_a_training_of_one_step_has_a_rate() -> None:
    assert Recipe().rate(0, 1) > 0


def test_the_margin_is_hardened_in_the_second_half() -> None:
    recipe = Recipe(margin="margin-then-hard")
    assert [recipe.loss(step, 4) for step in range(4)] == [MARGIN, MARGIN, HARD_MARGIN, HARD_MARGIN]
    assert {Recipe(margin="margin").loss(step, 4) for step in range(4)} == {MARGIN}
    assert {Recipe(margin="hard-margin").loss(step, 4) for step in range(4)} == {HARD_MARGIN}


@pytest.mark.parametrize(
    ("option", "values", "said"),
    [
        ("epochs", [0, -1, 1.5, "3", True], "a whole number from 1 up"),
        ("batch_size", [0, 2.0], "a whole number from 1 up"),
        ("checkpoint_every", [0, None], "a whole number from 1 up"),
        ("learning_rate", [0, -1e-3, float("nan"), float("inf"), "1e-3", None], "over 0"),
        ("reconstruction", [-1e-9, float("nan"), "0"], "0 or over"),
        ("clip", [0, -1.0, float("inf"), "1"], "over 0, or left out"),
        ("seed", [-1, 2**32, 0.0, None, "7"], "a whole number, 0..2\\^32-1"),
        ("augment", [1, "yes", None], "true or false"),
        ("schedule", ["cosine", None], "choose one of one-cycle, decay, constant"),
        ("margin", ["soft"], "choose one of margin, hard-margin, margin-then-hard"),
        ("decoder", ["linear"], "choose one of None, fully-connected, convolutional"),
    ],
)
def test_what_a_recipe_refuses(option: str, values: list[Any], said: str) -> None:
    for value in values:
        with pytest.raises(TrainingError, match=f"^{option} is {value!r}: .*{said}$"):
            Recipe(**{option: value})


def test_a_recipe_is_plain_json() -> None:
    recipe = Recipe(epochs=3, decoder=None)
    assert Recipe(**json.loads(json.dumps(recipe.to_json()))) == recipe
