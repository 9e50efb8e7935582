"""Many arms: which are explored, in which order, and what that gives up, all from the belief."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.planning.exploring import Exploring, explored_by
from tests.twins import plain_mechanism as plain
from tests.twins.truth import Case, compared, scenario_of

MANY = 4.6  # errors, for hundreds of cells


def market_of(n_arms: int = 12, *, coupled: bool = False) -> rcb.Market:
    """Arms of which less and less is expected; coupled, they come in pairs that are nearly the same."""
    mean = np.stack([np.linspace(1.0, -1.0, n_arms), np.full(n_arms, 0.1)], axis=1)
    cov: Any = 0.1
    if coupled:
        mean[1::2] = mean[::2]
        pairs = np.kron(np.eye(n_arms // 2), 0.1 * np.ones((2, 2))) + 0.001 * np.eye(n_arms)
        cov = np.kron(pairs, np.eye(2))
    return rcb.Market(
        prior=rcb.Prior.gaussian(mean, cov),
        covariates=rcb.Uniform([0.5, -0.5], [1.0, 0.5]),
        noise=rcb.GaussianNoise(0.3),
    )


def explored(market: rcb.Market, n: int = 5, **asked: Any) -> tuple[Agenda, Any, tuple[str, ...]]:
    return explored_by(market, Agenda.same(n, market.n_arms), Exploring(**asked), seed=1)


def plainly(market: rcb.Market, gone: list[int], n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """For n users and worlds of their own: whether an arm that is gone is best, and what is lost without it."""
    rng = np.random.default_rng(seed)
    mean = market.prior.mean.values
    beta = mean + np.sqrt(0.1) * rng.standard_normal((n, *mean.shape))
    x = rng.uniform([0.5, -0.5], [1.0, 0.5], size=(n, 2))
    rewards = np.einsum("nd,nkd->nk", x, beta)
    kept = [arm for arm in range(mean.shape[0]) if arm not in gone]
    best = rewards.argmax(axis=1)
    return np.isin(best, gone), rewards.max(axis=1) - rewards[:, kept].max(axis=1)


def test_what_elimination_gives_up_is_what_plain_worlds_give_up() -> None:
    market = market_of()
    agenda, told, notes = explored(market, eliminate=0.05)
    assert told.eliminated
    gone = [market.arms.index(arm) for arm in told.eliminated]
    assert [n == 0 for n in agenda.needed] == [arm in gone for arm in range(12)]
    best, lost = plainly(market, gone, 200_000, seed=9)
    for name, values in (("best_for", best), ("regret", lost)):
        error = np.hypot(getattr(told, f"{name}_mcse"), values.std() / np.sqrt(len(values)))
        assert abs(getattr(told, name) - values.mean()) < 4 * error
    worse, more = plainly(market, gone[1:], 200_000, seed=9)  # the planted error: one arm was not reckoned with
    assert best.mean() - worse.mean() > 4 * told.best_for_mcse
    assert lost.mean() - more.mean() > 4 * told.regret_mcse
    assert "arms are explored" in notes[-1]


def test_arms_are_eliminated_surely_and_for_every_user() -> None:
    market = market_of()
    told = explored(market, eliminate=0.05)[1]
    rng = np.random.default_rng(4)
    beta = market.prior.draw_arrays(20_000, rng=rng)[0]
    for x in ([0.5, -0.5], [1.0, 0.5], [0.7, 0.0]):
        chance = np.bincount((beta @ np.array(x)).argmax(axis=1), minlength=12) / 20_000
        for arm in told.eliminated:
            assert chance[market.arms.index(arm)] < 0.055
    fewer = explored(market, eliminate=0.001)[1]
    assert fewer is None or set(fewer.eliminated) < set(told.eliminated)


def test_the_order_is_by_favourites_and_the_next_is_admitted_as_one_fills_up() -> None:
    market = market_of(5)
    agenda = explored(market, top=2)[0]
    assert agenda.first == 2
    assert sorted(agenda.order) == list(range(5))
    assert agenda.order[0] == 0  # everybody's favourite
    assert agenda.open_arms(()) == sorted(agenda.order[:2])
    assert explored(market, top=5)[0] == Agenda.same(5, 5)  # all at once


def test_clusters_put_what_is_coupled_together_and_one_of_each_is_explored() -> None:
    market = market_of(8, coupled=True)
    agenda, told, notes = explored(market, clusters=4)
    pairs = np.array(agenda.needed).reshape(4, 2)
    assert ((pairs > 0).sum(axis=1) == 1).all()
    assert len(told.siblings) == 4
    assert not any("learn nothing" in note for note in notes)
    assert any("learn nothing" in note for note in explored(market_of(8), clusters=4)[2])


def test_samples_that_are_given_stay_and_everything_goes_together() -> None:
    market = market_of()
    given = Agenda(needed=(0, *(7,) * 11))
    agenda, told, _ = explored_by(market, given, Exploring(eliminate=0.05, top=2), seed=1)
    assert told is not None
    assert agenda.needed[0] == 0
    assert set(agenda.needed) == {0, 7}
    assert market.arms[0] not in told.eliminated
    assert agenda.first == 2


def test_a_plan_tells_what_is_not_explored_and_its_file_keeps_it(tmp_path: Path) -> None:
    market = market_of()
    plan = rcb.calibrate(market, exploring=Exploring(eliminate=0.05), n_per_arm=5, epsilon=0.3, n_worlds=200, seed=1)
    assert plan.feasible
    assert plan.unexplored is not None
    assert "arms are explored" in plan.summary()
    plan.save(tmp_path / "plan.json")
    again = rcb.Plan.load(tmp_path / "plan.json")
    assert again.unexplored == plan.unexplored
    assert again.agenda == plan.agenda
    everything = rcb.calibrate(market, n_per_arm=5, epsilon=0.3, n_worlds=200, seed=1)
    assert plan.expected_cold_start < everything.expected_cold_start


# --- admission -------------------------------------------------------------------------------------------------------

CASE = Case(
    name="four arms",
    mean=[[0.30, 0.0], [0.15, 0.25], [0.10, 0.05], [0.05, 0.2]],
    variance=[0.3, 0.5, 0.4, 0.3],
    sigma=0.5,
    rows=[[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]],
    shares=[0.5, 0.3, 0.2],
)


def test_margins_of_arms_admitted_in_order_are_those_of_plain_rounds() -> None:
    market = CASE.market()
    plan = rcb.calibrate(
        market, exploring=Exploring(top=1), n_per_arm=5, knows="stage", epsilon=0.05, horizon=300, n_worlds=1000, seed=1
    )
    assert plan.feasible
    assert plan.agenda.first == 1
    found = rcb.audit(market, plan, horizon=300, users=np.array(CASE.rows), n_worlds=1000, seed=7)
    scenario = scenario_of(CASE, plan, horizon=300)
    out = plain.run_worlds(scenario, 8000, seed=3)
    assert max(abs(row.z) for row in compared(CASE, plan, found, out)[0]) < MANY
    other = plain.run_worlds(replace(scenario, order=(0, 3, 2, 1)), 8000, seed=3)  # the planted error
    assert max(abs(row.z) for row in compared(CASE, plan, found, other)[0]) > MANY


def test_an_order_that_looks_at_rewards_is_found_out() -> None:
    """The planted error: the second arm to be admitted depends on what the first one gave.

    One kind of users. The next arm is the second where the first did well, else the third: users who are told the
    second know that the first did well. Under a published order who is told what says nothing about rewards.
    """
    case = replace(CASE, mean=[[0.3], [0.2], [0.1]], variance=[0.4, 0.4, 0.4], rows=[[1.0]], shares=[1.0])
    market = case.market()
    plan = rcb.calibrate(
        market, exploring=Exploring(top=1), n_per_arm=6, knows="stage", epsilon=0.05, horizon=200, n_worlds=1000, seed=1
    )
    found = rcb.audit(market, plan, horizon=200, users=np.ones((1, 1)), n_worlds=2000, seed=7)
    cell = found.margins.sel(stage="arm_0", arm="arm_1", rival="arm_0").isel(user=0)
    rng = np.random.default_rng(2)
    q = float(plan.rate([1.0], saturated=["arm_0"]))
    truth = np.array([0.3, 0.2, 0.1]) + np.sqrt(0.4) * rng.standard_normal((400_000, 3))
    after = 0.3 + 0.4 / (0.4 + 0.25 / 6) * (truth[:, 0] + 0.5 / np.sqrt(6) * rng.standard_normal(400_000) - 0.3)
    organic = np.where(after > 0.2, 0, 1)

    def margin(promoted: np.ndarray) -> tuple[float, float]:
        told = np.where(rng.random(len(truth)) < q, promoted, organic) == 1
        gain = truth[told, 1] - truth[told, 0]
        return float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))

    published, error = margin(np.ones(len(truth), dtype=int))
    assert abs(published - float(cell["estimate"])) < 4 * np.hypot(error, float(cell["mcse"]))
    planted, error = margin(np.where(after > 0.3, 1, 2))
    assert abs(planted - float(cell["estimate"])) > 4 * np.hypot(error, float(cell["mcse"]))
    assert planted < -plan.epsilon  # and users would not follow


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"eliminate": 1.5}, "share between 0 and 1"),
        ({"eliminate": "few"}, "share between 0 and 1"),
        ({"eliminate": 0.999}, "none would be left"),
        ({"clusters": 13}, "ask for fewer clusters"),
        ({"top": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_explored_so_is_refused(asked: dict[str, Any], part: str) -> None:
    with pytest.raises(rcb.RcbError, match=part):
        rcb.calibrate(market_of(), exploring=Exploring(**asked), n_per_arm=5)


def test_exploring_is_an_exploring() -> None:
    with pytest.raises(rcb.RcbError, match=r"^exploring must be an Exploring, got float. Use rcb\.Exploring\("):
        rcb.calibrate(market_of(), exploring=0.01, n_per_arm=5)  # type: ignore[arg-type]
