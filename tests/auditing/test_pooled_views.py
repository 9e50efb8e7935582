"""Users who know less of the clock: audits of them against rounds of plain worlds, pooled as often as they come.

Nothing of the package's pooling is on the plain side: worlds have true rewards, a cold start of their own, and every
round counts once (``twins.pooled_truth``). Tolerances are in Monte Carlo errors of both sides; paths that count alike,
however long they stay, must be told from paths by rounds.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.auditing import plan_run
from rcb_bayes.auditing.pooled_views import Part, pooled
from rcb_bayes.auditing.view import View
from rcb_bayes.mechanism import simulator
from rcb_bayes.mechanism.panel import Panel, panel_of
from tests.twins import plain_mechanism as plain
from tests.twins.coarse_plans import coarse_plan
from tests.twins.pooled_truth import rows_of
from tests.twins.truth import Case, Row, scenario_of

MANY = 4.6  # errors, for hundreds of cells: all of them within it 99 times out of 100
ROWS = [[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]]
FOUR = Case(
    name="four arms",
    mean=[[0.30, 0.0], [0.15, 0.25], [0.10, 0.05], [0.0, 0.12]],
    variance=[0.3, 0.5, 0.4, 0.6],
    sigma=0.5,
    rows=ROWS,
    shares=[0.5, 0.3, 0.2],
)
SIX = replace(
    FOUR,
    name="six arms",
    mean=[[0.30, 0.0], [0.15, 0.25], [0.20, 0.05], [0.1, 0.12], [0.2, -0.1], [0.05, 0.2]],
    variance=[0.5, 0.8, 0.7, 0.9, 0.6, 0.8],
)
ALIKE = Case(name="two alike", mean=[[0.3], [0.0], [0.0]], variance=0.5, sigma=1.0, rows=[[1.0]], shares=[1.0])
CASES = {case.name: case for case in (FOUR, SIX, ALIKE)}
LESS = ("level", "phase", "mechanism")


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A plan and plain worlds under it."""

    case: Case
    market: rcb.Market
    plan: rcb.Plan
    out: plain.Outcome
    horizon: int

    def audit(self, knows: str, *, n_worlds: int) -> rcb.Audit:
        """An audit of all types of users."""
        users = np.array(self.case.rows)
        return rcb.audit(
            self.market, self.plan, horizon=self.horizon, knows=knows, users=users, n_worlds=n_worlds, seed=7
        )

    def apart(self, found: rcb.Audit, knows: str, *, by_rounds: bool = True) -> float:
        """The most errors that a cell of an audit and the plain one are apart."""
        return largest_z(rows_of(found, self.out, knows, by_rounds=by_rounds))


@cache
def sides(name: str, *, knows: str = "level", epsilon: float = 0.05, n_plain: int = 8000, horizon: int = 600) -> Sides:
    case = CASES[name]
    market = case.market()
    plan = coarse_plan(
        market, epsilon=epsilon, knows=knows, n_per_arm=6, horizon=horizon, n_worlds=1440, audit_worlds=1440, seed=1
    )
    assert plan.feasible
    out = plain.run_worlds(scenario_of(case, plan, horizon=horizon), n_plain, seed=3)
    return Sides(case=case, market=market, plan=plan, out=out, horizon=horizon)


def largest_z(rows: list[Row]) -> float:
    return max(abs(row.z) for row in rows)


def part_of(market: rcb.Market, *, rounds: float, n_worlds: int, chance: float, lead: float, fixed: float) -> Part:
    """Arm 0 has a chance in every world, with a lead of its own over arm 1; so much of it is fixed."""

    def moving(users: np.ndarray, worlds: slice) -> View:
        shape = (3, len(users), len(range(n_worlds)[worlds]))
        rewards = np.zeros(shape)
        rewards[0] = lead
        chances = np.zeros(shape)
        chances[0] = chance
        prior = np.zeros((len(users), 3))
        return View(name="", chances=chances, rewards=rewards, prior_rewards=prior, best=chances)

    def always(seats: Panel) -> np.ndarray:
        return np.repeat([[fixed], [0.0], [0.0]], len(seats.users), axis=1)

    return Part(rounds=rounds, fixed=always, moving=moving if n_worlds else None)


