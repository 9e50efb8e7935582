"""The four checks: how they judge, what they say, and the figures behind them against closed forms."""

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import DiagnosticWarning, RcbError
from rcb_bayes.gaps.assumptions import (
    SCHEDULES,
    Checks,
    check_assumptions,
    combine,
    hardest_sets,
    judge,
    remaining_doubt,
)
from rcb_bayes.gaps.estimation import estimate_gaps, gap_values
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.mechanism.length import saturated_sets
from rcb_bayes.users import Covariates, Empirical, Gaussian, Sphere
from tests.twins import gap_twins as twins

ONE = Empirical([[1.0]])


def market_of(mean: Any, cov: Any = 0.2, covariates: Covariates | None = None, sigma: float = 0.05) -> Market:
    prior = Prior.gaussian(np.asarray(mean, dtype=float), cov)
    return Market(prior=prior, covariates=covariates or Sphere(prior.n_features), noise=GaussianNoise(sigma))


def checks_of(market: Market, **more: Any) -> Checks:
    settings: dict[str, Any] = {"n_worlds": 400, "seed": 1}
    return check_assumptions(market, **settings | more)


SETTING_1 = market_of(np.zeros((5, 5)))


# --- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimate", "mcse", "threshold", "verdict"),
    [
        (0.5, 0.1, 0.19, "pass"),
        (0.5, 0.1, 0.21, "inconclusive"),
        (0.5, 0.1, 0.79, "inconclusive"),
        (0.5, 0.1, 0.81, "fail"),
        (0.5, 0.0, 0.5, "pass"),
        (0.5, 0.0, 0.5001, "fail"),
        (0.0, 0.02, 0.01, "inconclusive"),
        (1.0, 0.02, 0.95, "inconclusive"),
    ],
)
def test_three_errors_must_lie_between_the_figure_and_the_threshold(
    estimate: float, mcse: float, threshold: float, verdict: str
) -> None:
    assert judge(estimate, mcse, threshold) == verdict


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "inconclusive"], "inconclusive"),
        (["inconclusive", "fail", "pass"], "fail"),
        (["fail"], "fail"),
    ],
)
def test_all_must_pass_and_one_failure_fails(verdicts: list[Any], whole: str) -> None:
    assert combine(verdicts) == whole


def test_four_checks_with_figures_and_words() -> None:
    checks = checks_of(SETTING_1)
    assert [check.name[0] for check in checks] == ["1", "2", "3", "4"]
    for check in checks:
        assert check.meaning
        assert bool(check.remedy) == (check.verdict != "pass")
        assert json.loads(json.dumps(check.to_dict(), allow_nan=False))["verdict"] == check.verdict
    assert [check.verdict for check in checks] == ["pass", "pass", "pass", "inconclusive"]


def test_the_same_seed_gives_the_same_checks() -> None:
    assert checks_of(SETTING_1) == checks_of(SETTING_1)
    assert checks_of(SETTING_1)[0].estimate != checks_of(SETTING_1, seed=2)[0].estimate


# --- 1, fighting chance ----------------------------------------------------------------------------------------------


def test_setting_1_contradicts_the_rho_that_the_paper_runs_it_with() -> None:
    check = checks_of(SETTING_1, tau=0.01, rho=0.95)[0]
    assert check.verdict == "fail"
    truth = stats.norm.cdf(-0.01 / np.sqrt(0.2)) ** 4  # the last of five arms, against four
    assert abs(check.estimate - truth) < 5 * check.mcse  # the least of five estimates
    assert check.threshold == 0.95
    assert "the least over 30 sets" in check.meaning


