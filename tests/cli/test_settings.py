"""Settings: read, checked, merged, written, and read again."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcapsnets.cli.errors import CommandError
from qcapsnets.cli.settings import merge, pairs, read_settings, write_settings
from qcapsnets.cli.train import TrainSettings


@dataclass(frozen=True)
class Some:
    name: str = "x"
    count: int = 1
    rate: float = 0.5
    on: bool = True
    limit: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path, "train", Some)


def test_a_plain_file(tmp_path: Path) -> None:
    assert read(tmp_path, 'name = "y"\nrate = 2\nlimit = 3\n[options]\na = 1') == {
        "name": "y",
        "rate": 2.0,
        "limit": 3,
        "options": {"a": 1},
    }


def test_a_file_with_tables(tmp_path: Path) -> None:
    text = "[quantize]\nbudget = '1Mbit'\n[train]\ncount = 4\n"
    assert read(tmp_path, text) == {"count": 4}
    assert read(tmp_path, "[quantize]\nbudget = '1Mbit'\n") == {}


def test_dashes_are_underscores() -> None:
    assert merge(TrainSettings, {"batch_size": 3}).batch_size == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cuont = 4", "unknown setting 'cuont': the settings are name, count, rate"),
        ("count = 'four'", "count in .* is 'four': it must be of type int"),
        ("count = true", "count in .* is True: it must be of type int"),
        ("on = 1", "on in .* is 1: it must be of type bool"),
        ("count = ", "is not TOML"),
        ("train = 4", r"train in .* is 4: make it a table, \[train\]"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        read(tmp_path, text)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"there is no settings file .*none\.toml"):
        read_settings(tmp_path / "none.toml", "train", Some)
    with pytest.raises(CommandError, match="cannot be read"):
        read_settings(tmp_path, "train", Some)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="is not TOML"):
        read_settings(tmp_path / "bytes.toml", "train", Some)


def test_later_sources_win_and_none_is_not_given() -> None:
    merged = merge(Some, {"count": 2, "name": "a"}, {"count": 3}, {"count": None, "name": None})
    assert (merged.count, merged.name) == (3, "a")


@given(
    name=st.text(),
    rate=st.floats(allow_nan=False, allow_infinity=False),
    options=st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), st.text() | st.integers()),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, name: str, rate: float, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "settings.toml"
    path.unlink(missing_ok=True)
    written = Some(name=name, rate=rate, on=False, options=options)
    write_settings(path, "train", written)
    assert merge(Some, read_settings(path, "train", Some)) == written


def test_tables_of_other_commands_stay(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    write_settings(path, "quantize", Some(count=7))
    write_settings(path, "train", Some(count=8))
    content = tomllib.loads(path.read_text())
    assert (content["quantize"]["count"], content["train"]["count"]) == (7, 8)


def test_pairs() -> None:
    given = ["a=1", "b = 0.5", "c=true", "d=text", "e-f=[1]"]
    assert pairs(given, "--option") == {"a": 1, "b": 0.5, "c": True, "d": "text", "e_f": "[1]"}
    assert pairs(None, "--option") is None


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_no_pair(text: str) -> None:
    with pytest.raises(CommandError, match=r"--option .* is not of the form name=value"):
        pairs([text], "--option")
