"""The page in a browser: it complains of nothing, fetches nothing, and its slider moves the figures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reporting.browser import BROWSERS, Browser, find_browser
from tests.reporting.reports import small_report

CHROMIUM = find_browser()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"no browser on the PATH: none of {', '.join(BROWSERS)}")
TURNED = ("map", "rates", "cold", "margins", "compliance")
OTHERS = ("frontier", "regret", "gain", "samples", "yardsticks")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("page") / "report.html"
    small_report().save(target)
    return target


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("profile")) as found:
        yield found


def drawing(browser: Browser, name: str) -> str:
    return str(browser.run(f"document.querySelector('#chart-{name} svg').outerHTML"))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_complained_of_or_fetched(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    for name in (*TURNED, *OTHERS):
        assert len(drawing(browser, name)) > 500
    assert browser.run("document.documentElement.scrollWidth") <= width
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 24, 27)" if dark else "rgb(252, 251, 248)")
    assert browser.complaints == []
    assert set(browser.requests) == {page.as_uri()}
    assert browser.run("document.images.length") == 0  # no label has become markup


def test_a_complaint_would_be_heard(browser: Browser, page: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text(encoding="utf-8").replace("themes();", "themes(); nonsense();"), encoding="utf-8")
    browser.open(broken)
    assert any("nonsense" in words for words in browser.complaints)
    browser.complaints.clear()


def test_the_slider_moves_the_figures(browser: Browser, page: Path) -> None:
    browser.open(page)
    before = {name: drawing(browser, name) for name in (*TURNED, *OTHERS)}
    read = browser.run("document.getElementById('readout').textContent")
    assert browser.run("document.getElementById('epsilon-value').textContent") == "0.05"
    browser.run("document.getElementById('epsilon').focus()")
    browser.press("ArrowRight", 39)
    assert browser.run("document.getElementById('epsilon-value').textContent") == "0.2"
    after = {name: drawing(browser, name) for name in (*TURNED, *OTHERS)}
    assert {name for name in before if before[name] != after[name]} == set(TURNED)
    assert browser.run("document.getElementById('readout').textContent") != read
    browser.run("document.getElementById('epsilon-reset').click()")
    assert {name: drawing(browser, name) for name in before} == before
    assert browser.complaints == []


def test_pointing_at_a_curve_shows_its_values(browser: Browser, page: Path) -> None:
    browser.open(page)
    box = browser.run(
        "(() => { const e = document.getElementById('chart-regret'); e.scrollIntoView({block: 'center', behavior: "
        "'instant'}); const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()"
    )
    browser.move(*box)
    words = browser.run("document.querySelector('#chart-regret .tooltip').textContent")
    assert words.startswith("round ")
    assert "mean over worlds: " in words
    browser.run("document.getElementById('chart-margins').focus()")
    browser.press("ArrowDown", 40)
    words = browser.run("document.querySelector('#chart-margins .tooltip').textContent")
    assert words.startswith("most popular: ")
    assert "</script><img src=x" in words  # as text


def test_light_and_dark_can_be_switched(browser: Browser, page: Path) -> None:
    browser.open(page, dark=True)
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = browser.run(colour)
    browser.run("document.getElementById('theme').click()")
    light = browser.run(colour)
    assert light != dark
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) == dark


def test_it_prints(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(page, dark=True)
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert browser.complaints == []
