"""One scheme's search: what its journal is of, and strategies of users."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

import pytest
from tests import networks
from tests.search import searching

from qcapsnets.data import Splits
from qcapsnets.errors import RegistryError, SearchError
from qcapsnets.evaluation import Evaluator, Measurement, Reference
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.models import CapsNet
from qcapsnets.search import Answers, Cost, Outcome, Problem, Step, Tolerance, scheme, strategies
from qcapsnets.search.answers import Fast
from qcapsnets.search.journal import Journal


@pytest.fixture
def job(net: CapsNet, digits: Splits, tmp_path: Path) -> scheme.Job:
    return scheme.Job(
        model=net,
        images=digits.validation,
        data="validation",
        calibration=searching.calibrated(),
        reference=Reference.of(net, digits.validation),
        settings=searching.settings(),
        rounding="nearest",
        journal=tmp_path / "nearest.jsonl",
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ("model", "model"),
        ("images", "data"),
        ("reference", "float answers"),
        ("calibration", "calibration"),
        ("rounding", "rounding"),
        ("tolerance", "settings tolerance"),
        ("seed", "settings seed"),
        ("mode", "settings mode"),
        ("version", "version"),
    ],
)
def test_what_differs_is_named(
    job: scheme.Job,
    digits: Splits,
    monkeypatch: pytest.MonkeyPatch,
    changed: str,
    named: str,
) -> None:
    with Journal(job.journal, job.identity()):
        pass
    monkeypatch.setattr("qcapsnets.search.journal.PATIENCE", 0.0)
    with pytest.raises(SearchError) as caught:
        scheme.run(other_job(job, digits, changed, monkeypatch))
    assert f"its {named} is " in str(caught.value)


def other_job(
    job: scheme.Job, digits: Splits, changed: str, monkeypatch: pytest.MonkeyPatch
) -> scheme.Job:
    reference = job.reference
    match changed:
        case "model":
            model = networks.tiny(seed=1)
            calibration = Calibration.record(model, digits.train.images[:10])
            return replace(job, model=model, calibration=calibration)
        case "images":
            return replace(job, data="other")
        case "reference":
            return replace(job, reference=Reference(reference.right, reference.order.flip(0)))
        case "calibration":
            other = Calibration.record(job.model, digits.train.images[:50])
            return replace(job, calibration=other)
        case "rounding":
            return replace(job, rounding="truncation")
        case "tolerance":
            return replace(job, settings=searching.settings(tolerance=Tolerance(0.03)))
        case "seed":
            return replace(job, settings=searching.settings(seed=1))
        case "mode":
            return replace(job, settings=searching.settings(mode="literal"))
    monkeypatch.setattr(scheme, "__version__", "0.0.0")
    return job


def test_a_cache_of_another_size_goes_on_with_the_same_journal(job: scheme.Job) -> None:
    other = replace(job, settings=searching.settings(cache_bytes=1))
    assert other.identity() == job.identity()


def test_a_calibration_from_its_file_is_the_same(job: scheme.Job, tmp_path: Path) -> None:
    job.calibration.save(tmp_path / "calibration.safetensors")
    loaded = Calibration.load(tmp_path / "calibration.safetensors")
    assert replace(job, calibration=loaded).identity() == job.identity()


# Strategies


def eight_bits(problem: Problem, answers: Answers) -> Outcome:
    """A user's strategy: eight bits everywhere, and that is that."""
    answers.step = "eight"
    plan = problem.uniform(8, 8)
    right = answers.accuracy(plan)
    bits = problem.weight_bits(plan)
    step = Step("eight", plan, right, problem.total, bits, "because", answers.cost)
    return Outcome("A", {"model_satisfied": plan}, (step,))


