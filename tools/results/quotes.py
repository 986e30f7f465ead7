"""Quotes: the figures of findings.md are taken from the results, so that it cannot say others.

The file is a template. `{{ uniform("shallowcaps-mnist", 4, "nearest", "mse") }}` becomes the share
of images that are right with 4 bits everywhere, `{{ model("shallowcaps-mnist", "nearest-0.2-1of8")
| times }}` how many times smaller the weights of that run's model are.
"""

from dataclasses import dataclass

from jinja2 import Environment, StrictUndefined, TemplateError
from tools.results.rows import bits
from tools.results.section import Section
from tools.results.sweeps import Swept

from qcapsnets.errors import ReportError
from qcapsnets.framework import ModelReport, Result

IMAGES = 1000


class MissingError(LookupError):
    """A quoted result that is not there."""


@dataclass(frozen=True, eq=False)
class Quotes:
    """What a finding may quote."""

    sections: list[Section]

    def uniform(self, network: str, wordlength: int, rounding: str, points: str) -> str:
        """The share of the swept images that are right with the same wordlength everywhere."""
        panels = [p for p in self._section(network).panels if p.points == points]
        lines = [panel.line(rounding) for panel in panels]
        if not lines or lines[0] is None:
            raise MissingError(f"the sweep of {network} by {rounding} and {points}")
        return percent(lines[0].mean[wordlength])

    def lost(self, network: str, vary: str, wordlength: int) -> int:
        """Of a thousand images, those lost by short routing arrays or other activations alone."""
        section = self._section(network)
        swept: Swept | None = section.routing if vary == "routing" else section.activation
        if swept is None:
            raise MissingError(f"the sweep of {network}'s {vary}")
        return round(IMAGES * (swept.correct - swept.right[wordlength]) / swept.total)

    def run(self, network: str, folder: str) -> Result:
        """The result of a search, by its folder's name."""
        for run in self._section(network).runs:
            if run.search.folder == folder:
                return run.result
        raise MissingError(f"{folder} of {network}")

    def model(self, network: str, folder: str, name: str = "") -> ModelReport:
        """What a search chose: its only model, or the one of a name."""
        for model in self.run(network, folder).chosen:
            if name in ("", model.name):
                return model
        raise MissingError(f"{name} of {folder} of {network}")

    def _section(self, network: str) -> Section:
        for section in self.sections:
            if section.network.name == network:
                return section
        raise MissingError(f"anything of {network}")


def tested(model: ModelReport) -> str:
    """The share of the test images that are right."""
    if model.test is None:
        raise MissingError(f"the test of {model.name}")
    return percent(model.test.accuracy)


def times(model: ModelReport, kind: str = "weight") -> str:
    """How many times less memory the weights take, or the activations."""
    factor = model.weight_reduction if kind == "weight" else model.activation_reduction
    return f"{factor:.1f}"


def percent(share: float) -> str:
    """Without the sign."""
    return f"{100 * share:.2f}"


def quoted(words: str, sections: list[Section]) -> str:
    """The words with their figures; what is missing is said in their place."""
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # Markdown of our own
    environment.filters |= {"test": tested, "times": times, "percent": percent, "bits": bits}
    quotes = Quotes(sections)
    names = {"uniform": quotes.uniform, "lost": quotes.lost, "run": quotes.run}
    try:
        return environment.from_string(words).render(names, model=quotes.model)
    except MissingError as missing:
        return f"The findings are left out: they quote {missing}, which is not there."
    except TemplateError as problem:
        raise ReportError(f"findings.md has a quote that cannot be read: {problem}") from None
