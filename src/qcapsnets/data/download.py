"""Downloads that can be cut at any moment: resumed, checked, then renamed into place.

What has arrived is kept in `<name>.part`. The next attempt, now or in a later run, asks only for
the rest; when the checksum fits, the file gets its name, and when it does not, the part goes.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TypeAlias, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from qcapsnets.errors import DataError

ATTEMPTS = 3
CHUNK = 1 << 18
PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes that are here, and the bytes in all if that is known."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as published: `checksum` is "md5:..." or "sha256:..."; `mirrors` are URLs, tried in
    order; `provides` are the data files that it holds, by their plain names."""

    name: str
    checksum: str
    mirrors: tuple[str, ...]
    provides: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.checksum.startswith(("md5:", "sha256:")):
            raise DataError(
                f"checksum {self.checksum!r} of {self.name}: give 'md5:...' or 'sha256:...'"
            )


class DownloadError(DataError):
    """No mirror gave the file."""


class _Refused(Exception):
    """This mirror does not give the file: no use asking again."""


class _Cut(Exception):
    """The connection broke; the rest may be asked for."""


def download(
    file: RemoteFile, folder: Path, *, progress: Progress | None = None, timeout: float = 30.0
) -> Path:
    """Bring `file` into `folder` from the first mirror that has it whole."""
    target = folder / file.name
    part = folder / f"{file.name}.part"
    problems = []
    for url in file.mirrors:
        problem = _from_mirror(url, file, part, progress, timeout)
        if problem is None:
            with writing(folder):
                return part.replace(target)
        problems.append(f"{url}: {problem}")
    raise DownloadError(f"cannot download {file.name} ({'; '.join(problems)})")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Failures to write are the user's to mend, and no fault of a mirror's."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write to {folder} ({error.strerror or error}): "
            "make room and give write permission, or choose another folder with QCAPSNETS_DATA"
        ) from error


def _from_mirror(
    url: str, file: RemoteFile, part: Path, progress: Progress | None, timeout: float
) -> str | None:
    """Complete `part`; what went wrong, or None."""
    problem = ""
    for _ in range(ATTEMPTS):
        resumed = _size(part) > 0
        try:
            _fetch(url, file.name, part, progress, timeout)
        except _Refused as refused:
            return str(refused)
        except _Cut as cut:
            problem = str(cut)
            continue
        if _digest(part, file.checksum) == file.checksum:
            return None
        with writing(part.parent):
            part.unlink()
        problem = f"wrong checksum, {file.checksum} expected"
        if not resumed:  # then this is what the mirror holds; else a stale part may be to blame
            break
    return problem


def _fetch(url: str, name: str, part: Path, progress: Progress | None, timeout: float) -> None:
    """Ask for what `part` lacks and append it."""
    with _request(url, _size(part), timeout) as response:
        if response.status == RANGE_NOT_SATISFIABLE:  # nothing is lacking; the checksum decides
            return
        here = _resume_at(response, _size(part))
        total = None if response.length is None else here + response.length
        with writing(part.parent):
            out = part.open("ab" if here else "wb", buffering=0)
        with out:
            for chunk in _chunks(response):
                with writing(part.parent):
                    _write(out.write, chunk)
                here += len(chunk)
                if progress is not None:
                    progress(name, here, total)
    if total is not None and here < total:
        raise _Cut(f"connection cut after {here} of {total} bytes")


def _request(url: str, start: int, timeout: float) -> HTTPResponse:
    headers = {"User-Agent": "qcapsnets", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    if not url.startswith(("https://", "http://")):
        raise _Refused("neither https nor http")
    try:
        return cast(HTTPResponse, urlopen(Request(url, headers=headers), timeout=timeout))
    except HTTPError as error:
        if start and error.code == RANGE_NOT_SATISFIABLE:
            return cast(HTTPResponse, error)
        error.close()
        raise _Refused(f"HTTP {error.code}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise _Refused(_line(getattr(error, "reason", error))) from error


def _resume_at(response: HTTPResponse, start: int) -> int:
    """Where the answer begins: at `start` if the server can do that, else at 0."""
    if response.status != PARTIAL_CONTENT:
        return 0
    given = response.headers.get("Content-Range", "")
    if not given.startswith(f"bytes {start}-"):
        raise _Refused(f"asked for bytes from {start}, got {given!r}")
    return start


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := response.read(CHUNK):
            yield chunk
    except (OSError, HTTPException) as error:
        raise _Cut(_line(error)) from error


def _write(write: Callable[[memoryview], int | None], chunk: bytes) -> None:
    """All of `chunk`: an unbuffered write may take less than it is given."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[write(rest) or 0 :]


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _digest(path: Path, like: str) -> str:
    """The checksum of a file, by the algorithm that `like` begins with."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as content:
        # FIPS builds allow MD5 only where, as here, it guards against accidents.
        digest = hashlib.file_digest(content, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


def _line(reason: object) -> str:
    return " ".join(str(reason).split()) or type(reason).__name__
