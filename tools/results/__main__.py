"""Compute what is missing, then write docs/results.md.

    python -m tools.results                    # all networks of zoo/results.toml that are there
    python -m tools.results --only NAME        # one of them
    python -m tools.results --page             # only the page, from what there is

It can be interrupted at any time; the next call goes on where it stopped.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tools.results.bench import Bench
from tools.results.literal import costs_known, write_costs
from tools.results.page import PAGE, write_page
from tools.results.sweeps import curves, sweep, swept_already
from tools.results.wanted import Network, Wanted, read_wanted

from qcapsnets.cli.output import Output, Report
from qcapsnets.errors import QCapsNetsError
from qcapsnets.evaluation import Measurement
from qcapsnets.search import Event

ROOT = Path(__file__).parents[2]


def compute(
    network: Network, wanted: Wanted, results: Path, output: Output, workers: int | None
) -> None:
    """All searches and sweeps of one network that are not there yet."""
    if not network.weights.exists():
        output.say(f"{network.name}: there is no {network.weights}, so it is left out")
        return
    bench = Bench.of(network, wanted, results)
    searches = list(wanted.searches(network))
    for search in searches:
        if not bench.done(search):
            with _progress(output, network, search.folder) as report:
                bench.run(search, workers, partial(_tell_search, report))
    for search in searches:
        if not costs_known(bench, search):
            with _progress(output, network, f"literal cost of {search.folder}") as report:
                write_costs(bench, search, partial(_tell_count, report, search.folder))
    for curve in curves(network, wanted):
        if not swept_already(bench, curve):
            with _progress(output, network, curve.file.removesuffix(".json")) as report:
                sweep(bench, curve, partial(_tell_sweep, report))


@contextmanager
def _progress(output: Output, network: Network, what: str) -> Iterator[Report]:
    title = f"{network.name}: {what}"
    with output.progress(title) as report:
        yield report
    output.say(f"{title} done")


def _tell_search(report: Report, event: Event) -> None:
    note = f"{event.rounding}, step {event.step}, {event.plan}"
    report.at(event.seen, event.total, note)


def _tell_count(report: Report, of: str, now: Measurement) -> None:
    report.at(now.seen, now.total, of)


def _tell_sweep(report: Report, wordlength: int, now: Measurement) -> None:
    _tell_count(report, f"{wordlength} bits", now)


def make(arguments: argparse.Namespace) -> None:
    """Everything that the command line asks for."""
    output, wanted = Output(quiet=arguments.quiet), read_wanted(arguments.wanted)
    for network in wanted.networks:
        if not arguments.page and arguments.only in (None, network.name):
            compute(network, wanted, arguments.results, output, arguments.workers)
    findings = arguments.wanted.parent / "findings.md"
    names = write_page(wanted, arguments.results, arguments.docs, findings)
    output.say(f"{arguments.docs / PAGE} tells of {', '.join(names) or 'nothing yet'}")


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.results", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--wanted", type=Path, default=ROOT / "zoo" / "results.toml")
    parser.add_argument("--results", type=Path, default=ROOT / "zoo" / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--only", metavar="NAME", help="compute for this network alone")
    parser.add_argument("--page", action="store_true", help="compute nothing")
    parser.add_argument("--workers", type=int, default=None, help="schemes at a time")
    parser.add_argument("--quiet", action="store_true")
    try:
        make(parser.parse_args(given))
    except QCapsNetsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
