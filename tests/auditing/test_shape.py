"""Residual curvature: fails for beliefs that cannot bend, at its level for those that need not."""
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false, reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportIncompatibleMethodOverride=false

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.preprocessing import PolynomialFeatures

import rcb_bayes as rcb
from rcb_bayes.auditing import check_shape

NOISE = rcb.GaussianNoise(0.3)
LINE = rcb.Uniform([-1.0], [1.0])


def straight(noise: rcb.GaussianNoise = NOISE) -> rcb.Market:
    """An intercept and a slope, of users told by one number."""
    prior = rcb.Prior.gaussian(np.zeros((2, 2)), 0.25, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=LINE, noise=noise, features=PolynomialFeatures(1))


def log_of(seed: int, *, bend: float, n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    arm = np.where(np.arange(n) % 2, "old", "new")
    reward = 0.4 - 0.7 * x + bend * (arm == "new") * x**2 + 0.3 * rng.standard_normal(n)
    return pd.DataFrame({"feature_0": x, "arm": arm, "reward": reward})


def test_a_straight_truth_fails_at_the_level():
    market = straight()
    p_values = [check_shape(market, log_of(seed, bend=0.0)).estimate for seed in range(300)]
    fails = sum(p < 0.05 for p in p_values)
    assert stats.binomtest(fails, 300, 0.05).pvalue > 1e-4
    bent = sum(check_shape(market, log_of(seed, bend=0.5)).verdict == "fail" for seed in range(40))
    assert bent > 15


def test_curvature_is_seen_and_named():
    found = check_shape(straight(), log_of(1, bend=1.5))
    assert found.verdict == "fail"
    assert "new" in found.meaning
    assert "curves" in found.remedy


def test_features_that_bend_already_leave_nothing_to_look_for():
    prior = rcb.Prior.gaussian(np.zeros((2, 3)), 0.25, arms=["old", "new"])
    market = rcb.Market(prior=prior, covariates=LINE, noise=NOISE, features=PolynomialFeatures(2))
    assert check_shape(market, log_of(1, bend=1.5)).verdict == "inconclusive"


@pytest.mark.parametrize("level", [0.0, 1.0, "x"])
def test_bad_levels(level):
    with pytest.raises(rcb.RcbError, match="level"):
        check_shape(straight(), log_of(1, bend=0.0), level=level)


# --- a quadratic truth ------------------------------------------------------------------------------------------------


def quadratic_markets() -> dict[str, rcb.Market]:
    """Users who believe in lines, and users who believe in smooth curves, in one world: one arm's reward is a parabola.

    All speak of the functions of an HSGP: lines, and the parabola, are their least-squares fits on [-1, 1].
    """
    smooth = rcb.load_prior("smooth", amplitude=0.5, length=0.7, mean=[0.25, 0.2], level=0.3, n_basis=14)
    t = np.linspace(-1, 1, 400)[:, None]
    phi = smooth.feature_map(t)

    def fitted(values):
        return np.linalg.lstsq(phi, values, rcond=1e-10)[0]

    line = np.column_stack([fitted(np.ones(400)), fitted(t[:, 0])])  # (d, 2)
    means = np.stack([0.25 * line[:, 0], 0.2 * line[:, 0]])
    labels = {"arms": smooth.arms, "features": smooth.features}
    linear = rcb.Prior.gaussian(means, line @ np.diag([0.09, 0.09]) @ line.T, name="lines", **labels)
    truth = np.stack([fitted(0.3 + 0.0 * t[:, 0]), fitted(0.8 - 1.5 * t[:, 0] ** 2)])
    nature = rcb.Prior.gaussian(truth, 1e-12, name="parabola", **labels)
    shared = {"covariates": rcb.Uniform([-1.0], [1.0]), "noise": NOISE, "nature": nature}
    return {
        "smooth": rcb.Market(prior=smooth, **shared),
        "linear": rcb.Market(prior=linear, feature_map=smooth.feature_map, **shared),
    }


@pytest.mark.slow
def test_lines_pay_for_a_parabola_in_every_round_and_curves_do_not():
    horizon, slopes = 16_000, {}
    for name, market in quadratic_markets().items():
        plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=20, n_worlds=400, seed=1)
        assert rcb.audit(market, plan, horizon=2000, n_worlds=500, n_users=30, seed=2).verdict == "pass"
        runs = rcb.simulate(market, plan, horizon=horizon, n_worlds=12, seed=1)
        total = runs["regret"].cumsum("t").values  # (world, t)
        late = (total[:, -1] - total[:, horizon // 2]) / (horizon / 2)  # a round
        slopes[name] = late, np.log2(total[:, -1] / total[:, horizon // 2 - 1])
    (lines, growth), (curves, slower) = slopes["linear"], slopes["smooth"]
    assert lines.mean() - 4 * stats.sem(lines) > 0.05
    assert growth.mean() - 4 * stats.sem(growth) > 0.75  # on its way to T to the power of 1
    assert curves.mean() + 4 * stats.sem(curves) < 0.2 * lines.mean()
    assert slower.mean() + 4 * stats.sem(slower) < 0.75  # towards the square root


@pytest.mark.slow
def test_the_log_of_lines_in_a_parabola_warns():
    market = quadratic_markets()["linear"]
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 80)
    arm = np.arange(80) % 2
    reward = np.where(arm == 0, 0.3, 0.8 - 1.5 * x**2) + 0.3 * rng.standard_normal(80)
    log = pd.DataFrame({"feature_0": x, "arm": np.array(market.arms)[arm], "reward": reward})
    assert check_shape(straight_like(market), log).verdict == "fail"


def straight_like(market: rcb.Market) -> rcb.Market:
    """The linear belief by its own two features, so that what it cannot follow is outside of them."""
    prior = rcb.Prior.gaussian(np.zeros((2, 2)), 0.09, arms=market.arms)
    return rcb.Market(prior=prior, covariates=LINE, noise=NOISE, features=PolynomialFeatures(1))
