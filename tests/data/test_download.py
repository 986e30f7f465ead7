"""Downloads against a real server: whole, cut, wrong, missing."""

import random
import socket
from pathlib import Path

import pytest
from tests.data.conftest import Server

from qcapsnets.data.download import DownloadError, RemoteFile, download
from qcapsnets.errors import DataError

CONTENT = random.Random(0).randbytes(700_000)
HALF = len(CONTENT) // 2


def test_brings_the_file_and_tells_its_progress(server: Server, tmp_path: Path) -> None:
    server.files["good"] = CONTENT
    seen: list[tuple[str, int, int | None]] = []
    path = download(
        server.remote(CONTENT, "good"), tmp_path, progress=lambda *now: seen.append(now)
    )
    assert path == tmp_path / "data.gz"
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]
    assert len(seen) > 1
    assert [here for _, here, _ in seen] == sorted(here for _, here, _ in seen)
    assert seen[-1] == ("data.gz", len(CONTENT), len(CONTENT))


def test_md5_serves_too(server: Server, tmp_path: Path) -> None:
    server.files["good"] = b"abc"
    checksum = "md5:900150983cd24fb0d6963f7d28e17f72"
    remote = RemoteFile("abc", checksum, (server.url("good"),), ("abc",))
    assert download(remote, tmp_path).read_bytes() == b"abc"


def test_a_cut_connection_is_resumed_at_once(server: Server, tmp_path: Path) -> None:
    server.files["cut"] = CONTENT
    server.cuts["cut"] = [HALF]
    assert download(server.remote(CONTENT, "cut"), tmp_path).read_bytes() == CONTENT
    assert server.requests == [("cut", None), ("cut", f"bytes={HALF}-")]


def test_a_later_run_resumes_what_was_kept(server: Server, tmp_path: Path) -> None:
    server.files["cut"] = CONTENT
    server.cuts["cut"] = [1000, 1000, 1000]
    remote = server.remote(CONTENT, "cut")
    with pytest.raises(DownloadError, match=f"connection cut after 3000 of {len(CONTENT)} bytes"):
        download(remote, tmp_path)
    assert (tmp_path / "data.gz.part").read_bytes() == CONTENT[:3000]
    assert not (tmp_path / "data.gz").exists()
    assert download(remote, tmp_path).read_bytes() == CONTENT
    assert server.requests[-1] == ("cut", "bytes=3000-")


def test_a_second_mirror_continues_what_the_first_began(server: Server, tmp_path: Path) -> None:
    server.files |= {"cut": CONTENT, "whole": CONTENT}
    server.cuts["cut"] = [HALF, 0, 0]
    assert download(server.remote(CONTENT, "cut", "whole"), tmp_path).read_bytes() == CONTENT
    assert server.requests[-1] == ("whole", f"bytes={HALF}-")


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.files["cut"] = CONTENT
    server.cuts["cut"] = [HALF]
    server.ranges = False
    assert download(server.remote(CONTENT, "cut"), tmp_path).read_bytes() == CONTENT


def test_a_part_that_is_whole_already(server: Server, tmp_path: Path) -> None:
    server.files["good"] = CONTENT
    (tmp_path / "data.gz.part").write_bytes(CONTENT)
    assert download(server.remote(CONTENT, "good"), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("stale", [b"stale", CONTENT + b"too long"], ids=["short", "long"])
def test_a_stale_part_is_dropped(server: Server, tmp_path: Path, stale: bytes) -> None:
    server.files["good"] = CONTENT
    (tmp_path / "data.gz.part").write_bytes(stale)
    assert download(server.remote(CONTENT, "good"), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.files["wrong"] = CONTENT[:-1] + b"?"
    with pytest.raises(DownloadError, match=r"wrong checksum, sha256:\w+ expected"):
        download(server.remote(CONTENT, "wrong"), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(server.requests) == 1


def test_404_and_a_wrong_file_then_a_good_mirror(server: Server, tmp_path: Path) -> None:
    server.files |= {"wrong": b"<html>log in first</html>", "good": CONTENT}
    remote = server.remote(CONTENT, "gone", "wrong", "good")
    assert download(remote, tmp_path).read_bytes() == CONTENT
    assert [path for path, _ in server.requests] == ["gone", "wrong", "good"]


def test_every_mirror_is_named_when_none_works(server: Server, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        mirrors = (server.url("gone"), closed, "file:///etc/hostname", "https://")
        remote = RemoteFile("data.gz", "md5:0", mirrors, ("data",))
        with pytest.raises(DownloadError) as caught:
            download(remote, tmp_path)
    message = str(caught.value)
    assert message.startswith("cannot download data.gz (")
    assert f"{server.url('gone')}: HTTP 404; {closed}: " in message
    assert "Connection refused" in message
    assert "neither https nor http" in message
    assert "\n" not in message


def test_a_silent_server_times_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        remote = RemoteFile("data.gz", "md5:0", (url,), ("data",))
        with pytest.raises(DownloadError, match="timed out"):
            download(remote, tmp_path, timeout=0.2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_not_the_mirrors_fault(server: Server, tmp_path: Path) -> None:
    server.files |= {"good": CONTENT, "other": CONTENT}
    (tmp_path / "data.gz.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"cannot write to .* \(No space left on device\)"):
        download(server.remote(CONTENT, "good", "other"), tmp_path)
    assert len(server.requests) == 1


def test_a_checksum_needs_its_algorithm() -> None:
    with pytest.raises(DataError, match=r"give 'md5:...' or 'sha256:...'"):
        RemoteFile("data.gz", "900150983cd24fb0d6963f7d28e17f72", (), ())
