"""Trainings in processes of their own, to be killed, starved of disk or run side by side.

They are forked from a server that has loaded PyTorch once, so that each starts in an instant.
"""

import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
from tests.networks import small_digits, tiny_deep

from qcapsnets.data import Augmentation
from qcapsnets.errors import QCapsNetsError
from qcapsnets.training import Progress, Recipe, train

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["qcapsnets.training"])

RECIPE = Recipe(epochs=3, batch_size=20, decoder=None, checkpoint_every=3)
"""On 125 images: seven steps an epoch, the last on five images, 21 in all."""


@dataclass(frozen=True)
class Job:
    """A training in `folder`; at its n-th write it kills itself, and files have a largest size."""

    folder: Path
    killed_in_write: int | None = None
    largest_file: int | None = None


def run(job: Job, messages: Connection) -> None:
    """Train; send each step, then how it ended."""
    torch.set_num_threads(1)
    if job.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job.largest_file, job.largest_file))
    if job.killed_in_write is not None:
        _kill_in_write(job.killed_in_write)

    def observe(progress: Progress) -> None:
        messages.send(progress.step)

    digits = small_digits(train=125, others=30)
    augmentation = Augmentation(shift=2, rotate=10)
    try:
        train(tiny_deep(), digits, RECIPE, job.folder, augmentation=augmentation, observe=observe)
        messages.send("done")
    except KeyboardInterrupt:
        messages.send("interrupted")
    except QCapsNetsError as error:
        messages.send(f"{type(error).__name__}: {error}")


def _kill_in_write(number: int) -> None:
    """Kill this process when it has written a file for the n-th time, but not yet renamed it."""
    written = 0
    fsync = os.fsync

    def counting(fd: Any) -> None:
        nonlocal written
        written += 1
        fsync(fd)
        if written == number:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = counting


@contextmanager
def started(job: Job) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """A process that does the job, and its messages."""
    messages, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=run, args=(job, sender))
    process.start()
    sender.close()
    try:
        yield process, messages
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        messages.close()


def ended(job: Job) -> str:
    """Do the job to its end; the last message."""
    message: object = None
    with started(job) as (process, messages):
        try:
            while True:
                message = messages.recv()
        except EOFError:
            process.join()
    return f"{message}" if isinstance(message, str) else f"ended by {-(process.exitcode or 0)}"
