"""Searches that end in every bad way, and go on as if nothing had happened."""

import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.search import searching
from tests.search.searching import PROCESSES, in_a_process, lines, result_in

from qcapsnets.data import Splits
from qcapsnets.errors import SearchError
from qcapsnets.models import CapsNet

KILLS = 20
CHANGES: dict[str, Any] = {"roundings": ["truncation", "stochastic"]}


@pytest.fixture(scope="module")
def straight(net: CapsNet, digits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("straight")
    searching.search(net, digits, folder, roundings=("truncation", "stochastic"))
    return folder


@pytest.fixture
def started() -> Iterator[list[BaseProcess]]:
    """Processes that do not survive the test."""
    processes: list[BaseProcess] = []
    yield processes
    for process in processes:
        process.kill()
        process.join()


def journals(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {path.name: lines(path) for path in sorted((folder / "journal").glob("*.jsonl"))}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "journal").glob("*.jsonl"))


def wait_until(condition: Any, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def start(started: list[BaseProcess], *arguments: Any) -> BaseProcess:
    process = PROCESSES.Process(target=in_a_process, args=arguments)
    process.start()
    started.append(process)
    return process


def assert_same(folder: Path, straight: Path) -> None:
    """Nothing but the effort tells that a run was interrupted, and no image was counted twice."""
    assert result_in(folder) == result_in(straight)
    assert journals(folder) == journals(straight)
    for found in journals(folder).values():
        ranges = defaultdict(list)
        for line in found:
            ranges[str(line["plan"])].append((line["from"], line["seen"]))
        for spans in ranges.values():
            assert spans[0][0] == 0
            assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert not list(folder.rglob(".*.tmp"))


def test_kill_9_twenty_times(
    net_file: Path, straight: Path, tmp_path: Path, started: list[BaseProcess]
) -> None:
    source, kills, folder = random.Random(0), 0, tmp_path / "run0"
    while True:
        process = start(started, folder, net_file, CHANGES)
        before = size(folder) if folder.exists() else 0
        grown = lambda: size(folder) > before or not process.is_alive()  # noqa: B023, E731
        assert wait_until(grown)
        if kills < KILLS:
            process.join(source.uniform(0, 0.25))
        else:
            process.join(120)
        if process.is_alive():
            process.kill()
            process.join()
            kills += 1
        else:
            assert process.exitcode == 0
            assert_same(folder, straight)
            if kills >= KILLS:
                break
            folder = tmp_path / f"run{kills}"


def test_a_second_process_is_refused(
    net: CapsNet,
    digits: Splits,
    net_file: Path,
    straight: Path,
    tmp_path: Path,
    started: list[BaseProcess],
) -> None:
    process = start(started, tmp_path, net_file, CHANGES)
    assert wait_until(lambda: size(tmp_path) > 0)
    os.kill(process.pid or 0, signal.SIGSTOP)
    try:
        with pytest.raises(SearchError, match=f"another process works in {tmp_path}: wait for it"):
            searching.search(net, digits, tmp_path, **CHANGES)
    finally:
        os.kill(process.pid or 0, signal.SIGCONT)
    process.join(120)
    assert process.exitcode == 0
    assert_same(tmp_path, straight)


def test_a_full_disk(
    net_file: Path, straight: Path, tmp_path: Path, started: list[BaseProcess]
) -> None:
    journal = tmp_path / "journal" / "truncation.jsonl"
    process = start(started, tmp_path, net_file, CHANGES)
    assert wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 2)
    process.kill()
    process.join()
    whole = lines(journal)
    largest = journal.stat().st_size + 100  # no line is so short
    full = start(started, tmp_path, net_file, CHANGES, 1, largest)
    full.join(120)
    assert full.exitcode == 2
    assert (tmp_path / "error").read_text() == (
        f"cannot write {journal}: File too large; free some space and run it again, "
        "it goes on where it stopped"
    )
    assert journal.stat().st_size == largest  # with a line that is cut
    start(started, tmp_path, net_file, CHANGES).join(120)
    assert journals(tmp_path)["truncation.jsonl"][: len(whole)] == whole
    assert_same(tmp_path, straight)
