"""The page: docs/results.md and its figures, from what has been computed so far."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tools.results.quotes import quoted
from tools.results.rows import Run, bits, routing
from tools.results.section import DASH, Section, passes, read_section
from tools.results.wanted import Wanted

from qcapsnets.errors import ReportError
from qcapsnets.files import write_atomically
from qcapsnets.framework import ModelReport
from qcapsnets.report.words import memory

HERE = Path(__file__).parent
TEMPLATE = "page.md.j2"
PAGE, FIGURES = "results.md", "figures"


def accuracy(model: ModelReport) -> str:
    """On the test images, with the 95 % interval."""
    test = model.test
    if test is None:
        return DASH
    return f"{100 * test.accuracy:.2f} ({100 * test.low:.2f} to {100 * test.high:.2f})"


def lost(model: ModelReport, run: Run) -> str:
    """Points of accuracy on the test images, against the float network."""
    if model.test is None:
        return DASH
    return f"{100 * (run.result.float_test.accuracy - model.test.accuracy):.2f}"


def render(sections: list[Section], wanted: Wanted, findings: str) -> str:
    """The page as Markdown."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown from our own numbers
    )
    environment.filters |= {
        "accuracy": accuracy,
        "bits": bits,
        "lost": lost,
        "routing": routing,
        "memory": memory,
        "passes": passes,
    }
    template = environment.get_template(TEMPLATE)
    return template.render(sections=sections, wanted=wanted, findings=findings, figures=FIGURES)


def write_page(wanted: Wanted, results: Path, docs: Path, findings: Path) -> list[str]:
    """Write the page and its figures; the names of the networks on it."""
    found = (read_section(network, wanted, results) for network in wanted.networks)
    sections = [section for section in found if section is not None]
    words = findings.read_text(encoding="utf-8").strip() if findings.exists() else ""
    words = quoted(words, sections)
    for section in sections:
        for name, svg in section.figures().items():
            write_atomically(docs / FIGURES / name, svg, ReportError)
    write_atomically(docs / PAGE, render(sections, wanted, words), ReportError)
    return [section.network.name for section in sections]
