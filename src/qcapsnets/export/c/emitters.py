"""C for each kind of layer, by the layer's class. Users add their own.

@register_emitter(MyLayer)
def my_layer(layer: MyLayer, name: str, x: Value, program: Program) -> Value: ...

A class has the emitter that was registered for exactly it: a subclass may compute something else.
"""

from collections.abc import Callable
from typing import Any

from qcapsnets.errors import ExportError
from qcapsnets.export.c.program import Program, Value
from qcapsnets.models import Layer

Emitter = Callable[[Any, str, Value, Program], Value]

_emitters: dict[type[Layer], Emitter] = {}


def register_emitter(kind: type[Layer], *, replace: bool = False) -> Callable[[Emitter], Emitter]:
    """Make a function that writes C for layers of one class known."""

    def add(emitter: Emitter) -> Emitter:
        if kind in _emitters and not replace:
            raise ExportError(f"{kind.__name__} has a C form already: pass replace=True")
        _emitters[kind] = emitter
        return emitter

    return add


def emit(layer: Layer, name: str, x: Value, program: Program) -> Value:
    """Write one layer; what it hands on."""
    emitter = _emitters.get(type(layer))
    if emitter is None:
        known = ", ".join(kind.__name__ for kind in _emitters)
        raise ExportError(
            f"layer {name!r} is a {type(layer).__name__}, which has no C form (known are {known}): "
            f"register one with qcapsnets.export.c.register_emitter({type(layer).__name__})"
        )
    return emitter(layer, name, x, program)
