"""What all schemes share: calibration and the float network's answers, kept in the run folder."""

from pathlib import Path

from qcapsnets.data import ImageSet, Splits
from qcapsnets.errors import SearchError
from qcapsnets.evaluation import Reference, wilson
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.models import CapsNet
from qcapsnets.models.weights import TensorFile, fingerprint, read_tensors, write_tensors
from qcapsnets.search import Problem, Settings
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


def calibrate(model: CapsNet, splits: Splits, settings: Settings, folder: Path) -> Calibration:
    """The calibration in the folder if it is of this network, else a new one."""
    path = folder / CALIBRATION
    count = min(settings.calibration_images, len(splits.train))
    if path.exists():
        found = Calibration.load(path)
        if found.model == fingerprint(model) and found.images == count:
            return found
    calibration = Calibration.record(model, splits.train.images[:count])
    calibration.save(path)
    return calibration


def refer(model: CapsNet, images: ImageSet, folder: Path) -> Reference:
    """The float network's answers in the folder if they are of these images, else new ones."""
    path = folder / REFERENCE
    identity = {"model": fingerprint(model), "data": data_fingerprint(images)}
    if path.exists():
        file = read_tensors(path, SearchError)
        if file.header == identity:
            return Reference(file.tensors["right"], file.tensors["order"])
    reference = Reference.of(model, images)
    tensors = {"right": reference.right, "order": reference.order}
    write_tensors(path, TensorFile(tensors, identity), SearchError)
    return reference
