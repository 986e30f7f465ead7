"""Files that are either there and whole, or not there."""

import os
import re
from pathlib import Path

from qcapsnets.errors import QCapsNetsError

LEFTOVER = re.compile(r"\..+\.\d+\.tmp")


def write_atomically(path: Path, content: bytes | str, error: type[QCapsNetsError]) -> None:
    """Write under a temporary name, then rename; what was there before stays until then."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as problem:
        _discard(temporary)
        raise error(
            f"cannot write {path}: {problem.strerror or problem}; "
            "free some space or choose a folder that can be written"
        ) from problem
    except BaseException:  # Ctrl-C while writing
        _discard(temporary)
        raise


def discard_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that were killed in `folder`."""
    for path in folder.glob(".*.tmp"):
        if LEFTOVER.fullmatch(path.name):
            _discard(path)


def append_durably(path: Path, data: bytes, error: type[QCapsNetsError]) -> None:
    """Add to a file, on disk before this returns."""
    try:
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise error(
            f"cannot write {path}: {problem.strerror}; free some space and run it again, "
            "it goes on where it stopped"
        ) from problem


def _discard(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # the folder itself is gone or not ours; the write's own error says so
