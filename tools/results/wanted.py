"""What is wanted: networks from a TOML file, and the searches that each of them is put through."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from qcapsnets.cli import units
from qcapsnets.errors import ReportError
from qcapsnets.fixedpoint.calibration import Points
from qcapsnets.fixedpoint.rounding import roundings
from qcapsnets.search import Settings
from qcapsnets.search.settings import Mode

FLOAT_BITS = 32
BY_SIZE = "by-size"
NEAREST = ("nearest", "nearest-even")

T = TypeVar("T")


@dataclass(frozen=True)
class Network:
    """A trained network, and what is published of its like (a key of published.toml)."""

    name: str
    title: str
    weights: Path
    data: str
    published: str = ""
    own_budgets: tuple[str, ...] = ()
    """Budgets of somebody else's, searched with all schemes."""
    by_size_budgets: tuple[int, ...] = ()
    """Searched again, with both ways to round to nearest, with bits by size."""
    by_size_tolerances: tuple[str, ...] | None = None
    """Those of all searches, if not given."""
    literal: bool = False
    """Whether the literal algorithm is run too, once."""
    rounding_sweep: bool = True
    routing_sweep: bool = True


@dataclass(frozen=True)
class Wanted:
    """Networks, constraints and sweeps. A budget of n is 1/n of FP32."""

    networks: tuple[Network, ...]
    search_images: int = 5000
    sweep_images: int = 2000
    calibration_images: int = 500
    search_points: Points = "output"
    tolerances: tuple[str, ...] = ("0.1%", "0.2%", "0.5%", "1%")
    budgets: tuple[int, ...] = (4, 6, 8, 10, 12, 16)
    all_schemes_tolerance: str = "0.2%"
    all_schemes_budgets: tuple[int, ...] = (6, 10)
    wordlengths: tuple[int, ...] = (8, 7, 6, 5, 4, 3, 2)
    points: tuple[Points, ...] = ("unit", "mse", "output")
    seeds: int = 5

    def searches(self, network: Network) -> Iterator["Search"]:
        """All searches of a network, those that others can share first."""
        yield from _shares(self.tolerances, self.budgets)
        tolerance = self.all_schemes_tolerance
        by_size = _shares(network.by_size_tolerances or self.tolerances, network.by_size_budgets)
        own = [Search(tolerance, b, ("nearest",)) for b in network.own_budgets]
        for search in (*by_size, *own):
            yield replace(search, roundings=NEAREST, strategy=BY_SIZE)
        everything = tuple(roundings)
        budgets = [f"1/{share}" for share in self.all_schemes_budgets]
        for budget in (*budgets, *network.own_budgets):
            yield Search(tolerance, budget, everything)
        if network.literal:
            yield Search(tolerance, budgets[0], ("nearest",), "literal")


@dataclass(frozen=True)
class Search:
    """One search: a row of the table. The budget is 1/n of FP32, or with a unit (`45Mbit`)."""

    tolerance: str
    budget: str
    roundings: tuple[str, ...]
    mode: Mode = "fast"
    strategy: str = "paper"

    @property
    def kind(self) -> str:
        """What tells it from others with the same constraints."""
        if self.mode != "fast":
            return self.mode
        if self.strategy != "paper":
            return self.strategy
        return "all" if len(self.roundings) > 1 else self.roundings[0]

    @property
    def folder(self) -> str:
        """A name for its run."""
        return f"{self.kind}-{self.tolerance.rstrip('%')}-{self.budget.replace('/', 'of')}"

    def bits(self, parameters: int) -> int:
        """The budget of a network with so many weights and biases."""
        if self.budget.startswith("1/"):
            return FLOAT_BITS * parameters // int(self.budget.removeprefix("1/"))
        return units.memory(self.budget)

    def settings(self, parameters: int, wanted: Wanted) -> Settings:
        """What the search itself is told."""
        return Settings(
            tolerance=units.tolerance(self.tolerance),
            budget=self.bits(parameters),
            roundings=self.roundings,
            points=wanted.search_points,
            mode=self.mode,
            strategy=self.strategy,
            calibration_images=wanted.calibration_images,
        )


def _shares(tolerances: tuple[str, ...], budgets: tuple[int, ...]) -> Iterator[Search]:
    """Rounding to nearest with every tolerance and every budget."""
    for tolerance in tolerances:
        for share in budgets:
            yield Search(tolerance, f"1/{share}", ("nearest",))


def read_wanted(path: Path) -> Wanted:
    """Read the TOML file; a path in it is seen from the file's own folder."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ReportError(f"cannot read {path}: {problem.strerror}") from None
    except tomllib.TOMLDecodeError as problem:
        raise ReportError(f"{path} is not TOML: {problem}") from None
    tables = content.pop("network", [])
    networks = tuple(
        _made(Network, table | {"weights": path.parent / table.get("weights", "")}, path)
        for table in tables
    )
    return _made(Wanted, content | {"networks": networks}, path)


def _made(kind: type[T], values: dict[str, Any], path: Path) -> T:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise ReportError(f"{path} has an unknown setting {name!r}: known are {sorted(known)}")
    tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return kind(**tuples)
    except TypeError as problem:
        raise ReportError(f"{path} lacks a setting: {problem}") from None
