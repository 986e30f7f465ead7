"""The verdict and the numbers in words."""

from dataclasses import replace

import pytest
from tests.report.conftest import Ran

from qcapsnets.framework import Result
from qcapsnets.report import words


@pytest.fixture
def met(path_a: Ran) -> Result:
    model = replace(path_a.result.chosen[0], search_accuracy=0.974, weight_bits=2_460_000)
    return replace(path_a.result, chosen=(model,), target=0.9672, budget_bits=3_500_000)


@pytest.fixture
def missed(path_b: Ran) -> Result:
    small, accurate = path_b.result.chosen
    small = replace(small, search_accuracy=0.964, weight_bits=1_754_000)
    accurate = replace(accurate, search_accuracy=0.977, weight_bits=2_454_000)
    return replace(path_b.result, chosen=(small, accurate), target=0.975, budget_bits=1_800_000)


def plain(text: str) -> str:
    return text.replace(words.SPACE, " ")


def test_both_met(met: Result) -> None:
    assert plain(words.verdict(met)) == (
        "Both constraints are met: 97.40% of the validation images are right, 0.68 points above "
        "the target of 96.72%, and the weights take 2.46 Mbit, 29.7% under the budget of 3.5 Mbit."
    )


def test_met_to_the_bit(met: Result) -> None:
    model = replace(met.chosen[0], search_accuracy=met.target, weight_bits=met.budget_bits)
    text = words.verdict(replace(met, chosen=(model,)))
    assert "exactly the target of 96.72%" in text
    assert "exactly the budget of" in text


def test_not_both_met(missed: Result) -> None:
    assert plain(words.verdict(missed)) == (
        "The constraints cannot both be met: with 1.754 Mbit of weights, 2.6% under the budget of "
        "1.8 Mbit, 96.40% of the validation images are right, 1.10 points below the target of "
        "97.50%; reaching the target takes 2.454 Mbit, 36.3% over the budget."
    )


def test_a_target_that_nothing_reaches(missed: Result) -> None:
    small, accurate = missed.chosen
    accurate = replace(accurate, meets_accuracy=False, search_accuracy=0.97)
    text = plain(words.verdict(replace(missed, chosen=(small, accurate))))
    assert text.endswith("; even 2.454 Mbit of weights leave only 97.00% right.")


def test_path_b_can_meet_both(missed: Result) -> None:
    small, accurate = missed.chosen
    accurate = replace(accurate, meets_budget=True, weight_bits=1_700_000)
    result = replace(missed, chosen=(small, accurate))
    assert words.satisfied(result) is accurate
    assert words.verdict(result).startswith(
        "Both constraints are met, though not with the weights of step 2 (Path B): "
    )


def test_the_test_images_speak(path_a: Ran, path_b: Ran) -> None:
    alone = words.tested(path_a.result)
    assert alone.startswith("On 200 test images that the search never saw, the float network gets ")
    assert ", the quantized one " in alone
    assert ", the model within the budget " in words.tested(path_b.result)
    seen = path_a.result.settings | {"search_split": "test"}
    assert "never saw" not in words.tested(replace(path_a.result, settings=seen))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.memory(3_412_345), "3.412 Mbit"),
        (words.memory(640), "640 bit"),
        (words.quantity(14_616_576), "14.6 M"),
        (words.energy(2_380_000), "2.38 µJ"),
        (words.energy(3), "3 pJ"),
        (words.decibels(None), "exact"),
        (words.decibels(5.94), "5.9 dB"),
        (words.duration(4.25), "4.2 s"),
        (words.duration(252), "4 min 12 s"),
        (words.counted(1, "image"), "1 image"),
        (words.counted(1000, "image"), "1,000 images"),
        (words.sentence("weights fit: 3A"), "Weights fit: 3A."),
        (words.reason("model_memory: nearest is first"), "Within the budget: nearest is first."),
    ],
)
def test_numbers(text: str, expected: str) -> None:
    assert plain(text) == expected
