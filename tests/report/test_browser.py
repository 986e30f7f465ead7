"""The pages in a real browser: opened from disk, hovered, switched, printed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report import browser
from tests.report.browser import Browser
from tests.report.conftest import Ran

from qcapsnets.report import write_comparison

ABSENT = browser.missing()
pytestmark = pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))

BACKGROUND = "return getComputedStyle(document.body).backgroundColor"
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def driver() -> Iterator[str]:
    with browser.driver() as address:
        yield address


@pytest.fixture(scope="module")
def desktop(driver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser.browser(driver, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def page(desktop: Browser, report_a: Path) -> Browser:
    desktop.open(report_a)
    return desktop


def well_behaved(page: Browser) -> None:
    """Nothing to complain of, nothing asked for."""
    assert page.console() == []
    assert page.requests() == []


def test_it_opens_from_disk_without_a_word_or_a_request(page: Browser) -> None:
    undrawn = """
        const plots = [...document.querySelectorAll('.plot')];
        return plots.filter(plot => !plot.querySelector('.main-svg')).length"""
    assert page.run("return document.querySelectorAll('.plot').length") == 6
    assert page.run(undrawn) == 0
    well_behaved(page)


A_POINT = """
    const chart = document.querySelector('[data-chart="plans"]');
    chart.scrollIntoView({block: 'center', behavior: 'instant'});
    const points = chart.querySelectorAll('.scatterlayer .points path');
    const box = points[points.length - 2].getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2]"""


def tells_a_plan(page: Browser) -> None:
    page.wait("document.querySelector('.hoverlayer .hovertext')")
    text = page.run("return document.querySelector('.hoverlayer .hovertext').textContent")
    assert "conv: weights" in text
    assert "right" in text
    well_behaved(page)


def test_a_point_tells_its_plan_when_hovered(page: Browser) -> None:
    page.hover(*page.run(A_POINT))
    tells_a_plan(page)


def test_the_theme_switches_and_is_remembered(page: Browser, report_a: Path) -> None:
    colour = """
        const text = document.querySelector('[data-chart="plans"] .xtick text');
        return getComputedStyle(text).fill"""
    before = page.run(BACKGROUND), page.run(colour)
    assert page.run("return document.getElementById('theme').textContent").endswith("Dark")
    click(page, "#theme")
    page.wait("document.documentElement.dataset.theme === 'dark'")
    after = page.run(BACKGROUND), page.run(colour)
    assert all(old != new for old, new in zip(before, after, strict=True))
    page.open(report_a)
    assert page.run(BACKGROUND) == after[0]
    click(page, "#theme")
    assert page.run(BACKGROUND) == before[0]
    well_behaved(page)


PLANS = "document.querySelector('[data-chart=plans]')"
POINTS = f"return {PLANS}.querySelectorAll('.scatterlayer .points path').length"
VIEW = f"return {PLANS}.layout.yaxis.range"
COLOURS = f"""
    const marks = {PLANS}.querySelectorAll('.points path');
    return [...marks].map(m => getComputedStyle(m).stroke + getComputedStyle(m).fill).join()"""


def click(page: Browser, selector: str) -> None:
    page.run("document.querySelector(arguments[0]).click()", selector)


def test_the_controls_of_the_plans_work(page: Browser) -> None:
    every, near, colours = page.run(POINTS), page.run(VIEW), page.run(COLOURS)
    click(page, "[data-scheme]")
    assert page.run(POINTS) < every
    click(page, "[data-scheme]")
    assert page.run(POINTS) == every
    click(page, "[data-action=view] [value=all]")
    low, high = page.run(VIEW)
    assert low < near[0] < near[1] < high
    click(page, "[data-action=colour] [value=step]")
    assert page.run(COLOURS) != colours
    well_behaved(page)


def test_it_prints_its_figures(page: Browser, tmp_path: Path) -> None:
    page.tool("Emulation.setEmulatedMedia", media="print")
    try:
        shown = "return getComputedStyle(document.querySelector(arguments[0])).display"
        assert page.run(shown, ".plot") == "none"
        assert page.run(shown, ".bar") == "none"
        assert page.run(shown, "img.static") == "block"
        loaded = "return [...document.images].every(i => i.complete && i.naturalWidth > 0)"
        assert page.run(loaded)
    finally:
        page.tool("Emulation.setEmulatedMedia", media="")
    page.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_phone_at_night(driver: str, report_a: Path, tmp_path: Path) -> None:
    with browser.browser(driver, tmp_path, phone=True, dark=True) as phone:
        phone.open(report_a)
        assert phone.run("return innerWidth") == browser.PHONE["width"]
        assert phone.run(OVERFLOW) <= 0
        assert phone.run(BACKGROUND) == "rgb(16, 20, 26)"
        wide = """
            return [...document.querySelectorAll('.plot .main-svg')]
              .filter(svg => svg.getBoundingClientRect().right > innerWidth).length"""
        assert phone.run(wide) == 0
        view = phone.run(VIEW)
        phone.tap(*phone.run(A_POINT))
        tells_a_plan(phone)
        assert phone.run(VIEW) == view


def test_a_comparison_opens_as_well(
    desktop: Browser, path_a: Ran, path_b: Ran, tmp_path: Path
) -> None:
    desktop.open(write_comparison([path_a.folder, path_b.folder], tmp_path))
    assert desktop.run(OVERFLOW) <= 0
    well_behaved(desktop)
