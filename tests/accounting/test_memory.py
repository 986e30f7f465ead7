"""Memory: the reference counts, a network counted by hand, and the peak of what is needed."""

import json
import time

import pytest
from tests.accounting.conftest import by_hand, rendered

from qcapsnets.accounting import (
    BINARY_POINT_BITS,
    Inventory,
    Memory,
    WorkingSet,
    activation_bits,
    binary_points_of,
    bits_in_words,
    outputs_of,
    parameters_of,
    peak_working_set,
    votes_of,
    weight_bits,
    working_sets,
)
from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint.plan import Granularity, Plan, Wordlengths
from qcapsnets.models import CapsNet, build

BLOCKS = (590_336, 2_065_408, 2_360_320, 1_789_184)


def weighing(plan: tuple[int, ...], model: CapsNet) -> Plan:
    """A plan with these wordlengths of weights, and 8 elsewhere."""
    uniform = Plan.uniform(model, 8)
    return uniform.replacing(weight=dict(zip(uniform, plan, strict=True)))


@pytest.mark.parametrize(
    ("name", "options", "parameters", "outputs", "votes"),
    [
        (
            "shallowcaps",
            {},
            (20_992, 5_308_672, 1_474_560),
            (102_400, 9_216, 160),
            {"digit": 184_320},
        ),
        (
            "shallowcaps",
            {"routing_bias": True},
            (20_992, 5_308_672, 1_474_720),
            (102_400, 9_216, 160),
            {"digit": 184_320},
        ),
        (
            "deepcaps",
            {},
            (1_536, *BLOCKS, 1_638_720),
            (100_352, 25_088, 12_544, 4_096, 1_024, 320),
            {"block4": 32_768, "digit": 204_800},
        ),
        (
            "deepcaps",
            {"size": 64, "channels": 3},
            (3_840, *BLOCKS, 6_553_920),
            (524_288, 131_072, 65_536, 16_384, 4_096, 320),
            {"block4": 131_072, "digit": 819_200},
        ),
    ],
)
def test_reference_counts(
    name: str,
    options: dict[str, int],
    parameters: tuple[int, ...],
    outputs: tuple[int, ...],
    votes: dict[str, int],
) -> None:
    model = build(name, **options)
    assert tuple(parameters_of(model).values()) == parameters
    assert tuple(outputs_of(model).values()) == outputs
    assert votes_of(model) == votes
    assert weight_bits(model) == 32 * sum(parameters)
    assert activation_bits(model) == 32 * sum(outputs)


def test_reference_totals() -> None:
    assert sum(parameters_of(build("shallowcaps")).values()) == 6_804_224
    assert sum(parameters_of(build("shallowcaps", routing_bias=True)).values()) == 6_804_384
    assert sum(parameters_of(build("deepcaps")).values()) == 8_445_504
    assert sum(parameters_of(build("deepcaps", size=64, channels=3)).values()) == 13_363_008
    assert bits_in_words(weight_bits(build("shallowcaps"))) == "217.7 Mbit"


@pytest.mark.parametrize(
    ("name", "options", "wordlengths", "reduction"),
    [
        ("shallowcaps", {}, (9, 8, 7), 4.11),
        ("shallowcaps", {}, (7, 6, 5), 5.53),
        ("shallowcaps", {}, (6, 5, 4), 6.69),
        ("deepcaps", {}, (7, 6, 5, 4, 3, 3), 8.04),
        ("deepcaps", {}, (8, 7, 6, 5, 4, 4), 6.43),
        ("deepcaps", {"size": 64, "channels": 3}, (11, 10, 9, 8, 7, 7), 4.20),
    ],
)
def test_reductions_of_the_reruns(
    name: str, options: dict[str, int], wordlengths: tuple[int, ...], reduction: float
) -> None:
    model = build(name, **options)
    memory = Memory.of(model, weighing(wordlengths, model))
    assert round(memory.weight_reduction, 2) == reduction
    assert memory.activation_reduction == 4.0


