"""C for the layers that route."""

from typing import Any

import torch

from qcapsnets.errors import ExportError
from qcapsnets.export.c.convolution import Geometry, convolve
from qcapsnets.export.c.emitters import register_emitter
from qcapsnets.export.c.functions import squash_function
from qcapsnets.export.c.numbers import Store, Sum, operand_type, sum_of
from qcapsnets.export.c.program import (
    Codes,
    List,
    Map,
    Program,
    Value,
    codes_of,
    fixed,
    single_map,
    site_key,
)
from qcapsnets.fixedpoint.exact import Range
from qcapsnets.fixedpoint.functions import Softmax
from qcapsnets.models import Agree, Combine, Routed, RoutedCaps, RoutedConvCaps, Vote

PRODUCTS = {"int16_t": "int32_t", "int32_t": "int64_t", "int64_t": "int64_t"}


@register_emitter(RoutedCaps)
def routed_caps(layer: RoutedCaps, name: str, x: Value, program: Program) -> Value:
    """Votes of every capsule by matrices of its own, and routing."""
    outputs, inputs, _, dimension = layer.weight.shape
    votes = program.codes(layer.votes, List(inputs * outputs, dimension))
    _votes(layer, name, x, votes, program)
    v, _ = _route(layer, name, votes, (inputs, outputs, dimension), 1, program)
    return (v,)


def _votes(layer: RoutedCaps, name: str, x: Value, votes: Codes, program: Program) -> None:
    outputs, inputs, length, dimension = layer.weight.shape
    ranges = [Range.of(part.format) for part in x]
    source = ranges[0]
    for other in ranges[1:]:
        source |= other
    sum_ = sum_of(fixed(layer.weights), Vote(), layer.weight, source, None)
    store = Store.of(fixed(layer.votes), sum_)
    fn = program.identifier(f"{name}_votes")
    size = length * outputs * dimension
    packed = program.packed(layer.weights, layer.weight, (1, 2, 0, 3), tiles=(size,))
    tile = program.array(f"{name}_tile", sum_.operand, size, "scratch", scratch=True)
    sums = program.array(
        f"{name}_vote_sums", sum_.products, outputs * dimension, "scratch", scratch=True
    )
    element = f"i * {outputs * dimension} + jd"
    program.add(
        "votes.c.j2",
        fn=fn,
        title=name,
        inputs=inputs,
        outputs=outputs,
        length=length,
        dimension=dimension,
        fraction=source.fraction,
        weights=packed,
        sum=sum_,
        store=store,
        shift_note=store.note,
        out=votes,
        tile=tile,
        sums=sums,
        product=PRODUCTS[sum_.operand],
        parts=[_part(part, length, source.fraction, name) for part in x],
        unpack_weights=packed.unpack(tile.name, f"i * {size}", str(size), sum_.operand),
        code=store.code("n", f"{site_key(store.site)}, 0, {element}"),
        observe=program.observe(layer.votes, votes.buffer, (inputs, outputs, dimension)),
    )
    program.call(f"{fn}();", f"{name}: votes", *x, votes, tile, sums)


def _part(codes: Codes, length: int, fraction: int, name: str) -> dict[str, Any]:
    """One array of an input's capsules, and the power of two that aligns it with the others."""
    layout = codes.layout
    factor = 1 << (fraction - codes.format.fraction)
    if isinstance(layout, List):
        return {"codes": codes, "is_map": False, "capsules": layout.capsules, "factor": factor}
    if layout.dimension != length:
        raise ExportError(
            f"layer {name!r} routes capsules of {length}, and is given a map of {layout} "
            "that has none: put a layer of capsules before it"
        )
    return {
        "codes": codes,
        "is_map": True,
        "capsules": layout.channels // length,
        "positions": layout.positions,
        "channels": layout.channels,
        "factor": factor,
    }


@register_emitter(RoutedConvCaps)
def routed_conv_caps(layer: RoutedConvCaps, name: str, x: Value, program: Program) -> Value:
    """Votes of every capsule by the same convolution, and routing over the whole map."""
    codes, shape = single_map(x, name)
    geometry = Geometry.of(shape, layer.weight, layer.convolution)
    places = geometry.height * geometry.width
    sizes = geometry.groups, layer.capsules * places, layer.dimension
    votes = program.codes(layer.votes, List(sizes[0] * sizes[1], sizes[2]))
    convolve(
        layer,
        f"{name}_votes",
        codes,
        geometry,
        votes,
        layer.votes,
        program,
        relu=False,
        votes={"capsules": layer.capsules, "dimension": layer.dimension},
        title=f"{name}: votes of {geometry.groups} capsules by a {geometry.kernel}x"
        f"{geometry.kernel} convolution each",
        observe=program.observe(layer.votes, votes.buffer, sizes),
    )
    layout = Map(layer.capsules * layer.dimension, geometry.height, geometry.width, layer.dimension)
    out = program.codes(layer.activation, layout)
    to_map = {"capsules": layer.capsules, "positions": places, "out": out}
    v, fn = _route(layer, name, votes, sizes, places, program, to_map=to_map)
    program.call(f"{fn}_to_map();", f"{name}: to a map", v, out)
    return (out,)


