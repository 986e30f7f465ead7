"""A network on the bench: its images, the folder of its runs, and what all of these share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tools.results.wanted import Network, Search, Wanted

from qcapsnets.accounting import Inventory
from qcapsnets.data import ImageSet, Splits, load
from qcapsnets.errors import ReportError
from qcapsnets.evaluation import Reference
from qcapsnets.files import write_atomically
from qcapsnets.fixedpoint.calibration import Calibration, Points
from qcapsnets.framework import CALIBRATION, REFERENCE, RESULT, run
from qcapsnets.framework.prepare import Shared
from qcapsnets.lock import locked
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import fingerprint, load_model
from qcapsnets.search import Event, Job, Processes, Settings, Tolerance
from qcapsnets.training import fingerprint as data_fingerprint

SHARED, VERDICTS = "shared", "verdicts"


def folder_of(network: Network, wanted: Wanted, results: Path, model: CapsNet) -> Path:
    """Runs of other weights, images or binary points are left alone in folders of their own."""
    parts = network.name, fingerprint(model)[:8], wanted.search_images, wanted.search_points
    return results / "-".join(map(str, parts))


@dataclass(frozen=True, eq=False)
class Bench:
    """Everything that a search or a sweep of one network needs."""

    network: Network
    wanted: Wanted
    model: CapsNet
    splits: Splits
    folder: Path

    @classmethod
    def of(cls, network: Network, wanted: Wanted, results: Path) -> "Bench":
        """Load the network and its images: those set apart by its training are searched on."""
        model, facts = load_model(network.weights)
        splits = load(network.data, validation=facts.get("validation"), size=facts.get("size"))
        few = _first(splits.validation, wanted.search_images)
        folder = folder_of(network, wanted, results, model)
        return cls(network, wanted, model.eval(), replace(splits, validation=few), folder)

    @cached_property
    def parameters(self) -> int:
        return sum(Inventory.of(self.model).parameters("block").values())

    @cached_property
    def _shared(self) -> tuple[Reference, Calibration]:
        train = _first(self.splits.train, self.wanted.calibration_images)
        tuned = "output" in (self.wanted.search_points, *self.wanted.points)
        with locked(self.folder / SHARED):
            images = self.splits.validation
            shared = Shared(self.folder / SHARED, self.model, images, train, tuned)
            reference = shared.reference()
            return reference, shared.claim(reference)

    @property
    def reference(self) -> Reference:
        """What the float network answers."""
        return self._shared[0]

    @property
    def calibration(self) -> Calibration:
        return self._shared[1]

    @cached_property
    def _swept(self) -> tuple[ImageSet, Reference]:
        few = _first(self.splits.validation, self.wanted.sweep_images)
        return few, Reference.of(self.model, few)

    def done(self, search: Search) -> bool:
        """Whether a search has ended."""
        return (self.folder / search.folder / RESULT).exists()

    def run(
        self, search: Search, workers: int | None, observe: Callable[[Event], None] | None = None
    ) -> None:
        """Search, or go on with it; answers and calibration are those of the other searches."""
        folder = self.folder / search.folder
        _ = self._shared
        for name in (CALIBRATION, REFERENCE):
            if not (folder / name).exists():
                content = (self.folder / SHARED / name).read_bytes()
                write_atomically(folder / name, content, ReportError)
        run(
            self.model,
            self.splits,
            search.settings(self.parameters, self.wanted),
            folder,
            data_name=self.network.data,
            executor=Processes(workers),
            observe=observe,
            verdicts=self.folder / VERDICTS,
        )

    def job(self, settings: Settings, rounding: str) -> Job:
        """The problem, the evaluator and the verdicts of one scheme."""
        return self._job(settings, rounding, self.splits.validation, self.reference)

    def _job(
        self, settings: Settings, rounding: str, images: ImageSet, reference: Reference
    ) -> Job:
        return Job(
            model=self.model,
            images=images,
            data=data_fingerprint(images),
            calibration=self.calibration,
            reference=reference,
            settings=settings,
            rounding=rounding,
            journal=self.folder / "none",
            verdicts=self.folder / VERDICTS,
        )

    def free(self, rounding: str, points: Points, seed: int) -> Job:
        """The same without constraints and with fewer images, for sweeps."""
        settings = Settings(
            tolerance=Tolerance(0.0),
            budget=32 * self.parameters,
            roundings=(rounding,),
            points=points,
            seed=seed,
            calibration_images=self.wanted.calibration_images,
        )
        return self._job(settings, rounding, *self._swept)


def _first(images: ImageSet, count: int) -> ImageSet:
    return images.select(range(min(count, len(images))))