def test_the_figure_is_the_least_over_the_sets_that_occur() -> None:
    market = market_of([[0.5], [0.3], [0.0]], [0.1, 0.3, 0.2], ONE, sigma=0.5)
    check = checks_of(market, tau=0.05, n_per_arm=6, n_worlds=2000)[0]
    found = {
        (saturated, arm): estimate_gaps(market, saturated=saturated, n_per_arm=6, n_worlds=2000, taus=[0.05], seed=1)[
            "rho"
        ].sel(arm=arm)
        for saturated, arm in ((("arm_0",), "arm_1"), (("arm_0",), "arm_2"), (("arm_0", "arm_1"), "arm_2"))
    }
    assert check.estimate == min(found.values()).item() == found[("arm_0", "arm_1"), "arm_2"].item()
    assert "arm_2 beats the saturated arm_0, arm_1 by 0.05" in check.meaning
    # arm_1 against arm_2 alone would be another figure, but that stage never comes.
    assert set(saturated_sets(market, n_per_arm=6)) == {(0,), (0, 1)}


@pytest.mark.parametrize("seed", range(4))
def test_the_hardest_sets_hold_the_least_figure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    market = market_of(0.1 * rng.standard_normal((4, 2)), rng.uniform(0.1, 0.3, size=4), sigma=0.5)
    stages = Stages(market, n_per_arm=3, n_worlds=300, seed=seed)
    every = [arms for size in (1, 2, 3) for arms in combinations(range(4), size)]
    sets = [every[k] for k in rng.permutation(len(every))[:6]]
    hardest = hardest_sets(sets, n_arms=4)
    assert set(hardest) <= set(sets)

    def least(some: list[tuple[int, ...]]) -> float:
        return min(float((gap_values(stages, arms) >= 0.05).mean(axis=(1, 2)).min()) for arms in some)

    assert least(hardest) == least(sets)


def test_the_hardest_sets_of_all_sets_are_the_largest() -> None:
    every = [arms for size in (1, 2, 3) for arms in combinations(range(4), size)]
    assert hardest_sets(every, n_arms=4) == [arms for arms in every if len(arms) == 3]
    assert hardest_sets([(0,), (0, 1)], n_arms=3) == [(0,), (0, 1)]  # arm_1 is left by the smaller one only


def test_coupled_arms_are_judged_at_every_set() -> None:
    """Arms that move together: news on one raises the others, so the largest set need not be the hardest."""
    joint = 0.2 * (np.full((3, 3), 0.9) + 0.1 * np.eye(3))
    market = market_of([[0.3], [0.2], [0.1]], joint, ONE, sigma=0.5)
    check = checks_of(market, n_worlds=4000, tau=0.05, n_per_arm=20)[0]
    stages = Stages(market, n_per_arm=20, n_worlds=4000, seed=1)
    cells = {
        (arms, arm): float((gap_values(stages, arms)[arm - len(arms)] >= 0.05).mean())
        for arms, arm in (((0,), 1), ((0,), 2), ((0, 1), 2))
    }
    assert check.estimate == min(cells.values())
    truth = twins.normal_truth(-0.1, _contrast_sd(joint, [0], 1, n=20), [0.05]).rho[0]
    error = np.sqrt(truth * (1 - truth) / 4000)
    assert abs(cells[(0,), 1] - truth) < 4 * error


def _contrast_sd(joint: np.ndarray, saturated: list[int], arm: int, *, n: int) -> float:
    cross = joint[:, saturated]
    noise = 0.25 / n * np.eye(len(saturated))
    law = cross @ np.linalg.solve(joint[np.ix_(saturated, saturated)] + noise, cross.T)
    contrast = np.eye(len(joint))[arm] - np.eye(len(joint))[saturated[0]]
    return float(np.sqrt(contrast @ law @ contrast))


def test_the_share_of_users_counts_those_with_a_chance_of_their_own() -> None:
    """A quarter of the users care for the feature in which the second arm is sure to lose, the others do not."""
    users = Empirical(np.eye(2), weights=[3, 1])
    market = market_of([[0.1, 5.0], [0.0, 0.0]], 0.2, users)
    check = checks_of(market)[0]
    assert check.verdict == "pass"
    share, error = (float(word) for word in check.meaning.split(" for ")[1].split(" %")[0].split(" ± "))
    assert error == 3.1
    assert abs(share - 75) < 4 * 100 * np.sqrt(0.75 * 0.25 / 200)


