"""Lines on disk: whole ones stay, a cut one goes, another search's are refused."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.search import searching

from qcapsnets.errors import SearchError
from qcapsnets.lock import locked
from qcapsnets.search.journal import Journal

IDENTITY = {"model": "abc", "settings": {"tolerance": "1%", "budget": 5}}
LINES: list[dict[str, Any]] = [{"n": 1}, {"n": 2, "text": "ä"}, {"n": 3}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal" / "nearest.jsonl"


def write(path: Path, *lines: dict[str, Any]) -> None:
    with Journal(path, IDENTITY) as journal:
        for line in lines:
            journal.append(line)


def read(path: Path) -> list[dict[str, Any]]:
    with Journal(path, IDENTITY) as journal:
        return list(journal)


def test_lines_come_back_in_order(path: Path) -> None:
    write(path, *LINES[:2])
    write(path, LINES[2])
    assert read(path) == LINES
    assert json.loads(path.read_text().splitlines()[0]) == IDENTITY


def test_a_journal_cut_anywhere_keeps_its_whole_lines(path: Path) -> None:
    write(path, *LINES)
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    for length in range(len(content)):
        path.write_bytes(content[:length])
        whole = content[:length].count(b"\n")
        assert read(path) == LINES[: max(0, whole - 1)]
        assert path.stat().st_size >= first
        write(path, {"n": 9})
        assert read(path) == [*LINES[: max(0, whole - 1)], {"n": 9}]


@pytest.mark.parametrize("garbage", [b"\x00\xff{]\n", b"12\n", b"[]\n", b"null\n"])
def test_what_is_no_line_ends_the_journal(path: Path, garbage: bytes) -> None:
    write(path, *LINES[:2])
    with path.open("ab") as file:
        file.write(garbage + b'{"n": 3}\n')
    assert read(path) == LINES[:2]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"model": "abd"}, 'its model is "abc", not "abd"'),
        ({"settings": {"tolerance": "1%", "budget": 6}}, "its settings budget is 5, not 6"),
        ({"settings": {"tolerance": "1%"}}, "its settings budget is 5, not null"),
        ({"version": "2"}, 'its version is null, not "2"'),
    ],
)
def test_a_journal_of_another_search_is_refused(
    path: Path, other: dict[str, Any], difference: str
) -> None:
    write(path, *LINES)
    before = path.read_bytes()
    with pytest.raises(SearchError) as caught, Journal(path, IDENTITY | other):
        pass
    assert difference in str(caught.value)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert read(path) == LINES  # nobody holds it


def test_a_long_difference_is_cut(path: Path) -> None:
    with Journal(path, {"model": "x" * 10_000}):
        pass
    with pytest.raises(SearchError) as caught, Journal(path, {"model": "y" * 10_000}):
        pass
    assert len(str(caught.value)) < 700


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SearchError, match="choose a folder that can be written"),
        Journal(tmp_path / "file" / "nearest.jsonl", IDENTITY),
    ):
        pass


def test_a_journal_has_one_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcapsnets.search.journal.PATIENCE", 0.1)
    write(path, *LINES)
    with (
        Journal(path, IDENTITY) as journal,
        pytest.raises(SearchError, match="another process works in"),
        Journal(path, IDENTITY),
    ):
        pass
    journal.append({"n": 4})
    assert read(path) == [*LINES, {"n": 4}]


def test_a_writer_that_is_about_to_end_is_waited_for(path: Path) -> None:
    write(path, *LINES)
    ready = searching.PROCESSES.Event()
    other = searching.PROCESSES.Process(target=hold_for_a_while, args=(path, ready))
    other.start()
    assert ready.wait(60)
    assert read(path) == [*LINES, {"n": "the other"}]
    other.join()


def hold_for_a_while(path: Path, ready: Any) -> None:
    with Journal(path, IDENTITY) as journal:
        ready.set()
        time.sleep(0.3)
        journal.append({"n": "the other"})


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with locked(folder):
        with (
            pytest.raises(SearchError, match=f"another process works in {folder}"),
            locked(folder),
        ):
            pass
        with locked(tmp_path / "other"):
            pass
    with pytest.raises(ZeroDivisionError), locked(folder):
        _ = 1 / 0
    with locked(folder):
        pass


def test_an_error_within_a_held_folder_is_not_mistaken_for_the_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), locked(tmp_path):
        raise BlockingIOError


def test_the_journal_is_on_disk_before_the_next_question(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    write(path, *LINES)
    assert len(synced) == 4
    assert synced[-1] == path.stat().st_size
