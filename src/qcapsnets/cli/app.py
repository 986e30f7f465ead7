"""The program: its commands, and what becomes of an error.

Nothing here or in the files of the commands imports torch before a command runs, so that help
and completion are quick. A command is a function in a file of its own, added below.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from qcapsnets import __version__
from qcapsnets.cli import (
    compare,
    data,
    demo,
    evaluate,
    export,
    inspect,
    models,
    quantize,
    report,
    train,
    verify,
)
from qcapsnets.cli.errors import Interrupted
from qcapsnets.errors import QCapsNetsError

NAME = "qcapsnets"
BAD_INPUT = 2
INTERRUPTED = 130
AGAIN = "interrupted: run the same command again"

app = typer.Typer(
    name=NAME,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.add_typer(data.app, name="data")
COMMANDS = (models, train, evaluate, quantize, report, compare, export, verify, inspect, demo)
for module in COMMANDS:
    app.command(module.NAME, epilog=module.EXAMPLE)(module.command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"{NAME} {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Capsule networks in fixed point: train, search wordlengths, pack, deploy, bit for bit."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (by default, the process's own); returns the exit code."""
    # Threads that wait by spinning make torch many times slower on a machine that others use too.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        code = get_command(app).main(arguments, prog_name=NAME, standalone_mode=False)
    except Interrupted as stop:
        return _end(f"interrupted: {stop}", INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        return _end(AGAIN, INTERRUPTED)
    except QCapsNetsError as error:
        return _end(f"error: {error}", BAD_INPUT)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # typer's own: a flag that is unknown ...
        if usage is None:
            raise
        return _end(f"error: {usage()}", BAD_INPUT) if usage() else BAD_INPUT
    if code == INTERRUPTED:
        return _end(AGAIN, INTERRUPTED)
    return code if isinstance(code, int) else 0


def _end(message: str, code: int) -> int:
    """One line, whatever the message is made of."""
    sys.stderr.write(" ".join(message.split()) + "\n")
    return code