def test_parts_are_mixed_by_rounds_whatever_worlds_they_have() -> None:
    market = ALIKE.market()
    parts = [
        part_of(market, rounds=10.0, n_worlds=0, chance=0.0, lead=0.0, fixed=1.0),
        part_of(market, rounds=30.0, n_worlds=50, chance=0.5, lead=2.0, fixed=0.25),
        part_of(market, rounds=60.0, n_worlds=20, chance=0.1, lead=-1.0, fixed=0.0),
    ]
    view = pooled(parts, lambda users: panel_of(market, users), name="all", share=1.0)(np.array([[1.0]]), slice(None))
    weights = view.world_weights
    assert weights.mean() == pytest.approx(1.0)
    assert (weights * view.chances[0, 0]).mean() == pytest.approx(0.1 * 1.0 + 0.3 * (0.5 + 0.25) + 0.6 * 0.1)
    fixed = 0.1 * 1.0 + 0.3 * 0.25
    moving = weights * (view.chances[0, 0] - fixed) * (view.rewards[0, 0] - view.rewards[1, 0])
    assert moving.mean() == pytest.approx(0.3 * 0.5 * 2.0 - 0.6 * 0.1 * 1.0)


@pytest.mark.parametrize("knows", ["level", "mechanism"])
def test_margins_are_those_of_plain_rounds_and_paths_that_count_alike_are_found_out(knows: str) -> None:
    both = sides(FOUR.name)
    found = both.audit(knows, n_worlds=1000)
    assert len(rows_of(found, both.out, knows)) >= 36
    assert both.apart(found, knows) < MANY
    assert both.apart(found, knows, by_rounds=False) > MANY


def test_an_audit_whose_paths_count_alike_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    both = sides(FOUR.name)
    rounds_before = plan_run.rounds_before
    monkeypatch.setattr(plan_run, "rounds_before", lambda *args: np.minimum(rounds_before(*args), 1.0))
    assert both.apart(both.audit("level", n_worlds=1000), "level") > MANY


@pytest.mark.parametrize("knows", ["stage", "level"])
def test_arms_that_are_alike_keep_their_names_where_users_count_arms(knows: str) -> None:
    """Once two arms of three are full, either of the twins may be open: users average over which."""
    both = sides(ALIKE.name, knows=knows)
    found = both.audit("level", n_worlds=1000)
    cells = {row.quantity for row in rows_of(found, both.out, "level")}
    assert cells >= {"2 of 3 arms, user 0, 1 over 0", "2 of 3 arms, user 0, 2 over 0"}
    assert both.apart(found, "level") < MANY


@pytest.mark.slow
@pytest.mark.parametrize("knows", LESS)
@pytest.mark.parametrize(("case", "epsilon"), [(FOUR.name, 0.05), (SIX.name, 0.1)])
def test_margins_are_those_of_many_plain_rounds(case: str, epsilon: float, knows: str) -> None:
    both = sides(case, epsilon=epsilon, n_plain=40_000, horizon=1500)
    found = both.audit(knows, n_worlds=3000)
    assert both.apart(found, knows) < MANY
    assert both.apart(found, knows, by_rounds=False) > 2 * MANY


@pytest.mark.slow
@pytest.mark.parametrize("knows", LESS)
@pytest.mark.parametrize("case", [FOUR.name, ALIKE.name])
def test_so_they_are_where_cold_starts_are_followed_sample_by_sample(
    case: str, knows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = sides(case)
    monkeypatch.setattr(simulator, "MOST_SETS", 0)
    assert both.apart(both.audit(knows, n_worlds=3000), knows) < MANY


def test_what_is_promoted_in_rare_sets_only_is_judged() -> None:
    """A user of the second type gets the third arm, which she has no use for, only where the second is full first.

    Such cold starts take half a per cent of the rounds of their level, and it is there that all of the arm's mass is.
    """
    rows = np.eye(2)
    prior = rcb.Prior.gaussian([[0.10, 0.10], [0.02, 0.08], [0.06, -3.0]], 0.1)
    users = rcb.Empirical(rows, weights=[0.995, 0.005])
    market = rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(0.3))
    plan = rcb.fixed_plan(market, n_per_arm=1, exploration_rate=1.0, epsilon=0.1, knows="level")
    found = rcb.audit(market, plan, horizon=4, n_worlds=400, users=rows, seed=3)
    cell = found.margins.sel(stage="2 of 3 arms", user=1, arm="arm_2", rival="arm_0")
    assert cell["estimate"] == pytest.approx(-3.1)
    assert 0.001 < cell["mass"] < 0.01
    assert cell["verdict"] == 2  # it fails
