"""Networks by name. A user's own joins them by a plain function or an entry point.

@register("my-caps")
def my_caps(size: int = 28, classes: int = 10) -> CapsNet: ...

build("my-caps", classes=5)
"""

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

from qcapsnets.errors import ModelError
from qcapsnets.models.config import Config
from qcapsnets.models.deepcaps import DeepCapsConfig, deepcaps
from qcapsnets.models.network import CapsNet
from qcapsnets.models.shallowcaps import ShallowCapsConfig, shallowcaps
from qcapsnets.registry import Registry

Builder = Callable[..., CapsNet]
C = TypeVar("C", bound=Config)

models: Registry[Builder] = Registry("model")


def register(name: str, *, replace: bool = False) -> Callable[[Builder], Builder]:
    """Make a function that builds a network known by `name`."""

    def add(builder: Builder) -> Builder:
        return models.register(name, builder, replace=replace)

    return add


def build(name: str, **options: Any) -> CapsNet:
    """The network called `name`, built with these options; it remembers both."""
    builder: object = models[name]  # an entry point can hold anything
    if not callable(builder):
        raise ModelError(
            f"model {name!r} is a {type(builder).__name__}: register a function that builds it"
        )
    try:
        inspect.signature(builder).bind(**options)
    except TypeError as error:
        allowed = ", ".join(inspect.signature(builder).parameters) or "no options"
        raise ModelError(f"model {name!r}: {error}; it takes {allowed}") from None
    model: object = builder(**options)
    if not isinstance(model, CapsNet):
        raise ModelError(
            f"the builder of model {name!r} returns a {type(model).__name__}: "
            "return a qcapsnets.models.CapsNet"
        )
    model.name, model.options = name, dict(options)
    return model


def _from_config(function: Callable[[C], CapsNet], config: C) -> Builder:
    """A builder whose options are the fields of a configuration."""

    def builder(**options: Any) -> CapsNet:
        return function(replace(config, **options))

    parameters = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=getattr(config, f.name))
        for f in fields(config)
    ]
    builder.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    builder.__doc__ = function.__doc__
    return builder


models.register("shallowcaps", _from_config(shallowcaps, ShallowCapsConfig()))
models.register(
    "shallowcaps-small",
    _from_config(shallowcaps, ShallowCapsConfig(conv_channels=64, primary_capsules=8)),
)
models.register("deepcaps", _from_config(deepcaps, DeepCapsConfig()))
models.register(
    "deepcaps-small",
    _from_config(deepcaps, DeepCapsConfig(conv_channels=32, capsules=8, class_dimension=16)),
)
