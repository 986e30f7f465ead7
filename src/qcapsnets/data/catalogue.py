"""Data sets by name: those of the paper, a user's own, and those of other packages.

Another package adds one through an entry point in the group `qcapsnets.datasets` that names a
`DatasetSpec` or a function without arguments that returns one.
"""

from importlib.metadata import EntryPoint
from pathlib import Path

from qcapsnets.data.augment import Augmentation, resize
from qcapsnets.data.builtin import BUILTIN
from qcapsnets.data.convert import Source, image_sets
from qcapsnets.data.download import Progress
from qcapsnets.data.files import data_folder, obtain
from qcapsnets.data.images import ImageSet
from qcapsnets.data.spec import DatasetSpec
from qcapsnets.data.splits import Splits, split
from qcapsnets.errors import RegistryError
from qcapsnets.registry import Registry


class _Datasets(Registry[DatasetSpec]):
    def _load(self, point: EntryPoint) -> DatasetSpec:
        found: object = super()._load(point)
        try:
            spec = found() if callable(found) else found
        except Exception as error:  # whatever a stranger's function raises
            raise RegistryError(
                f"dataset {point.name!r} of entry point {point.value!r} cannot be made: {error}"
            ) from error
        if not isinstance(spec, DatasetSpec):
            raise RegistryError(
                f"dataset {point.name!r} of entry point {point.value!r} is no DatasetSpec "
                f"but {type(spec).__name__}: correct the package that provides it"
            )
        return spec


datasets: Registry[DatasetSpec] = _Datasets("dataset")
for _spec in BUILTIN:
    datasets.register(_spec.name, _spec)


def register(
    name: str,
    train: Source,
    test: Source,
    *,
    classes: int | None = None,
    augmentation: Augmentation | None = None,
    description: str = "",
    replace: bool = False,
) -> DatasetSpec:
    """Add a data set of your own: two pairs of tensors (images, labels), or two torch Datasets.

    Images are bytes, or floats within [0, 1], [N, H, W] or [N, C, H, W] (a Dataset yields single
    ones). There are as many classes as the labels need unless `classes` says so. A tenth of
    the training images is for validation unless `load` is asked otherwise.
    """
    read = image_sets(train, test, classes)
    spec = DatasetSpec(
        name=name,
        read=lambda _: read,
        validation=max(1, len(read[0]) // 10),
        description=description,
        augmentation=augmentation or Augmentation(),
    )
    return datasets.register(name, spec, replace=replace)


def load(
    name: str,
    *,
    folder: Path | None = None,
    validation: int | None = None,
    seed: int = 0,
    size: int | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> Splits:
    """Read a data set, fetching it first if it is not there, and set validation images apart.

    `folder` holds a subfolder per data set (default: `data_folder()`). `validation` images are
    drawn by `seed`. `size` resizes to size x size. `progress` is called while downloading with
    the file's name, the bytes that are here and the bytes in all (None if unknown).
    """
    spec = datasets[name]
    home = (data_folder() if folder is None else Path(folder)) / (spec.folder or spec.name)
    obtain(spec.downloads, home, allowed=download, progress=progress)
    train, test = spec.read(home)
    count = spec.validation if validation is None else validation
    return _resized(split(train, test, count, seed), spec.size if size is None else size)


def _resized(splits: Splits, size: int | None) -> Splits:
    if size is None:
        return splits
    parts = (splits.train, splits.validation, splits.test)
    return Splits(
        *(ImageSet(resize(part.images, size), part.labels, part.classes) for part in parts)
    )
