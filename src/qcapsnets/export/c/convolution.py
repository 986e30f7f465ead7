"""C for convolutions: Conv, ConvCaps, and the votes of a routed convolution.

The patches of some positions are gathered side by side; weights are unpacked for four outputs at
a time; products are taken over long rows of both. What is unpacked and gathered at a time is a
*tile*, at most `Program.tile_bytes` long where the sizes of the layer allow it.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qcapsnets.export.c.emitters import register_emitter
from qcapsnets.export.c.functions import squash_function
from qcapsnets.export.c.numbers import SIZES, Store, Sum, operand_type, scaled, sum_of
from qcapsnets.export.c.program import (
    Codes,
    Map,
    Program,
    Value,
    codes_of,
    fixed,
    single_map,
    site_key,
)
from qcapsnets.export.c.weights import PackedArray
from qcapsnets.fixedpoint.exact import Range
from qcapsnets.models import Conv, ConvCaps, ScaleShift, Site
from qcapsnets.models.contractions import Convolution

ROWS = 4
"""Outputs whose weights are unpacked at a time."""


@dataclass(frozen=True)
class Geometry:
    """Sizes of a convolution of `groups` groups of channels by the same kernel."""

    input: Map
    outputs: int
    channels: int
    groups: int
    kernel: int
    stride: int
    padding: int

    @classmethod
    def of(cls, x: Map, weight: Tensor, convolution: Convolution) -> "Geometry":
        outputs, channels, kernel, _ = weight.shape
        groups = x.channels // channels
        stride, padding = convolution.stride, convolution.padding
        return cls(x, outputs, channels, groups, kernel, stride, padding)

    @property
    def height(self) -> int:
        return (self.input.height + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def width(self) -> int:
        return (self.input.width + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def positions(self) -> int:
        return self.groups * self.height * self.width

    @property
    def products(self) -> int:
        """In each sum."""
        return self.kernel * self.kernel * self.channels

    def tiling(self, operand: str, sums: str, tile_bytes: int) -> "Tiling":
        """The one with the fewest blocks of positions, then with the fewest parts of a sum.

        Weights are unpacked again for every block. A tile holds the patches of a block and its
        sums: those of four outputs, or of all if a sum has several parts.
        """
        divisors = [d for d in range(self.kernel, 0, -1) if self.kernel % d == 0]
        tilings = [self._tiling(d, SIZES[operand], SIZES[sums], tile_bytes) for d in divisors]
        return min(tilings, key=lambda t: (-(-self.positions // t.block), t.tiles))

    def _tiling(self, rows: int, operand: int, sums: int, tile_bytes: int) -> "Tiling":
        """With so many rows of the kernel in each part."""
        length = rows * self.kernel * self.channels
        kept = ROWS if rows == self.kernel else self.outputs
        fitting = tile_bytes // (length * operand + kept * sums)
        block = max(2, min(self.positions + self.positions % 2, fitting))
        return Tiling(rows, self.kernel // rows, length, block - block % 2)


@dataclass(frozen=True)
class Tiling:
    """`rows` of the kernel in each of `tiles` parts of `length` products; `block` positions."""

    rows: int
    tiles: int
    length: int
    block: int


def tiled_weights(codes: Tensor, tiling: Tiling) -> tuple[Tensor, tuple[int, ...]]:
    """[o, c, ky, kx] -> the order of use: part, output, ky, kx, c; and how many are unpacked.

    So flash is read from beginning to end, which memories like.
    """
    rows = codes.permute(0, 2, 3, 1).reshape(len(codes), tiling.tiles, tiling.length)
    sizes = {len(group) * tiling.length for group in rows.split(ROWS)}
    return rows.transpose(0, 1).contiguous(), tuple(sorted(sizes))


def convolve(
    layer: Any,
    name: str,
    x: Codes,
    geometry: Geometry,
    out: Codes,
    site: Site,
    program: Program,
    **extra: Any,
) -> None:
    """Functions for a convolution with bias into `out`, which `site` stores, and the call."""
    weights, biases = fixed(layer.weights), fixed(layer.biases)
    weight_codes, bias_codes = (
        codes_of(layer.weights, layer.weight),
        codes_of(layer.biases, layer.bias),
    )
    source = Range.of(x.format)
    sum_ = sum_of(weights, layer.convolution, layer.weight, source, biases.range)
    tiling = geometry.tiling(sum_.operand, sum_.products, program.tile_bytes)
    fn = program.identifier(name)
    ordered, sizes = tiled_weights(weight_codes, tiling)
    note = f"{geometry.outputs} outputs x {geometry.products} products, by tiles of {ROWS} outputs"
    packed = program.packed_codes(layer.weights, ordered, f"{note}, of {weights.format}", sizes)
    bias = program.packed_codes(layer.biases, bias_codes, f"{len(bias_codes)} of {biases.format}")
    norm = _norm(layer, sum_, program)
    final = sum_ if norm is None else norm["sum"]
    store = Store.of(fixed(site), final)
    scratch = _scratch(name, sum_, tiling, geometry, program)
    program.add(
        "convolution.c.j2",
        fn=fn,
        input=x,
        out=out,
        weights=packed,
        biases=bias,
        sum=sum_,
        norm=norm,
        store=store,
        shift_note=store.note,
        code=store.code("n", f"{site_key(store.site)}, 0, e"),
        **_sizes(geometry, tiling),
        bias_type=_unpacked(bias),
        unpack_bias=bias.unpack("bias", "o", "rows", _unpacked(bias)),
        unpack_weights=packed.unpack(
            scratch["tile"].name,
            f"(tile * {fn}_outputs + o) * {fn}_length",
            f"rows * {fn}_length",
            sum_.operand,
        ),
        **scratch,
        **extra,
    )
    program.call(f"{fn}();", name, x, out, *scratch.values())


def _sizes(geometry: Geometry, tiling: Tiling) -> dict[str, int]:
    """Whatever the template counts by."""
    return {
        "k": geometry.products,
        "outputs": geometry.outputs,
        "positions": geometry.positions,
        "block": tiling.block,
        "tiles": tiling.tiles,
        "rows_a_tile": tiling.rows,
        "length": tiling.length,
        "kernel": geometry.kernel,
        "stride": geometry.stride,
        "padding": geometry.padding,
        "channels": geometry.channels,
        "groups": geometry.groups,
        "height": geometry.height,
        "width": geometry.width,
        "in_height": geometry.input.height,
        "in_width": geometry.input.width,
    }


def _scratch(
    name: str, sum_: Sum, tiling: Tiling, geometry: Geometry, program: Program
) -> dict[str, Any]:
    """Arrays for the patches, the weights of a tile, and the sums."""
    sums = tiling.block * (
        ROWS if tiling.tiles == 1 else geometry.outputs + -geometry.outputs % ROWS
    )
    sizes = {
        "patches": (sum_.operand, tiling.block * tiling.length),
        "tile": (sum_.operand, ROWS * tiling.length),
        "sums": (sum_.products, sums),
    }
    return {
        what: program.array(f"{name}_{what}", ctype, count, "scratch", scratch=True)
        for what, (ctype, count) in sizes.items()
    }


def _unpacked(array: PackedArray) -> str:
    """What a few codes are unpacked to."""
    return operand_type(Range.of(array.format)).removesuffix("_t")


def _norm(layer: Any, sum_: Sum, program: Program) -> dict[str, Any] | None:
    """Scale and shift of a folded batch norm."""
    norm = getattr(layer, "norm", None)
    if not isinstance(norm, ScaleShift):
        return None
    arrays = {}
    for what, site, tensor in (
        ("scale", norm.scales, norm.scale),
        ("shift", norm.shifts, norm.shift),
    ):
        array = program.packed(site, tensor, [0])
        arrays[f"unpack_{what}"] = array.unpack(what, "o", "rows", "int64")
    result = scaled(sum_.range, fixed(norm.scales).range, fixed(norm.shifts).range)
    return arrays | {"sum": result}


def _map_title(name: str, kind: str, geometry: Geometry) -> str:
    g = geometry
    return (
        f"{name}: {kind}, {g.kernel}x{g.kernel}, stride {g.stride}, padding {g.padding}, "
        f"{g.input} to {g.height}x{g.width}x{g.outputs}"
    )


@register_emitter(Conv)
def conv(layer: Conv, name: str, x: Value, program: Program) -> Value:
    """Convolution, ReLU, and scale and shift where there was a batch norm."""
    codes, shape = single_map(x, name)
    geometry = Geometry.of(shape, layer.weight, layer.convolution)
    layout = Map(geometry.outputs, geometry.height, geometry.width)
    out = program.codes(layer.activation, layout)
    convolve(
        layer,
        name,
        codes,
        geometry,
        out,
        layer.activation,
        program,
        relu=True,
        votes=None,
        title=_map_title(name, "convolution", geometry),
        observe=observe_map(program, layer.activation, out),
    )
    return (out,)


@register_emitter(ConvCaps)
def conv_caps(layer: ConvCaps, name: str, x: Value, program: Program) -> Value:
    """Convolution into capsules, and squash."""
    codes, shape = single_map(x, name)
    geometry = Geometry.of(shape, layer.weight, layer.convolution)
    layout = Map(geometry.outputs, geometry.height, geometry.width, layer.dimension)
    s = program.codes(layer.preactivation, layout)
    convolve(
        layer,
        name,
        codes,
        geometry,
        s,
        layer.preactivation,
        program,
        relu=False,
        votes=None,
        title=_map_title(name, "convolution into capsules", geometry),
        observe=observe_map(program, layer.preactivation, s),
    )
    v = program.codes(layer.activation, layout)
    fn = program.identifier(f"{name}_squash")
    place = f"((m % {layer.capsules}) * {layer.dimension} + d) * {layout.positions}"
    code = squash_function(
        layer.activation,
        s,
        v,
        fn=fn,
        title=name,
        vectors=layout.count // layer.dimension,
        size=layer.dimension,
        element=f"{place} + m / {layer.capsules}",
        observe=observe_capsules(program, layer.activation, v, layout),
    )
    program.functions.append(code)
    program.call(f"{fn}();", f"{name}: squash", s, v)
    return (v,)


def observe_map(program: Program, site: Site, codes: Codes) -> str:
    """[h, w, channels] in C, [channels, h, w] in PyTorch."""
    shape = codes.layout
    assert isinstance(shape, Map)
    return program.observe(
        site, codes.buffer, (shape.height, shape.width, shape.channels), (2, 0, 1)
    )


def observe_capsules(program: Program, site: Site, codes: Codes, shape: Map) -> str:
    """[h, w, capsules, dimension] in C, [capsules, dimension, h, w] in PyTorch."""
    dimension = shape.dimension or 1
    sizes = shape.height, shape.width, shape.channels // dimension, dimension
    return program.observe(site, codes.buffer, sizes, (2, 3, 0, 1))
