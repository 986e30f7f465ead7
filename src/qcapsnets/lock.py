"""One process at a time in a run folder; a lock goes with its process, however that ends."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qcapsnets.errors import QCapsNetsError, SearchError

try:
    import fcntl
except ImportError:  # Windows has no flock; two processes in one folder are then not noticed
    fcntl = None  # type: ignore[assignment]

PAUSE = 0.05


@contextmanager
def locked(folder: Path, error: type[QCapsNetsError] = SearchError) -> Iterator[None]:
    """Hold a folder, or say that somebody else does."""
    with locked_file(folder / ".lock", error=error):
        yield


@contextmanager
def locked_file(
    path: Path, patience: float = 0.0, error: type[QCapsNetsError] = SearchError
) -> Iterator[None]:
    """Hold a file, which is made if need be; wait for whoever holds it, but not for long."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as problem:
        raise error(
            f"cannot write {path.parent}: {problem.strerror}; choose a folder that can be written"
        ) from problem
    try:
        end = time.monotonic() + patience
        while not _taken(handle):
            if time.monotonic() >= end:
                raise error(
                    f"another process works in {path.parent}: wait for it, or choose another folder"
                )
            time.sleep(PAUSE)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks
    return True
