"""Executors: where the schemes of a search run. A cluster implements the same one method."""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from qcapsnets.errors import QCapsNetsError, SearchError
from qcapsnets.search.answers import Event
from qcapsnets.search.result import Outcome
from qcapsnets.search.scheme import Job, run

Observe = Callable[[Event], None]


class Executor(ABC):
    """Runs independent jobs and returns their outcomes in the same order."""

    @abstractmethod
    def run(self, jobs: Sequence[Job], observe: Observe | None = None) -> list[Outcome]:
        """All jobs; each journals its own progress, so a job that died can be run again."""


class Serial(Executor):
    """One after the other, in this process."""

    def run(self, jobs: Sequence[Job], observe: Observe | None = None) -> list[Outcome]:
        return [run(job, observe) for job in jobs]


class Processes(Executor):
    """As many at a time as there are cores, which they share.

    Each job has a process of its own, which imports what it needs: a scheme or a strategy of a
    user's must be registered by an entry point or when the main module is imported.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or _cores()

    def run(self, jobs: Sequence[Job], observe: Observe | None = None) -> list[Outcome]:
        workers = min(self.workers, len(jobs))
        if workers <= 1:
            return Serial().run(jobs, observe)
        threads = max(1, torch.get_num_threads() // workers)
        waiting, running = deque(enumerate(jobs)), dict[Connection, _Worker]()
        outcomes: dict[int, Outcome] = {}
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    worker = _Worker(*waiting.popleft(), threads)
                    running[worker.connection] = worker
                for ready in wait(list(running)):
                    worker = running[ready]  # type: ignore[index]  # it waits for these alone
                    message = worker.receive()
                    if isinstance(message, Outcome):
                        outcomes[worker.index] = message
                        worker.stop()
                        del running[worker.connection]
                    elif observe is not None:
                        observe(message)
        finally:
            for worker in running.values():
                worker.stop()
        return [outcomes[index] for index in range(len(jobs))]


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Worker:
    """A process that runs one job and tells of it."""

    def __init__(self, index: int, job: Job, threads: int) -> None:
        self.index, self.rounding = index, job.rounding
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe(duplex=False)
        # as plain bytes: PyTorch would pass tensors through shared memory, which can be small
        arguments = pickle.dumps(job), other, threads
        self.process: SpawnProcess = context.Process(target=_work, args=arguments, daemon=True)
        with _interrupts_held():
            self.process.start()
        other.close()

    def receive(self) -> Outcome | Event:
        """The next that the process tells; the error that ended it is raised."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            raise SearchError(
                f"the process that searched with {self.rounding} rounding ended "
                f"{_how(self.process.exitcode)}; run it again, it goes on where it stopped"
            ) from None
        if isinstance(message, QCapsNetsError):
            raise message
        if isinstance(message, str):
            raise RuntimeError(f"the search with {self.rounding} rounding failed:\n{message}")
        return message  # type: ignore[no-any-return]  # an outcome or an event

    def stop(self) -> None:
        """End the process, whatever it does, and wait until it has."""
        self.process.terminate()
        self.process.join()
        self.connection.close()


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"with exit code {code}"
    name = signal.Signals(-code).name
    return f"by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until this is over, and never reaches processes that are started meanwhile.

    A terminal sends it to all; the first process alone decides what becomes of the others.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(job: bytes, connection: Connection, threads: int) -> None:
    _end_with_parent()
    torch.set_num_threads(threads)
    message: Any
    try:
        message = run(pickle.loads(job), connection.send)
    except QCapsNetsError as error:
        message = error
    except Exception:  # a bug: its traceback is for the first process to show
        message = traceback.format_exc()
    connection.send(message)


def _end_with_parent() -> None:
    """End at once when the first process does, even by kill -9: nobody else reads the answer."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
