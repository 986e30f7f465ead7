"""What can go wrong on the command line itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from qcapsnets.errors import QCapsNetsError


class CommandError(QCapsNetsError):
    """A command, a setting or a quantity that cannot be."""


class Interrupted(Exception):
    """Ctrl-C; the message says how to go on."""


@contextmanager
def interruptible(advice: str) -> Iterator[None]:
    """On Ctrl-C, stop with this advice."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(advice) from None
