"""Quantities with units, read from text and never guessed: a bare number is refused."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from qcapsnets.cli.errors import CommandError

if TYPE_CHECKING:
    from qcapsnets.search.settings import Tolerance

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(\S.*)?", re.ASCII)

_BYTE = 8
MEMORY = {
    "bit": 1,
    "kbit": 10**3,
    "Mbit": 10**6,
    "Gbit": 10**9,
    "B": _BYTE,
    "kB": _BYTE * 10**3,
    "MB": _BYTE * 10**6,
    "GB": _BYTE * 10**9,
    "KiB": _BYTE * 2**10,
    "MiB": _BYTE * 2**20,
    "GiB": _BYTE * 2**30,
}
"""Bits in each unit. `Mb` is none of them: it is read as bits by some and as bytes by others."""

TOLERANCE = {"%": False, "pp": True}
"""Whether the unit is absolute: `%` of the float accuracy, or percentage points."""


def memory(text: str) -> int:
    """`45Mbit`, `5.6MB` or `5.4MiB` in bits; part of a bit does not count."""
    number, unit = _split(text, "an amount of memory", MEMORY, "45Mbit, 5.6MB or 5.4MiB")
    bits = int(number * MEMORY[unit])
    if bits < 1:
        raise CommandError(f"{text!r} is less than one bit: give more memory")
    return bits


def tolerance(text: str) -> "Tolerance":
    """`0.2%` of the float accuracy, or `0.2pp`: percentage points, whatever the accuracy is."""
    number, unit = _split(text, "a tolerance", TOLERANCE, "0.2% or 0.2pp")
    if number > 100:
        raise CommandError(f"{text!r} is more than there is to lose: give at most 100{unit}")
    from qcapsnets.search.settings import Tolerance

    return Tolerance(float(number / 100), absolute=TOLERANCE[unit])


def _split(
    text: str, what: str, units: dict[str, int] | dict[str, bool], example: str
) -> tuple[Decimal, str]:
    """The number and the unit of a quantity."""
    match = _QUANTITY.fullmatch(text.strip())
    allowed = ", ".join(units)
    if match is None:
        raise CommandError(f"{text!r} is not {what}: write a number and a unit, as in {example}")
    number, unit = match.groups()
    if unit is None:
        raise CommandError(f"{text!r} has no unit: add one of {allowed}, as in {example}")
    if unit not in units:
        raise CommandError(f"{text!r} has an unknown unit {unit!r}: the units are {allowed}")
    return Decimal(number), unit
