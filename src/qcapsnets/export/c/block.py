"""C for a block of DeepCaps: three convolutions in a row, one beside them, and their sum."""

from qcapsnets.errors import ExportError
from qcapsnets.export.c.convolution import observe_capsules
from qcapsnets.export.c.emitters import emit, register_emitter
from qcapsnets.export.c.numbers import Store, added
from qcapsnets.export.c.program import Codes, Map, Program, Value, fixed, single, site_key
from qcapsnets.fixedpoint.exact import Range
from qcapsnets.models import Block


@register_emitter(Block)
def block(layer: Block, name: str, x: Value, program: Program) -> Value:
    """l1; skip; l2, l3; the sum. A block that carries hands on its input as well."""
    shared = emit(layer.l1, f"{name}.l1", x, program)
    skipped = single(emit(layer.skip, f"{name}.skip", shared, program), name)
    second = emit(layer.l2, f"{name}.l2", shared, program)
    third = single(emit(layer.l3, f"{name}.l3", second, program), name)
    out = _add(layer, name, third, skipped, program)
    return (*x, out) if layer.carry else (out,)


def _add(layer: Block, name: str, a: Codes, b: Codes, program: Program) -> Codes:
    if a.layout != b.layout or not isinstance(a.layout, Map):
        raise ExportError(f"block {name!r} adds {a.layout} and {b.layout}: make them alike")
    out = program.codes(layer.activation, a.layout)
    sum_ = added(Range.of(a.format), Range.of(b.format))
    store = Store.of(fixed(layer.activation), sum_)
    fn = program.identifier(f"{name}_add")
    program.add(
        "add.c.j2",
        fn=fn,
        title=name,
        a=a,
        b=b,
        out=out,
        sum=sum_,
        store=store,
        code=store.code("n", f"{site_key(store.site)}, 0, e"),
        observe=observe_capsules(program, layer.activation, out, a.layout),
    )
    program.call(f"{fn}();", f"{name}: sum", a, b, out)
    return out
