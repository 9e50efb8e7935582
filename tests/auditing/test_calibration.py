"""``calibrate``: the paper's settings, feasibility, the course of the cold start, bad input."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism import simulator
from rcb_bayes.planning import stage_rates
from rcb_bayes.planning.feasibility import LEAST_RATE
from tests.planning.revising import revised
from tests.twins import plain_cold_start


def market_of(mean: Any, variance: Any, covariates: Any = None, *, sigma: float = 0.3) -> Market:
    prior = Prior.gaussian(np.asarray(mean, dtype=float), variance)
    return Market(prior=prior, covariates=covariates or rcb.Sphere(prior.n_features), noise=rcb.GaussianNoise(sigma))


def one_type(mean: list[float], variance: Any, *, sigma: float = 0.3) -> Market:
    return market_of(np.array(mean)[:, None], variance, rcb.Empirical([[1.0]]), sigma=sigma)


# --- the paper's settings --------------------------------------------------------------------------------------------


def setting_4(variance: float) -> Market:
    mean = np.zeros((5, 5))
    mean[0] = 1.0
    return market_of(mean, variance, sigma=0.05)


@cache
def plan_4(variance: float, notion: str, personalised: bool) -> Plan:
    return rcb.calibrate(
        setting_4(variance), notion=notion, personalised=personalised, n_per_arm=50, n_worlds=300, guard=False, seed=1
    )


def test_setting_4_has_no_uniform_rate_that_every_user_follows():
    plan = plan_4(0.04, "user", False)
    assert plan.exploration_rate < LEAST_RATE
    assert not plan.feasible
    assert "one rate must suit all" in plan.reason
    assert plan.nearest_epsilon is not None
    assert 1.5 < plan.nearest_epsilon < 1.01 * np.sqrt(5)  # rounded up, and tried
    assert plan.expected_cold_start > 1e9


def test_setting_4_has_a_small_uniform_rate_under_the_proof_s_notion():
    plan = plan_4(0.04, "proof", False)
    assert plan.feasible
    assert plan.exploration_rate == pytest.approx(0.023, abs=0.002)  # eps/(eps + D), the largest D near sqrt(5)
    assert plan.inverse_rate == pytest.approx(1 / plan.exploration_rate)


@pytest.mark.parametrize("variance", [0.02, pytest.param(0.04, marks=pytest.mark.slow), 0.1])
def test_setting_4_has_a_personalised_rate_above_one_half(variance: float):
    plan = plan_4(variance, "user", True)
    assert plan.feasible
    assert plan.exploration_rate - 3 * plan.exploration_rate_mcse > 0.48
    assert plan.exploration_rate > 0.5
    assert plan.share_free == pytest.approx(0.515, abs=0.03)
    assert plan.share_explored > plan.share_free
    assert [plan.stage_name(stage) for stage in plan.stages][:2] == [
        "arm_0",
        "arm_0 and 1 of arm_1, arm_2, arm_3, arm_4",
    ]
    assert len(plan.stages) == 4


@pytest.mark.parametrize(
    ("notion", "personalised"), [("user", True), ("user", False), ("proof", True), ("definition", False)]
)
@pytest.mark.usefixtures("small_panel")
def test_setting_1_has_nothing_to_subsidise(notion: str, personalised: bool):
    market = market_of(np.zeros((5, 5)), 0.2, sigma=0.05)
    plan = rcb.calibrate(market, notion=notion, personalised=personalised, n_per_arm=20, n_worlds=100, seed=1)
    assert plan.exploration_rate == plan.inverse_rate == 1.0
    assert plan.feasible
    assert plan.expected_cold_start == 100.0
    assert plan.expected_cold_start_mcse == 0.0


# --- arms that are alike ---------------------------------------------------------------------------------------------


def three_alike() -> Market:
    return market_of([[0.3, 0.1], [0.0, 0.1], [0.0, 0.1], [0.0, 0.1]], [0.2, 0.1, 0.1, 0.1])


def test_arms_that_are_alike_share_their_stages(monkeypatch: pytest.MonkeyPatch):
    """With and without: the same rates at every set, within Monte Carlo error, and the same course."""
    settings: dict[str, Any] = {"n_per_arm": 8, "n_worlds": 600, "guard": False, "seed": 1}
    together = rcb.calibrate(three_alike(), **settings)
    monkeypatch.setattr(simulator, "alike_arms", lambda *_: tuple((arm,) for arm in range(4)))
    apart = rcb.calibrate(three_alike(), **settings)
    assert len(together.stages) < len(apart.stages)
    users = rcb.Sphere(2).sample(200, seed=5)
    for stage in apart.stages:
        if stage.share > 0.05:
            one, two = (plan.rate(users, saturated=stage.saturated).mean() for plan in (together, apart))
            assert abs(one - two) < 4 * np.sqrt(2) * stage.rate_mcse + 0.01
    for name in ("expected_cold_start", "expected_regret", "expected_pulls", "coverage"):
        one, two = (np.array(getattr(plan, name)) for plan in (together, apart))
        error = np.hypot(*(np.array(getattr(plan, f"{name}_mcse")) for plan in (together, apart)))
        assert (np.abs(one - two) < 4 * error + 0.02 * two).all()  # rates, too, differ within their errors
    assert len(set(together.expected_pulls[1:])) == 1


def test_many_arms_that_are_alike_are_few_stages():
    plan = rcb.calibrate(market_of([[1.0], *[[0.0]] * 8], 0.02, rcb.Empirical([[1.0]]), sigma=0.05), notion="proof",
                         personalised=False, n_per_arm=50, n_worlds=60, seed=1)  # fmt: skip
    assert len(plan.stages) == 8
    assert plan.exploration_rate == pytest.approx(0.05, abs=0.002)  # eps/(eps + D - eps): the last arm's


@pytest.mark.usefixtures("small_panel")
def test_ten_equal_arms_have_a_plan():
    plan = rcb.calibrate(market_of(np.zeros((10, 2)), 0.2), n_per_arm=5, n_worlds=60, seed=1)
    assert plan.exploration_rate == plan.share_explored == 1.0
    assert plan.expected_cold_start == 50
    assert plan.rho_mcse > 0
    assert np.isfinite(plan.coverage).all()


# --- stages without rates of their own -------------------------------------------------------------------------------


@pytest.mark.parametrize("personalised", [True, False])
def test_stages_that_are_not_planned_explore_free_users_only(personalised: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stage_rates, "MAX_STAGES", 1)
    market = market_of([[0.4], [0.39], [0.0]], 0.3, rcb.Empirical([[1.0], [-1.0]]))
    plan = rcb.calibrate(market, personalised=personalised, n_per_arm=5, n_worlds=100, seed=1)
    assert len(plan.stages) <= 2
    assert any("too rare or too many" in note for note in plan.notes)
    known = {stage.saturated for stage in plan.stages}
    assert ("arm_0", "arm_1") not in known
    low, high = plan.rate([[1.0], [-1.0]], saturated=["arm_0", "arm_1"])
    assert low == 0.0  # arm_2 costs her .4
    assert high == (1.0 if personalised else plan.exploration_rate)


# --- the course of the cold start ------------------------------------------------------------------------------------


def test_two_arms_take_n_and_then_n_over_q():
    plan = rcb.calibrate(one_type([0.3, 0.0], 0.3), n_per_arm=12, n_worlds=2000, seed=2)
    expected = 12 + 12 / plan.exploration_rate
    assert 0 < plan.exploration_rate < 1
    of_the_rate = 12 / plan.exploration_rate**2 * plan.exploration_rate_mcse
    given_the_rate = np.sqrt(plan.expected_cold_start_mcse**2 - of_the_rate**2)
    assert abs(plan.expected_cold_start - expected) < 4 * given_the_rate
    assert abs(plan.expected_cold_start - 1.05 * expected) > 4 * given_the_rate
    assert plan.coverage[0] == pytest.approx(1.0)


def test_the_error_of_the_length_is_its_spread_over_seeds():
    plans = [
        rcb.calibrate(one_type([0.3, 0.0], 0.3), n_per_arm=12, n_worlds=500, seed=s, guard=False) for s in range(20)
    ]
    spread = np.std([plan.expected_cold_start for plan in plans], ddof=1)
    said = np.mean([plan.expected_cold_start_mcse for plan in plans])
    # Twenty seeds tell a standard deviation to within a factor of two, almost surely.
    assert 0.5 < spread / said < 2.0


@pytest.mark.usefixtures("small_panel")
def test_pulls_add_up_to_the_length():
    plan = rcb.calibrate(market_of([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]], 0.3), n_per_arm=8, n_worlds=300, seed=3)
    assert sum(plan.expected_pulls) == pytest.approx(plan.expected_cold_start, rel=1e-9)
    assert min(plan.expected_pulls) >= 8 - 4 * max(plan.expected_pulls_mcse)


def test_the_regret_of_a_cold_start_is_that_of_a_plain_run():
    """Two arms, x = 1: N rounds of the liked arm, then N/q rounds, organic ones taking the better posterior mean."""
    mean, variance, sigma, n = np.array([0.3, 0.0]), 0.3, 0.3, 12
    plan = rcb.calibrate(one_type([0.3, 0.0], variance), n_per_arm=n, n_worlds=4000, guard=False, seed=2)
    rng = np.random.default_rng(5)
    truth = mean + np.sqrt(variance) * rng.standard_normal((200_000, 2))
    average = truth[:, 0] + sigma / np.sqrt(n) * rng.standard_normal(len(truth))
    posterior = (mean[0] / variance + average * n / sigma**2) / (1 / variance + n / sigma**2)
    organic = np.where(posterior > mean[1], truth[:, 0], truth[:, 1])
    best = truth.max(axis=1)
    rounds = n * (1 / plan.exploration_rate - 1)
    regret = n * (best - truth[:, 0]) + n * (best - truth[:, 1]) + rounds * (best - organic)
    error = np.hypot(plan.expected_regret_mcse, regret.std() / np.sqrt(len(regret)))
    assert abs(plan.expected_regret - regret.mean()) < 4 * error
    assert plan.expected_regret_mcse < 0.1 * plan.expected_regret


def test_a_personalised_plan_explores_at_least_as_often_as_one_rate_for_all():
    market = market_of([[0.4, 0.1], [0.1, 0.0]], 0.3)
    each, all_alike = (
        rcb.calibrate(market, personalised=personalised, n_per_arm=10, n_worlds=300, guard=False, seed=4)
        for personalised in (True, False)
    )
    assert each.exploration_rate > all_alike.exploration_rate
    assert each.expected_cold_start < all_alike.expected_cold_start


def test_more_worlds_for_the_audit_allow_higher_rates():
    """Where more than who was sampled differs between worlds, or that does: not for users who are all alike."""
    belief = rcb.Prior.gaussian([[0.3, 0.2], [0.0, 0.0]], 0.2)
    market = Market(prior=belief, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    rates = [
        rcb.calibrate(market, n_per_arm=10, n_worlds=2000, audit_worlds=worlds, guard=False, seed=1).exploration_rate
        for worlds in (200, 1000, 100_000)
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[2]


def test_arms_that_are_sampled_from_one_type_only_cover_one_direction():
    """N samples do not imply coverage: the second arm is promoted to one of two orthogonal types alone."""
    market = market_of([[1.0, 1.0], [0.98, -9.0], [0.9, 0.9]], [1e-4, 0.1, 0.1], rcb.Empirical(np.eye(2)))
    plan = rcb.calibrate(market, n_per_arm=10, n_worlds=300, seed=1)
    assert plan.coverage[0] > 0.1
    assert plan.coverage[1] == 0.0


# --- beliefs that forbid it ------------------------------------------------------------------------------------------


def test_a_belief_without_doubt_cannot_be_explored_but_from_the_gap_on():
    plan = rcb.calibrate(one_type([0.5, 0.0], [1e-8, 0.2]), n_per_arm=5, n_worlds=300, seed=1)
    assert not plan.feasible
    assert plan.exploration_rate == 0.0
    assert plan.share_explored == 0.0
    assert plan.nearest_epsilon is not None
    assert plan.nearest_epsilon == pytest.approx(0.5, rel=2e-3)
    assert "no user can be explored" in plan.reason
    again = rcb.calibrate(
        one_type([0.5, 0.0], [1e-8, 0.2]), epsilon=plan.nearest_epsilon, n_per_arm=5, n_worlds=300, seed=2
    )
    assert again.feasible


LATER = [[0.4112, 0.1893], [0.1124, 0.3017], [0.0391, 0.2208], [0.3302, 0.0421]]
"""Arms of which later stages ask for more than the first that is closed."""


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("options", [{}, {"knows": "level"}, {"personalised": False}], ids=["stage", "level", "one"])
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_the_epsilon_that_is_named_was_rounded_up_and_tried(scale: float, options: dict[str, Any], seed: int) -> None:
    rows = rcb.Empirical([[0.31, 0.72], [0.55, 0.18]])
    prior = rcb.Prior.gaussian(scale * np.array(LATER), 1e-4 * scale**2)
    market = Market(prior=prior, covariates=rows, noise=rcb.GaussianNoise(0.3 * scale))
    asked: dict[str, Any] = {"n_per_arm": 5, "n_worlds": 300, "guard": False, "seed": seed} | options
    plan = rcb.calibrate(market, epsilon=0.01 * scale, **asked)
    assert not plan.feasible
    named = re.search(r"a plan is found from about epsilon (\S+) on\.$", plan.reason)
    assert named is not None, plan.reason
    assert float(named[1]) == plan.nearest_epsilon
    assert rcb.calibrate(market, epsilon=float(named[1]), **asked).feasible


def test_the_nearest_epsilon_of_the_crowd_is_feasible():
    market = one_type([0.5, 0.0], [1e-4, 0.2])
    plan = rcb.calibrate(market, notion="definition", personalised=False, n_per_arm=5, n_worlds=300, seed=1)
    assert not plan.feasible
    assert plan.nearest_epsilon is not None
    assert 0.05 < plan.nearest_epsilon <= 0.5


def test_one_rate_for_all_may_fail_where_rates_of_their_own_do_not():
    market = market_of([[0.5, 3.0], [0.4, 0.0]], [[[0.2, 0], [0, 1e-8]]] * 2, rcb.Empirical(np.eye(2)))
    each, all_alike = (
        rcb.calibrate(market, personalised=personalised, n_per_arm=5, n_worlds=600, seed=1)
        for personalised in (True, False)
    )
    assert each.feasible
    assert not all_alike.feasible
    assert 0 < each.share_explored < 1


def test_the_nearest_epsilon_is_that_of_the_user_who_binds():
    """Not the one who loses most, but the one whose posterior does not move."""
    angles = np.linspace(0, 0.2, 100)
    users = np.vstack([np.column_stack([np.cos(angles), np.zeros(100)]), [[0.0, 1.0]]])
    market = market_of([[1.0, 0.5], [0.0, 0.0]], np.diag([1, 1e-6, 1, 1e-6]), rcb.Empirical(users))
    plan = rcb.calibrate(market, personalised=False, n_per_arm=20, n_worlds=300, seed=1)
    assert not plan.feasible
    assert plan.nearest_epsilon == pytest.approx(0.5, abs=0.01)


def test_a_cold_start_that_may_never_end_has_no_length():
    users = rcb.Empirical([[1.0, 0.0], [0.8, 0.6]], weights=[0.01, 0.99])
    means = [[0.5, 0.1667], [0.48, 0.01], [0.0, 0.6667]]
    variances = np.diag([0.001, 0.001, 0.5, 0.01, 0.1, 0.1])
    plan = rcb.calibrate(market_of(means, variances, users, sigma=0.05), n_per_arm=1, n_worlds=500, seed=1)
    assert not plan.feasible
    assert plan.expected_cold_start == plan.expected_regret == np.inf


# --- what does not matter, and what does -----------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.1, 0.7])
def test_rates_do_not_depend_on_the_level_of_rewards(level: float):
    """A constant added to all arms: ties that no sample resolves must stay ties, whatever the decimals."""

    def rates(t: float) -> np.ndarray:
        means = [[t + 0.5, t], [t - 0.5, t + 0.3], [t - 0.05, t]]
        market = market_of(means, 0.3, rcb.Empirical(np.eye(2)))
        plan = rcb.calibrate(market, n_per_arm=4, n_worlds=2000, audit_worlds=10**9, guard=False, seed=1)
        return plan.rate(np.eye(2), saturated=["arm_0", "arm_1"])

    np.testing.assert_allclose(rates(level), rates(0.5), atol=1e-6)


def test_an_arm_without_doubt_that_ties_is_no_obstacle():
    plan = rcb.calibrate(one_type([0.7, 0.3, 0.3], [0.3, 0.0, 0.2]), n_per_arm=4, n_worlds=500, seed=1)
    assert plan.feasible


def test_pulls_and_regret_of_one_rate_for_all_are_those_of_a_plain_run():
    """Free users have organic rounds too, and take the better arm in them."""
    means, variance, sigma, n = np.array([[0.5, 0.2], [0.0, 0.2]]), 0.5, 0.3, 5
    users = rcb.Empirical(np.eye(2), weights=[0.3, 0.7])
    plan = rcb.calibrate(
        market_of(means, variance, users, sigma=sigma), personalised=False, n_per_arm=n, n_worlds=2000, seed=1
    )
    records, length = plain_cold_start.run(
        means,
        np.full((2, 2), variance),
        weights=np.array([0.3, 0.7]),
        sigma=sigma,
        n_per_arm=n,
        rates=lambda arms: np.full(2, plan.exploration_rate),
        n_runs=20_000,
        seed=2,
    )
    pulls = np.array([sum(part.n for (_, _, arm), part in records.items() if arm == k) for k in range(2)]) / 20_000
    assert abs(length.mean() - plan.expected_cold_start) < 4 * np.hypot(
        plan.expected_cold_start_mcse, length.std() / np.sqrt(20_000)
    )
    np.testing.assert_allclose(pulls, plan.expected_pulls, rtol=0.03)
    loss = sum(part.shortfall for part in records.values()) / 20_000
    assert abs(loss - plan.expected_regret) < 4 * plan.expected_regret_mcse + 0.02 * loss


def test_a_platform_that_believes_otherwise_is_not_called_feasible():
    """It promotes what users take for the worse arm from the first round on."""
    market = Market(
        prior=Prior.gaussian([[0.3], [0.5]], 0.3),
        platform_prior=Prior.gaussian([[0.6], [0.2]], 0.3),
        covariates=rcb.Empirical([[1.0]]),
        noise=rcb.GaussianNoise(0.3),
    )
    plan = rcb.calibrate(market, n_per_arm=4, n_worlds=300, seed=1)
    assert not plan.feasible
    assert "believes otherwise" in plan.reason


def test_too_many_arms_are_refused():
    with pytest.raises(RcbError, match="at most 62 arms"):
        rcb.calibrate(market_of(np.zeros((63, 1)), 0.2, rcb.Empirical([[1.0]])), n_per_arm=50, n_worlds=50)


def test_rows_without_weight_do_not_bind():
    rows = [[1.0, 0.0], [0.0, 1.0]]
    with_it = market_of([[0.5, 5.0], [0.3, 0.0]], 0.3, rcb.Empirical(rows, weights=[1.0, 0.0]))
    plan = rcb.calibrate(with_it, personalised=False, n_per_arm=8, n_worlds=300, seed=1)
    assert plan.feasible


# --- other markets ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["student_t", "laplace", "skewed", "hierarchical", "mixture"])
def test_gallery_beliefs_have_plans(name: str):
    prior = rcb.load_prior(name, n_arms=3, n_features=2)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=None if prior.has_sigma else rcb.GaussianNoise(0.3))  # pyright: ignore[reportArgumentType]
    plan = rcb.calibrate(market, n_per_arm=20, n_worlds=500, seed=1)
    assert 0 <= plan.exploration_rate <= 1
    assert plan.n_not_vouched == 0


def test_bernoulli_rewards_have_rates_for_the_rows_of_a_table():
    users = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    prior = Prior.gaussian([[0.8, 0.3], [0.2, 0.2]], 1.0)
    market = Market(prior=prior, covariates=rcb.Empirical(users), noise=rcb.BernoulliLogit())
    plan = rcb.calibrate(market, n_per_arm=8, n_worlds=200, seed=1)
    rates = plan.rate(users)
    assert (rates >= 0).all()
    assert (rates <= 1).all()
    assert plan.exploration_rate == pytest.approx(rates.mean())
    with pytest.raises(rcb.RcbError, match="no rate for a user who is not in the table"):
        plan.rate([0.5, 0.5])
    np.testing.assert_array_equal(Plan.from_json(plan.to_json()).rate(users), rates)


def test_bernoulli_users_reckon_with_probabilities():
    """At a stage without a plan as well: logits and probabilities may rank arms differently."""
    prior = Prior.gaussian([[2.0], [1.0], [1.98]], [0.01, 0.5, 25.0])
    market = Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.BernoulliLogit())
    plan = rcb.calibrate(market, n_per_arm=4, n_worlds=100, seed=1)
    assert "0.88 of arm_0" in plan.explain([1.0])
    unplanned = revised(plan, stages=())
    assert unplanned.rate([1.0], saturated=["arm_0", "arm_1"]) == 0.0
    with pytest.raises(RcbError, match="no rate for a user who is not in the table"):
        unplanned.rate([1.1], saturated=["arm_0", "arm_1"])


def test_bernoulli_rewards_of_any_user_have_one_rate_for_all():
    prior = Prior.gaussian([[0.4, 0.0], [0.3, 0.0]], 1.0)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.BernoulliLogit())
    with pytest.raises(RcbError, match="personalised=False"):
        rcb.calibrate(market, n_per_arm=5)


def test_whose_belief_it_is_is_said():
    prior, other = Prior.gaussian([[0.3], [0.28]], 0.3), Prior.gaussian([[0.29], [0.28]], 0.3)
    market = Market(prior=prior, platform_prior=other, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    plan = rcb.calibrate(market, n_per_arm=10, n_worlds=300, seed=1)
    assert any("users' belief" in note for note in plan.notes)
    np.testing.assert_array_equal(plan.platform_mean, other.mean.values)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -0.1}, "epsilon must be a finite number of at least 0, got -0.1"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "a"}, "epsilon"),
        ({"notion": "usr"}, "Did you mean 'user'"),
        ({"notion": "definition"}, "personalised=False"),
        ({"personalised": "yes"}, "personalised must be True or False"),
        ({"n_per_arm": 0}, "n_per_arm must be an integer of at least 1"),
        ({"n_worlds": 10}, "n_worlds must be an integer of at least 50"),
        ({"audit_worlds": 1.5}, "audit_worlds"),
        ({"engine": "exat"}, "Did you mean 'exact'"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        rcb.calibrate(one_type([0.3, 0.0], 0.3), **{"n_worlds": 100, **change})


def test_dummies_that_an_arm_never_sees_are_no_obstacle():
    """Within an epoch an arm may get no user of some category: its sums there are zero up to rounding."""
    rng = np.random.default_rng(3)
    male = rng.integers(0, 2, 300).astype(float)
    rows = np.column_stack([np.ones(300), male, 1 - male, rng.normal(size=300), rng.random(300) < 0.02])
    prior = rcb.Prior.gaussian(np.outer([0.2, 0.0, 0.0], np.ones(5)), 0.1)
    market = rcb.Market(prior=prior, covariates=rcb.Empirical(rows), noise=rcb.GaussianNoise(0.1))
    plan = rcb.calibrate(market, n_per_arm=5, n_worlds=200, seed=1)
    assert plan.guards
    assert rcb.simulate(market, plan, horizon=300, n_worlds=2, seed=1)["regret"].notnull().all()


# --- the choice of N -------------------------------------------------------------------------------------------------


@cache
def with_n_chosen() -> Plan:
    prior = Prior.gaussian([[0.3, 0.3], [0.0, 0.0]], 0.2)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator, "N_USERS", 512)  # errors are told for as many as there are
        return rcb.calibrate(market, n_worlds=400, audit_worlds=400, horizon=800, seed=1)


def test_n_is_the_one_with_the_least_expected_regret_that_passes():
    plan = with_n_chosen()
    chosen = next(one for one in plan.choices if one.n_per_arm == plan.n_per_arm)
    assert chosen.verdict == "pass"
    better = [one for one in plan.choices if one.feasible and one.regret < chosen.regret]
    assert all(one.verdict not in ("", "pass") for one in better)  # tried before, and not passed
    assert all(one.n_per_arm * 2 <= 0.25 * 800 for one in plan.choices)


def test_the_choice_survives_saving():
    plan = with_n_chosen()
    again = Plan.from_json(plan.to_json())
    assert again.choices == plan.choices
    assert again.unguarded_n == plan.unguarded_n


def test_expected_regret_is_that_of_runs():
    """What N is chosen by, against runs of the plan in worlds of the belief."""
    prior = Prior.gaussian([[0.3, 0.3], [0.0, 0.0]], 0.2)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    plan = with_n_chosen()
    oracle = rcb.PosteriorOracle(prior, market.noise, read="engine")
    found = rcb.simulate(market, plan, horizon=800, n_worlds=100, oracle=oracle, every=800, seed=3)
    runs = found["regret"].sum("t")
    chosen = next(one for one in plan.choices if one.n_per_arm == plan.n_per_arm)
    error = np.hypot(chosen.regret_mcse, runs.std(ddof=1).item() / np.sqrt(100))
    assert abs(chosen.regret - runs.mean().item()) < 4.5 * error
    assert abs(chosen.regret * 1.5 - runs.mean().item()) > 4.5 * error  # half as much again would be seen


def test_a_given_n_is_taken_as_it_is():
    prior = Prior.gaussian([[0.3, 0.3], [0.0, 0.0]], 0.2)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    plan = rcb.calibrate(market, n_per_arm=7, n_worlds=100, guard=False)
    assert plan.n_per_arm == 7
    assert plan.choices == ()
    assert plan.unguarded_n is None
