"""Every rule of selection, every tie, and the words for it."""

import itertools
from typing import Any, Literal

import pytest

from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.fixedpoint.rounding import roundings
from qcapsnets.selection import Candidate, Choice, select

PLAN = Plan({"conv": Wordlengths(4, 4)})


def candidate(
    rounding: str,
    path: Literal["A", "B"] = "A",
    name: str = "model_satisfied",
    right: int = 90,
    weight_bits: int = 1000,
    activation_bits: int = 500,
) -> Candidate:
    return Candidate(name, rounding, path, PLAN, right, weight_bits, activation_bits)


def path_b(rounding: str, memory: dict[str, Any], accuracy: dict[str, Any]) -> list[Candidate]:
    return [
        candidate(rounding, "B", "model_memory", **memory),
        candidate(rounding, "B", "model_accuracy", **accuracy),
    ]


def select_in_any_order(candidates: list[Candidate]) -> Choice:
    """The choice, which must not depend on the order of the candidates."""
    choices = {
        (choice.path, choice.chosen, choice.reasons)
        for order in itertools.permutations(candidates)
        for choice in [select(list(order))]
    }
    assert len(choices) == 1
    return Choice(*choices.pop())


def test_the_least_weight_memory() -> None:
    choice = select_in_any_order(
        [
            candidate("truncation", weight_bits=2001, activation_bits=1, right=99),
            candidate("stochastic", weight_bits=2000, activation_bits=900, right=90),
            candidate("nearest", weight_bits=3000, activation_bits=1, right=99),
        ]
    )
    assert choice.path == "A"
    assert [c.rounding for c in choice.chosen] == ["stochastic"]
    assert choice.reasons == (
        "3 of 3 schemes met both constraints (Path A)",
        "model_satisfied: stochastic has the least weight memory (2,000 bits), before truncation",
    )


def test_then_the_fewest_activation_bits() -> None:
    choice = select_in_any_order(
        [
            candidate("truncation", activation_bits=600),
            candidate("stochastic", activation_bits=599),
        ]
    )
    assert choice.chosen[0].rounding == "stochastic"
    assert choice.reasons[-1] == (
        "model_satisfied: stochastic has the fewest activation bits (599), before truncation"
    )


def test_then_the_simplest_scheme() -> None:
    """Accuracy beyond the target decides nothing."""
    for simpler, other in itertools.combinations(
        ("truncation", "nearest", "nearest-even", "stochastic"), 2
    ):
        choice = select_in_any_order([candidate(other, right=99), candidate(simpler, right=90)])
        assert choice.chosen[0].rounding == simpler
        assert choice.reasons[-1] == (
            f"model_satisfied: {simpler} is the simplest scheme with the least weight memory "
            f"(1,000 bits) and the fewest activation bits (500), before {other}"
        )


def test_path_a_drops_path_b() -> None:
    """Even models of path B that are better in every respect."""
    better = {"right": 99, "weight_bits": 1, "activation_bits": 1}
    choice = select_in_any_order(
        [candidate("stochastic"), *path_b("truncation", better, better)],
    )
    assert choice.path == "A"
    assert [c.rounding for c in choice.chosen] == ["stochastic"]
    assert choice.reasons == (
        "1 of 2 schemes met both constraints (Path A)",
        "1 that did not (Path B) was dropped",
        "model_satisfied: stochastic is the only candidate",
    )


def test_path_b_takes_the_most_accurate_and_the_smallest() -> None:
    choice = select_in_any_order(
        [
            *path_b("truncation", {"right": 80, "weight_bits": 10}, {"weight_bits": 3000}),
            *path_b("stochastic", {"right": 81, "weight_bits": 99}, {"weight_bits": 3001}),
        ]
    )
    assert choice.path == "B"
    assert [(c.name, c.rounding) for c in choice.chosen] == [
        ("model_memory", "stochastic"),
        ("model_accuracy", "truncation"),
    ]
    assert choice.reasons == (
        "no scheme ended on Path A",
        "model_memory: stochastic has the most images right (81), before truncation",
        "model_accuracy: truncation has the least weight memory (3,000 bits), before stochastic",
    )


def test_ties_on_path_b_go_to_the_simplest() -> None:
    choice = select_in_any_order(
        [
            *path_b("stochastic", {"activation_bits": 1}, {"activation_bits": 1, "right": 99}),
            *path_b("nearest", {}, {}),
        ]
    )
    assert [c.rounding for c in choice.chosen] == ["nearest", "nearest"]
    assert choice.reasons[1:] == (
        "model_memory: nearest is the simplest scheme with the most images right (90), "
        "before stochastic",
        "model_accuracy: nearest is the simplest scheme with the least weight memory "
        "(1,000 bits), before stochastic",
    )


def test_one_scheme_alone() -> None:
    choice = select(path_b("nearest", {}, {}))
    assert choice.reasons[1:] == (
        "model_memory: nearest is the only candidate",
        "model_accuracy: nearest is the only candidate",
    )


@pytest.mark.parametrize("name", ["truncation", "nearest", "nearest-even", "stochastic"])
def test_simplicity_is_the_order_of_the_library(name: str) -> None:
    order = ["truncation", "nearest", "nearest-even", "stochastic"]
    assert sorted(order, key=lambda n: roundings[n].simplicity) == order
    assert roundings[name].simplicity == order.index(name)
