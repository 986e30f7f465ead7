"""A web server on loopback that serves, cuts, refuses and counts; small data sets on disk."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
from torch import Tensor

from qcapsnets.data.download import RemoteFile
from qcapsnets.data.formats import write_idx


@dataclass
class Server:
    """`files` by path. `cuts` maps a path to how many bytes each next request gets."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    ranges: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"{self.address}/{path}"

    def remote(self, content: bytes, *paths: str, name: str = "data.gz") -> RemoteFile:
        """A file with the checksum of `content`, to be had at `paths`."""
        checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
        provides = (name.removesuffix(".gz"),)
        return RemoteFile(name, checksum, tuple(self.url(path) for path in paths), provides)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            asked = self.headers.get("Range")
            server.requests.append((path, asked))
            if path not in server.files:
                self.send_error(404)
                return
            content = server.files[path]
            start = self._start(asked)
            if start >= len(content):
                self.send_error(416)
                return
            self._send(path, content, start)

        def _start(self, asked: str | None) -> int:
            match = re.fullmatch(r"bytes=(\d+)-", asked or "")
            return int(match[1]) if match and server.ranges else 0

        def _send(self, path: str, content: bytes, start: int) -> None:
            body = content[start:]
            self.send_response(206 if start else 200)
            if start:
                last = len(content) - 1
                self.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cuts = server.cuts.get(path)
            self.wfile.write(body[: cuts.pop(0)] if cuts else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    state = Server()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(state)) as http:
        state.address = f"http://127.0.0.1:{http.server_port}"
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def some_images(count: int = 40, size: int = 6) -> tuple[Tensor, Tensor]:
    """Random bytes [count, size, size] and labels 0..9 in turn."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (count, size, size), generator=generator, dtype=torch.uint8)
    return images, torch.arange(count) % 10


@pytest.fixture
def own_images() -> tuple[Tensor, Tensor]:
    return some_images()


@pytest.fixture
def idx_folder(tmp_path: Path) -> Path:
    """A data folder with a tiny `mnist`, plain files."""
    folder = tmp_path / "folder" / "mnist"
    folder.mkdir(parents=True)
    for part, count in (("train", 40), ("t10k", 20)):
        images, labels = some_images(count)
        write_idx(folder / f"{part}-images-idx3-ubyte", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)
    return folder.parent


def cifar_records(count: int, label: int = 3) -> bytes:
    """`count` records, all of class `label`; the pixels count up."""
    return b"".join(
        bytes([label]) + bytes((index + pixel) % 256 for pixel in range(3072))
        for index in range(count)
    )


@pytest.fixture
def cifar_files() -> dict[str, bytes]:
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    return {name: cifar_records(2 + index, label=index) for index, name in enumerate(names)}
