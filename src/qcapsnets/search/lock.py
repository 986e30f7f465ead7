"""One process at a time in a run folder; the lock goes with the process, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qcapsnets.errors import SearchError

try:
    import fcntl
except ImportError:  # Windows has no flock; two searches in one folder are then not noticed
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, or say that somebody else does."""
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR)
    except OSError as problem:
        raise SearchError(
            f"cannot write {folder}: {problem.strerror}; choose a folder that can be written"
        ) from problem
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise SearchError(
            f"another process works in {folder}: wait for it, or choose another folder"
        ) from None
    finally:
        os.close(handle)
