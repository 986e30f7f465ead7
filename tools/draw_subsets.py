"""Draw the small data sets that come with the package from the full ones.

    python tools/draw_subsets.py --source FOLDER

FOLDER holds `mnist` and `fashion-mnist`. From each, 500 training and 100 test images of every
class are drawn by a fixed seed and kept in the order of the source. Running it again writes the
same bytes.
"""

import argparse
from pathlib import Path

import torch

from qcapsnets.data import ImageSet, data_folder, datasets
from qcapsnets.data.builtin import BUNDLED, IMAGES, LABELS
from qcapsnets.data.formats import write_idx

SEED = 2020
TRAIN_PER_CLASS = 500
TEST_PER_CLASS = 100
# Clothes compress worse than digits: two parts keep every file small enough for any host of code.
TRAIN_PARTS = {"mnist": ("train",), "fashion-mnist": ("train-1", "train-2")}


def draw(images: ImageSet, per_class: int) -> ImageSet:
    """`per_class` images of each class."""
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(images), generator=generator)
    of_class = [order[images.labels[order] == label] for label in range(images.classes)]
    return images.select(torch.cat([chosen[:per_class] for chosen in of_class]).sort().values)


def write(folder: Path, part: str, images: torch.Tensor, labels: torch.Tensor) -> None:
    write_idx(folder / f"{IMAGES.format(part)}.gz", images.squeeze(1))
    write_idx(folder / f"{LABELS.format(part)}.gz", labels)


def write_parts(folder: Path, parts: tuple[str, ...], images: ImageSet) -> None:
    pixels = images.images.chunk(len(parts))
    labels = images.labels.chunk(len(parts))
    for part, some_pixels, some_labels in zip(parts, pixels, labels, strict=True):
        write(folder, part, some_pixels, some_labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, default=None, help="folder of the full data sets")
    parser.add_argument("--output", type=Path, default=BUNDLED, help="where the subsets go")
    arguments = parser.parse_args()
    source = arguments.source or data_folder()
    for name, parts in TRAIN_PARTS.items():
        train, test = datasets[name].read(source / name)
        folder = arguments.output / f"{name}-mini"
        folder.mkdir(parents=True, exist_ok=True)
        write_parts(folder, parts, draw(train, TRAIN_PER_CLASS))
        write_parts(folder, ("t10k",), draw(test, TEST_PER_CLASS))


if __name__ == "__main__":
    main()