def _route(
    layer: Routed,
    name: str,
    votes: Codes,
    sizes: tuple[int, int, int],
    places: int,
    program: Program,
    to_map: dict[str, Any] | None = None,
) -> tuple[Codes, str]:
    """Routing by agreement over votes [inputs, outputs, dimension]; the capsules, the function."""
    inputs, outputs, dimension = sizes
    rows = inputs if layer.iterations > 1 else 1  # zeros, if they are never updated
    b = program.codes(layer.logits, List(rows, outputs))
    c = program.codes(layer.coupling, List(inputs, outputs))
    s = program.codes(layer.preactivation, List(outputs, dimension))
    v = program.codes(layer.activation, List(outputs, dimension))
    fn = program.identifier(f"{name}_route")
    softmax = _softmax(layer, outputs)
    table = softmax.table.tolist()
    combine, agree = _sums(layer, sizes)
    sums = program.array(
        f"{name}_sums", combine.products, outputs * dimension, "scratch", scratch=True
    )
    row = program.array(
        f"{name}_row", combine.operand, outputs * dimension, "scratch", scratch=True
    )
    program.add(
        "routing.c.j2",
        fn=fn,
        title=name,
        iterations=layer.iterations,
        inputs=inputs,
        outputs=outputs,
        dimension=dimension,
        votes=votes,
        b=b,
        c=c,
        s=s,
        v=v,
        sums=sums,
        row=row,
        softmax=softmax,
        table=program.table(table),
        entries=len(table),
        combine=combine,
        agree=agree,
        combine_product=PRODUCTS[combine.operand],
        agree_product=PRODUCTS[agree.operand],
        to_map=to_map,
        squash_code=_squash(layer, fn, s, v, program),
        **_bias(layer, dimension, places, program),
        **_stores(layer, combine, agree, sizes),
        observe_b=program.observe(layer.logits, b.buffer, (inputs, outputs), step="step"),
        observe_c=program.observe(layer.coupling, c.buffer, (inputs, outputs), step="step"),
        observe_s=program.observe(layer.preactivation, s.buffer, (outputs, dimension), step="step"),
    )
    program.call(f"{fn}();", f"{name}: routing", votes, b, c, s, v, sums, row)
    return v, fn


def _softmax(layer: Routed, outputs: int) -> Softmax:
    source, target = fixed(layer.logits).format, fixed(layer.coupling).format
    softmax = Softmax(source, target, outputs)
    if not softmax.exact:
        raise ExportError(
            f"{fixed(layer.coupling).name}: softmax of {outputs} from {source} to {target} does "
            "not fit 64-bit integers: use logits of at most 16 bits"
        )
    return softmax


def _sums(layer: Routed, sizes: tuple[int, int, int]) -> tuple[Sum, Sum]:
    """What the sums over the couplings, and the agreements, can come to."""
    votes = fixed(layer.votes)
    own = torch.empty(1, *sizes, device="meta")
    bias = None if layer.routing_biases is None else fixed(layer.routing_biases).range
    combine = sum_of(votes, Combine(), own, fixed(layer.coupling).range, bias)
    logits = fixed(layer.logits).range
    return combine, sum_of(votes, Agree(), own, fixed(layer.activation).range, logits)


def _squash(layer: Routed, fn: str, s: Codes, v: Codes, program: Program) -> str:
    assert isinstance(v.layout, List)
    outputs, dimension = v.layout.capsules, v.layout.dimension
    return squash_function(
        layer.activation,
        s,
        v,
        size=dimension,
        element=f"m * {dimension} + d",
        stepped=True,
        fn=f"{fn}_squash",
        title=fixed(layer.activation).name,
        vectors=outputs,
        observe=program.observe(layer.activation, v.buffer, (outputs, dimension), step="step"),
    )


def _bias(layer: Routed, dimension: int, places: int, program: Program) -> dict[str, Any]:
    """The routing bias, one for each capsule of a map at all its places."""
    if layer.routing_bias is None or layer.routing_biases is None:
        return {"bias": None, "bias_type": None}
    codes = codes_of(layer.routing_biases, layer.routing_bias)
    note = f"{tuple(codes.shape)} of {fixed(layer.routing_biases).format}"
    packed = program.packed_codes(layer.routing_biases, codes, note)
    kind = operand_type(Range.of(packed.format)).removesuffix("_t")
    unpack = packed.unpack("bias", f"j / {places} * {dimension}", str(dimension), kind)
    return {"bias": {"unpack": unpack}, "bias_type": kind}


def _stores(layer: Routed, combine: Sum, agree: Sum, sizes: tuple[int, int, int]) -> dict[str, str]:
    """C: how sums become codes, and the draws of couplings."""
    _, outputs, dimension = sizes
    s, b = Store.of(fixed(layer.preactivation), combine), Store.of(fixed(layer.logits), agree)
    coupling = fixed(layer.coupling)
    pair = f"i * {outputs} + j"
    draw = f"q_draw({site_key(coupling.name)}, (uint32_t)step, {pair})"
    return {
        "combine_code": s.code("n", f"{site_key(s.site)}, (uint32_t)step, j * {dimension} + d"),
        "agree_code": b.code("n", f"{site_key(b.site)}, (uint32_t)step, {pair}"),
        "couple_draw": draw if coupling.way.rounding.draws else "0",
    }
