"""The data folder: found, filled, and never changed where the user put something."""

import io
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.data.conftest import Server

from qcapsnets.data import data_folder
from qcapsnets.data.download import RemoteFile
from qcapsnets.data.files import _cache_folder, find, obtain, require
from qcapsnets.errors import DataError


def archive(files: Mapping[str, bytes], prefix: str = "cifar-10-batches-bin/") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{prefix}{name}")
            member.size = len(content)
            members.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def remote_archive(server: Server, content: bytes, provides: tuple[str, ...]) -> RemoteFile:
    server.files["archive"] = content
    plain = server.remote(content, "archive", name="all.tar.gz")
    return RemoteFile(plain.name, plain.checksum, plain.mirrors, provides)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != ".lock"}


def test_the_environment_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCAPSNETS_DATA", "~/images")
    assert data_folder() == Path.home() / "images"
    monkeypatch.setenv("QCAPSNETS_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setattr("sys.platform", "linux")
    assert data_folder() == Path("/caches/qcapsnets")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/caches"}, Path("/caches")),
        ("linux", {}, Path.home() / ".cache"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache"),
        ("darwin", {"XDG_CACHE_HOME": "/caches"}, Path.home() / "Library/Caches"),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local")),
        ("win32", {}, Path.home() / "AppData/Local"),
    ],
)
def test_cache_folders(platform: str, environment: Mapping[str, str], expected: Path) -> None:
    assert _cache_folder(platform, environment) == expected


def test_without_a_home_the_variable_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(DataError, match="QCAPSNETS_DATA"):
        _cache_folder("linux", {})


def test_finds_plain_and_compressed_files(tmp_path: Path) -> None:
    assert find(tmp_path, "a.bin") is None
    for name in ("cifar-10-batches-bin/a.bin.xz", "a.bin.gz", "a.bin"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        assert find(tmp_path, "a.bin") == path
    with pytest.raises(DataError, match=r"lacks b\.bin: put them there as published"):
        require(tmp_path, "b.bin")


def test_downloads_only_what_is_missing(server: Server, tmp_path: Path) -> None:
    server.files |= {"one": b"one", "two": b"two"}
    files = [
        server.remote(b"one", "one", name="one.gz"),
        server.remote(b"two", "two", name="two.gz"),
    ]
    folder = tmp_path / "new" / "folder"
    folder.mkdir(parents=True)
    (folder / "one.xz").write_bytes(b"the user's own")
    obtain(files, folder)
    assert names(folder) == {"one.xz", "two.gz"}
    assert (folder / "one.xz").read_bytes() == b"the user's own"
    assert [path for path, _ in server.requests] == ["two"]


def test_a_complete_folder_is_not_written_to(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    obtain([server.remote(b"", "gone")], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert server.requests == []


def test_offline_the_message_names_files_and_folder(server: Server, tmp_path: Path) -> None:
    files = [server.remote(b"x", "gone", name=name) for name in ("one.gz", "two.gz")]
    folder = tmp_path / "mnist"
    with pytest.raises(DataError) as caught:
        obtain(files, folder)
    message = str(caught.value)
    assert "HTTP 404" in message
    assert f"{folder} lacks one, two: put them there as published (plain, .gz or .xz)" in message
    assert "\n" not in message


def test_without_leave_nothing_is_downloaded(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks data: .*, or allow the download"):
        obtain([server.remote(b"x", "good")], tmp_path / "nowhere", allowed=False)
    assert server.requests == []
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write to .*file/mnist \(Not a directory\)"):
        obtain([server.remote(b"x", "good")], tmp_path / "file" / "mnist")


def test_an_archive_is_unpacked_by_expected_names_only(server: Server, tmp_path: Path) -> None:
    content = {"a.bin": b"A", "b.bin": b"B", "readme.html": b"-", "../../evil": b"-"}
    remote = remote_archive(server, archive(content), ("a.bin", "b.bin"))
    folder = tmp_path / "deep" / "cifar10"
    obtain([remote], folder)
    assert names(folder) == {"a.bin", "b.bin"}
    assert (folder / "b.bin").read_bytes() == b"B"
    assert names(tmp_path) == {"deep"}


def test_an_archive_with_evil_paths_writes_inside_the_folder(
    server: Server, tmp_path: Path
) -> None:
    remote = remote_archive(server, archive({"a.bin": b"A"}, prefix="/../../"), ("a.bin",))
    folder = tmp_path / "deep" / "cifar10"
    obtain([remote], folder)
    assert names(folder) == {"a.bin"}
    assert names(tmp_path) == {"deep"}


def test_an_archive_put_there_by_hand_serves_and_stays(server: Server, tmp_path: Path) -> None:
    remote = remote_archive(server, b"another one", ("a.bin",))
    (tmp_path / "all.tar.gz").write_bytes(archive({"a.bin": b"A"}))
    obtain([remote], tmp_path)
    assert names(tmp_path) == {"a.bin", "all.tar.gz"}
    assert server.requests == []


def test_unpacking_spares_what_is_there(server: Server, tmp_path: Path) -> None:
    remote = remote_archive(server, archive({"a.bin": b"A", "b.bin": b"B"}), ("a.bin", "b.bin"))
    (tmp_path / "a.bin").write_bytes(b"mine")
    obtain([remote], tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"mine"
    assert (tmp_path / "b.bin").read_bytes() == b"B"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive({"other": b"-"}), r"lacks a\.bin: replace it"),
        (archive({"a.bin": bytes(range(256)) * 99})[:-30], "is broken"),
        (b"no archive", "is broken"),
    ],
)
def test_broken_archives(tmp_path: Path, server: Server, content: bytes, message: str) -> None:
    (tmp_path / "all.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match=rf"all\.tar\.gz {message}"):
        obtain([remote_archive(server, content, ("a.bin",))], tmp_path)
    assert names(tmp_path) == {"all.tar.gz"}


def test_simultaneous_downloads_take_turns(server: Server, tmp_path: Path) -> None:
    """The lock belongs to an open file, so that threads stand for processes here."""
    content = archive({"a.bin": bytes(500_000)})
    remote = remote_archive(server, content, ("a.bin",))
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(obtain, [remote], tmp_path) for _ in range(4)]
    for one in waiting:
        one.result()
    assert names(tmp_path) == {"a.bin"}
    assert len(server.requests) == 1
