"""Capsule networks in float: layers with named sites, two architectures, a catalogue of names."""

from qcapsnets.models.catalogue import build, models, register
from qcapsnets.models.contractions import (
    Agree,
    Combine,
    Contraction,
    Convolution,
    Scale,
    SharedConvolution,
    Vote,
)
from qcapsnets.models.decoders import DECODERS, Decoder
from qcapsnets.models.deepcaps import Block, DeepCapsConfig, deepcaps
from qcapsnets.models.functions import lengths, softmax, squash
from qcapsnets.models.layers import Conv, ConvCaps, Layer, ScaleShift
from qcapsnets.models.network import CapsNet, connect, layers_of, sites_of
from qcapsnets.models.routing import Routed, RoutedCaps, RoutedConvCaps
from qcapsnets.models.shallowcaps import ShallowCapsConfig, shallowcaps
from qcapsnets.models.sites import FLOAT, Joined, Kind, Place, Site, Storage, Term

__all__ = [
    "DECODERS",
    "FLOAT",
    "Agree",
    "Block",
    "CapsNet",
    "Combine",
    "Contraction",
    "Conv",
    "ConvCaps",
    "Convolution",
    "Decoder",
    "DeepCapsConfig",
    "Joined",
    "Kind",
    "Layer",
    "Place",
    "Routed",
    "RoutedCaps",
    "RoutedConvCaps",
    "Scale",
    "ScaleShift",
    "ShallowCapsConfig",
    "SharedConvolution",
    "Site",
    "Storage",
    "Term",
    "Vote",
    "build",
    "connect",
    "deepcaps",
    "layers_of",
    "lengths",
    "models",
    "register",
    "shallowcaps",
    "sites_of",
    "softmax",
    "squash",
]
