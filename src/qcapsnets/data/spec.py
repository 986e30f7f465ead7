"""What is known of a data set before it is read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from qcapsnets.data.augment import Augmentation
from qcapsnets.data.download import RemoteFile
from qcapsnets.data.images import ImageSet


@dataclass(frozen=True)
class DatasetSpec:
    """A data set by name.

    `read` is given the data set's own folder, `folder` (else `name`) within the data folder, and
    returns the training and the test images. `validation` images are set apart from training
    unless asked otherwise; images are resized to `size` x `size` if it is given.
    """

    name: str
    read: Callable[[Path], tuple[ImageSet, ImageSet]]
    validation: int
    description: str = ""
    licence: str = ""
    augmentation: Augmentation = field(default_factory=Augmentation)
    downloads: tuple[RemoteFile, ...] = ()
    folder: str | None = None
    size: int | None = None
