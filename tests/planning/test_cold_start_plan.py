"""What a plan says of itself: rates for everybody, feasible or not and why, whoever wrote the table of users."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import GuardWarning
from rcb_bayes.mechanism import engines
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.simulator import N_PATHS, Simulator
from rcb_bayes.planning import stage_rates
from rcb_bayes.posterior import make_engine
from rcb_bayes.posterior.results import PosteriorBatch
from tests.twins.coarse_plans import coarse_plan

SMALL: dict[str, Any] = {"n_worlds": 300, "audit_worlds": 300, "seed": 1}


def one_user(mean: list[float], variance: float) -> Market:
    prior = Prior.gaussian(np.array(mean)[:, None], variance)
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))


@cache
def strong_prior(n_features: int = 2) -> Market:
    mean = np.zeros((3, n_features))
    mean[0] = 1.0
    prior = Prior.gaussian(mean, 0.1)
    return Market(prior=prior, covariates=rcb.Sphere(n_features), noise=rcb.GaussianNoise(0.05))


# --- one rate for all ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("notion", ["user", "proof"])
def test_one_rate_suits_users_whom_no_panel_has(notion: str):
    """The rule of a personal plan with the same worlds tells what anybody's rate would be."""
    prior = Prior.gaussian([[0.15, 0.1, 0.05], [0.0, 0.0, 0.0]], 0.3)
    market = Market(prior=prior, covariates=rcb.Sphere(3), noise=rcb.GaussianNoise(0.3))
    shared: dict[str, Any] = {"notion": notion, "n_per_arm": 20, "n_worlds": 400, "guard": False, "seed": 1}
    each, one = (rcb.calibrate(market, personalised=personal, **shared) for personal in (True, False))
    stage = each.stages[0]
    panel, others = (market.covariates.sample(n, seed=9) for n in (2048, 40_000))
    rates = [each.rate(users, saturated=stage.saturated).min() for users in (panel, others)]
    assert one.exploration_rate <= rates[1] + 1e-9
    assert one.exploration_rate < rates[0]  # the least of a panel would have been too much
    assert one.exploration_rate > 0.8 * rates[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("notion", ["proof", "definition"])
@pytest.mark.parametrize("coupled", [False, pytest.param(True, marks=pytest.mark.weekly)])
def test_plans_with_one_rate_pass_an_audit_under_their_notion(notion: str, seed: int, coupled: bool):
    prior = rcb.load_prior("correlated" if coupled else "setting_4", n_arms=3)
    market = Market(prior=prior, covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05))
    plan = rcb.calibrate(market, notion=notion, personalised=False, n_per_arm=20, seed=seed)
    assert rcb.audit(market, plan, horizon=2000, seed=seed + 50).verdict == "pass"


# --- the table of users ----------------------------------------------------------------------------------------------


def test_the_order_of_a_table_changes_nothing():
    rng = np.random.default_rng(0)
    rows = np.abs(rng.normal(size=(400, 2)))
    prior = Prior.gaussian([[0.5, 0.2], [0.0, 0.1]], 0.2)
    told = []
    for order in (np.argsort(rows[:, 0]), np.argsort(-rows[:, 0]), rng.permutation(400)):
        users = rcb.Empirical(rows[order])
        market = Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(0.3))
        plan = rcb.calibrate(market, horizon=200, n_worlds=100, audit_worlds=100, seed=1)
        told.append((plan.n_per_arm, [one.regret for one in plan.choices], [rule.kept for rule in plan.guards]))
    assert told[0] == told[1] == told[2]


# --- feasible or not, and why ----------------------------------------------------------------------------------------


@cache
def doubtful_market(gap: float) -> Market:
    """What users expect after data is not normal here, so that worlds have to show how often the arm is the best."""
    prior = rcb.load_prior("student_t", n_arms=2, n_features=1, mean=[[gap], [0.0]], scale=0.15, nu=4.0)
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))


