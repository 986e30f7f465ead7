"""The figures of the findings are those of the results."""

from pathlib import Path

import pytest
from tools.results import rows
from tools.results.quotes import quoted
from tools.results.section import Section, read_section
from tools.results.wanted import read_wanted

from qcapsnets.errors import ReportError

ZOO = Path(__file__).parents[2] / "zoo"
NAME = "shallowcaps-mnist"


@pytest.fixture(scope="module")
def section() -> Section:
    """What is kept of a network of the zoo."""
    wanted = read_wanted(ZOO / "results.toml")
    network = next(n for n in wanted.networks if n.name == NAME)
    found = read_section(network, wanted, ZOO / "results")
    assert found is not None
    return found


def test_the_figures_of_a_search(section: Section) -> None:
    run = next(run for run in section.nearest if run.result.path == "B")
    memory, accuracy = run.result.chosen
    assert memory.test is not None
    folder = f'"{NAME}", "{run.search.folder}"'
    quotes = {
        f"model({folder}) | times": f"{memory.weight_reduction:.1f}",
        f"model({folder}) | test": f"{100 * memory.test.accuracy:.2f}",
        f'model({folder}, "model_accuracy") | bits("weight")': rows.bits(accuracy, "weight"),
        f'model({folder}, "model_accuracy") | times("activation")': (
            f"{accuracy.activation_reduction:.1f}"
        ),
        f"run({folder}).float_test.accuracy | percent": "99.50",
    }
    words = "\n".join(f"{{{{ {quote} }}}}" for quote in quotes)
    assert quoted(words, [section]).splitlines() == list(quotes.values())


def test_the_figures_of_a_sweep(section: Section) -> None:
    (panel,) = (panel for panel in section.panels if panel.points == "output")
    line, routing = panel.line("nearest"), section.routing
    assert line is not None
    assert routing is not None
    words = '{{ uniform("shallowcaps-mnist", 4, "nearest", "output") }} %'
    assert quoted(words, [section]) == f"{100 * line.mean[4]:.2f} %"
    lost = 1000 * (routing.correct - routing.right[2]) / routing.total
    words = '{{ lost("shallowcaps-mnist", "routing", 2) }} of 1,000'
    assert quoted(words, [section]) == f"{round(lost)} of 1,000"


@pytest.mark.parametrize(
    ("quote", "missing"),
    [
        ('model("large", "nearest-1-1of4")', "anything of large"),
        (f'run("{NAME}", "nearest-77-1of4")', f"nearest-77-1of4 of {NAME}"),
        (
            f'model("{NAME}", "nearest-1-1of4", "model_memory")',
            f"model_memory of nearest-1-1of4 of {NAME}",
        ),
        (
            f'uniform("{NAME}", 3, "nearest", "max")',
            f"the sweep of {NAME} by nearest and max",
        ),
    ],
)
def test_findings_about_what_is_not_there_are_left_out(
    section: Section, quote: str, missing: str
) -> None:
    words = quoted(f"Capsules are round: {{{{ {quote} }}}}.", [section])
    assert words == f"The findings are left out: they quote {missing}, which is not there."


@pytest.mark.parametrize("words", ["{{ sweet(3) }}", "{{ uniform( }}"])
def test_a_quote_that_cannot_be_read_is_named(words: str) -> None:
    with pytest.raises(ReportError, match="has a quote that cannot be read"):
        quoted(words, [])
