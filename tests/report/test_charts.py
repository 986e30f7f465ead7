"""Charts as values: what plotly is given, without drawing it."""

import json
from dataclasses import replace

import pytest
from tests.report.conftest import Ran

from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.report import charts
from qcapsnets.report.charts import Spec
from qcapsnets.report.finished import Finished
from qcapsnets.report.palette import cycled, scheme_colours, step_marker, step_path, step_symbol
from qcapsnets.report.plans import Plans
from qcapsnets.report.shares import ROWS, shares_of


@pytest.fixture
def plans(path_a: Ran) -> Plans:
    return Plans.of(Finished.read(path_a.folder), path_a.model)


def traces_of(spec: Spec) -> list[Spec]:
    """The traces that are plans."""
    json.dumps(spec, allow_nan=False)  # no browser reads NaN
    return [trace for trace in spec["data"] if "meta" in trace]


def test_every_plan_is_a_point_that_tells_its_plan(plans: Plans) -> None:
    traces = traces_of(charts.plans_chart(plans))
    assert sum(len(trace["x"]) for trace in traces) == len(plans.points)
    texts = [text for trace in traces for text in trace["text"]]
    assert all("conv: weights" in text and "digit: weights" in text for text in texts)
    assert sum("<b>chosen</b>" in text for text in texts) == 1


def test_a_bound_is_hollow_with_a_stem_and_says_so(plans: Plans) -> None:
    hollow = [t for t in traces_of(charts.plans_chart(plans)) if "error_y" in t]
    assert hollow
    for trace in hollow:
        assert trace["marker"]["symbol"].endswith("-open")
        assert all("at most" in text and "counted" in text for text in trace["text"])
        assert min(trace["error_y"]["arrayminus"]) > 0
    full = [t for t in traces_of(charts.plans_chart(plans)) if "error_y" not in t]
    assert all("at most" not in text for trace in full for text in trace["text"])


def test_a_plan_that_passed_early_points_up(plans: Plans) -> None:
    passed = replace(plans.points[0], passed=True, complete=False)
    (trace,) = traces_of(charts.plans_chart(replace(plans, points=(passed,))))
    assert "at least" in trace["text"][0]
    assert trace["error_y"]["array"][0] > 0 == trace["error_y"]["arrayminus"][0]


def test_target_and_budget_are_lines_with_names(plans: Plans) -> None:
    layout = charts.plans_chart(plans)["layout"]
    target, _, budget = layout["shapes"]
    assert target["y0"] == target["y1"] == 100 * plans.target
    assert budget["x0"] == budget["x1"] == plans.budget_bits / 1e6
    names = " ".join(note["text"] for note in layout["annotations"])
    assert all(word in names for word in ("target", "float", "budget"))


def test_no_plan_at_all_draws_still(plans: Plans) -> None:
    assert traces_of(charts.plans_chart(replace(plans, points=()))) == []


def test_wordlengths_of_each_layer(path_a: Ran) -> None:
    (model,) = path_a.result.chosen
    spec = charts.wordlengths_chart(model)
    weights, _, routing = spec["data"]
    assert weights["y"] == [q["weight"] for q in model.plan.values()]
    assert routing["y"] == [None, None, model.routing["digit"]]
    assert list(spec["keys"]) == ["weights", "activations", "routing arrays"]


def test_bars_of_many_layers_lie_down(path_a: Ran) -> None:
    (model,) = path_a.result.chosen
    plan = {f"layer{number}": model.plan["conv"] for number in range(20)}
    weights = charts.wordlengths_chart(replace(model, plan=plan))["data"][0]
    assert weights["orientation"] == "h"
    assert weights["y"] == list(plan)


def test_shares_are_stacked(path_a: Ran) -> None:
    shares = shares_of(path_a.model, Plan.from_json(path_a.result.chosen[0].plan))
    spec = charts.memory_chart(shares)
    assert [trace["name"] for trace in spec["data"]] == ["conv", "primary", "digit"]
    for row in range(len(ROWS)):
        assert sum(trace["x"][row] for trace in spec["data"]) == pytest.approx(100)


def test_schemes_of_ones_own_have_colours() -> None:
    colours = scheme_colours(["nearest", "mine", "yours"])
    assert len(set(colours.values())) == 3
    assert len(set(cycled("abcdefg").values())) == 7


def test_a_step_of_ones_own_has_symbols() -> None:
    assert step_symbol("anneal") == "hexagon"
    assert step_marker("anneal") == "h"
    assert step_path("anneal").startswith("M")