def test_an_arm_without_a_chance_fails() -> None:
    check = checks_of(market_of([[5.0], [0.0]], 0.01, ONE), n_worlds=2000)[0]
    assert (check.verdict, check.estimate, check.mcse) == ("fail", 0.0, 0.001)
    assert "at most 3.0 % of them" in check.meaning


def test_too_few_worlds_are_inconclusive() -> None:
    few, many = (checks_of(SETTING_1, rho=0.05, n_worlds=n)[0] for n in (20, 4000))
    assert few.verdict == "inconclusive"
    assert many.verdict == "pass"
    nothing_seen = checks_of(market_of([[5.0], [0.0]], 0.01, ONE), n_worlds=100)[0]
    assert (nothing_seen.verdict, nothing_seen.estimate) == ("inconclusive", 0.0)


@pytest.mark.slow
def test_verdicts_are_rarely_wrong_at_the_threshold() -> None:
    """With rho at the truth neither pass nor fail is right; three errors let through less than a percent each way."""
    market = market_of([[0.3], [0.0]], 0.2, ONE, sigma=0.5)
    truth = twins.gaussian_truth((0.3, 0.0), np.sqrt(0.2), sigma=0.5, n=5, taus=[0.9]).rho[0]
    assert truth < 0.01
    verdicts = [
        judge(found["rho"].item(), found["rho_mcse"].item(), truth)
        for found in (
            estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=2000, taus=[0.9], seed=seed)
            for seed in range(300)
        )
    ]
    assert verdicts.count("inconclusive") >= 290


# --- 2, separation ---------------------------------------------------------------------------------------------------


def test_separation_is_judged_by_its_closed_form() -> None:
    market = market_of([[0.3], [0.0]], 0.25, ONE, sigma=0.5)
    check = checks_of(market, n_per_arm=4, tau=0.2, n_worlds=8000)[1]
    spread = np.sqrt(2) * 0.25 / np.sqrt(0.25 + 0.25 / 4)
    truth = stats.norm.sf(0.2, 0.3, spread) + stats.norm.cdf(-0.2, 0.3, spread)
    assert abs(check.estimate - truth) < 4 * check.mcse
    assert abs(check.estimate - 1.05 * truth) > 4 * check.mcse
    assert "After 4 samples" in check.meaning


def test_arms_that_cannot_differ_fail_to_separate() -> None:
    joint = np.full((2, 2), 0.2)  # one and the same coefficient
    assert checks_of(market_of([[0.0], [0.0]], joint, ONE), n_worlds=2000)[1].verdict == "fail"


# --- 3, covariates ---------------------------------------------------------------------------------------------------


def test_a_direction_that_no_user_has_fails_and_is_named() -> None:
    table = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 1]])
    users = Empirical(table, features=["intercept", "female", "male"])
    check = checks_of(market_of(np.zeros((2, 3)), covariates=users))[2]
    assert (check.verdict, check.estimate) == ("fail", 0.0)
    assert "0.58 intercept - 0.58 female - 0.58 male (eigenvalue 0)" in check.meaning
    assert "(" not in check.meaning.split("never visited: ")[1][:3]  # words, not a tuple
    assert check.belief == "none: it is about the users"


def test_a_population_in_closed_form_has_no_error() -> None:
    check = checks_of(SETTING_1)[2]
    assert (check.verdict, check.estimate, check.mcse) == ("pass", pytest.approx(0.2), 0.0)
    assert "sample" not in check.meaning


