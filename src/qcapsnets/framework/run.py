"""A run: from a trained network and two constraints to chosen, measured, saved models."""

import json
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qcapsnets import __version__
from qcapsnets.accounting import (
    BINARY_POINT_BITS,
    FLOAT_BITS,
    Inventory,
    binary_points_of,
    peak_working_set,
)
from qcapsnets.data import ImageSet, Splits
from qcapsnets.errors import SearchError
from qcapsnets.evaluation import Paired, Reference, wilson
from qcapsnets.export.packed import save_packed
from qcapsnets.files import discard_leftovers, write_atomically
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import formats_of, inexact_sites, quantize
from qcapsnets.fixedpoint.tuning import Watch
from qcapsnets.framework.prepare import (
    Shared,
    calibration_images,
    check_data,
    check_reference,
    warnings_of,
)
from qcapsnets.framework.result import Measured, ModelReport, Result, SchemeReport
from qcapsnets.framework.tested import Tested
from qcapsnets.lock import locked
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import fingerprint
from qcapsnets.search import (
    Event,
    Executor,
    Job,
    Outcome,
    Problem,
    Processes,
    Settings,
    strategies,
)
from qcapsnets.search.scheme import calibration_fingerprint
from qcapsnets.selection import Candidate, Choice, select
from qcapsnets.training import fingerprint as data_fingerprint
from qcapsnets.training import predict

RESULT = "result.json"
JOURNALS = "journal"
MODELS = "models"


def run(
    model: CapsNet,
    splits: Splits,
    settings: Settings,
    folder: Path,
    *,
    data_name: str = "unnamed",
    executor: Executor | None = None,
    observe: Callable[[Event], None] | None = None,
    tuning: Watch | None = None,
    warn: Callable[[str], None] | None = None,
    verdicts: Path | None = None,
) -> Result:
    """Search wordlengths for a trained network; an interrupted run in the folder goes on.

    `tuning` is told of every site whose binary points are chosen, then `observe` of every batch
    of images; `warn` of what a user should know beforehand.
    Runs that are given the same folder of `verdicts` evaluate no plan twice between them.
    """
    with locked(folder):
        for place in (folder, folder / MODELS):
            discard_leftovers(place)
        framework = _Framework(model, splits, settings, folder, data_name, verdicts, tuning)
        if warn is not None:
            for warning in framework.warnings:
                warn(warning)
        outcomes = (executor or Processes()).run(framework.jobs(), observe)
        result = framework.conclude(outcomes)
        text = json.dumps(result.to_json(), indent=2) + "\n"
        write_atomically(folder / RESULT, text, SearchError)
    return result


