"""The data sets of the paper, in full and as the small subsets that come with the package.

Augmentation is the paper's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from qcapsnets.data.augment import Augmentation
from qcapsnets.data.download import RemoteFile
from qcapsnets.data.files import require
from qcapsnets.data.formats import read_cifar, read_idx_images, read_idx_labels
from qcapsnets.data.images import ImageSet
from qcapsnets.data.spec import DatasetSpec
from qcapsnets.errors import DataError

CLASSES = 10
BUNDLED = Path(__file__).parent / "bundled"
IMAGES = "{}-images-idx3-ubyte"
LABELS = "{}-labels-idx1-ubyte"
CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_TEST = ("test_batch.bin",)


def read_idx_parts(folder: Path, parts: Sequence[str]) -> ImageSet:
    """The images of "<part>-images-idx3-ubyte" and "<part>-labels-...", one part after another."""
    read = [_read_idx_part(folder, part) for part in parts]
    images, labels = zip(*read, strict=True)
    return _joined(folder, images, labels)


def read_idx_folder(
    folder: Path, train: Sequence[str] = ("train",), test: Sequence[str] = ("t10k",)
) -> tuple[ImageSet, ImageSet]:
    return read_idx_parts(folder, train), read_idx_parts(folder, test)


def read_cifar_folder(folder: Path) -> tuple[ImageSet, ImageSet]:
    return _read_cifar(folder, CIFAR_TRAIN), _read_cifar(folder, CIFAR_TEST)


def _read_idx_part(folder: Path, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    images_path = require(folder, IMAGES.format(part))
    labels_path = require(folder, LABELS.format(part))
    images, labels = read_idx_images(images_path), read_idx_labels(labels_path, CLASSES)
    if len(images) != len(labels):
        raise DataError(
            f"{images_path} holds {len(images)} images but {labels_path} {len(labels)} labels: "
            "replace both by fresh copies"
        )
    return images, labels


def _read_cifar(folder: Path, names: Sequence[str]) -> ImageSet:
    read = [read_cifar(require(folder, name), CLASSES) for name in names]
    images, labels = zip(*read, strict=True)
    return _joined(folder, images, labels)


def _joined(
    folder: Path, images: Sequence[torch.Tensor], labels: Sequence[torch.Tensor]
) -> ImageSet:
    if len({part.shape[1:] for part in images}) > 1:
        raise DataError(f"{folder} mixes images of several sizes: replace them by fresh copies")
    return ImageSet(torch.cat(tuple(images)), torch.cat(tuple(labels)), CLASSES)


def _bundled(
    name: str, train: Sequence[str] = ("train",)
) -> Callable[[Path], tuple[ImageSet, ImageSet]]:
    return lambda _: read_idx_folder(BUNDLED / name, train)


def _idx_downloads(mirrors: Sequence[str], *checksums: str) -> tuple[RemoteFile, ...]:
    names = [kind.format(part) for part in ("train", "t10k") for kind in (IMAGES, LABELS)]
    return tuple(
        RemoteFile(
            name=f"{name}.gz",
            checksum=f"md5:{checksum}",
            mirrors=tuple(f"{mirror}/{name}.gz" for mirror in mirrors),
            provides=(name,),
        )
        for name, checksum in zip(names, checksums, strict=True)
    )


MNIST = DatasetSpec(
    name="mnist",
    read=read_idx_folder,
    validation=5000,
    description="MNIST: 60,000 + 10,000 handwritten digits, 28x28, grey",
    licence="CC BY-SA 3.0",
    augmentation=Augmentation(shift=2, rotate=2.0),
    downloads=_idx_downloads(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)

FASHION_MNIST = DatasetSpec(
    name="fashion-mnist",
    read=read_idx_folder,
    validation=5000,
    description="Fashion-MNIST: 60,000 + 10,000 articles of clothing, 28x28, grey",
    licence="MIT",
    augmentation=Augmentation(shift=2, flip=0.2),
    downloads=_idx_downloads(
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        ),
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)

CIFAR10 = DatasetSpec(
    name="cifar10",
    read=read_cifar_folder,
    validation=5000,
    description="CIFAR10: 50,000 + 10,000 small photographs, 32x32, colour",
    licence="by its authors, for research",
    augmentation=Augmentation(shift=5, rotate=2.0, flip=0.5),
    downloads=(
        RemoteFile(
            name="cifar-10-binary.tar.gz",
            checksum="md5:c32a1d4ab5d03f1284b67883e8d87530",
            mirrors=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            provides=(*CIFAR_TRAIN, *CIFAR_TEST),
        ),
    ),
)

CIFAR10_64 = replace(
    CIFAR10,
    name="cifar10-64",
    description="CIFAR10 resized to 64x64, as in the paper",
    folder="cifar10",
    size=64,
)

MNIST_MINI = replace(
    MNIST,
    name="mnist-mini",
    read=_bundled("mnist-mini"),
    validation=1000,
    description="A balanced part of MNIST: 5,000 + 1,000, comes with the package",
    downloads=(),
)

FASHION_MNIST_MINI = replace(
    FASHION_MNIST,
    name="fashion-mnist-mini",
    read=_bundled("fashion-mnist-mini", train=("train-1", "train-2")),
    validation=1000,
    description="A balanced part of Fashion-MNIST: 5,000 + 1,000, comes with the package",
    downloads=(),
)

BUILTIN = (MNIST_MINI, FASHION_MNIST_MINI, MNIST, FASHION_MNIST, CIFAR10, CIFAR10_64)
