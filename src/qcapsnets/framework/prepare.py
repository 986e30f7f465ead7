"""What all schemes share: calibration and the float network's answers, kept in the run folder."""

from dataclasses import dataclass
from pathlib import Path

from qcapsnets.data import ImageSet, Splits
from qcapsnets.errors import SearchError
from qcapsnets.evaluation import Reference, wilson
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.tuning import Watch, tuned
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import TensorFile, fingerprint, read_tensors, write_tensors
from qcapsnets.search import Problem, Settings
from qcapsnets.search.journal import check_same
from qcapsnets.training import fingerprint as data_fingerprint

CALIBRATION = "calibration.safetensors"
REFERENCE = "reference.safetensors"


def check_data(model: CapsNet, images: ImageSet, name: str) -> None:
    """Images that the network cannot take, or that cannot tell a good network from a bad one."""
    shape = (images.channels, images.height, images.width)
    if shape != model.image_shape or images.classes != model.classes:
        raise SearchError(
            f"the {name} images are {shape} of {images.classes} classes, {model.name} takes "
            f"{model.image_shape} of {model.classes}: use the data that it was trained for"
        )
    if len(images.labels.unique()) == 1:
        raise SearchError(
            f"all {len(images)} {name} images are of class {int(images.labels[0])}: "
            "give images of at least two classes"
        )


def check_reference(reference: Reference, images: ImageSet) -> None:
    """A float network no better than chance has nothing to preserve."""
    total = len(images)
    chance = int(images.labels.bincount().max()) / total
    if wilson(reference.correct, total)[0] <= chance:
        raise SearchError(
            f"the float network gets {reference.correct} of {total} images right "
            f"({reference.accuracy:.2%}), no better than always answering the most frequent class "
            f"({chance:.2%}): train it first"
        )


def warnings_of(problem: Problem) -> list[str]:
    """What a user should know before believing the result."""
    lost = problem.correct - problem.count(problem.target)
    share = problem.correct - problem.target * problem.total
    if share < 1:
        return [
            f"the tolerance is {float(share):.2f} of an image on {problem.total} images: "
            f"{lost} may be lost; use more images or a larger tolerance"
        ]
    return []


def calibration_images(splits: Splits, settings: Settings) -> ImageSet:
    """The training images that binary points are chosen by."""
    return splits.train.select(range(min(settings.calibration_images, len(splits.train))))


@dataclass(frozen=True, eq=False)
class Shared:
    """The files that all schemes share, and what they must be of."""

    folder: Path
    model: CapsNet
    images: ImageSet
    calibration: ImageSet
    tuned: bool
    """Whether binary points by `output` are wanted."""
    watch: Watch | None = None
    """Told how far their tuning is."""

    def reference(self) -> Reference:
        """The float network's answers in the folder, or new ones; those of another are refused."""
        path = self.folder / REFERENCE
        if not path.exists():
            return Reference.of(self.model, self.images)
        file = read_tensors(path, SearchError)
        check_same(file.header, self._identity(), path)
        return Reference(file.tensors["right"], file.tensors["order"])

    def claim(self, reference: Reference) -> Calibration:
        """Keep the answers: from now on the folder is of this search. The calibration of it."""
        path = self.folder / REFERENCE
        if not path.exists():
            (self.folder / CALIBRATION).unlink(missing_ok=True)  # of whatever was here before
            tensors = {"right": reference.right, "order": reference.order}
            write_tensors(path, TensorFile(tensors, self._identity()), SearchError)
        return self._calibrated()

    def _calibrated(self) -> Calibration:
        path = self.folder / CALIBRATION
        images = self.calibration.images
        known = Calibration.load(path) if path.exists() else None
        calibration = known or Calibration.record(self.model, images)
        if self.tuned and calibration.fractions is None:
            calibration = tuned(calibration, self.model, images, watch=self.watch)
        if calibration is not known:
            calibration.save(path)
        return calibration

    def _identity(self) -> dict[str, str]:
        return {
            "model": fingerprint(self.model),
            "data": data_fingerprint(self.images),
            "calibration images": data_fingerprint(self.calibration),
        }
