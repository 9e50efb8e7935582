"""What paying users would cost instead: by hand, as ``bill`` has it, and told wherever a report is."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rcb_bayes.baselines import Payments, bill
from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.reporting.paying import bill_rows, payments
from rcb_bayes.running.simulation import simulate
from rcb_bayes.users import Empirical
from tests.planning.revising import revised
from tests.reporting.reports import small_report

GAP, VARIANCE, EPSILON = 0.3, 0.04, 0.05


def market_of(**more: Any) -> Market:
    prior = Prior.gaussian([[GAP], [0.0]], VARIANCE, arms=["old", "new"], features=["base"])
    settings: dict[str, Any] = {"noise": GaussianNoise(0.3), **more}
    return Market(prior=prior, covariates=Empirical([[1.0]]), **settings)


def test_the_first_user_is_paid_what_a_hand_computes() -> None:
    """Thompson sampling recommends the new arm with Pr(N(gap, 2 v) < 0), and that costs gap - epsilon."""
    found = payments(market_of(), epsilon=EPSILON, horizon=1, n_worlds=4000, seed=1)
    assert found is not None
    assert float(found["total"]) == pytest.approx((GAP - EPSILON) * float(found["share_paid"]), rel=1e-9)
    wanted = (GAP - EPSILON) * 0.5 * math.erfc(GAP / math.sqrt(2 * VARIANCE) / math.sqrt(2))
    assert abs(float(found["total"]) - wanted) < 4.5 * float(found["total_mcse"])
    assert abs(float(found["total"]) - GAP / (GAP - EPSILON) * wanted) > float(found["total_mcse"])  # nothing allowed


def test_the_bill_is_that_of_the_baseline() -> None:
    market = market_of()
    found = payments(market, epsilon=EPSILON, horizon=200, n_worlds=4, seed=3)
    assert found is not None
    runs = simulate(
        market,
        lambda own, seed: Payments(own, epsilon=EPSILON, batch=2, seed=seed),
        horizon=200,
        n_worlds=4,
        seed=3,
    )
    same = bill(runs, epsilon=EPSILON)
    for name in same.data_vars:
        assert float(found[name]) == float(same[name])
    assert float(found["per_round"]) == float(same["total"]) / 200
    assert float(found["per_round_mcse"]) == float(same["total_mcse"]) / 200
    assert float(found["regret"]) == pytest.approx(float(runs["regret"].sum("t").mean()))


@pytest.mark.parametrize(
    "market",
    [
        market_of(nature=Prior.gaussian([[0.1], [0.0]], VARIANCE, arms=["old", "new"], features=["base"])),
        market_of(noise=BernoulliLogit()),
    ],
    ids=["nature differs", "0/1 rewards"],
)
def test_there_is_no_bill_where_it_does_not_apply(market: Market) -> None:
    assert payments(market, epsilon=EPSILON, horizon=10, n_worlds=2, seed=1) is None


def test_there_is_no_bill_of_rounds_that_are_not_kept() -> None:
    assert payments(market_of(), epsilon=EPSILON, horizon=10**7, n_worlds=2, seed=1) is None


def test_it_is_told_on_the_page_in_markdown_and_in_json() -> None:
    found = small_report()
    assert found.payments is not None
    page, text, told = found.to_html(), found.to_markdown(), found.to_dict()["payments"]
    for name, value in bill_rows(found.payments):
        assert name in page
        assert value in page
        assert f"| {name} | {value} |" in text
    assert "They see all data then" in page
    assert "They see all data then" in text
    assert told["total"] == float(found.payments["total"])
    assert told["allowed"] == found.plan.epsilon
    without = replace(found, payments=None)
    assert "They see all data then" not in without.to_html() + without.to_markdown()
    assert without.to_dict()["payments"] is None


def test_it_is_told_where_there_is_no_plan() -> None:
    found = small_report()
    refused = replace(found, plan=revised(found.plan, feasible=False, reason="Nobody."), runs=None, audit=None)
    assert "They see all data then" in refused.to_html()
    assert "They see all data then" in refused.to_markdown()


def test_an_error_is_that_of_worlds() -> None:
    found = [payments(market_of(), epsilon=EPSILON, horizon=40, n_worlds=100, seed=seed) for seed in range(12)]
    totals = np.array([float(one["total"]) for one in found if one is not None])
    errors = np.array([float(one["total_mcse"]) for one in found if one is not None])
    assert len(totals) == 12
    assert 0.5 < totals.std(ddof=1) / errors.mean() < 1.8
