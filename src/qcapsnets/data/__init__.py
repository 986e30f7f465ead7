"""Data sets: read, downloaded, bundled or your own; split, augmented and given to a network."""

from qcapsnets.data.augment import Augmentation
from qcapsnets.data.catalogue import datasets, load, register
from qcapsnets.data.files import data_folder
from qcapsnets.data.images import ImageSet, to_inputs
from qcapsnets.data.splits import Splits, split

__all__ = [
    "Augmentation",
    "ImageSet",
    "Splits",
    "data_folder",
    "datasets",
    "load",
    "register",
    "split",
    "to_inputs",
]
