"""The command line: one file for each command, and nothing heavy imported before it is needed."""

from qcapsnets.cli.app import main

__all__ = ["main"]
