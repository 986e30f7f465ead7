"""The steps against a second, literal writing of them, on accuracies that are plain functions."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.search.cases import (
    FREE,
    MODES,
    Case,
    both,
    cases,
    found,
    good_from,
    lists,
    simple,
    walk,
)
from tests.search.fakes import FakeEvaluator, answers, asked

from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.search import Problem
from qcapsnets.search.paper import (
    Walk,
    accurate_weights,
    fulfil_memory,
    layer_uniform,
    routing_arrays,
    search,
    shorter_activations,
)
from qcapsnets.search.settings import Mode


@hypothesis_settings(max_examples=120, deadline=None)
@given(cases())
def test_both_modes_find_what_the_second_writing_finds(case: Case) -> None:
    """Also if the hardest images do not tell which plans fail."""
    expected = case.brute_force()
    for mode, wrong_last in product(MODES, (False, True)):
        made = answers(case.accuracy, case.total, mode, wrong_last=wrong_last)
        assert found(search(case.problem, made)) == expected


@hypothesis_settings(max_examples=40, deadline=None)
@given(cases())
def test_what_the_steps_record(case: Case) -> None:
    problem = case.problem
    outcome = search(problem, answers(case.accuracy, case.total))
    names = [step.name for step in outcome.steps]
    assert names == (["1", "2", "3A", "4A"] if outcome.path == "A" else ["1", "2", "3B"])
    for step in outcome.steps:
        weights = lists(step.plan)[0]
        bits = sum(p * n for p, n in zip(case.parameters, weights, strict=True))
        assert step.weight_bits == problem.weight_bits(step.plan) == bits
        assert step.right == case.accuracy(step.plan)
    memory = outcome.steps[1]
    assert memory.weight_bits <= case.budget
    assert (outcome.path == "A") == (Fraction(memory.right, case.total) > problem.target)


def test_the_literal_mode_asks_in_the_order_of_the_paper() -> None:
    """A binary search from 32 bits, then one bit at a time; nothing twice."""
    case = simple(10_000, good_from(4), good_from(5), good_from(3))
    made = answers(case.accuracy, case.total, "literal")
    search(case.problem, made)
    plans = [[tuple(vars(q).values()) for q in plan.values()] for plan in asked(made)]
    uniform = [[(q, q, None), (q, q, q)] for q in (17, 9, 5, 3, 4)]
    memory = [(5, 5, None), (4, 5, 5)]
    activations = [(5, 5, None), (4, 4, 4)]  # fails
    routing = [[(5, 5, None), (4, 5, q)] for q in (4, 3, 2)]  # the last fails
    assert plans == [*uniform, memory, activations, *routing]


def test_the_fast_mode_counts_only_what_a_step_ends_with() -> None:
    costs = (good_from(q, lost=500) for q in (4, 5, 3))
    case = simple(10_000, *costs, total=1000)
    made = answers(case.accuracy, case.total, "fast")
    search(case.problem, made)
    plans = [[tuple(vars(q).values()) for q in plan.values()] for plan in asked(made)]
    uniform = [[(q, q, None), (q, q, q)] for q in (9, 5, 3, 4, 5)]  # 5: judged, then counted
    memory = [(5, 5, None), (4, 5, 5)]
    activations = [(5, 5, None), (4, 4, 4)]  # fails
    routing = [[(5, 5, None), (4, 5, q)] for q in (4, 3, 2, 3, 3)]
    assert plans == [*uniform, memory, activations, *routing]
    complete = [plan for plan in set(asked(made)) if made.evaluator.measured(plan).complete]
    assert len(complete) == 3  # of steps 1, 2 and 4A; that of 3A is the memory's


def test_a_step_whose_last_plan_fails_is_taken_again() -> None:
    """The hardest images tell nothing here: plans are presumed to pass, and found out."""
    case = simple(10_000, good_from(6, lost=200), total=1000)
    made = answers(case.accuracy, case.total, "fast", wrong_last=True)
    assert layer_uniform(Walk(case.problem, made, [])) == 6
    work = cast(FakeEvaluator, made.evaluator).work
    assert made.cost.images == work  # nothing twice
    assert work < 1.1 * 5 * 1000  # little more than the five full evaluations of the paper


@both
@pytest.mark.parametrize("q", [2, 3, 4, 9, 17, 31, 32])
def test_step_1_finds_the_smallest(mode: Mode, q: int) -> None:
    case = simple(10_000, weights=good_from(q))
    assert layer_uniform(walk(case, mode)) == q


@both
def test_step_1_takes_the_longest_if_none_is_enough(mode: Mode) -> None:
    case = simple(10_000, weights=(1,) * 33, tolerance=Fraction(0))
    steps = walk(case, mode)
    assert layer_uniform(steps) == 32
    assert "no uniform wordlength up to 32 bits" in steps.steps[0].decision


@both
def test_step_1_may_lose_a_twentieth_of_the_tolerance(mode: Mode) -> None:
    """Of 1000 images and 10 %: 5 may be lost, a sixth may not."""
    for lost, expected in ((5, 4), (6, 7)):
        costs = tuple(0 if n >= 7 else lost if n >= 4 else 500 for n in range(33))
        case = Case((10,), (), 10**6, 1000, 1000, Fraction(1, 10), ((costs,), (FREE,), (FREE,)))
        assert layer_uniform(walk(case, mode)) == expected


def problem(parameters: tuple[int, ...], budget: int) -> Problem:
    costs = (FREE,) * len(parameters)
    return Case(parameters, (), budget, 100, 100, Fraction(1, 10), (costs, costs, costs)).problem


@pytest.mark.parametrize(
    ("budget", "weights"),
    [
        (1000 * 7 + 100 * 6 + 10 * 5, [7, 6, 5]),  # exactly on the boundary
        (1000 * 7 + 100 * 6 + 10 * 5 - 1, [6, 5, 4]),  # one bit short of it
        (1000 * 4 + 100 * 3 + 10 * 2, [4, 3, 2]),
        (1000 * 4 + 100 * 3 + 10 * 2 - 1, [3, 2, 2]),  # the tail is flat at 2 bits
        (1000 * 3 + 100 * 2 + 10 * 2, [3, 2, 2]),
        (1000 * 3 + 100 * 2 + 10 * 2 - 1, [2, 2, 2]),
        (1110 * 2, [2, 2, 2]),
        (10**9, [8, 7, 6]),  # never above step 1, whatever the budget
    ],
)
def test_step_2_fits_the_budget(budget: int, weights: list[int]) -> None:
    assert list(problem((1000, 100, 10), budget).largest_falling(8).values()) == weights


def test_step_2_flattens_long_networks() -> None:
    falling = problem((1,) * 6, 10**6).falling(5)
    assert list(falling.values()) == [5, 4, 3, 2, 2, 2]


def test_step_2_keeps_the_activations_of_step_1() -> None:
    steps = walk(simple(100 * 5 + 100 * 4))
    plan, right = fulfil_memory(steps, 9)
    assert list(plan.values()) == [Wordlengths(5, 9), Wordlengths(4, 9, 9)]
    assert right == 100
    assert "weights of 5, 4 bits take 0.001 of 0.001 Mbit" in steps.steps[0].decision


@both
@pytest.mark.parametrize(("lost", "path"), [(9, "A"), (10, "B"), (11, "B")])
def test_the_target_must_be_exceeded(mode: Mode, lost: int, path: str) -> None:
    """90 of 100 are asked for: 90 are not over it."""
    weights = tuple(0 if n >= 6 else lost for n in range(33))
    case = simple(100 * 6 + 100 * 5, weights=weights)
    outcome = search(case.problem, answers(case.accuracy, 100, mode))
    assert outcome.path == path


@both
def test_step_3a_uses_half_of_what_is_left(mode: Mode) -> None:
    """acc_mm = 98 and a target of 90: 94 of 100 must stay."""
    for lost, expected in ((6, 4), (7, 8)):
        activations = tuple(0 if n >= 8 else lost if n >= 4 else 50 for n in range(33))
        case = simple(10**6, activations=activations)
        start = case.problem.uniform(8, 8)
        steps = walk(case, mode)
        plan = shorter_activations(steps, start, 98)
        assert [q.activation for q in plan.values()] == [8, expected]
        assert [q.routing for q in plan.values()] == [None, expected]
        assert "at least 94.00% asked" in steps.steps[-1].decision


@both
def test_step_3a_asks_for_exact_halves(mode: Mode) -> None:
    """acc_mm = 99, target 90: 94.5 of 100 are asked for, which 94 are not and 95 are."""
    for lost, expected in ((5, 4), (6, 8)):
        activations = tuple(0 if n >= 8 else lost if n >= 4 else 50 for n in range(33))
        case = simple(10**6, activations=activations)
        plan = shorter_activations(walk(case, mode), case.problem.uniform(8, 8), 99)
        assert plan["layer1"].activation == expected


@both
def test_step_3a_never_touches_the_first_layer(mode: Mode) -> None:
    case = Case((1,), (), 10**6, 100, 100, Fraction(1, 2), ((FREE,), (FREE,), (FREE,)))
    plan = shorter_activations(walk(case, mode), case.problem.uniform(9, 9), 100)
    assert lists(plan)[1] == [9]


@both
def test_step_3a_shortens_from_each_layer_on(mode: Mode) -> None:
    costs = tuple(good_from(q) for q in (5, 6, 7, 3))
    case = Case((1,) * 4, (), 10**6, 100, 100, Fraction(1, 10), ((FREE,) * 4, costs, (FREE,) * 4))
    plan = shorter_activations(walk(case, mode), case.problem.uniform(9, 9), 100)
    assert lists(plan)[1] == [9, 7, 7, 3]


@both
def test_step_4a_shortens_each_routed_layer_down_to_the_target(mode: Mode) -> None:
    routing = (FREE, good_from(5, lost=11), good_from(3, lost=11))
    case = Case((1,) * 3, (1, 2), 10**6, 100, 100, Fraction(1, 10), ((FREE,) * 3,) * 2 + (routing,))
    steps = walk(case, mode)
    plan = routing_arrays(steps, case.problem.uniform(7, 7))
    assert [q.routing for q in plan.values()] == [None, 5, 3]
    assert [q.activation for q in plan.values()] == [7, 7, 7]
    assert "layer1 5, layer2 3" in steps.steps[-1].decision


@both
def test_step_4a_may_reach_the_target_exactly(mode: Mode) -> None:
    for lost, expected in ((10, 2), (11, 7)):
        case = simple(10**6, routing=good_from(7, lost))
        plan = routing_arrays(walk(case, mode), case.problem.uniform(7, 7))
        assert plan["layer1"].routing == expected


@both
def test_step_4a_without_routing_changes_nothing(mode: Mode) -> None:
    case = Case((1,), (), 10**6, 100, 100, Fraction(1, 10), ((FREE,), (FREE,), (FREE,)))
    plan = case.problem.uniform(6, 6)
    assert routing_arrays(walk(case, mode), plan) == plan


@both
def test_step_3b_shortens_weights_alone(mode: Mode) -> None:
    costs = (good_from(4), good_from(3), good_from(2))
    case = Case((1,) * 3, (2,), 6, 100, 100, Fraction(1, 10), (costs, (FREE,) * 3, (FREE,) * 3))
    plan = accurate_weights(walk(case, mode), 8)
    assert lists(plan) == ([4, 3, 2], [8, 8, 8], [8, 8, 8])


@both
def test_step_3b_says_so_if_the_target_is_out_of_reach(mode: Mode) -> None:
    case = simple(10**6, weights=(11,) * 33)
    steps = walk(case, mode)
    plan = accurate_weights(steps, 32)
    assert lists(plan)[0] == [32, 32]
    assert "do not reach the target" in steps.steps[-1].decision


@hypothesis_settings(deadline=None)
@given(
    st.lists(st.booleans(), min_size=33, max_size=33),
    st.integers(2, 32),
    st.booleans(),
    st.sampled_from(["shortest", "shortest_of_all"]),
)
def test_what_fast_ends_with_passes_whatever_the_accuracy(
    passes: list[bool], longest: int, wrong_last: bool, search_of: str
) -> None:
    """Also where a shorter wordlength is better than a longer one, or the first images deceive."""

    def plan_of(q: int) -> Plan:
        return Plan({"layer": Wordlengths(q, 8)})

    def accuracy(plan: Plan) -> int:
        return 1000 if passes[plan["layer"].weight] else 900

    def end(mode: Mode) -> int:
        made = answers(accuracy, 1000, mode, wrong_last=wrong_last)
        ask: Callable[..., int] = getattr(made, search_of)
        return made.settled(lambda: plan_of(ask(plan_of, longest, 1000)), 1000)["layer"].weight

    q = {mode: end(mode) for mode in MODES}
    assert all(n == longest or passes[n] for n in q.values())
    if not wrong_last and (search_of == "shortest_of_all" or q["literal"] == longest):
        assert q["fast"] == q["literal"]  # the same questions, rightly answered
