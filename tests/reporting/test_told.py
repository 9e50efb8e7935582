"""What a page tells beyond its charts: yardsticks, groups of users, a paragraph for a protocol, Markdown."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.worlds import draw_worlds
from rcb_bayes.planning.plan import Plan
from rcb_bayes.reporting.data import row_labels
from rcb_bayes.reporting.groups import groups
from rcb_bayes.reporting.yardsticks import FAVOURITE, GREEDY, compared_words, yardsticks
from rcb_bayes.running.need import Beside
from rcb_bayes.users import Empirical
from tests.planning.revising import revised
from tests.reporting.reports import ARMS, small_report


def beside(market: Market, *, n_worlds: int = 2000, n_late: int = 0) -> Beside:
    """Worlds of the market's own, with a plan that costs 5 in each and greedy that costs 4 and 8."""
    worlds = draw_worlds(market.prior, n_worlds, rng=np.random.default_rng(1))
    return Beside(worlds=worlds, plan=np.full(n_worlds, 5.0), greedy=np.tile([4.0, 8.0], n_worlds // 2), n_late=n_late)


def market_of(gap: float, **more: Any) -> Market:
    prior = Prior.gaussian([[gap], [0.0]], 0.04, arms=["old", "new"], features=["base"])
    return Market(prior=prior, covariates=Empirical([[1.0]]), noise=GaussianNoise(0.3), **more)


def favourite_loss(gap: float) -> float:
    """E[max(new - old, 0)] where the difference is normal with variance .08."""
    sd = math.sqrt(0.08)
    z = -gap / sd
    return sd * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) - gap * 0.5 * math.erfc(-z / math.sqrt(2))


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_the_favourite_costs_what_the_normal_law_says(gap: float) -> None:
    market = market_of(gap)
    found = yardsticks(market, beside(market), horizon=1000, seed=1)
    assert found is not None
    cost = found.sel(policy=FAVOURITE)
    off = float(cost["regret"]) - 1000 * favourite_loss(gap)
    assert abs(off) < 4.5 * float(cost["regret_mcse"])
    assert abs(off + 0.5 * 1000 * favourite_loss(gap)) > 4.5 * float(cost["regret_mcse"])  # a planted half
    greedy = found.sel(policy=GREEDY)
    assert (float(greedy["regret"]), float(greedy["apart"])) == (6.0, 1.0)
    assert float(greedy["apart_mcse"]) == pytest.approx(2 / 1999**0.5)


def test_no_difference_is_told_while_cold_starts_have_not_ended() -> None:
    market = market_of(0.3)
    found = yardsticks(market, beside(market, n_worlds=100, n_late=90), horizon=1000, seed=1)
    assert found is not None
    assert np.isnan(found["apart"].values[1:]).all()
    assert np.isfinite(found["regret"].values).all()
    assert "No difference is told: in 90 of them the cold start has not ended." in compared_words(found)
    few = yardsticks(market, beside(market, n_late=4), horizon=9, seed=1)
    assert few is not None
    assert "No difference" not in compared_words(few)


def test_there_are_no_yardsticks_where_nature_is_another_or_nothing_was_run() -> None:
    market = market_of(0.3, nature=market_of(0.1).prior)
    assert yardsticks(market, beside(market), horizon=10, seed=1) is None
    assert yardsticks(market_of(0.3), None, horizon=10, seed=1) is None


def plan_with(rates: list[float], inputs: tuple[str, ...]) -> Plan:
    return cast(Plan, SimpleNamespace(rate=lambda users: np.asarray(rates), inputs=inputs, stages=()))


def test_groups_count_by_weight() -> None:
    users = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    plan = plan_with([0.0, 0.4, 1.0], ("base", "ill"))
    never, always = groups(plan, users, weights=np.array([0.6, 0.2, 0.2]))  # nothing of base, which does not vary
    assert (never.feature, never.values, always.values) == ("ill", "0", "1")
    assert (never.share, never.rate, never.explored) == pytest.approx((0.8, 0.1, 0.25))
    assert (always.share, always.rate, always.explored) == pytest.approx((0.2, 1.0, 1.0))
    alike = groups(plan, users, weights=np.full(3, 1 / 3))
    assert alike[0].rate == pytest.approx(0.2)  # the planted error: weights left out


def test_many_values_are_told_in_thirds() -> None:
    ages = np.arange(90.0)
    found = groups(plan_with((ages / 100).tolist(), ("age",)), ages[:, None], weights=np.full(90, 1 / 90))
    assert [one.share for one in found] == pytest.approx([1 / 3] * 3, abs=0.02)
    assert sum(one.share for one in found) == pytest.approx(1.0)
    assert sum(one.share * one.rate for one in found) == pytest.approx((ages / 100).mean())


def test_rows_of_many_arms_have_labels_of_their_own() -> None:
    arms = [f"arm_{k}" for k in range(1, 30)]
    stages = [f"arm_0 and {k} of {', '.join(arms)}" for k in range(1, 21)] + ["epoch 0"]
    labels = row_labels(stages)
    assert labels[:2] == ["arm_0 and 1 of 29 alike", "arm_0 and 2 of 29 alike"]
    assert len(set(labels)) == len(stages)
    assert labels[-1] == "epoch 0"
    twice = row_labels([f"{', '.join(arms[:20])}", f"{', '.join([*arms[:19], arms[25]])}"])
    assert twice == ["arm_1 and 19 more", "arm_1 and 19 more (2)"]


def test_the_paragraph_says_what_the_plan_is() -> None:
    page = small_report().to_html()
    start = page.index('id="protocol-text"')
    text = page[start : page.index("</p>", start)]
    assert "epsilon = 0.05" in text
    assert "arXiv 2406.04374" in text
    assert "verdict on the criterion is: " in text
    assert 'data-copies="protocol-text"' in page
    refused = replace(small_report(), plan=revised(small_report().plan, feasible=False, reason="Nobody is willing."))
    assert "No design was found in which users would follow: Nobody is willing." in refused.to_html()


def test_markdown_has_the_answer_and_labels_as_text(tmp_path: Path) -> None:
    found = small_report()
    found.save(tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert f"**{found.verdict}: {found.answer.headline}**" in text
    assert not any(arm in text for arm in ARMS if "<" in arm)
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    assert len(tables) >= 5
    for rows in tables:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in rows.splitlines()}
        assert len(counts) == 1


def test_one_epsilon_needs_no_slider_and_no_curves() -> None:
    found = small_report()
    alone = replace(found, sweep=tuple(plan for plan in found.sweep if plan.epsilon == found.plan.epsilon))
    assert 'type="range"' in found.to_html()
    assert 'type="range"' not in alone.to_html()
    assert 'id="chart-rates"' in found.to_html()
    assert 'id="chart-rates"' not in alone.to_html()
    assert 'id="readout"' in alone.to_html()