def test_what_is_not_certified_is_told_apart_from_what_cannot_be():
    doubtful = rcb.calibrate(doubtful_market(0.6), epsilon=0.02, n_per_arm=10, n_worlds=2000, seed=1)
    certain = rcb.calibrate(one_user([0.6, 0.0], 1e-6), epsilon=0.02, n_per_arm=10, n_worlds=2000, seed=1)
    assert not doubtful.feasible
    assert not certain.feasible
    assert "not certified" in doubtful.reason
    assert "worlds (n_worlds, audit_worlds) would certify half of it" in doubtful.reason
    assert 0 < doubtful.ideal_rate < 0.01
    assert "no user can be explored" in certain.reason
    assert certain.ideal_rate == 0.0


def test_a_small_rate_of_a_gaussian_belief_is_known():
    """At a prior gap of .6 and a variance of .05 the exact rate is small and not zero; no world need show it."""
    plan = rcb.calibrate(one_user([0.6, 0.0], 0.05), epsilon=0.02, n_per_arm=10, n_worlds=100, seed=1)
    assert plan.feasible
    assert 0 < plan.exploration_rate == pytest.approx(plan.ideal_rate, rel=1e-9)


def test_the_worlds_asked_for_do_certify_a_rate():
    market = doubtful_market(0.3)
    few = rcb.calibrate(market, epsilon=0.02, n_per_arm=10, n_worlds=100, audit_worlds=100, seed=1)
    assert not few.feasible
    asked = int(few.reason.split("About ")[1].split(" worlds")[0].replace(",", ""))
    assert 100 < asked < 100_000
    enough = rcb.calibrate(market, epsilon=0.02, n_per_arm=10, n_worlds=asked, audit_worlds=asked, seed=2)
    assert enough.feasible
    assert 0.2 * enough.ideal_rate < enough.exploration_rate < 0.9 * enough.ideal_rate


def test_a_cold_start_of_unknown_length_is_no_plan(monkeypatch: pytest.MonkeyPatch):
    market = one_user([0.3, 0.0], 0.3)
    plan = rcb.calibrate(market, n_per_arm=10, n_worlds=500, guard=False, seed=1)
    assert plan.feasible
    # An error of the rate several times the rate itself leaves the length unknown.
    unsure = stage_rates.RatePlanner._rates_of_each

    def with_error(self: stage_rates.RatePlanner, stage: stage_rates.StageRates) -> None:
        unsure(self, stage)
        stage.rate_mcse = 4.0 * stage.rate

    monkeypatch.setattr(stage_rates.RatePlanner, "_rates_of_each", with_error)
    plan = rcb.calibrate(market, n_per_arm=10, n_worlds=500, guard=False, seed=1)
    assert not plan.feasible
    assert "Nobody can tell how long the cold start takes" in plan.reason


def of_paths(plan: Plan, *, n: int) -> float:
    """The error that paths leave in a length of two arms and one user.

    N rounds of the first, then N samples of the second at a rate that the plan has.
    """
    rate = plan.rate([1.0], saturated=["arm_0"])
    error = float(np.sqrt(n * (1.0 - rate)) / rate / np.sqrt(N_PATHS))
    assert abs(plan.expected_cold_start - n * (1.0 + 1.0 / rate)) < 4.0 * error
    assert abs(plan.expected_cold_start_mcse / error - 1.0) < 0.05
    return error


def test_the_error_of_a_length_in_closed_form_is_of_paths_only():
    """One user leaves one design, and so one rate whatever the seed: plans differ by their paths."""
    n, seeds = 10, range(1, 13)
    plans = [rcb.calibrate(one_user([0.3, 0.0], 0.3), n_per_arm=n, n_worlds=500, guard=False, seed=s) for s in seeds]
    assert np.ptp([plan.exploration_rate for plan in plans]) < 1e-12
    errors = [of_paths(plan, n=n) for plan in plans]
    for plan, error in zip(plans, errors, strict=True):
        assert plan.cold_start_scatter is not None
        assert plan.expected_cold_start_mcse <= plan.cold_start_scatter < 1.05 * error
    scatter = np.std([plan.expected_cold_start for plan in plans], ddof=1)
    assert 0.35 < scatter / np.mean(errors) < 1.8  # of 12 seeds: chi-squared, 1 in 5,000 on either side


