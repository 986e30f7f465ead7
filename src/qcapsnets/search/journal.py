"""The journal of a search: append-only JSON lines, from which a killed search goes on.

The first line says what the journal is of (network, data, settings, versions); each other line is
one measurement of one plan. A line that a kill cut short is dropped when the journal is opened.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from qcapsnets.errors import SearchError
from qcapsnets.files import append_durably
from qcapsnets.lock import locked_file

PATIENCE = 10.0
"""Seconds to wait for the writer of a search that was killed, which ends soon after it."""


class Journal:
    """Measurements on disk, in the order in which they were made; one writer at a time."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.identity: dict[str, Any] = json.loads(json.dumps(identity))
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(locked_file(self.path, PATIENCE))
            self._open()
            self._held = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()

    def _open(self) -> None:
        lines = self._whole_lines()
        if lines:
            check_same(json.loads(lines[0]), self.identity, self.path)
        try:
            os.truncate(self.path, sum(len(line) + 1 for line in lines))
        except OSError as problem:
            raise SearchError(
                f"cannot write {self.path}: {problem.strerror}; choose a folder that can be written"
            ) from problem
        if not lines:
            self.append(self.identity)

    def _whole_lines(self) -> list[bytes]:
        """Lines up to the first that is not a whole JSON object."""
        whole = []
        for line in self.path.read_bytes().split(b"\n")[:-1]:
            try:
                value = json.loads(line)
            except ValueError:
                break
            if not isinstance(value, dict):
                break
            whole.append(line)
        return whole

    def append(self, line: dict[str, Any]) -> None:
        """Add one line, on disk before this returns."""
        append_durably(self.path, json.dumps(line).encode() + b"\n", SearchError)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([json.loads(line) for line in self._whole_lines()[1:]])


def check_same(found: dict[str, Any], expected: dict[str, Any], path: Path) -> None:
    """What was left by another search is refused, and the first difference named."""
    different = _difference(found, expected)
    if different is not None:
        name, there, here = different
        raise SearchError(
            f"{path} is of another search: its {name} is {_short(there)}, "
            f"not {_short(here)}; use the same or another folder"
        )


def _difference(found: Any, expected: Any, name: str = "") -> tuple[str, Any, Any] | None:
    if found == expected:
        return None
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return name, found, expected
    keys = dict.fromkeys([*expected, *found])
    parts = (_difference(found.get(k), expected.get(k), f"{name} {k}" if name else k) for k in keys)
    return next(part for part in parts if part is not None)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 200 else text[:200] + "..."
