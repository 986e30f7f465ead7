"""Settings of a command: from a TOML file, overridden by flags, checked, and written beside a run.

A file holds a table for each command (`[train]`), or simply the settings of the one it is for.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from qcapsnets.cli.errors import CommandError
from qcapsnets.files import write_atomically

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    S = TypeVar("S", bound=DataclassInstance)
else:
    S = TypeVar("S")

COMMANDS = ("train", "evaluate", "quantize", "report", "export")
"""Commands that can have a table of their own in a settings file."""


def read_settings(path: Path, command: str, kind: type[S]) -> dict[str, Any]:
    """The settings of a command in a TOML file, each checked against the fields of `kind`."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except FileNotFoundError:
        raise CommandError(f"there is no settings file {path}: correct the path") from None
    except OSError as problem:
        raise CommandError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise CommandError(f"{path} is not TOML: {problem}") from None
    tables = {name: value for name, value in content.items() if name in COMMANDS}
    settings = tables.get(command, {}) if tables else content
    if not isinstance(settings, dict):
        raise CommandError(f"{command} in {path} is {settings!r}: make it a table, [{command}]")
    known = {field.name: field for field in fields(kind)}
    return {
        name: _checked(name, value, known, f"{path}")
        for name, value in ((key.replace("-", "_"), value) for key, value in settings.items())
    }


def merge(kind: type[S], *layers: Mapping[str, Any]) -> S:
    """Settings from several sources, later ones first; a flag that was not given is None."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= {name: value for name, value in layer.items() if value is not None}
    return kind(**merged)


def write_settings(path: Path, command: str, settings: "DataclassInstance") -> None:
    """Put a command's settings into a file as its table; those of other commands stay."""
    tables: dict[str, Any] = {}
    if path.exists():
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    tables[command] = {k: v for k, v in asdict(settings).items() if v not in (None, {}, ())}
    blocks = (_table(name, values) for name, values in tables.items())
    write_atomically(path, "\n".join(blocks), CommandError)


def default(kind: type, name: str) -> str:
    """The default of a setting, for help."""
    field = next(field for field in fields(kind) if field.name == name)
    return _text(field.default)


def pairs(texts: list[str] | None, flag: str) -> dict[str, Any] | None:
    """`["name=value", ...]` as a dictionary; numbers, true and false are read as such."""
    if not texts:
        return None
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise CommandError(f"{flag} {text!r} is not of the form name=value")
        found[name.strip().replace("-", "_")] = _plain(value.strip())
    return found


def _plain(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float)) else text


def _checked(name: str, value: Any, known: Mapping[str, Field[Any]], where: str) -> Any:
    if name not in known:
        raise CommandError(
            f"{where} has an unknown setting {name!r}: the settings are {', '.join(known)}"
        )
    allowed = _types(known[name].type)
    if float in allowed and type(value) is int:
        return float(value)
    if type(value) not in allowed:
        wanted = " or ".join(sorted(kind.__name__ for kind in allowed))
        raise CommandError(f"{name} in {where} is {value!r}: it must be of type {wanted}")
    return value


def _types(annotation: Any) -> set[type]:
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return {getattr(kind, "__origin__", kind) for kind in kinds} - {type(None)}


def _text(value: object) -> str:
    if value is None or value is MISSING:
        return "none"
    return str(value)


def _table(name: str, values: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    inner = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in plain.items()), ""]
    return "\n".join(lines) + "".join("\n" + _table(f"{name}.{k}", v) for k, v in inner.items())


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