def test_a_table_is_a_sample_of_users() -> None:
    rng = np.random.default_rng(1)
    users = Empirical(rng.standard_normal((400, 2)) * [1.0, 0.5])
    check = checks_of(market_of(np.zeros((2, 2)), covariates=users))[2]
    low, high = users.phi0_interval(seed=1)
    assert check.verdict == "pass"
    assert check.estimate == users.phi0
    assert check.mcse == pytest.approx((users.phi0 - low) / 1.96)
    assert f"in {low:.3g} to {high:.3g} (95 %)" in check.meaning
    # The error of the sample covariance's smaller eigenvalue is about sqrt(2/n) of it.
    assert 0.5 < check.mcse / (0.25 * np.sqrt(2 / 400)) < 2


def test_a_direction_that_hangs_on_one_row_is_inconclusive() -> None:
    rows = np.column_stack([np.ones(30), np.arange(30) == 0])
    check = checks_of(market_of(np.zeros((2, 2)), covariates=Empirical(rows)))[2]
    assert check.estimate > 0
    assert check.verdict == "inconclusive"
    assert " in 0 to " in check.meaning


# --- 4, trust --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inflation", "verdict"),
    [(None, "inconclusive"), ("none", "fail"), ("log", "fail"), ("sqrt", "fail"), ("linear", "pass")],
)
def test_the_growth_of_prior_variances_is_declared(inflation: str | None, verdict: str) -> None:
    check = checks_of(SETTING_1, inflation=inflation)[3]
    assert check.verdict == verdict
    assert (inflation or "not declared") in check.meaning
    assert inflation is None or inflation in SCHEDULES


def doubt_of(market: Market, n: int, n_worlds: int = 500) -> tuple[float, float]:
    return remaining_doubt(Stages(market, n_per_arm=n, n_worlds=n_worlds, seed=1))


@pytest.mark.parametrize(("variance", "sigma", "n"), [(0.2, 0.5, 1), (0.2, 0.5, 30), (2.0, 0.1, 5)])
def test_remaining_doubt_of_one_feature_is_exact(variance: float, sigma: float, n: int) -> None:
    value, error = doubt_of(market_of([[0.3], [0.0]], variance, ONE, sigma=sigma), n)
    assert value == pytest.approx((sigma**2 / n) / (variance + sigma**2 / n), rel=1e-9)
    assert error < 1e-12


def test_remaining_doubt_of_unequal_arms_is_the_ratio_of_averages() -> None:
    value, _ = doubt_of(market_of([[0.3], [0.0]], [0.1, 0.4], ONE, sigma=0.5), 4)
    left = [1 / (1 / v + 4 / 0.25) for v in (0.1, 0.4)]
    assert value == pytest.approx(sum(left) / 0.5, rel=1e-9)


def test_remaining_doubt_averages_over_designs() -> None:
    """With x ~ N(0, 2) the information in n samples is a chi-square variable."""
    market = market_of([[0.3], [0.0]], 0.3, Gaussian([2.0]), sigma=0.5)
    value, error = doubt_of(market, 3)
    truth = stats.chi2(3).expect(lambda s: 1 / (1 + 0.3 * 2 * s / 0.25))
    assert abs(value - truth) < 4 * error
    assert abs(value - 1 / (1 + 0.3 * 2 * 3 / 0.25)) > 4 * error  # the average design leaves less


def test_a_prior_without_variance_leaves_no_share_of_it() -> None:
    prior = load_prior("student_t", n_arms=2, n_features=1, nu=1.8)
    market = Market(prior=prior, covariates=ONE, noise=GaussianNoise(0.5))
    check = check_assumptions(market, n_per_arm=20, n_worlds=60, seed=1)[3]
    assert (check.estimate, check.mcse) == (0.0, 0.0)
    assert "leave 0.0 % of an infinite variance" in check.meaning
    json.dumps(check.to_dict(), allow_nan=False)


def test_a_prior_that_knows_everything_leaves_no_doubt() -> None:
    checks = checks_of(market_of([[0.3], [0.0]], 0.0, ONE))
    assert (checks[3].estimate, checks[3].mcse) == (0.0, 0.0)
    assert checks[0].verdict == "inconclusive"  # 400 worlds have seen nothing, which might be 1 %
    assert checks_of(market_of([[0.3], [0.0]], 0.0, ONE), n_worlds=2000)[0].verdict == "fail"