def test_the_error_of_a_length_is_this_plan_s():
    """Rates by level are of plain worlds, and others with every seed."""
    n = 10
    plan = coarse_plan(one_user([0.3, 0.0], 0.3), knows="level", n_per_arm=n, n_worlds=500, guard=False, seed=1)
    error = of_paths(plan, n=n)
    assert plan.cold_start_scatter is not None
    assert plan.cold_start_scatter > 10.0 * error  # plans of other seeds have other rates
    again = Plan.from_json(plan.to_json())
    assert again.cold_start_scatter == plan.cold_start_scatter
    assert "plans of other seeds" in plan.summary()


@pytest.mark.slow
def test_errors_of_plans_are_their_scatter_over_seeds():
    """Four rows: rates, lengths and regrets of plans that differ by their seed alone."""
    rows = [[1.0, 0.0], [0.7, 0.7], [0.2, 0.9], [0.5, 0.1]]
    market = rcb.Market(
        prior=Prior.gaussian([[0.5, 0.3], [0.2, 0.1], [0.1, 0.2]], [0.1, 0.2, 0.2]),
        covariates=rcb.Empirical(rows),
        noise=rcb.GaussianNoise(0.3),
    )
    asked = {"epsilon": 0.1, "n_per_arm": 10, "n_worlds": 1000, "guard": False}
    plans = [rcb.calibrate(market, **asked, seed=seed) for seed in range(1, 41)]
    named = {
        "exploration_rate": "exploration_rate_mcse",
        "expected_cold_start": "cold_start_scatter",
        "expected_regret": "expected_regret_mcse",
        "rho": "rho_mcse",
    }
    for name, error in named.items():
        claimed = np.sqrt(np.mean([getattr(plan, error) ** 2 for plan in plans]))
        scatter = np.std([getattr(plan, name) for plan in plans], ddof=1)
        assert 0.8 / (1.0 + 3.0 * 0.11) < scatter / claimed < 1.25 * (1.0 + 3.0 * 0.11), name  # of 40 a spread has .11
    own = np.mean([plan.expected_cold_start_mcse for plan in plans])  # of paths, which is less than of rates, too
    assert own < 0.7 * np.std([plan.expected_cold_start for plan in plans])


@pytest.mark.slow
def test_a_plan_takes_as_long_among_other_users_as_its_error_says():
    market = rcb.Market(
        prior=Prior.gaussian([[0.5, 0.3], [0.2, 0.1], [0.1, 0.0]], [0.05, 0.1, 0.2]),
        covariates=rcb.Uniform([0, 0], [1, 1]),
        noise=rcb.GaussianNoise(0.3),
    )
    plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=10, n_worlds=1000, guard=False, seed=1)
    lengths = []
    for seed in range(100, 112):
        walked = Simulator(market, seed=seed, n_paths=5000).walk_under(plan)
        lengths.append(walked.rounds(rng=np.random.default_rng(seed)).sum(axis=0).mean())
    spread = np.std(lengths, ddof=1)
    assert 0.5 < plan.expected_cold_start_mcse / spread < 2.0
    assert abs(plan.expected_cold_start - np.mean(lengths)) < 4.0 * plan.expected_cold_start_mcse


def test_users_who_need_no_subsidy_are_counted_over_the_stages_that_are_passed():
    """With one favoured arm about half of the sphere needs none at nearly every stage, whatever K and N are."""
    shares = []
    for k, n in ((5, 20), (3, 5)):
        market = Market(
            prior=rcb.load_prior("setting_4", n_arms=k), covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05)
        )
        shares.append(rcb.calibrate(market, n_per_arm=n, n_worlds=100, guard=False, seed=1).share_free)
    assert all(0.5 < share < 0.65 for share in shares)


# --- posteriors that nobody vouches for ------------------------------------------------------------------------------


