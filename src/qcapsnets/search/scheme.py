"""One run of a strategy for one rounding scheme: the unit that is spread over processes."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
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
from qcapsnets.search.journal import Journal
from qcapsnets.search.problem import Problem
from qcapsnets.search.result import Outcome
from qcapsnets.search.settings import Settings

Strategy = Callable[[Problem, Answers], Outcome]

strategies: Registry[Strategy] = Registry("search strategy")
strategies.register("paper", paper.search)


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

    def identity(self) -> dict[str, Any]:
        """What a journal of this job is of."""
        settings = self.settings.to_json()
        del settings["roundings"]
        return {
            "version": __version__,
            "model": fingerprint(self.model),
            "data": self.data,
            "float answers": self.reference.fingerprint,
            "calibration": _fingerprint(self.calibration),
            "rounding": self.rounding,
            "settings": settings,
        }

    def problem(self) -> Problem:
        """The constraints in counts of images and bits."""
        return Problem.of(self.model, self.settings, self.reference.correct, len(self.images))


def run(job: Job, observe: Callable[[Event], None] | None = None) -> Outcome:
    """Search, or go on with a search, for one rounding scheme."""
    settings = job.settings
    problem = job.problem()
    evaluator = Evaluator(
        job.model,
        job.images,
        job.calibration,
        rounding=job.rounding,
        seed=settings.seed,
        points=settings.points,
        reference=job.reference,
        reuse=settings.mode == "fast",
        cache_bytes=settings.cache_bytes,
    )
    with Journal(job.journal, job.identity()) as journal:
        answers = MODES[settings.mode](evaluator, journal, rounding=job.rounding, observe=observe)
        return strategies[settings.strategy](problem, answers)


def _fingerprint(calibration: Calibration) -> str:
    digest = hashlib.sha256(calibration.model.encode())
    for name, seen in sorted(calibration.sites.items()):
        digest.update(f"{name} {seen.low} {seen.high}".encode())
        digest.update(seen.counts.numpy().tobytes())
    return digest.hexdigest()[:16]
