"""Lines that several processes share: whole ones stay, a cut one goes, a damaged one is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.search.searching import PROCESSES

from qcapsnets.errors import SearchError
from qcapsnets.search.shared import SharedLines

IDENTITY = {"model": "abc", "seed": 0}
LINES: list[dict[str, Any]] = [{"n": 1}, {"n": 2, "text": "ä"}, {"n": 3}]


def shared(folder: Path, **changes: Any) -> SharedLines:
    return SharedLines(folder, "nearest", IDENTITY | changes)


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    file = shared(folder)
    for line in lines:
        file.append(line)
    return file.path


def test_lines_come_back_in_order_to_all(tmp_path: Path) -> None:
    first, second = shared(tmp_path), shared(tmp_path)
    assert list(first.new()) == []
    first.append(LINES[0])
    second.append(LINES[1])
    assert list(second.new()) == LINES[:2]
    first.append(LINES[2])
    assert list(first.new()) == LINES
    assert list(second.new()) == LINES[2:]
    assert list(second.new()) == []
    assert json.loads(first.path.read_text().splitlines()[0]) == IDENTITY


def test_other_things_lie_in_other_files(tmp_path: Path) -> None:
    write(tmp_path, *LINES)
    assert list(shared(tmp_path, seed=1).new()) == []
    assert shared(tmp_path, seed=1).path != shared(tmp_path).path


def test_a_file_under_the_wrong_name_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, *LINES)
    other = shared(tmp_path, seed=1)
    path.rename(other.path)
    with pytest.raises(SearchError, match="its seed is 0, not 1"):
        list(other.new())


def test_a_file_cut_anywhere_keeps_its_whole_lines(tmp_path: Path) -> None:
    path = write(tmp_path, *LINES)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        whole = LINES[: max(0, content[:length].count(b"\n") - 1)]
        reader = shared(tmp_path)
        assert list(reader.new()) == whole
        shared(tmp_path).append({"n": 9})
        assert list(reader.new()) == [{"n": 9}]
        assert list(shared(tmp_path).new()) == [*whole, {"n": 9}]


@pytest.mark.parametrize("garbage", [b"\x00\xff{]\n", b"12\n", b"[]\n", b"null\n"])
def test_a_damaged_line_is_named(tmp_path: Path, garbage: bytes) -> None:
    path = write(tmp_path, *LINES[:2])
    with path.open("ab") as file:
        file.write(garbage + b'{"n": 3}\n')
    with pytest.raises(SearchError, match=f"line 4 of {path} is damaged: remove that line"):
        list(shared(tmp_path).new())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SearchError, match="choose a folder that can be written"):
        shared(tmp_path / "file").append({})


def test_many_writers_at_once(tmp_path: Path) -> None:
    writers = [PROCESSES.Process(target=write_many, args=(tmp_path, name)) for name in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    found = list(shared(tmp_path).new())
    for name in range(3):
        assert [line["n"] for line in found if line["by"] == name] == list(range(50))


def write_many(folder: Path, name: int) -> None:
    file = shared(folder)
    for n in range(50):
        file.append({"by": name, "n": n, "text": "x" * 500})
