"""The data folder: where it is, what is in it, and how what is missing gets there."""

import os
import sys
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from qcapsnets.data.download import DownloadError, Progress, RemoteFile, download, writing
from qcapsnets.errors import DataError

SUFFIXES = ("", ".gz", ".xz")
SUBFOLDERS = ("", "cifar-10-batches-bin")  # the second is where the official archive extracts to


def data_folder() -> Path:
    """`QCAPSNETS_DATA` if it is set, else this platform's cache folder."""
    chosen = os.environ.get("QCAPSNETS_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return _cache_folder(sys.platform, os.environ) / "qcapsnets"


def find(folder: Path, name: str) -> Path | None:
    """The data file `name` in `folder`: plain, .gz or .xz, in this order."""
    for subfolder in SUBFOLDERS:
        for suffix in SUFFIXES:
            path = folder / subfolder / f"{name}{suffix}"
            if path.is_file():
                return path
    return None


def require(folder: Path, name: str) -> Path:
    """The data file `name`, which has to be there."""
    if (path := find(folder, name)) is None:
        raise DataError(_lacking(folder, [name]))
    return path


def obtain(
    files: Sequence[RemoteFile],
    folder: Path,
    *,
    allowed: bool = True,
    progress: Progress | None = None,
) -> None:
    """See that `folder` holds all that `files` provide, by download where `allowed`.

    What is there already is the user's own: it is never checked, changed or replaced.
    """
    lacking = _missing(files, folder)
    if not lacking:
        return
    if not allowed:
        raise DataError(f"{_lacking(folder, lacking)}, or allow the download")
    with _exclusive(folder):
        try:
            for file in files:
                if _missing([file], folder):
                    _bring(file, folder, progress)
        except DownloadError as error:
            raise DataError(f"{error}: {_lacking(folder, _missing(files, folder))}") from error


def _missing(files: Sequence[RemoteFile], folder: Path) -> list[str]:
    return [name for file in files for name in file.provides if find(folder, name) is None]


def _lacking(folder: Path, names: Sequence[str]) -> str:
    listed = ", ".join(names)
    return f"{folder} lacks {listed}: put them there as published (plain, .gz or .xz)"


def _bring(file: RemoteFile, folder: Path, progress: Progress | None) -> None:
    if ".tar" not in file.name:
        download(file, folder, progress=progress)
        return
    archive = folder / file.name
    if archive.exists():  # put there by hand, or left by a run that ended before unpacking
        _unpack(archive, _missing([file], folder))
        return
    _unpack(download(file, folder, progress=progress), _missing([file], folder))
    with writing(folder):
        archive.unlink()


def _unpack(archive: Path, names: Sequence[str]) -> None:
    """Take the files called `names`, under these names, from wherever the archive has them."""
    left = set(names)
    with _reading(archive), tarfile.open(archive) as members:
        for member in members:
            name = PurePosixPath(member.name).name
            content = members.extractfile(member) if name in left and member.isfile() else None
            if content is not None:
                _write_whole(archive.with_name(name), content.read())
                left.remove(name)
    if left:
        raise DataError(f"{archive} lacks {', '.join(sorted(left))}: replace it by a fresh copy")


def _write_whole(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    with writing(path.parent):
        part.write_bytes(content)
        part.replace(path)


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, OSError, zlib.error, EOFError) as error:
        raise DataError(f"{archive} is broken ({error}): replace it by a fresh copy") from error


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """One process at a time: a training on several devices starts as many downloads."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    with lock:
        if sys.platform != "win32":
            import fcntl

            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cache_folder(platform: str, environment: Mapping[str, str]) -> Path:
    variable = {"win32": "LOCALAPPDATA", "darwin": ""}.get(platform, "XDG_CACHE_HOME")
    given = Path(environment.get(variable, ""))
    if given.is_absolute():
        return given
    default = {"win32": "AppData/Local", "darwin": "Library/Caches"}.get(platform, ".cache")
    try:
        return Path.home() / default
    except RuntimeError as error:
        raise DataError("there is no home folder: name a data folder by QCAPSNETS_DATA") from error
