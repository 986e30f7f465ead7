"""Files are there and whole, or not there; what was there before stays until then."""

import errno
import os
from pathlib import Path

import pytest

from qcapsnets.errors import ModelError, TrainingError
from qcapsnets.files import discard_leftovers, write_atomically


def test_text_and_bytes_are_written_with_their_folders(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "text", "é\n", ModelError)
    write_atomically(tmp_path / "a" / "b" / "bytes", b"\x00\xff", ModelError)
    assert (tmp_path / "a" / "b" / "text").read_bytes() == "é\n".encode()
    assert (tmp_path / "a" / "b" / "bytes").read_bytes() == b"\x00\xff"


def test_a_write_replaces_what_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    for content in ("old", "new"):
        write_atomically(tmp_path / "file", content, ModelError)
    assert (tmp_path / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("problem", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), TrainingError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["full disk", "Ctrl-C"],
)
def test_a_failed_write_keeps_the_old_content_and_no_half_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem: BaseException,
    raised: type[BaseException],
) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old", TrainingError)

    def fail(_: int) -> None:
        assert len(list(tmp_path.iterdir())) == 2  # the half file is there when it fails
        raise problem

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised):
        write_atomically(path, "new", TrainingError)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_names_the_file_and_the_reason_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(ModelError, match=r"cannot write .*taken/file: .*; free some space") as e:
        write_atomically(tmp_path / "taken" / "file", "new", ModelError)
    assert "\n" not in str(e.value)
    assert (tmp_path / "taken").read_text() == "a file where a folder should be"


def test_a_folder_in_the_place_of_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "folder" / "kept").mkdir(parents=True)
    with pytest.raises(ModelError, match="cannot write"):
        write_atomically(tmp_path / "folder", "new", ModelError)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_only_leftovers_of_killed_writers_are_discarded(tmp_path: Path) -> None:
    kept = [".model.tmp", "model.12.tmp", ".hidden", ".12.tmp.txt"]
    for name in [*kept, ".model.safetensors.4711.tmp"]:
        (tmp_path / name).write_text("")
    discard_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_folder_that_is_not_there_has_no_leftovers(tmp_path: Path) -> None:
    discard_leftovers(tmp_path / "missing")
