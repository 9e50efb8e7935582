"""Audits by one yardstick: the same worlds, patients, views and horizon for all, under every notion."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.auditing import Audit
from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.running.heeding import kept_by_construction
from rcb_bayes.running.oracle import RidgeOracle
from rcb_bayes.studies.warfarin import judging
from rcb_bayes.studies.warfarin.contenders import heeding_rcb, rcb_policy
from rcb_bayes.studies.warfarin.joining import _as_rows
from rcb_bayes.studies.warfarin.judging import Yardstick, audit_cold_starts, audit_exploitation, audit_heeding
from rcb_bayes.studies.warfarin.telling import audit_lines
from rcb_bayes.users import Uniform

EPSILON = 0.03
YARDSTICK = Yardstick(cold_worlds=300, n_worlds=50, n_users=15, horizon=100, seed=7)


Found = dict[tuple[str, bool], tuple[dict[str, Any], list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def market() -> Market:
    """A small one: two arms, one of which is favoured."""
    prior = Prior.gaussian([[0.4, 0.2], [0.2, 0.2]], 0.25, arms=["medium", "low"])
    return Market(prior=prior, covariates=Uniform([0, 0], [1, 1]), noise=GaussianNoise(0.3))


def plan(market: Market, notion: str, rate: float = 0.4) -> Any:
    return fixed_plan(market, n_per_arm=5, exploration_rate=rate, epsilon=EPSILON, notion=notion)


def exploitation(market: Market, notion: str, *, heeding: bool) -> list[dict[str, Any]]:
    own = plan(market, notion)
    if heeding:
        maker = heeding_rcb(market, own, oracle=RidgeOracle(penalty=0.1))
        return audit_heeding(market, maker, own, "it", yardstick=YARDSTICK)
    return audit_exploitation(market, rcb_policy(market, own), own, "it", yardstick=YARDSTICK)


@pytest.fixture(scope="module")
def found(market: Market) -> Found:
    """What was asked of ``audit``, and the rows, by notion and whether exploitation heeds it."""
    asked: list[dict[str, Any]] = []
    real = judging.audit

    def noted(*arguments: Any, **options: Any) -> Audit:
        asked.append(options)
        return real(*arguments, **options)

    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "audit", noted)
        for notion in ("proof", "user"):
            for heeding in (True, False):
                rows = exploitation(market, notion, heeding=heeding)
                made[notion, heeding] = (asked[-1], rows)
    return made


def test_every_policy_meets_the_same_worlds_patients_and_horizon(found: Found) -> None:
    (first, rows), *others = found.values()
    for options, _ in others:
        np.testing.assert_array_equal(options["users"], first["users"])
        assert all(options[name] == first[name] for name in ("n_worlds", "horizon", "seed", "epsilon"))
    assert len({(row["n_views"], row["n_worlds"], row["n_users"]) for _, part in found.values() for row in part}) == 1
    assert rows[0]["n_views"] > 1
    assert [row["notion"] for row in rows] == list(NOTIONS)


def test_what_holds_by_construction_is_said_to(found: Found) -> None:
    told = {name: [row["notion"] for row in rows if row["by_construction"]] for name, (_, rows) in found.items()}
    assert told.pop(("proof", True)) == ["proof"]
    assert told.pop(("user", True)) == list(NOTIONS)
    assert list(told.values()) == [[], []]
    assert kept_by_construction("definition") == tuple(NOTIONS)
    assert all(-EPSILON - 1e-9 <= row["smallest"] < 0 for row in found["user", True][1])


def test_the_cold_start_of_each_plan_is_counted_under_every_notion(market: Market) -> None:
    """A rate of .9 shows nearly everybody the worse arm: it fails, one of .001 does not."""
    plans = [plan(market, "user", rate=0.9), plan(market, "user", rate=0.001)]
    rows = audit_cold_starts(market, plans, "two", yardstick=YARDSTICK)
    user = rows[list(NOTIONS).index("user")]
    assert user["verdict"] == "fail"
    assert user["n_plans"] == user["n_pass"] + user["n_inconclusive"] + user["n_fail"] == 2
    assert user["n_fail"] == 1
    assert user["worst"] < -EPSILON
    assert not any(row["by_construction"] for row in rows)


def test_verdicts_are_told_notion_by_notion(market: Market, found: Found) -> None:
    rows = audit_cold_starts(market, [plan(market, "proof")] * 2, "A plan", yardstick=YARDSTICK)
    rows += found["proof", True][1]
    text = "\n".join(audit_lines(_as_rows(rows, "audit")))
    assert "300 worlds a stage" in text
    assert "50 worlds" in text
    (line,) = [one for one in text.split("\n") if one.startswith("  A plan")]
    assert line.count(" 2 (") == len(NOTIONS)  # both plans alike, under each notion
    (told,) = [one for one in text.split("\n") if one.startswith("  it")]
    assert "by construction (-0.0" in told
    assert "no audit could fail" in text
