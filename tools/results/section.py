"""A section of the page: everything that has been found of one network."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.results import figures
from tools.results.bench import folder_of
from tools.results.findings import Panel, panels, rounding_words, routing_words, varied
from tools.results.rows import Run, path_words, read_runs, smallest
from tools.results.sweeps import Swept, read_sweeps
from tools.results.wanted import BY_SIZE, Network, Wanted

from qcapsnets.errors import ReportError
from qcapsnets.framework import ModelReport
from qcapsnets.models.weights import load_model

PUBLISHED = Path(__file__).parent / "published.toml"
DASH = "-"


@dataclass(frozen=True, eq=False)
class Section:
    """Everything that the page says of one network."""

    network: Network
    runs: list[Run]
    panels: list[Panel]
    routing: Swept | None
    activation: Swept | None
    published: dict[str, Any]

    @property
    def nearest(self) -> list[Run]:
        """The searches by rounding to nearest alone."""
        return [run for run in self.runs if run.search.kind == "nearest"]

    @property
    def all_schemes(self) -> list[Run]:
        return [run for run in self.runs if run.search.kind == "all"]

    @property
    def by_size(self) -> list[Run]:
        """The searches with bits by size."""
        return [run for run in self.runs if run.search.kind == BY_SIZE]

    @property
    def literal(self) -> list[Run]:
        """The searches that were made by the literal algorithm."""
        return [run for run in self.runs if run.search.kind == "literal"]

    def best(self, tolerance: str) -> dict[str, tuple[Run, ModelReport]]:
        """The smallest model within a tolerance, by how bits were handed out."""
        kinds = {
            "the paper's rule": (*self.nearest, *self.all_schemes),
            "bits by size": self.by_size,
        }
        within = {
            kind: smallest(run for run in runs if run.search.tolerance == tolerance)
            for kind, runs in kinds.items()
        }
        return {kind: found for kind, found in within.items() if found is not None}

    @property
    def result(self) -> Any:
        """What all runs have in common is that of the first."""
        return self.runs[0].result

    @property
    def paths(self) -> list[str]:
        return path_words(self.nearest)

    @property
    def rounding_words(self) -> list[str]:
        return [rounding_words(panel) for panel in self.panels]

    @property
    def routing_words(self) -> str | None:
        if self.routing is None or self.activation is None:
            return None
        return routing_words(self.routing, self.activation)

    def literal_cost(self, run: Run) -> str:
        """What the literal algorithm needs, in passes over all images, and how that is known."""
        for other in self.literal:
            if other.search == replace(run.search, mode="literal"):
                return f"{passes(other.cost.images, run)} (run)"
        images = run.literal_images
        return DASH if images is None else f"{passes(images, run)} (worked out)"

    def figures(self) -> dict[str, bytes]:
        """SVG by file name; each only if there is something to draw."""
        name, drawn = self.network.name, dict[str, bytes]()
        if self.nearest:
            rows = self.published.get("paper", [])
            drawn["trade-off"] = figures.trade_off(name, self.nearest, self.by_size, rows)
        if self.panels:
            drawn["rounding"] = figures.rounding(name, self.panels)
        if self.routing is not None and self.activation is not None:
            drawn["routing"] = figures.routing(name, self.routing, self.activation)
        return {f"{name}-{kind}.svg": svg for kind, svg in drawn.items()}


def passes(images: int, run: Run) -> str:
    """Images as so many times all images that are searched on."""
    return f"{images / run.result.float_search.total:.1f}"


def read_section(network: Network, wanted: Wanted, results: Path) -> Section | None:
    """What there is of a network; nothing without its weights or a finished search."""
    if not network.weights.exists():
        return None
    model, _ = load_model(network.weights)
    folder = folder_of(network, wanted, results, model)
    runs = read_runs(folder, wanted.searches(network))
    if not runs:
        return None
    swept = read_sweeps(folder)
    return Section(
        network=network,
        runs=runs,
        panels=panels(swept),
        routing=varied(swept, "routing", wanted.search_points),
        activation=varied(swept, "activation", wanted.search_points),
        published=published(network.published),
    )


def published(key: str) -> dict[str, Any]:
    """Figures from elsewhere for a network; points lost against their own float accuracy."""
    if not key:
        return {}
    tables = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    if key not in tables:
        raise ReportError(f"nothing is published of {key!r}: known are {', '.join(tables)}")
    table: dict[str, Any] = tables[key]
    for row in [*table.get("paper", []), *table.get("later", [])]:
        row["lost"] = table["float"] - row["accuracy"]
    return table
