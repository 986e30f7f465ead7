"""The packed model that a path means."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcapsnets.cli.errors import CommandError

if TYPE_CHECKING:
    from qcapsnets.models import CapsNet

SUFFIX = ".qcaps"


def packed_model(target: Path) -> "tuple[CapsNet, dict[str, Any]]":
    """A file, or the only one in a folder and below it."""
    from qcapsnets.export import load_packed

    return load_packed(packed_path(target))


def packed_path(target: Path) -> Path:
    """Where the packed model is."""
    if not target.is_dir():
        return target
    found = sorted(target.rglob(f"*{SUFFIX}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise CommandError(
            f"{target} holds no packed model ({SUFFIX}): `qcapsnets quantize` makes them"
        )
    names = ", ".join(str(path) for path in found[:6])
    raise CommandError(f"{target} holds {len(found)} packed models: name one of {names}")
