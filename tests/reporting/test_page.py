"""The page: sound HTML, nothing from elsewhere, every figure of the result, labels as text."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rcb_bayes.reporting import report
from rcb_bayes.telling.wording import figure, percent
from tests.planning.revising import revised
from tests.reporting.reports import ARMS, SIZES, market_of, small_report

VOID = {"meta", "input", "br", "hr", "img", "link"}
CHARTS = {
    "map",
    "rates",
    "cold",
    "margins",
    "compliance",
    "frontier",
    "regret",
    "gain",
    "samples",
    "knowledge",
    "yardsticks",
    "sizes",
}


class Walk(HTMLParser):
    """Reads a page, and keeps what is in it and what is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.wrong.append(f"<{tag}> has an attribute twice")
        if self.open and self.open[-1] == "p" and tag in ("p", "div", "table", "ul", "dl", "figure"):
            self.wrong.append(f"<{tag}> in a paragraph")
        self.tags[tag] += 1
        self.attributes.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] in ("script", "style") else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def text() -> str:
    return small_report().to_html()


@pytest.fixture(scope="module")
def walk(text: str) -> Walk:
    return Walk(text)


def test_the_page_is_sound(walk: Walk, text: str) -> None:
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert walk.wrong == []
    assert walk.open == []
    assert len(set(walk.ids)) == len(walk.ids)
    assert (walk.tags["h1"], walk.tags["title"], walk.tags["main"]) == (1, 1, 1)
    links = [attrs["href"] for tag, attrs in walk.attributes if tag == "a"]
    assert {str(link) for link in links} <= {f"#{name}" for name in walk.ids}


def test_unsound_pages_are_noticed() -> None:
    assert Walk("<p><div></div></p>").wrong
    assert Walk("<b><i></b></i>").wrong
    assert Walk("<b>").open


def test_nothing_comes_from_elsewhere(walk: Walk, text: str) -> None:
    assert not re.findall(r"(?:https?:|file:)?//[\w.]+\.\w", re.sub(r"/\*.*?\*/", "", text))
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", text)
    assert walk.tags["link"] + walk.tags["img"] + walk.tags["iframe"] == 0
    assert all("src" not in attrs for _, attrs in walk.attributes)
    policy = next(attrs["content"] for tag, attrs in walk.attributes if attrs.get("http-equiv"))
    assert str(policy).startswith("default-src 'none';")


def test_labels_are_text_wherever_they_are(walk: Walk, text: str) -> None:
    assert walk.tags["script"] == 2
    for label in ARMS:
        assert label not in text
        assert label in walk.text
    assert not any(name.startswith("on") for _, attrs in walk.attributes for name in attrs)


def test_charts_have_words_and_tables(walk: Walk) -> None:
    charts = {str(attrs["id"])[6:]: attrs for _, attrs in walk.attributes if str(attrs.get("id")).startswith("chart-")}
    assert set(charts) == CHARTS
    for attrs in charts.values():
        assert attrs["role"] == "img"
        assert re.search(r"\d", str(attrs["aria-label"]))
    assert walk.tags["details"] == len(CHARTS) + 1  # and the glossary
    assert walk.tags["figcaption"] == walk.tags["figure"] == len(CHARTS) + 1  # and the matrix of margins


def test_the_figures_are_those_of_the_result(walk: Walk) -> None:
    found = small_report()
    plan, audit, runs = found.plan, found.audit, found.runs
    assert audit is not None
    assert runs is not None
    total = runs["regret"].sum("t").values
    wanted = [
        found.answer.headline,
        *found.answer.sentences,
        percent(plan.share_explored),
        f"q = {figure(plan.exploration_rate, plan.exploration_rate_mcse)}",
        figure(plan.expected_cold_start, plan.expected_cold_start_mcse),
        figure(float(total.mean()), total.std(ddof=1) / 3**0.5),
        *(plan.stage_name(stage) for stage in plan.stages),
        *(figure(stage.rate, stage.rate_mcse) for stage in plan.stages),
        *(check.meaning for check in found.checks),
        *(str(stage) for stage in audit.margins["stage"].values),
        found.gaps.attrs["engine"],
    ]
    assert [words for words in wanted if " ".join(words.split()) not in walk.text] == []


def test_the_data_are_those_of_the_result(walk: Walk) -> None:
    found = small_report()
    assert found.audit is not None
    assert found.runs is not None
    data = json.loads(next(script for script in walk.scripts if script.startswith('{"arms"')))
    assert tuple(data["arms"]) == ARMS
    assert data["sweep"]["epsilon"] == [0.0, 0.05, 0.2]
    assert data["sweep"]["at"] == 1
    assert data["sweep"]["exploration_rate"][1] == pytest.approx(found.plan.exploration_rate, rel=1e-3)
    own = found.plan.rate(found.users)
    assert data["map"]["rates"][1] == [0 if rate < 0.005 else round(1000 * rate) for rate in own]
    assert len(data["margins"]) == found.audit.margins.sizes["stage"]
    assert data["regret"]["mean"][-1] == pytest.approx(found.runs["regret"].sum("t").mean().item(), rel=1e-3)
    assert data["regret"]["t"][-1] == 200
    assert data["compliance"]["share"] == pytest.approx(found.audit.compliance["share"].values, rel=1e-3)


def test_realised_gains_are_held_against_no_epsilon(text: str) -> None:
    drawing = text[text.index("function gain()") : text.index("/* A bar for each row")]
    assert "epsilon" not in drawing
    assert "no user&#x27;s margin" in text


def test_the_same_seed_is_the_same_page(text: str) -> None:
    again = report(market_of(), n_per_arm=10, horizon=200, sizes=SIZES, seed=1)
    assert again.to_html() == text
    other = report(market_of(), n_per_arm=10, horizon=200, sizes=SIZES, seed=2)
    assert other.to_html() != text


def test_the_command_is_shown_as_text(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "page.html"
    replace(small_report(), command="rcb report 'my <belief>.py' --seed 1").save(target)
    walk = Walk(target.read_text(encoding="utf-8"))
    assert "rcb report 'my <belief>.py' --seed 1" in walk.text
    assert walk.wrong == []


def test_one_figure_has_the_same_digits_wherever_it_stands() -> None:
    """A share of .56150 is 56.1 % or 56.2 %, by how often it was rounded on the way."""
    from dataclasses import replace

    found = small_report()
    plan = revised(found.plan, share_explored=0.561504, share_free=0.3)
    found = replace(found, plan=plan, sweep=tuple(plan if one.epsilon == plan.epsilon else one for one in found.sweep))
    page = found.to_html()
    assert "56.2 %" in page
    assert "56.1 %" not in page
    assert '"explored_words":' in page


def test_nobody_left_out_is_nobody() -> None:
    from dataclasses import replace

    found = small_report()
    page = replace(found, plan=revised(found.plan, share_explored=1 - 3.3e-16)).to_html()
    assert "Nobody is left out." in page
    assert "e-1" not in page.split("<script")[0]


def test_the_two_regrets_have_names_of_their_own() -> None:
    page = small_report().to_html()
    assert "regret of a whole run, 200 rounds" in page
    assert "regret of the cold start" in page
    assert ">regret of it<" not in page
