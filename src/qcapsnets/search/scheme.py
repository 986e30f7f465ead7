"""One run of a strategy for one rounding scheme: the unit that is spread over processes."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from qcapsnets import __version__
from qcapsnets.data import ImageSet
from qcapsnets.evaluation import Evaluator, Reference
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import fingerprint
from qcapsnets.registry import Registry
from qcapsnets.search import paper
from qcapsnets.search.answers import MODES, Answers, Event
from qcapsnets.search.by_size import BySize
from qcapsnets.search.journal import Journal
from qcapsnets.search.problem import Problem
from qcapsnets.search.result import Outcome
from qcapsnets.search.settings import Settings
from qcapsnets.search.shared import SharedLines
from qcapsnets.search.verdicts import ARITHMETIC, Verdicts

Strategy = Callable[[Problem, Answers], Outcome]

strategies: Registry[Strategy] = Registry("search strategy")
strategies.register("paper", paper.search)
strategies.register("by-size", partial(paper.search, rule=BySize()))


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that a process needs to search for one scheme; `data` names the images."""

    model: CapsNet
    images: ImageSet
    data: str
    calibration: Calibration
    reference: Reference
    settings: Settings
    rounding: str
    journal: Path
    verdicts: Path | None = None
    """A folder that searches share."""

    def identity(self) -> dict[str, Any]:
        """What a journal of this job is of."""
        settings = self.settings.to_json()
        del settings["roundings"]
        return {
            "version": __version__,
            "model": fingerprint(self.model),
            "data": self.data,
            "float answers": self.reference.fingerprint,
            "calibration": calibration_fingerprint(self.calibration),
            "rounding": self.rounding,
            "settings": settings,
        }

    def shared(self) -> Verdicts | None:
        """What searches with other constraints have counted of the same plans.

        A plan says its granularity itself, so that is no part of what the counts are of.
        """
        if self.verdicts is None:
            return None
        same = ("version", "model", "data", "float answers", "calibration", "rounding")
        identity = {key: value for key, value in self.identity().items() if key in same}
        identity |= {"arithmetic": ARITHMETIC, "images": len(self.images)}
        identity |= {"seed": self.settings.seed, "points": self.settings.points}
        return Verdicts(SharedLines(self.verdicts, self.rounding, identity), len(self.images))

    def problem(self) -> Problem:
        """The constraints in counts of images and bits."""
        return Problem.of(self.model, self.settings, self.reference.correct, len(self.images))

    def evaluator(self) -> Evaluator:
        """What counts right answers under any plan."""
        return Evaluator(
            self.model,
            self.images,
            self.calibration,
            rounding=self.rounding,
            seed=self.settings.seed,
            points=self.settings.points,
            reference=self.reference,
            reuse=self.settings.mode == "fast",
            cache_bytes=self.settings.cache_bytes,
        )


def run(job: Job, observe: Callable[[Event], None] | None = None) -> Outcome:
    """Search, or go on with a search, for one rounding scheme."""
    settings = job.settings
    problem, evaluator, verdicts = job.problem(), job.evaluator(), job.shared()
    with Journal(job.journal, job.identity()) as journal:
        answers = MODES[settings.mode](
            evaluator, journal, rounding=job.rounding, observe=observe, verdicts=verdicts
        )
        return strategies[settings.strategy](problem, answers)


def calibration_fingerprint(calibration: Calibration) -> str:
    """A short name for exactly these statistics."""
    digest = hashlib.sha256(calibration.model.encode())
    for name, seen in sorted(calibration.sites.items()):
        digest.update(f"{name} {seen.low} {seen.high}".encode())
        digest.update(seen.counts.numpy().tobytes())
    if calibration.fractions is not None:
        digest.update(json.dumps(calibration.fractions, sort_keys=True).encode())
    return digest.hexdigest()[:16]
