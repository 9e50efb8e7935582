"""Policies side by side: those that do not apply say why."""

import numpy as np
import pytest

from rcb_bayes.studies.paper import Request
from rcb_bayes.studies.paper.measures import measure
from rcb_bayes.studies.paper.settings import Cell, Effort
from rcb_bayes.studies.paper.side_by_side import Arena, judge_comparison, predecessor_runs, run_arena, run_arenas
from tests.studies.paper.cells_for_tests import made_up_cell

TINY = Effort(n_worlds=2, plan_worlds=60, audit_worlds=60, audit_users=5, audit_rounds=20, most_rounds=200)
ARENA = Arena(name="setting-4", cell=Cell(belief="setting_4", n_arms=2, n_features=2, variance=0.1))


def test_a_policy_that_does_not_apply_says_why():
    market = ARENA.market()
    kremer = predecessor_runs(market, horizon=100)[0]
    found = measure(market, kremer, horizon=100, epsilon=0.05, effort=TINY, seed=1)
    assert "users who are all alike" in found["note"].item()
    assert np.isnan(found["regret"].values).all()
    assert found["verdict_user"].item() == ""


def test_a_warm_start_that_outlasts_the_horizon_is_not_run():
    warm = predecessor_runs(ARENA.market(), horizon=100)[-1]
    assert warm.plan is None
    assert "more than there are in 100 rounds" in warm.note


def test_ratios_are_judged_in_the_same_worlds():
    first = made_up_cell(
        {
            "theorem": {"kind": "theorem", "regret": 1000.0},
            "sampled, uniform": {"kind": "uniform", "regret": 10.0},
            "sampled, tuned": {"kind": "tuned", "regret": 5.0},
        },
        setting="setting-1",
    )
    second = made_up_cell({"Thompson": {"kind": "baseline", "regret": 1.0}}, setting="setting-1", seed=1)
    fourth = made_up_cell(
        {
            "sampled, uniform": {"kind": "uniform", "cold_start": 1000.0},
            "sampled, personalised": {"kind": "personalised", "cold_start": 50.0},
        },
        setting="setting-4",
    )
    verdicts = [(claim.verdict, round(claim.estimate)) for claim in judge_comparison([first, second, fourth])]
    assert verdicts == [("held", 100), ("not held", 5), ("held", 20)]


@pytest.mark.slow
def test_all_policies_stand_in_one_table():
    outcome = run_arenas((ARENA,), Request(), effort=TINY)
    runs = set(outcome.table["run"])
    assert {"theorem", "sampled, tuned", "FALCON, tuned spread", "Thompson", "lasso", "warm Thompson"} <= runs
    assert any("Kremer" in note and "all alike" in note for note in outcome.notes)
    assert any("need no subsidy" in note for note in outcome.notes)


@pytest.mark.slow
def test_the_split_adds_up():
    part = run_arena(ARENA, "plans", effort=TINY, seed=1)
    shares = [part.attrs[name] for name in ("share_free", "share_subsidised", "share_never")]
    assert sum(shares) == pytest.approx(1.0)