@pytest.fixture
def strategy(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(strategies._values, "eight-bits", eight_bits)
    return "eight-bits"


def test_a_users_strategy_runs(job: scheme.Job, strategy: str) -> None:
    outcome = scheme.run(replace(job, settings=searching.settings(strategy=strategy)))
    assert [q.weight for q in outcome.plans["model_satisfied"].values()] == [8, 8, 8]
    assert [line["step"] for line in searching.lines(job.journal)] == ["eight"]


def test_an_unknown_strategy_is_an_error(job: scheme.Job) -> None:
    with pytest.raises(RegistryError, match="unknown search strategy 'magic': known are paper"):
        scheme.run(replace(job, settings=searching.settings(strategy="magic")))


def plan_of(q: int) -> Plan:
    zero = Fraction(0)
    return Problem(("a",), (1,), (1,), (), 9, 1, 1, zero, zero).uniform(q, q)


@pytest.mark.parametrize(
    ("path", "plans", "message"),
    [
        ("A", {"mine": plan_of(3)}, "path 'A' with mine: path A has model_satisfied"),
        ("B", {"model_memory": plan_of(3)}, "path 'B' with model_memory"),
        ("C", {"model_satisfied": plan_of(3)}, "path 'C'"),
        ("A", {"model_satisfied": plan_of(4)}, "model_satisfied is the plan of none of its steps"),
    ],
)
def test_outcomes_that_nobody_could_choose_from(
    path: str, plans: dict[str, Plan], message: str
) -> None:
    step = Step("1", plan_of(3), 5, 10, 3, "because", Cost())
    with pytest.raises(SearchError) as caught:
        Outcome(path, plans, (step,))  # type: ignore[arg-type]
    assert message in str(caught.value)


# Granularity


@pytest.mark.parametrize(("granularity", "parts"), [("block", 6), ("layer", 18)])
def test_deepcaps_by_block_and_by_layer(
    job: scheme.Job, digits: Splits, granularity: Literal["block", "layer"], parts: int
) -> None:
    """A whole search of all six layers; the network need not be a good one."""
    model, images = networks.tiny_deep().eval(), searching.some(digits.validation, 10)
    chosen = searching.settings(
        granularity=granularity, tolerance=Tolerance(0.5), budget=40 * 8_912
    )
    outcome = scheme.run(
        replace(
            job,
            model=model,
            images=images,
            calibration=Calibration.record(model, digits.train.images[:10]),
            reference=Reference.of(model, images),
            settings=chosen,
        )
    )
    for plan in outcome.plans.values():
        assert len(plan) == parts
        routed = [name for name, q in plan.items() if q.routing is not None]
        assert routed == ["block4" if granularity == "block" else "block4.skip", "digit"]
        assert plan.sites(model)


# The verdicts of a real search


class Spy(Fast):
    """Remembers every question that was answered for certain, and the answer."""

    def _ask(self, plan: Plan, minimum: int | None, images: int | None = None) -> Measurement:
        measured = super()._ask(plan, minimum, images)
        verdict = None if minimum is None else measured.verdict(minimum)
        if verdict is not None:
            self.said = [*getattr(self, "said", []), (plan, minimum, verdict)]
        return measured


@pytest.mark.parametrize("rounding", ["truncation", "stochastic"])
def test_every_verdict_is_that_of_a_full_evaluation(job: scheme.Job, rounding: str) -> None:
    def evaluator(reuse: bool) -> Evaluator:
        return Evaluator(
            job.model,
            job.images,
            job.calibration,
            rounding=rounding,
            reference=job.reference,
            reuse=reuse,
        )

    problem, full = job.problem(), evaluator(reuse=False)
    with Journal(job.journal, {}) as journal:
        answers = Spy(evaluator(reuse=True), journal, rounding=rounding)
        outcome = strategies["paper"](problem, answers)
    assert len(answers.said) > 3
    for plan, minimum, verdict in answers.said:
        assert (full.count(plan).right >= minimum) == verdict
    for step in outcome.steps:
        assert full.count(step.plan).right == step.right


@pytest.mark.parametrize("rounding", ["truncation", "nearest"])
def test_fast_and_literal_on_a_real_network(job: scheme.Job, tmp_path: Path, rounding: str) -> None:
    fast, literal = (
        scheme.run(
            replace(
                job,
                rounding=rounding,
                settings=searching.settings(mode=mode),
                journal=tmp_path / mode,
            )
        )
        for mode in ("fast", "literal")
    )
    assert fast.steps[0].weight_bits <= literal.steps[0].weight_bits
    if fast.steps[0].plan == literal.steps[0].plan:
        assert fast.path == literal.path
        assert fast.steps[1].plan == literal.steps[1].plan
        assert fast.steps[1].right == literal.steps[1].right
    spent = [sum(step.cost.macs for step in outcome.steps) for outcome in (fast, literal)]
    assert 2 * spent[0] < spent[1]