class Doubtful:
    """An exact engine that vouches for a part of its answers only."""

    def __init__(self, prior: Prior, noise: Any, *, share: float) -> None:
        self._inner = make_engine(prior, noise)
        self.prior, self.name, self.reason, self._share = prior, "doubtful", "for a test", share

    def fit(self, data: Any, **asked: Any) -> PosteriorBatch:
        from dataclasses import replace

        found = self._inner.fit(data, **asked)
        return replace(found, vouched=np.arange(found.n_sets) >= self._share * found.n_sets)

    def draw(self, data: Any, n: int, *, rng: np.random.Generator) -> np.ndarray:
        return self._inner.draw(data, n, rng=rng)


@pytest.mark.parametrize(("share", "verdict"), [(0.5, "inconclusive"), (0.002, "pass")])
def test_what_rests_on_posteriors_that_nobody_vouches_for_says_so_first(
    share: float, verdict: str, monkeypatch: pytest.MonkeyPatch
):
    market = one_user([0.1, 0.0], 0.3)
    sound = rcb.calibrate(market, n_per_arm=10, n_worlds=500, seed=1)
    assert "vouched" not in sound.summary()
    monkeypatch.setattr(engines, "make_engine", lambda prior, noise, **_: Doubtful(prior, noise, share=share))
    plan = rcb.calibrate(market, n_per_arm=10, n_worlds=500, seed=1)
    first = plan.summary().splitlines()[0]
    assert first.endswith("posteriors behind it are not vouched for")
    assert plan.n_not_vouched >= 0.9 * share * plan.n_posteriors
    audit = rcb.audit(market, sound, horizon=40, n_worlds=500, seed=2)
    assert audit.verdict == verdict
    assert "posteriors behind it are not vouched for" in audit.summary().splitlines()[0]
    assert audit.verdicts["user"] == verdict


# --- guards for what is run ------------------------------------------------------------------------------------------


@cache
def guarded() -> Plan:
    return rcb.calibrate(strong_prior(), n_per_arm=5, **SMALL)


@pytest.mark.parametrize(
    "options",
    [Exploiting(feed="last"), Exploiting(spread="paper"), Exploiting(spread_multiple=9.0), Exploiting(inflation="log")],
    ids=["feed", "spread", "multiple", "inflation"],
)
def test_a_guard_for_other_options_is_warned_of(options: Exploiting):
    plan = guarded()
    assert plan.has_guard
    with pytest.warns(GuardWarning, match="guard_anew"):
        rcb.simulate(strong_prior(), plan, horizon=30, n_worlds=1, options=options)
    with pytest.warns(GuardWarning, match="guard_anew"):
        rcb.Recommender(strong_prior(), plan, options=options)


def test_a_guard_is_computed_anew_for_the_options_that_are_run():
    options = Exploiting(spread_multiple=0.2)
    anew = rcb.guard_anew(strong_prior(), guarded(), options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rcb.simulate(strong_prior(), anew, horizon=30, n_worlds=1, options=options)
        rcb.simulate(strong_prior(), guarded(), horizon=30, n_worlds=1)
        rcb.simulate(strong_prior(), guarded(), horizon=30, n_worlds=1, options=Exploiting(feed="last", guard=False))
    assert anew.exploration_rate == guarded().exploration_rate
    assert anew.guards[0].gamma.mean() == pytest.approx(0.2 * guarded().guards[0].gamma.mean(), rel=0.05)
    assert anew.guards[2].kept != guarded().guards[2].kept
    judged = rcb.audit(strong_prior(), anew, horizon=90, n_worlds=300, options=options, seed=5)
    assert judged.verdict == "pass"


def test_guards_for_the_global_clock_are_refused():
    with pytest.raises(rcb.RcbError, match="relative clock"):
        rcb.guard_anew(strong_prior(), guarded(), options=Exploiting(clock="global"))


def test_a_plan_with_n_given_says_that_it_was_not_audited():
    assert "audit                  rcb.audit(market, plan) makes one" in guarded().summary()
