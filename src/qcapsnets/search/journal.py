"""The journal of a search: append-only JSON lines, from which a killed search goes on.

The first line says what the journal is of (network, data, settings, versions); each other line is
one measurement of one plan. A line that a kill cut short is dropped when the journal is opened.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qcapsnets.errors import SearchError


class Journal:
    """Measurements on disk, in the order in which they were made."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.identity: dict[str, Any] = json.loads(json.dumps(identity))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as problem:
            raise SearchError(
                f"cannot write {path}: {problem.strerror}; choose a folder that can be written"
            ) from problem

    def _open(self) -> None:
        lines = self._whole_lines()
        if not lines:
            self.path.write_text("")
            self.append(self.identity)
            return
        self._check(json.loads(lines[0]))
        os.truncate(self.path, sum(len(line) + 1 for line in lines))

    def _whole_lines(self) -> list[bytes]:
        """Lines up to the first that is not a whole JSON object."""
        if not self.path.exists():
            return []
        whole = []
        for line in self.path.read_bytes().split(b"\n")[:-1]:
            try:
                json.loads(line)
            except ValueError:
                break
            whole.append(line)
        return whole

    def _check(self, found: dict[str, Any]) -> None:
        for key, value in self.identity.items():
            if found.get(key) != value:
                raise SearchError(
                    f"{self.path} is of another search: its {key} is {_short(found.get(key))}, "
                    f"not {_short(value)}; use the same or another folder"
                )

    def append(self, line: dict[str, Any]) -> None:
        """Add one line, on disk before this returns."""
        try:
            with self.path.open("ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise SearchError(
                f"cannot write {self.path}: {problem.strerror}; free some space and run it again, "
                "it goes on where it stopped"
            ) from problem

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([json.loads(line) for line in self._whole_lines()[1:]])


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 200 else text[:200] + "..."
