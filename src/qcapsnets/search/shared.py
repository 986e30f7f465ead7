"""A file of JSON lines that several processes add to, and that outlives any of them.

The first line says what the file is of; its name has a digest of that, so that one folder holds
many. A line is written as a whole while the file is held; one that a kill cut short is dropped by
whoever writes next, and is not seen before. Any other line that is none is an error.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qcapsnets.errors import SearchError
from qcapsnets.files import append_durably
from qcapsnets.lock import locked_file
from qcapsnets.search.journal import check_same

PATIENCE = 60.0
"""Seconds to wait for others, each of whom writes one line."""


class SharedLines:
    """Lines in the order in which they were added, by this process or by others."""

    def __init__(self, folder: Path, name: str, identity: dict[str, Any]) -> None:
        self.identity: dict[str, Any] = json.loads(json.dumps(identity))
        text = json.dumps(identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        self.path = folder / f"{name}-{digest}.jsonl"
        self._read, self._lines = 0, 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Whole lines that were added since this was last asked."""
        for line in self._unread():
            self._lines += 1
            self._read += len(line) + 1
            value = self._parsed(line)
            if self._lines == 1:
                check_same(value, self.identity, self.path)
            else:
                yield value

    def _unread(self) -> list[bytes]:
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                return file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise SearchError(f"cannot read {self.path}: {problem.strerror}") from problem

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self.broken()
        return value

    def broken(self) -> SearchError:
        """The error of a line that is not what it should be: the last that was read."""
        return SearchError(
            f"line {self._lines} of {self.path} is damaged: "
            "remove that line, or the file, and what it held is computed again"
        )

    def append(self, line: dict[str, Any]) -> None:
        """Add one line, on disk before this returns."""
        with locked_file(self.path, PATIENCE):
            heading = [] if self._without_torn_line() else [self.identity]
            text = "".join(json.dumps(part) + "\n" for part in (*heading, line))
            append_durably(self.path, text.encode(), SearchError)

    def _without_torn_line(self) -> int:
        """Cut off what follows the last whole line; how many bytes are left."""
        try:
            content = self.path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(self.path, whole)
        except OSError as problem:
            raise SearchError(f"cannot mend {self.path}: {problem.strerror}") from problem
        return whole
