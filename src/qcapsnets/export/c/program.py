"""A C program in the making: what emitters of layers write to.

An emitter is given a layer, its name, its input and the program. It asks the program for arrays,
adds functions to it, and says which arrays each function touches; the order of those calls is the
order of the program, and arrays that do not overlap in it share their memory.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from torch import Tensor

from qcapsnets.errors import ExportError
from qcapsnets.export.c.arena import Buffer
from qcapsnets.export.c.numbers import code_type
from qcapsnets.export.c.weights import PackedArray, packed_array
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.storage import Fixed
from qcapsnets.models import Site

KEYWORDS = re.findall(
    r"\w+",
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long main register restrict return short signed sizeof static struct switch "
    "typedef union unsigned void volatile while",
)

templates = Environment(
    loader=PackageLoader("qcapsnets.export.c"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # C, not HTML
)


def comment(text: object) -> str:
    """Text that cannot end a C comment."""
    return str(text).replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")


templates.filters["comment"] = comment


@dataclass(frozen=True)
class Map:
    """Channels on a map; in C as height x width x channels. Capsules have a dimension."""

    channels: int
    height: int
    width: int
    dimension: int | None = None

    @property
    def count(self) -> int:
        return self.channels * self.positions

    @property
    def positions(self) -> int:
        return self.height * self.width

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


@dataclass(frozen=True)
class List:
    """Capsules in a list: count x dimension."""

    capsules: int
    dimension: int

    @property
    def count(self) -> int:
        return self.capsules * self.dimension

    def __str__(self) -> str:
        return f"{self.capsules}x{self.dimension}"


@dataclass(frozen=True)
class Codes:
    """Codes in an array, of one format, in one layout."""

    buffer: Buffer
    format: FixedPoint
    layout: Map | List

    @property
    def c(self) -> str:
        """The array's name."""
        return self.buffer.name

    @property
    def ctype(self) -> str:
        return self.buffer.ctype


Value = tuple[Codes, ...]
"""What a layer hands on: one array, or several whose capsules follow one another."""


@dataclass(frozen=True)
class Observation:
    """A site that the program can show: its numbers in C's order, and the way to PyTorch's.

    `shape` is the shape in C; `axes` permutes it to the shape in which the layer stores.
    """

    site: str
    ctype: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]


@dataclass
class Program:
    """Everything that the files are made of."""

    tile_bytes: int
    buffers: list[Buffer] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    weights: list[PackedArray] = field(default_factory=list)
    tables: dict[str, list[int]] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def identifier(self, name: str) -> str:
        """A C name for a layer or a site: unique, and no keyword."""
        base = re.sub(r"\W", "_", name, flags=re.ASCII)
        if base in KEYWORDS or not base[:1].isalpha() or base.startswith(("q_", "qcaps", "Q")):
            base = f"l_{base}"
        result, number = base, 2
        while result in self._names:
            result, number = f"{base}_{number}", number + 1
        self._names.add(result)
        return result

    def array(
        self, name: str, ctype: str, count: int, note: str, *, scratch: bool = False
    ) -> Buffer:
        """An array in RAM; `scratch` if only one function uses it."""
        buffer = Buffer(self.identifier(name), ctype, count, note, scratch)
        self.buffers.append(buffer)
        return buffer

    def codes(self, site: Site, layout: Map | List) -> Codes:
        """An array for what a site stores."""
        storage = fixed(site)
        buffer = self.array(
            storage.name, code_type(storage.format), layout.count, f"{layout} of {storage.format}"
        )
        return Codes(buffer, storage.format, layout)

    def packed(
        self, site: Site, tensor: Tensor, order: Sequence[int], *, tiles: tuple[int, ...] = ()
    ) -> PackedArray:
        """Weights for flash, with their axes in the given order."""
        storage = fixed(site)
        codes = codes_of(site, tensor).permute(*order).contiguous()
        return self.packed_codes(site, codes, f"{tuple(codes.shape)} of {storage.format}", tiles)

    def packed_codes(
        self, site: Site, codes: Tensor, note: str, tiles: tuple[int, ...] = ()
    ) -> PackedArray:
        """Codes for flash, in the order in which they are given."""
        storage = fixed(site)
        name = self.identifier(storage.name)
        array = packed_array(name, storage.format, codes.numpy(), note, tiles=tiles)
        self.weights.append(array)
        return array

    def table(self, values: list[int]) -> str:
        """A constant table of uint32_t in flash; equal ones are kept once."""
        for name, known in self.tables.items():
            if known == values:
                return name
        name = f"q_table{len(self.tables)}"
        self.tables[name] = values
        return name

    def observe(
        self,
        site: Site,
        codes: Buffer,
        shape: tuple[int, ...],
        axes: tuple[int, ...] | None = None,
        step: str = "0",
    ) -> str:
        """C: show what a site stores, if the program is compiled to be observed."""
        name = fixed(site).name
        axes = tuple(range(len(shape))) if axes is None else axes
        self.observations.append(Observation(name, codes.ctype, shape, axes))
        count = 1
        for size in shape:
            count *= size
        number = len(self.observations) - 1
        return f"Q_OBSERVE({number}, {step}, {codes.name}, {count}); /* {comment(name)} */"

    def add(self, template: str, **values: Any) -> None:
        """Add functions, from a template of the package."""
        self.functions.append(templates.get_template(template).render(comment=comment, **values))

    def call(self, statement: str, note: str, *touched: Buffer | Codes) -> None:
        """Add a call; it reads or writes these arrays."""
        now = len(self.calls)
        self.calls.append((statement, comment(note)))
        for item in touched:
            buffer = item.buffer if isinstance(item, Codes) else item
            buffer.first = min(buffer.first, now)
            buffer.last = max(buffer.last, now)


def fixed(site: Site) -> Fixed:
    """The storage of a quantized site."""
    if not isinstance(site.storage, Fixed):
        raise ExportError("a site of the network is not quantized: quantize the whole network")
    return site.storage


def codes_of(site: Site, tensor: Tensor) -> Tensor:
    """The codes of weights as their site stores them (int64, on the CPU)."""
    with torch.no_grad():
        stored: Tensor = site(tensor)
    return fixed(site).format.codes(stored.detach().cpu())


def site_key(name: str) -> str:
    """C: counter word 2 of the draws of a site."""
    return f"0x{zlib.crc32(name.encode()):08X}u"


def single(value: Value, layer: str) -> Codes:
    """The one array of an input; capsules of several layers joined are an error."""
    if len(value) != 1:
        raise ExportError(f"layer {layer!r} takes a map, and is given capsules of several layers")
    return value[0]


def single_map(value: Value, layer: str) -> tuple[Codes, Map]:
    """An input that is one map."""
    codes = single(value, layer)
    if not isinstance(codes.layout, Map):
        raise ExportError(f"layer {layer!r} takes a map, and is given a list of capsules")
    return codes, codes.layout