def test_the_papers_first_result_breaks_its_own_budget() -> None:
    """paper.md section 6: 4.11x is 52.98 Mbit, over the budget of 45 Mbit."""
    model = build("shallowcaps", routing_bias=True)
    assert round(weight_bits(model, weighing((9, 8, 7), model)) / 1e6, 2) == 52.98


def test_counts_by_hand(little: CapsNet) -> None:
    # first: 2*9 + 2 and 2 + 2 of the batch norm; caps: 4*2*4 + 4; last: 3*4*4*2 + 3*2
    assert parameters_of(little) == {"first": 24, "caps": 36, "last": 102}
    assert outputs_of(little) == {"first": 2 * 9, "caps": 4 * 4, "last": 3 * 2}
    assert votes_of(little) == {"last": 4 * 3 * 2}


def test_bits_by_hand(little: CapsNet) -> None:
    plan = Plan(
        {
            "first": Wordlengths(7, 5),
            "caps": Wordlengths(6, 4),
            "last": Wordlengths(3, 2, 9),
        }
    )
    assert weight_bits(little, plan) == 24 * 7 + 36 * 6 + 102 * 3
    assert activation_bits(little, plan) == 18 * 5 + 16 * 4 + 6 * 2
    memory = Memory.of(little, plan)
    assert memory.weight_reduction == 32 * 162 / (24 * 7 + 36 * 6 + 102 * 3)
    assert memory.activation_reduction == 32 * 40 / (18 * 5 + 16 * 4 + 6 * 2)
    # 4 + 2 + 2 tensors of weights; 1 + 2 + 5 arrays: votes, logits, coupling, preactivation, output
    assert (memory.weight_tensors, memory.other_arrays) == (8, 8)
    assert BINARY_POINT_BITS == 8
    assert memory.binary_point_bits == 8 * binary_points_of(little) == 8 * 16


def numbers(found: WorkingSet) -> dict[str, tuple[int, int]]:
    return {item.name: (item.numbers, item.wordlength) for item in found.items}


def test_working_sets_by_hand(little: CapsNet) -> None:
    plan = Plan(
        {
            "first": Wordlengths(7, 5),
            "caps": Wordlengths(6, 4),
            "last": Wordlengths(3, 2, 9),
        }
    )
    first, caps, last = working_sets(little, plan)
    assert numbers(first) == {"first.image": (25, 8), "first.activation": (18, 5)}
    assert numbers(caps) == {"first.activation": (18, 5), "caps.preactivation": (16, 4)}
    assert numbers(last) == {
        "last.votes": (24, 2),
        "last.logits": (12, 9),
        "last.coupling": (12, 2),
        "last.preactivation": (6, 9),
    }
    assert [found.bits for found in (first, caps, last)] == [290, 154, 48 + 108 + 24 + 54]
    assert peak_working_set(little, plan) == first


def test_without_iterations_the_logits_are_never_stored() -> None:
    model = by_hand(1)
    *_, last = working_sets(model, Plan.uniform(model, 8))
    assert numbers(last).keys() == {"last.votes", "last.coupling", "last.preactivation"}
    assert "last.logits" not in Inventory.of(model).arrays


def test_what_a_block_carries_is_needed_until_the_capsule_layer() -> None:
    model = build("deepcaps-small")
    by_layer = {found.layer: numbers(found) for found in working_sets(model)}
    assert "block3.activation" in by_layer["block4"]
    assert "block4.l1.activation" in by_layer["block4"]
    inventory = Inventory.of(model)
    votes = next(m for m in inventory.moments if m.site == "digit.votes")
    assert set(votes.arrays) == {"block3.activation", "block4.activation", "digit.votes"}
    after_skip = next(m for m in inventory.moments if m.site == "block4.l2.preactivation")
    assert set(after_skip.arrays) == {
        "block3.activation",
        "block4.l1.activation",
        "block4.skip.activation",
        "block4.l2.preactivation",
    }


def test_full_working_set_of_shallowcaps() -> None:
    peak = peak_working_set(build("shallowcaps"))
    assert peak.layer == "digit"
    assert peak.bits == 32 * (184_320 + 2 * 11_520 + 160)


