"""Executors: where the schemes of a search run. A cluster implements the same one method."""

import multiprocessing
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

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
    """As many at a time as there are cores, which they share."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def run(self, jobs: Sequence[Job], observe: Observe | None = None) -> list[Outcome]:
        workers = min(self.workers, len(jobs))
        if workers <= 1:
            return Serial().run(jobs, observe)
        context = multiprocessing.get_context("spawn")
        events = context.Queue()
        listener = threading.Thread(target=_listen, args=(events, observe), daemon=True)
        listener.start()
        threads = max(1, torch.get_num_threads() // workers)
        try:
            with ProcessPoolExecutor(
                workers, context, initializer=_prepare, initargs=(threads, events)
            ) as pool:
                return list(pool.map(_work, jobs))
        finally:
            events.put(None)
            listener.join()


_events: Any = None


def _prepare(threads: int, events: Any) -> None:
    global _events
    _events = events
    torch.set_num_threads(threads)


def _work(job: Job) -> Outcome:
    return run(job, _events.put)


def _listen(events: Any, observe: Observe | None) -> None:
    while (event := events.get()) is not None:
        if observe is not None:
            observe(event)