class _Framework:
    """What the parts of a run share."""

    def __init__(
        self,
        model: CapsNet,
        splits: Splits,
        settings: Settings,
        folder: Path,
        data_name: str,
        verdicts: Path | None,
        tuning: Watch | None,
    ) -> None:
        self.model, self.splits, self.settings = model.eval(), splits, settings
        self.folder, self.data_name, self.verdicts = folder, data_name, verdicts
        strategies[settings.strategy]  # an unknown one is an error before anything is computed
        self.images: ImageSet = getattr(splits, settings.search_split)
        check_data(model, self.images, settings.search_split)
        calibrating, tuned = calibration_images(splits, settings), settings.points == "output"
        shared = Shared(folder, model, self.images, calibrating, tuned, tuning)
        self.reference = shared.reference()
        check_reference(self.reference, self.images)
        self.problem = Problem.of(model, settings, self.reference.correct, len(self.images))
        self.calibration = shared.claim(self.reference)
        self.inventory = Inventory.of(model)
        self.tested = Tested.of(model, splits.test, verdicts)
        self.warnings = tuple(warnings_of(self.problem))

    def jobs(self) -> list[Job]:
        """One for each rounding scheme."""
        return [
            Job(
                model=self.model,
                images=self.images,
                data=data_fingerprint(self.images),
                calibration=self.calibration,
                reference=self.reference,
                settings=self.settings,
                rounding=rounding,
                journal=self.folder / JOURNALS / f"{rounding}.jsonl",
                verdicts=self.verdicts,
            )
            for rounding in self.settings.roundings
        ]

    def conclude(self, outcomes: list[Outcome]) -> Result:
        """Select among what the schemes came to, and measure that on the test images."""
        found = list(zip(self.settings.roundings, outcomes, strict=True))
        candidates = [c for rounding, outcome in found for c in self._candidates(rounding, outcome)]
        choice = select(candidates)
        before = self.tested.right(
            {"float": True}, lambda: Reference.of(self.model, self.splits.test).right
        )
        for path in (self.folder / MODELS).glob("model_*.qcaps"):  # of a run with fewer schemes
            path.unlink()
        chosen = tuple(self._measure(candidate, before) for candidate in choice.chosen)
        return self._result(found, choice, chosen, _measured(before))

    def _candidates(self, rounding: str, outcome: Outcome) -> list[Candidate]:
        return [
            Candidate(
                name=name,
                rounding=rounding,
                path=outcome.path,
                plan=plan,
                right=outcome.right(name),
                weight_bits=self.inventory.weight_bits(plan),
                activation_bits=self.inventory.activation_bits(plan),
            )
            for name, plan in outcome.plans.items()
        ]

    def _quantized(self, candidate: Candidate) -> CapsNet:
        return quantize(
            self.model,
            candidate.plan,
            self.calibration,
            candidate.rounding,
            self.settings.seed,
            points=self.settings.points,
        )

    def _facts(self, candidate: Candidate) -> dict[str, Any]:
        """What tells a model from all others of the network."""
        return {
            "plan": candidate.plan.to_json(),
            "rounding": candidate.rounding,
            "seed": self.settings.seed,
            "points": self.settings.points,
            "calibration": calibration_fingerprint(self.calibration),
        }

    def _report(self, candidate: Candidate) -> ModelReport:
        quantized = self._quantized(candidate)
        plan, bits = candidate.plan, candidate.weight_bits
        return ModelReport(
            name=candidate.name,
            rounding=candidate.rounding,
            plan=plan.to_json(),
            formats={name: str(format) for name, format in formats_of(quantized).items()},
            exact=not inexact_sites(quantized),
            weight_bits=bits,
            binary_point_bits=BINARY_POINT_BITS * binary_points_of(self.model),
            activation_bits=candidate.activation_bits,
            working_set_bits=peak_working_set(self.model, plan).bits,
            weight_reduction=self.inventory.weight_bits(None) / bits,
            activation_reduction=self.inventory.activation_reduction(plan),
            routing=_routing(self.problem, plan),
            meets_accuracy=candidate.right >= self.problem.count(self.problem.target),
            meets_budget=bits <= self.settings.budget,
            search_accuracy=candidate.right / self.problem.total,
        )

    def _measure(self, candidate: Candidate, before: Tensor) -> ModelReport:
        quantized, test_images = self._quantized(candidate), self.splits.test
        after = self.tested.right(
            self._facts(candidate),
            lambda: predict(quantized, test_images.images, batch_size=50) == test_images.labels,
        )
        file = f"{MODELS}/{candidate.name}.qcaps"
        test = _measured(after)
        packed = save_packed(
            quantized,
            self.folder / file,
            name=candidate.name,
            search_accuracy=candidate.right / self.problem.total,
            test_accuracy=test.accuracy,
        )
        paired = Paired.of(before, after)
        return replace(
            self._report(candidate),
            test=test,
            file_bytes=packed.size,
            became_wrong=paired.became_wrong,
            became_right=paired.became_right,
            p_value=paired.p_value,
            file=file,
        )

    def _scheme(self, rounding: str, outcome: Outcome) -> SchemeReport:
        return SchemeReport(
            rounding=rounding,
            path=outcome.path,
            steps=tuple(step.to_json() for step in outcome.steps),
            models=tuple(self._report(c) for c in self._candidates(rounding, outcome)),
        )

    def _result(
        self,
        found: list[tuple[str, Outcome]],
        choice: Choice,
        chosen: tuple[ModelReport, ...],
        float_test: Measured,
    ) -> Result:
        outputs = self.inventory.outputs(self.settings.granularity)
        return Result(
            model={
                "name": self.model.name,
                "options": self.model.options,
                "fingerprint": fingerprint(self.model),
            },
            data={
                "name": self.data_name,
                "search_images": data_fingerprint(self.images),
                "test_images": data_fingerprint(self.splits.test),
            },
            settings=self.settings.to_json(),
            versions={
                "qcapsnets": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            float_search=_measured(self.reference.right),
            float_test=float_test,
            target=float(self.problem.target),
            step_1_target=float(self.problem.step_1_target),
            budget_bits=self.settings.budget,
            float_weight_bits=self.inventory.weight_bits(None),
            float_activation_bits=FLOAT_BITS * sum(outputs.values()),
            path=choice.path,
            chosen=chosen,
            reasons=choice.reasons,
            warnings=self.warnings,
            schemes=tuple(self._scheme(*pair) for pair in found),
        )


def _measured(right: Tensor) -> Measured:
    count, total = int(right.sum()), len(right)
    return Measured(count, total, count / total, *wilson(count, total))


def _routing(problem: Problem, plan: Plan) -> dict[str, int]:
    return {name: plan[name].routing or plan[name].activation for name in problem.routed}
