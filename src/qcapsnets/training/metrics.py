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

    def rewind(self, step: int) -> float:
        """Keep only whole lines up to `step`; the seconds that they had taken."""
        kept = [line for line in self.read() if line["step"] <= step]
        write_atomically(self.path, "".join(json.dumps(k) + "\n" for k in kept), TrainingError)
        return max((line.get("seconds", 0.0) for line in kept), default=0.0)

    def append(self, **values: Any) -> None:
        """Add one line."""
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(values) + "\n")
        except OSError as problem:
            raise TrainingError(
                f"cannot write {self.path}: {problem.strerror or problem}; "
                "free some space or choose a folder that can be written"
            ) from problem

    def read(self) -> list[dict[str, Any]]:
        """All whole lines; one that was cut off by a kill is left out."""
        try:
            text = self.path.read_text(errors="replace")
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise TrainingError(
                f"cannot read {self.path}: {problem.strerror or problem}; "
                "move it away or choose another folder"
            ) from problem
        return [line for line in map(_parsed, text.splitlines()) if line is not None]


def _parsed(line: str) -> dict[str, Any] | None:
    """A line of ours, or nothing."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "step" in value else None
