"""Schemes in processes of their own: the same outcomes, and an end to all when one ends."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.search import searching
from tests.search.searching import lines, result_in

from qcapsnets.data import Splits
from qcapsnets.errors import SearchError
from qcapsnets.models import CapsNet
from qcapsnets.search import Event, Processes

SCHEMES = ("truncation", "nearest")


@pytest.fixture(scope="module")
def serial(net: CapsNet, digits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in one process."""
    folder = tmp_path_factory.mktemp("serial")
    searching.search(net, digits, folder, roundings=SCHEMES)
    return folder


def assert_same(folder: Path, other: Path) -> None:
    assert result_in(folder) == result_in(other)
    for name in SCHEMES:
        journal = Path("journal") / f"{name}.jsonl"
        assert lines(folder / journal) == lines(other / journal)


def no_children() -> bool:
    return not multiprocessing.active_children()


def test_processes_find_what_one_process_finds(
    net: CapsNet, digits: Splits, serial: Path, tmp_path: Path
) -> None:
    events: list[Event] = []
    weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    searching.search(
        net, digits, tmp_path, executor=Processes(2), observe=events.append, roundings=SCHEMES
    )
    assert_same(tmp_path, serial)
    assert no_children()
    for name in SCHEMES:
        of_scheme = [event for event in events if event.rounding == name]
        images = [event.images for event in of_scheme]
        assert images == sorted(set(images))
        steps = list(dict.fromkeys(event.step for event in of_scheme))
        assert steps[:2] == ["1", "2"]
        assert of_scheme[-1].plans > 3
        assert "% with conv" in of_scheme[-1].best
    assert all(torch.equal(weights[name], tensor) for name, tensor in net.state_dict().items())


def test_an_error_in_a_worker_is_one_line(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    journal = tmp_path / "journal" / "nearest.jsonl"
    journal.parent.mkdir()
    journal.write_text(json.dumps({"version": "0.0.0"}) + "\n")
    with pytest.raises(SearchError) as caught:
        searching.search(net, digits, tmp_path, executor=Processes(2), roundings=SCHEMES)
    assert str(caught.value).startswith(f'{journal} is of another search: its version is "0.0.0"')
    assert "\n" not in str(caught.value)
    assert no_children()


def test_a_worker_that_dies_is_told_and_its_work_is_not_lost(
    net: CapsNet, digits: Splits, serial: Path, tmp_path: Path
) -> None:
    seen: list[Event] = []

    def kill_all(event: Event) -> None:
        seen.append(event)
        if len(seen) == 20:
            for worker in multiprocessing.active_children():
                worker.kill()

    with pytest.raises(SearchError, match=r"ended by SIGKILL \(out of memory\?\); run it again"):
        searching.search(
            net, digits, tmp_path, executor=Processes(2), observe=kill_all, roundings=SCHEMES
        )
    assert no_children()
    searching.search(net, digits, tmp_path, roundings=SCHEMES)
    assert_same(tmp_path, serial)


class Group:
    """A parallel search in a group of processes of its own, as a shell would start it."""

    def __init__(self, folder: Path, net_file: Path) -> None:
        arguments = [str(folder), str(net_file), json.dumps({"roundings": SCHEMES}), "2"]
        self.folder, self.errors = folder, folder / "errors"
        with self.errors.open("w") as errors:
            self.first = subprocess.Popen(
                [sys.executable, "-m", "tests.search.start", *arguments],
                start_new_session=True,
                stderr=errors,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )

    def alive(self) -> bool:
        """Whether any of its processes is."""
        if self.first.poll() is None:
            return True
        try:
            os.killpg(self.first.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait_for_lines(self) -> None:
        """Until both schemes have measured something."""
        journals = [self.folder / "journal" / f"{name}.jsonl" for name in SCHEMES]
        end = time.monotonic() + 120
        while not all(path.exists() and path.read_bytes().count(b"\n") > 1 for path in journals):
            assert self.first.poll() is None, "it ended before it was to be ended"
            assert time.monotonic() < end
            time.sleep(0.01)

    def wait_for_end(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.alive() and time.monotonic() < end:
            time.sleep(0.02)
        return not self.alive()


@pytest.fixture
def group(tmp_path: Path, net_file: Path) -> Iterator[Group]:
    started = Group(tmp_path, net_file)
    yield started
    if started.alive():
        os.killpg(started.first.pid, signal.SIGKILL)
    started.first.wait()


@pytest.mark.parametrize("how", ["Ctrl-C", "kill -9"])
def test_all_processes_end_with_the_first(
    net: CapsNet, digits: Splits, serial: Path, group: Group, how: str
) -> None:
    group.wait_for_lines()
    if how == "Ctrl-C":
        os.killpg(group.first.pid, signal.SIGINT)
    else:
        group.first.kill()
    assert group.wait_for_end(seconds=20)
    if how == "Ctrl-C":  # the traceback of the first process alone
        errors = group.errors.read_text()
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")
    searching.search(net, digits, group.folder, roundings=SCHEMES)
    assert_same(group.folder, serial)
