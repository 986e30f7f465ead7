"""Plans: plain numbers by name, checked against a network with errors that name the layer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import networks

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import Plan, Wordlengths
from qcapsnets.fixedpoint.plan import parts_of, routed
from qcapsnets.fixedpoint.prepare import prepared
from qcapsnets.models import CapsNet, Kind, RoutedCaps

lengths = st.integers(2, 32)
plans = st.dictionaries(
    st.text(min_size=1), st.builds(Wordlengths, lengths, lengths, st.none() | lengths)
).map(Plan)


def plan(**layers: tuple[int, ...]) -> Plan:
    return Plan({name: Wordlengths(*q) for name, q in layers.items()})


SHALLOW = plan(conv=(6, 7), primary=(5, 6), digit=(4, 5, 3))


class TestValues:
    @given(plans)
    def test_json_round_trip(self, plan: Plan) -> None:
        again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
        assert again == plan
        assert hash(again) == hash(plan)
        assert list(again) == list(plan)

    def test_json(self) -> None:
        assert SHALLOW.to_json() == {
            "conv": {"weight": 6, "activation": 7, "routing": None},
            "primary": {"weight": 5, "activation": 6, "routing": None},
            "digit": {"weight": 4, "activation": 5, "routing": 3},
        }
        assert Plan.from_json({"conv": {"weight": 2, "activation": 3}}) == plan(conv=(2, 3))

    def test_equal_in_any_order(self) -> None:
        """As from JSON whose keys were sorted."""
        again = Plan.from_json(json.loads(json.dumps(SHALLOW.to_json(), sort_keys=True)))
        assert list(again) != [*reversed(list(SHALLOW))] != list(SHALLOW)
        assert again == SHALLOW
        assert len({again, SHALLOW}) == 1
        assert plan(conv=(2, 3)) != plan(conv=(2, 4))
        assert plan(conv=(2, 3)) != {"conv": Wordlengths(2, 3)}

    def test_text(self) -> None:
        assert str(SHALLOW) == "conv 6/7, primary 5/6, digit 4/5/3"
        assert repr(SHALLOW) == "Plan(conv 6/7, primary 5/6, digit 4/5/3)"

    def test_replacing(self) -> None:
        changed = SHALLOW.replacing(weight={"conv": 2, "digit": 3}, routing={"digit": 9})
        assert changed == plan(conv=(2, 7), primary=(5, 6), digit=(3, 5, 9))
        assert plan(conv=(6, 7), primary=(5, 6), digit=(4, 5, 3)) == SHALLOW

    def test_cannot_be_changed_from_outside(self) -> None:
        layers = {"conv": Wordlengths(2, 2)}
        kept = Plan(layers)
        layers["conv"] = Wordlengths(3, 3)
        assert kept["conv"] == Wordlengths(2, 2)


class TestUniform:
    def test_granularities(self) -> None:
        model = networks.tiny_deep()
        blocks, parts = Plan.uniform(model, 5), Plan.uniform(model, 5, "layer")
        assert list(blocks) == ["conv", "block1", "block2", "block3", "block4", "digit"]
        assert list(parts) == [
            "conv",
            *(f"block{i}.{part}" for i in range(1, 5) for part in ("l1", "l2", "l3", "skip")),
            "digit",
        ]
        assert [name for name, q in blocks.items() if q.routing] == ["block4", "digit"]
        assert [name for name, q in parts.items() if q.routing] == ["block4.skip", "digit"]

    def test_unknown_granularity(self) -> None:
        with pytest.raises(
            FixedPointError, match=r"granularity 'site' is unknown: .* block, layer"
        ):
            Plan.uniform(networks.tiny(), 5, "site")  # type: ignore[arg-type]

    def test_both_rule_every_site_once(self) -> None:
        model = prepared(networks.tiny_deep())
        for granularity in ("block", "layer"):
            sites = [site for sites in parts_of(model, granularity).values() for site in sites]
            assert len(sites) == len(set(sites))
            assert len(Plan.uniform(model, 4, granularity).sites(model)) == len(
                [s for s in sites if s.kind not in (Kind.IMAGE, Kind.ACCUMULATOR)]
            )

    def test_wordlengths_reach_their_sites(self) -> None:
        model = prepared(networks.tiny_deep())
        names = Plan.uniform(model, 9, "layer").replacing(
            weight={"conv": 2, "block1.l3": 3},
            activation={"block1.l3": 4, "digit": 5},
            routing={"digit": 6, "block4.skip": 7},
        )
        found = {name: wordlength for name, (_, wordlength) in names.sites(model).items()}
        expected = {
            "conv.weights": 2,
            "conv.biases": 2,
            "conv.norm.scales": 2,
            "conv.norm.shifts": 2,
            "conv.activation": 9,
            "block1.l3.weights": 3,
            "block1.l3.preactivation": 4,
            "block1.activation": 4,
            "digit.votes": 5,
            "digit.coupling": 5,
            "digit.logits": 6,
            "digit.preactivation": 6,
            "digit.routing_biases": 9,
            "block4.skip.logits": 7,
            "block4.skip.activation": 9,
        }
        assert expected.items() <= found.items()

    def test_without_iterations_nothing_is_routing(self) -> None:
        layers = {"caps": RoutedCaps(14, 14, 10, 2, iterations=1)}
        model = CapsNet(layers, image_shape=(1, 14, 14), classes=10)
        assert not routed(parts_of(model)["caps"])
        found = plan(caps=(3, 5)).sites(model)
        assert {name: n for name, (_, n) in found.items()} == {
            "caps.weights": 3,
            **{f"caps.{s}": 5 for s in ("votes", "logits", "coupling")},
            **{f"caps.{s}": 5 for s in ("preactivation", "activation")},
        }

    def test_routing_defaults_to_activations(self) -> None:
        found = plan(conv=(6, 7), primary=(5, 6), digit=(4, 5)).sites(networks.tiny())
        assert found["digit.logits"][1] == 5


BAD = [0, 1, 33, -2, 2.5, 6.0, True, "6", None, [6], float("nan")]


class TestBadWordlengths:
    @pytest.mark.parametrize("value", BAD, ids=repr)
    @pytest.mark.parametrize("what", ["weight", "activation", "routing"])
    def test_are_refused(self, what: str, value: Any) -> None:
        if what == "routing" and value is None:
            return
        good = {"weight": 6, "activation": 6, "routing": 6}
        message = rf"{what} wordlength .* is not allowed: give a whole number from 2 to 32"
        with pytest.raises(FixedPointError, match=message):
            Wordlengths(**good | {what: value})
        with pytest.raises(FixedPointError, match=rf"the plan's layer 'primary': {message}"):
            Plan.from_json({"conv": good, "primary": good | {what: value}})
        with pytest.raises(FixedPointError, match=rf"'digit': {message}"):
            SHALLOW.replacing(**{what: {"digit": value}})

    @pytest.mark.parametrize("value", [0, 1, 33, 2.5, True], ids=repr)
    def test_are_refused_for_all_layers(self, value: Any) -> None:
        with pytest.raises(FixedPointError, match="weight wordlength"):
            Plan.uniform(networks.tiny(), value)


class TestBadPlans:
    @pytest.mark.parametrize("value", [None, 3, "conv", [("conv", 3)], ["conv"]], ids=repr)
    def test_not_a_plan(self, value: Any) -> None:
        with pytest.raises(FixedPointError, match="is not a plan: give wordlengths by layer"):
            Plan.from_json(value)

    @pytest.mark.parametrize(
        "value",
        [3, None, [6, 6], {"weight": 6}, {"weights": 6, "activation": 6}, {1: 2}, "66"],
        ids=repr,
    )
    def test_not_wordlengths(self, value: Any) -> None:
        with pytest.raises(FixedPointError, match="the plan gives layer 'conv'"):
            Plan.from_json({"conv": value})
        with pytest.raises(FixedPointError, match="the plan gives layer 'conv'"):
            Plan({"conv": value})

    def test_misses_a_layer(self) -> None:
        message = "the plan misses primary: the network's layers are conv, primary, digit"
        with pytest.raises(FixedPointError, match=message):
            plan(conv=(6, 7), digit=(4, 5, 3)).sites(networks.tiny())

    def test_invents_a_layer(self) -> None:
        with pytest.raises(FixedPointError, match="the plan invents dense: the network's layers"):
            Plan({**SHALLOW, "dense": Wordlengths(3, 3)}).sites(networks.tiny())

    def test_misspells_a_layer(self) -> None:
        with pytest.raises(FixedPointError, match="misses digit and invents digits"):
            plan(conv=(6, 7), primary=(5, 6), digits=(4, 5)).sites(networks.tiny())

    def test_mixes_granularities(self) -> None:
        model = networks.tiny_deep()
        mixed = {**Plan.uniform(model, 5), "block1.l1": Wordlengths(4, 4)}
        with pytest.raises(FixedPointError, match=r"invents block1\.l1"):
            Plan(mixed).sites(model)

    def test_is_empty(self) -> None:
        with pytest.raises(FixedPointError, match="misses conv, primary, digit"):
            Plan({}).sites(networks.tiny())

    def test_routes_what_does_not_route(self) -> None:
        message = "gives layer 'primary' a routing wordlength, but its routing does not iterate"
        with pytest.raises(FixedPointError, match=message):
            SHALLOW.replacing(routing={"primary": 4}).sites(networks.tiny())

    def test_replaces_in_a_layer_that_is_not_there(self) -> None:
        with pytest.raises(
            FixedPointError, match="the plan has no layer 'dense': it has conv, pri"
        ):
            SHALLOW.replacing(weight={"dense": 4})

    def test_replaces_what_is_not_there(self) -> None:
        with pytest.raises(FixedPointError, match=r"the plan gives layer 'conv' .*'weights': 4"):
            SHALLOW.replacing(weights={"conv": 4})