@pytest.mark.parametrize("granularity", ["block", "layer"])
@pytest.mark.parametrize("name", ["shallowcaps-small", "deepcaps-small"])
def test_wordlengths_are_those_that_quantizing_uses(name: str, granularity: Granularity) -> None:
    model = build(name)
    plan = Plan.uniform(model, 8, granularity)
    part, routed = list(plan)[1], list(plan)[-1]
    plan = plan.replacing(weight={part: 3}, activation={part: 5}, routing={routed: 4})
    counted = Inventory.of(model).wordlengths(plan)
    used = {name: wordlength for name, (_, wordlength) in plan.sites(model).items()}
    assert {name: counted[name] for name in used} == used
    only_after_folding = {n for n in counted if ".norm." in n}
    assert counted.keys() - used.keys() == {f"{next(iter(plan))}.image"} | only_after_folding


def test_parts_of_blocks(little: CapsNet) -> None:
    model = build("deepcaps-small")
    blocks, layers = parameters_of(model), parameters_of(model, "layer")
    assert sum(layers[f"block2.{part}"] for part in ("l1", "l2", "l3", "skip")) == blocks["block2"]
    assert sum(layers.values()) == sum(blocks.values())
    outputs = outputs_of(model, "layer")
    one = outputs_of(model)["block2"]
    assert [outputs[f"block2.{part}"] for part in ("l1", "l2", "l3", "skip")] == [
        one,
        one,
        2 * one,  # its own, and the sum with the skip layer's
        one,
    ]
    assert outputs_of(little, "layer") == outputs_of(little)


def test_a_plan_by_layer() -> None:
    model = build("deepcaps-small")
    plan = Plan.uniform(model, 8, "layer").replacing(weight={"block2.l1": 3})
    fewer = 5 * parameters_of(model, "layer")["block2.l1"]
    assert weight_bits(model, plan) == weight_bits(model) // 4 - fewer


def test_a_plan_of_another_network(little: CapsNet) -> None:
    other = Plan.uniform(build("shallowcaps-small"), 8)
    with pytest.raises(FixedPointError, match="the network's are first, caps, last"):
        weight_bits(little, other)


def test_thousands_of_plans_are_cheap() -> None:
    model = build("deepcaps-small")
    assert Inventory.of(model) is Inventory.of(model)
    plan = Plan.uniform(model, 8)
    start = time.process_time()
    for _ in range(2000):
        weight_bits(model, plan)
    assert time.process_time() - start < 1


def test_the_network_is_untouched(little: CapsNet) -> None:
    before = {name: tensor.clone() for name, tensor in little.state_dict().items()}
    assert little.training
    Memory.of(little)
    assert little.training
    assert all(little.state_dict()[name].equal(tensor) for name, tensor in before.items())


def test_views(little: CapsNet) -> None:
    memory = Memory.of(little, Plan.uniform(little, 8))
    text = rendered(memory)
    assert "Weights 4.00x smaller than in FP32" in text
    assert "16 binary points of 8 bits" in text
    assert "binary points" not in rendered(Memory.of(little))
    assert "last.votes" in rendered(working_sets(little)[-1])
    assert json.loads(json.dumps(memory.to_json()))["weight_bits"] == 8 * 162


@pytest.mark.parametrize(
    ("bits", "words"),
    [(0, "0 bit"), (999, "999 bit"), (1_000, "1.0 kbit"), (45_000_000, "45.0 Mbit")],
)
def test_bits_in_words(bits: int, words: str) -> None:
    assert bits_in_words(bits) == words


@pytest.mark.parametrize("granularity", ["block", "layer"])
def test_reductions_are_of_what_the_plan_names(granularity: Granularity) -> None:
    model = build("deepcaps-small")
    plan = Plan.uniform(model, 8, granularity=granularity)
    assert Inventory.of(model).activation_reduction(plan) == 4
    assert Memory.of(model, plan).activation_reduction == 4
