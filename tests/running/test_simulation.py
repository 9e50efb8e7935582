"""Simulated runs: against the paper's pseudo-code step by step, chunk by chunk, and over growing horizons."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.baselines import Greedy, LinThompson, LinUcb
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.decisions import ROUND_KINDS
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.running import policies
from rcb_bayes.running.oracle import RidgeOracle
from rcb_bayes.running.simulation import simulate
from rcb_bayes.running.sklearn_oracle import SklearnOracle
from rcb_bayes.running.worlds import PAGE, SimulatedWorld
from tests.twins import plain_rcb

MEAN = np.array([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]])
COV = np.stack([v * np.eye(2) for v in (0.3, 0.2, 0.2)])
SIGMA = 0.3


@cache
def market() -> Market:
    return Market(prior=Prior.gaussian(MEAN, COV), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan(personalised: bool = True, n_per_arm: int = 8) -> Plan:
    notion = "user" if personalised else "proof"
    return rcb.calibrate(market(), notion=notion, personalised=personalised, n_per_arm=n_per_arm, n_worlds=300, seed=3)


def first_world(seed: int) -> SimulatedWorld:
    return SimulatedWorld(market(), np.random.SeedSequence(seed).spawn(1)[0])


@pytest.mark.parametrize(("feed", "clock"), [("all", "relative"), ("last", "relative"), ("all", "global")])
def test_runs_are_those_of_the_paper_s_pseudo_code(feed: Any, clock: Any):
    horizon, uniform = 3000, plan(personalised=False)
    world = first_world(5)
    page = world.page(0)
    arms, stages, gammas = plain_rcb.run(
        MEAN,
        COV,
        beta=world.beta,
        sigma=SIGMA,
        n_per_arm=8,
        rate=uniform.exploration_rate,
        users=page.x[:horizon],
        uniforms=page.uniforms[:horizon],
        noise=page.noise[:horizon],
        panel=market().covariates.sample(512, seed=0),
        feed=feed,
        clock=clock,
    )
    options = Exploiting(feed=feed, clock=clock)
    found = simulate(market(), uniform, horizon=horizon, n_worlds=1, options=options, seed=5).isel(world=0)
    np.testing.assert_array_equal(found["recommended"], arms)
    assert [ROUND_KINDS[stage] for stage in found["stage"].values] == stages
    assert found["gamma"].item() == pytest.approx(gammas[-1], rel=1e-8)
    assert {"most popular", "promoted", "organic", "exploit"} == set(stages)


def test_figures_follow_from_the_world():
    horizon = 2000
    found = simulate(market(), plan(), horizon=horizon, n_worlds=1, seed=6).isel(world=0)
    world = first_world(6)
    means = world.page(0).x[:horizon] @ world.beta.T
    arm = found["recommended"].values
    own = means[np.arange(horizon), arm]
    np.testing.assert_allclose(found["regret"], means.max(axis=1) - own, atol=1e-12)
    np.testing.assert_array_equal(found["context_arm_best"], means.argmax(axis=1))
    assert (found["propensity"] > 0).all()
    assert (found["propensity"] <= 1).all()
    assert (found["posterior_regret"] >= 0).all()
    np.testing.assert_allclose(np.maximum(-found["gain"], 0), found["posterior_regret"])
    length = found["cold_start_length"].item()
    stage = found["stage"].values
    assert (stage[:length] != 3).all()
    assert (stage[length:] == 3).all()
    counted = stage != ROUND_KINDS.index("organic")
    np.testing.assert_array_equal(found["n_samples"], np.bincount(arm[counted], minlength=3))
    assert found.attrs["epsilon"] == 0.05


def direct(where: Market) -> rcb.PosteriorOracle:
    """Posterior means round the ArviZ summary, for many worlds."""
    return rcb.PosteriorOracle(where.platform_prior, where.noise, read="engine")


def test_a_run_is_the_same_round_the_summary():
    read, unread = (
        simulate(market(), plan(), horizon=700, n_worlds=3, oracle=oracle, seed=7)
        for oracle in (None, direct(market()))
    )
    np.testing.assert_array_equal(read["recommended"], unread["recommended"])
    np.testing.assert_allclose(read["propensity"], unread["propensity"], rtol=0, atol=1e-12)
    assert read.attrs["n_fits"] == unread.attrs["n_fits"] > 9
    assert read.attrs["n_not_vouched"] == 0


def test_propensities_undo_the_choice_of_arms():
    """E[1{recommended i} / p_i] = 1 for every arm that can be recommended: in exploitation, for all of them."""
    found = simulate(market(), plan(), horizon=600, n_worlds=60, oracle=direct(market()), seed=7)
    is_exploited = found["stage"].values == 3
    weights = is_exploited / found["propensity"].values
    for arm in range(3):
        share = np.where(found["recommended"].values == arm, weights, 0.0).sum(axis=1) / is_exploited.sum(axis=1)
        assert abs(share.mean() - 1) < 4 * share.std(ddof=1) / np.sqrt(len(share))


@pytest.mark.parametrize("page", [64, 1000])
def test_no_answer_depends_on_how_rounds_are_cut(page: int, monkeypatch: pytest.MonkeyPatch):
    """Decisions in smaller pieces, the random numbers being the same."""
    whole = simulate(market(), plan(), horizon=3000, n_worlds=2, oracle=direct(market()), seed=8)
    original = policies.Rcb.decide

    def in_pieces(self: Any, x: Any, features: Any, uniforms: Any) -> Any:
        return original(self, x[:page], features[:, :page], uniforms[:page])

    monkeypatch.setattr(policies.Rcb, "decide", in_pieces)
    cut = simulate(market(), plan(), horizon=3000, n_worlds=2, oracle=direct(market()), seed=8)
    np.testing.assert_array_equal(whole["recommended"], cut["recommended"])
    np.testing.assert_array_equal(whole["regret"], cut["regret"])


def test_worlds_do_not_depend_on_how_many_there_are():
    few, many = (simulate(market(), plan(), horizon=300, n_worlds=n, oracle=direct(market()), seed=9) for n in (2, 4))
    np.testing.assert_array_equal(few["recommended"], many["recommended"][:2])
    other = simulate(market(), plan(), horizon=300, n_worlds=2, oracle=direct(market()), seed=10)
    assert (few["recommended"].values != other["recommended"].values).any()


def test_a_longer_horizon_begins_the_same():
    short, long = (
        simulate(market(), plan(), horizon=n, n_worlds=2, oracle=direct(market()), seed=9)
        for n in (PAGE + 100, 2 * PAGE)
    )
    np.testing.assert_array_equal(short["recommended"], long["recommended"][:, : PAGE + 100])


def test_thinned_runs_have_the_same_regret():
    whole = simulate(market(), plan(), horizon=1050, n_worlds=2, oracle=direct(market()), seed=11)
    thin = simulate(market(), plan(), horizon=1050, n_worlds=2, oracle=direct(market()), every=100, seed=11)
    assert thin["t"].values.tolist() == [*range(100, 1001, 100), 1050]
    np.testing.assert_allclose(thin["regret"].cumsum("t"), whole["regret"].cumsum("t").sel(t=thin["t"]))
    np.testing.assert_array_equal(thin["recommended"], whole["recommended"].sel(t=thin["t"]))


@pytest.mark.slow
def test_regret_grows_like_the_square_root_of_the_horizon():
    prior = Prior.gaussian(np.zeros((5, 5)), 0.2)
    equal = Market(prior=prior, covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05))
    made = rcb.calibrate(equal, n_per_arm=10, n_worlds=100, guard=False)
    found = simulate(equal, made, horizon=2**18, n_worlds=40, oracle=direct(equal), every=2**12, seed=1)
    total = found["regret"].cumsum("t")
    grid = 2 ** np.arange(12, 19)
    # What each doubling adds, so that the cold start, which is no part of it, drops out.
    added = np.log(np.diff(total.sel(t=grid).values, axis=1))  # (worlds, points)
    design = np.log(grid[1:]) - np.log(grid[1:]).mean()
    slopes = added @ design / (design @ design)
    error = slopes.std(ddof=1) / np.sqrt(len(slopes))
    assert abs(slopes.mean() - 0.5) < 0.05 + 3 * error
    assert slopes.mean() + 3 * error < 0.75


@pytest.mark.parametrize("make", [Greedy, LinUcb, LinThompson])
def test_baselines_are_simulated_alike(make: Any):
    found = simulate(market(), lambda m, seed: make(m, seed=seed, batch=10), horizon=500, n_worlds=3, seed=1)
    late = found["regret"].isel(t=slice(300, None)).mean()
    assert late < found["regret"].isel(t=slice(0, 50)).mean()
    never = simulate(market(), lambda m, seed: make(m, seed=seed, batch=1000), horizon=500, n_worlds=3, seed=1)
    assert late < 0.5 * never["regret"].isel(t=slice(300, None)).mean()  # learning is why
    arms = found["recommended"].values
    np.testing.assert_array_equal(found["n_samples"], [np.bincount(own, minlength=3) for own in arms])


def test_other_oracles_serve():
    from sklearn.linear_model import Ridge

    oracles = [
        RidgeOracle(penalty=0.5),
        SklearnOracle(estimator=Ridge(alpha=0.5, fit_intercept=False)),
        SklearnOracle(estimator=Ridge(alpha=0.5, fit_intercept=False), joint=True),
    ]
    runs = [
        simulate(market(), plan(), horizon=600, n_worlds=2, oracle=oracle, options=Exploiting(spread="paper"), seed=2)
        for oracle in oracles
    ]
    np.testing.assert_array_equal(runs[0]["recommended"], runs[1]["recommended"])
    np.testing.assert_array_equal(runs[0]["recommended"], runs[2]["recommended"])
    usual = simulate(market(), plan(), horizon=600, n_worlds=2, options=Exploiting(spread="paper"), seed=2)
    assert (runs[0]["recommended"].values != usual["recommended"].values).any()  # they are asked at all
    beyond = int(usual["cold_start_length"].max())
    np.testing.assert_array_equal(runs[0]["stage"][:, beyond:], 3)


@pytest.mark.parametrize("schedule", ["log", "sqrt", "linear"])
def test_inflated_priors_are_outweighed_by_data(schedule: str):
    plain, wide = (
        simulate(
            market(),
            plan(),
            horizon=1500,
            n_worlds=2,
            oracle=direct(market()),
            options=Exploiting(inflation=kind),
            seed=3,
        )
        for kind in ("none", schedule)
    )
    length = int(plain["cold_start_length"].max())
    np.testing.assert_array_equal(plain["recommended"][:, :length], wide["recommended"][:, :length])
    assert (plain["gain"].values != wide["gain"].values).any()


def test_bernoulli_rewards_run():
    users = rcb.Empirical(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    clicks = Market(prior=Prior.gaussian([[0.8, 0.3], [0.2, 0.2]], 1.0), covariates=users, noise=rcb.BernoulliLogit())
    found = simulate(clicks, rcb.calibrate(clicks, n_per_arm=8, n_worlds=200), horizon=300, n_worlds=1, seed=1)
    world = SimulatedWorld(clicks, np.random.SeedSequence(1).spawn(1)[0])
    means = 1 / (1 + np.exp(-world.page(0).x[:300] @ world.beta.T))  # of clicks, not of their log odds
    told = means[np.arange(300), found["recommended"].values[0]]
    np.testing.assert_allclose(found["regret"].values[0], means.max(axis=1) - told, atol=1e-12)
    assert found["cold_start_length"].item() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon"),
        ({"n_worlds": 0}, "n_worlds"),
        ({"every": 0}, "every"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        simulate(market(), plan(), **{"horizon": 10, "n_worlds": 1, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clock": "globl"}, "Did you mean 'global'"),
        ({"feed": "first"}, "no feed 'first'"),
        ({"spread": "papers"}, "Did you mean 'paper'"),
        ({"spread_multiple": 0.0}, "spread_multiple"),
        ({"inflation": "square"}, "inflation"),
    ],
)
def test_options_are_checked(change: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        Exploiting(**change)


def test_plans_of_other_markets_are_refused():
    other = Market(prior=Prior.gaussian(np.zeros((2, 2)), 1.0), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(1.0))
    with pytest.raises(RcbError, match="Calibrate a plan for this market"):
        simulate(other, plan(), horizon=10)
    moved = Market(prior=Prior.gaussian(MEAN + 1, COV), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(1.0))
    with pytest.raises(RcbError, match="other prior means"):
        simulate(moved, plan(), horizon=10)


def test_infeasible_plans_are_not_run():
    sure = Market(
        prior=Prior.gaussian([[0.5], [0.0]], [1e-8, 0.2]),
        covariates=rcb.Empirical([[1.0]]),
        noise=rcb.GaussianNoise(0.3),
    )
    with pytest.raises(RcbError, match="cannot be run"):
        simulate(sure, rcb.calibrate(sure, n_per_arm=5, n_worlds=100), horizon=10)