# --- whose belief ----------------------------------------------------------------------------------------------------


def test_misspecified_markets_say_whose_belief_it_is() -> None:
    users, other = Prior.gaussian(np.zeros((3, 2)), 0.2), Prior.gaussian(np.ones((3, 2)), 0.1)
    plain = Market(prior=users, covariates=Sphere(2), noise=GaussianNoise(0.5))
    for role in ("platform_prior", "nature"):
        own: dict[str, Any] = {role: other}
        market = Market(prior=users, covariates=Sphere(2), noise=GaussianNoise(0.5), **own)
        for check, unmarked in zip(checks_of(market), checks_of(plain), strict=True):
            assert (check.estimate, check.verdict) == (unmarked.estimate, unmarked.verdict)
            if check.name[0] != "3":
                assert check.belief == "users"
                assert "under the users' belief; the platform's or nature's differs" in check.meaning
                assert "differs" not in unmarked.meaning


def test_posteriors_that_are_not_vouched_for_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from rcb_bayes.posterior.engines import ExactEngine

    fit = ExactEngine.fit

    def doubtful(self: ExactEngine, data: Any, **more: Any) -> Any:
        batch = fit(self, data, **more)
        batch.vouched[:2] = False
        return batch

    monkeypatch.setattr(ExactEngine, "fit", doubtful)
    assert "2 of the simulated posteriors are not vouched for" in checks_of(SETTING_1)[1].meaning
    with pytest.warns(DiagnosticWarning, match=r"2 of 40 posteriors behind these gaps are not vouched for \(5.0 %\)"):
        estimate_gaps(SETTING_1, saturated=["arm_0"], n_per_arm=5, n_worlds=40)


def test_bernoulli_rewards_can_be_checked() -> None:
    market = Market(prior=Prior.gaussian([[0.5], [0.0]], 1.0), covariates=ONE, noise=BernoulliLogit())
    checks = check_assumptions(market, n_per_arm=6, tau=0.05, n_worlds=150, seed=1)
    truth = twins.logit_truth((0.5, 0.0), 1.0, n=6, taus=[0.05]).rho[0]
    assert abs(checks[0].estimate - truth) < 4 * checks[0].mcse
    assert 0 < checks[3].estimate < 1


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tau": -0.01}, "tau must be a finite number of at least 0, got -0.01"),
        ({"tau": float("nan")}, "tau must be a finite number of at least 0, got nan"),
        ({"tau": "0.1"}, "tau must be a finite number of at least 0, got '0.1'"),
        ({"tau": True}, "tau must be a finite number"),
        ({"rho": 0.0}, "rho is a probability above 0 and at most 1, got 0.0"),
        ({"rho": 1.2}, "rho is a probability above 0 and at most 1, got 1.2"),
        ({"rho": float("nan")}, "rho is a probability"),
        ({"n_per_arm": 0}, "n_per_arm must be an integer of at least 1, got 0"),
        ({"n_worlds": 1}, "n_worlds must be an integer of at least 2, got 1"),
        ({"inflation": "liner"}, "There is no schedule 'liner'. Did you mean 'linear'. Use one of none, log, sqrt"),
        ({"inflation": 3}, "There is no schedule '3'"),
        ({"engine": "nutz"}, "There is no engine 'nutz'. Did you mean 'nuts'"),
    ],
)
def test_bad_input_is_refused_before_any_sampling(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sample(*_: object, **__: object) -> None:
        raise AssertionError("sampled before the input was checked")

    for place in ("stages.draw_worlds", "assumptions.draw_worlds", "assumptions.saturated_sets"):
        monkeypatch.setattr(f"rcb_bayes.gaps.{place}", sample)
    with pytest.raises(RcbError, match=message.replace("?", r"\?")):
        checks_of(SETTING_1, **change)
