"""What a command says: results on stdout, progress on stderr.

In a terminal progress is a live bar; where stderr goes to a file or a pipe it is plain lines.
`--json` turns the result into one JSON value, and `--quiet` leaves out all that is not result.
"""

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID

PIPED_WIDTH = 120
SECONDS_BETWEEN_LINES = 10.0


class Report(ABC):
    """Where a task tells how far it is."""

    @abstractmethod
    def at(self, done: int, total: int | None, note: str = "", *, milestone: bool = False) -> None:
        """`done` of `total`; a milestone (an epoch, a file) is worth a line of its own."""


class Output:
    """Where a command's words go."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet

    def show(self, *views: "RenderableType") -> None:
        """The result, for people."""
        if not self.as_json:
            console = _console(stderr=False)
            for view in views:
                console.print(view)

    def give(self, value: Any) -> None:
        """The result, for machines."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def say(self, line: str) -> None:
        """Something on the way that is not the result."""
        if not self.quiet:
            _console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def progress(self, title: str) -> Iterator[Report]:
        """Tell how far a task called `title` is."""
        console = _console(stderr=True)
        if self.quiet:
            yield _Silent()
        elif not console.is_terminal:
            yield _Lines(title, self.say)
        else:
            with _bar(console) as bar:
                yield _Bar(bar, bar.add_task(title, total=None, note=""))


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    console = Console(stderr=stderr)
    if not console.is_terminal and console.width < PIPED_WIDTH:
        console.width = PIPED_WIDTH  # nobody looks at a pipe's width
    return console


def _bar(console: "Console") -> "Progress":
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    text = TextColumn("{task.description}", markup=False)
    note = TextColumn("{task.fields[note]}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), note, TimeLeft(elapsed_when_finished=True))
    return Progress(*columns, console=console)


class _Silent(Report):
    def at(self, done: int, total: int | None, note: str = "", *, milestone: bool = False) -> None:
        pass


class _Bar(Report):
    def __init__(self, bar: "Progress", task: "TaskID") -> None:
        self.bar, self.task = bar, task

    def at(self, done: int, total: int | None, note: str = "", *, milestone: bool = False) -> None:
        self.bar.update(self.task, completed=done, total=total, note=note)


class _Lines(Report):
    """A line at each milestone, and otherwise every few seconds."""

    def __init__(self, title: str, say: Any) -> None:
        self.title, self.say = title, say
        self.last = time.monotonic()

    def at(self, done: int, total: int | None, note: str = "", *, milestone: bool = False) -> None:
        now = time.monotonic()
        if milestone or now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            share = f" {done / total:4.0%}" if total else ""
            self.say(f"{self.title}{share}  {note}".rstrip())
