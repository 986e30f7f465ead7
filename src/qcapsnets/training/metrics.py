"""Metrics as they come: one JSON object a line, appended; a resumed run drops what it repeats."""

import json
from pathlib import Path
from typing import Any

from qcapsnets.errors import TrainingError
from qcapsnets.files import write_atomically


class Metrics:
    """An append-only JSONL file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rewind(self, step: int) -> None:
        """Keep only whole lines up to `step`."""
        kept = [line for line in self.read() if line["step"] <= step]
        write_atomically(self.path, "".join(json.dumps(k) + "\n" for k in kept), TrainingError)

    def append(self, **values: Any) -> None:
        """Add one line."""
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(values) + "\n")
        except OSError as problem:
            raise TrainingError(f"cannot write {self.path}: {problem.strerror}") from problem

    def read(self) -> list[dict[str, Any]]:
        """All whole lines; one that was cut off by a kill is left out."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if _whole(line)]


def _whole(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
