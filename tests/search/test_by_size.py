"""Bits by size: the steps against a second writing of them, and what the rule comes to."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.search.brute_force import Found
from tests.search.cases import FREE, MODES, Case, cases, found, good_from
from tests.search.fakes import answers

from qcapsnets.accounting import Inventory
from qcapsnets.errors import SearchError
from qcapsnets.models import build
from qcapsnets.search import Outcome, strategies
from qcapsnets.search.by_size import BySize, ladder
from qcapsnets.search.settings import Mode

Bits = list[int]


def search(case: Case, mode: Mode = "fast", *, wrong_last: bool = False) -> Outcome:
    made = answers(case.accuracy, case.total, mode, wrong_last=wrong_last)
    return strategies["by-size"](case.problem, made)


def one_less(bits: Bits, sizes: tuple[int, ...]) -> Bits | None:
    """The bit that is worth least: one off from where size times 4^bits is largest."""
    longer = [i for i, q in enumerate(bits) if q > 2]
    if not longer:
        return None
    worst = max(longer, key=lambda i: (sizes[i] * 4 ** bits[i], i))
    return [q - (i == worst) for i, q in enumerate(bits)]


def down(bits: Bits, sizes: tuple[int, ...], enough: Callable[[Bits], bool]) -> Bits:
    shorter = one_less(bits, sizes)
    while shorter is not None and enough(shorter):
        bits, shorter = shorter, one_less(shorter, sizes)
    for layer in sorted(range(len(bits)), key=lambda i: -sizes[i]):
        alone = [q - (i == layer) for i, q in enumerate(bits)]
        while bits[layer] > 2 and enough(alone):
            bits, alone = alone, [q - (i == layer) for i, q in enumerate(alone)]
    return bits


def second_writing(case: Case) -> Found:
    """Steps 1 and 4A are the paper's; where it bisects, everything is tried."""
    layers, total = len(case.parameters), case.total
    target = Fraction(case.correct, total) * (1 - case.tolerance)
    step_1 = Fraction(case.correct, total) * (1 - case.tolerance / 20)
    good = [q for q in range(2, 33) if case.right(*[[q] * layers] * 3) >= step_1 * total]
    start = [min(good, default=32)] * layers

    weights: Bits | None = start
    while weights and sum(p * n for p, n in zip(case.parameters, weights, strict=True)) > (
        case.budget
    ):
        weights = one_less(weights, case.parameters)
    assert weights is not None, "an infeasible budget"
    reached = Fraction(case.right(weights, start, start), total)
    if reached <= target:
        accurate = down(
            start, case.parameters, lambda w: case.right(w, start, start) >= target * total
        )
        return Found(
            "B",
            {"model_memory": (weights, start, start), "model_accuracy": (accurate, start, start)},
        )
    least = (target + (reached - target) / 2) * total
    activations = down(start, case.outputs, lambda a: case.right(weights, a, a) >= least)
    routing = list(activations)
    for layer in case.routed:
        while routing[layer] > 2:
            shorter = [q - (i == layer) for i, q in enumerate(routing)]
            if case.right(weights, activations, shorter) < target * total:
                break
            routing = shorter
    return Found("A", {"model_satisfied": (weights, activations, routing)})


@hypothesis_settings(max_examples=120, deadline=None)
@given(cases())
def test_both_modes_find_what_the_second_writing_finds(case: Case) -> None:
    expected = second_writing(case)
    for mode, wrong_last in product(MODES, (False, True)):
        assert found(search(case, mode, wrong_last=wrong_last)) == expected


sizes = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10**7), min_size=1)


@given(sizes, st.integers(2, 32))
def test_each_rung_has_one_bit_more(sizes: dict[str, int], longest: int) -> None:
    rungs = ladder(sizes, dict.fromkeys(sizes, longest))
    assert rungs[0] == dict.fromkeys(sizes, 2)
    assert rungs[-1] == dict.fromkeys(sizes, longest)
    for shorter, longer in pairwise(rungs):
        assert sorted(longer[name] - shorter[name] for name in sizes) == [0] * (len(sizes) - 1) + [
            1
        ]


@given(sizes, st.data())
def test_a_layer_with_four_times_the_numbers_has_a_bit_less(
    sizes: dict[str, int], data: st.DataObject
) -> None:
    sizes = {"one": 100, "four": 400, "sixteen": 1600, **sizes}
    rung = data.draw(st.sampled_from(ladder(sizes, dict.fromkeys(sizes, 32))))
    between = [q for q in (rung["one"], rung["four"], rung["sixteen"]) if 2 < q < 32]
    if len(between) == 3:
        assert rung["one"] - rung["four"] in (0, 1, 2)
        assert rung["one"] - rung["sixteen"] in (1, 2, 3)


def test_the_rungs_of_shallowcaps() -> None:
    """The first layer has few weights and most of the activations."""
    inventory = Inventory.of(build("shallowcaps"))
    weights = ladder(inventory.parameters(), dict.fromkeys(inventory.parameters(), 10))
    assert [list(rung.values()) for rung in weights[5:9]] == [
        [6, 2, 3], [6, 3, 3], [7, 3, 3], [7, 3, 4]
    ]  # fmt: skip
    outputs = ladder(inventory.outputs(), dict.fromkeys(inventory.outputs(), 10))
    assert [2, 4, 7] in [list(rung.values()) for rung in outputs]
    assert not any(rung["conv"] > rung["primary"] for rung in outputs)


def test_fewer_bits_than_the_rule_of_the_paper() -> None:
    """Nothing is lost with 7, 3 and 3 bits of weights, which never fall by one a layer."""
    costs = tuple(good_from(q) for q in (7, 3, 3))
    free = (FREE,) * 3
    case = Case((20, 5000, 1500), (), 20_000, 100, 100, Fraction(1, 10), (costs, free, free))
    assert search(case).path == "A"
    assert strategies["paper"](case.problem, answers(case.accuracy, 100)).path == "B"


def test_a_budget_that_nothing_fits_is_an_error() -> None:
    case = Case((10,), (), 19, 100, 100, Fraction(1, 10), ((FREE,), (FREE,), (FREE,)))
    with pytest.raises(SearchError, match="no wordlengths fit the budget of 19 bits"):
        BySize().fitting(case.problem, 8)
