"""Residual curvature: fails for beliefs that cannot bend, at its level for those that need not."""
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false, reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportIncompatibleMethodOverride=false

from itertools import pairwise

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


# Whatever line the first arm's reward is compared with, users are split at one x at most: of [-1, 1] a line gives one
# arm to one side. The parabola .8 - 1.5 x^2 lies above .3 for |x| < 1/sqrt(3), so that the best split, at either of
# these, is wrong on the whole of one outer side; recommendations at random are mixtures of such splits, and no better.
LEAST = (1 / 3**0.5 - 3**-1.5) / 4  # integral of 1.5 x^2 - .5 from 1/sqrt(3) to 1, with density 1/2: .0962 a round
SURE = 4.0  # errors


def interval(values: np.ndarray) -> tuple[float, float]:
    """Bounds of a mean over worlds."""
    half = SURE * float(stats.sem(values))
    return float(values.mean()) - half, float(values.mean()) + half


def test_no_line_does_better_than_the_least():
    """The bound by a grid of splits, either way round."""
    x = (np.arange(200_000) + 0.5) / 100_000 - 1
    lead = 0.5 - 1.5 * x**2  # of the parabola
    loss_told, loss_other = np.maximum(-lead, 0.0), np.maximum(lead, 0.0)
    left = (np.cumsum(loss_told) + loss_other.sum() - np.cumsum(loss_other)) / len(x)
    right = (np.cumsum(loss_other) + loss_told.sum() - np.cumsum(loss_told)) / len(x)
    assert min(left.min(), right.min()) == pytest.approx(LEAST, rel=1e-4)


@pytest.mark.slow
def test_lines_pay_for_a_parabola_in_every_round_and_curves_do_not():
    """Slopes of regret over the last doublings, with intervals over worlds; both plans pass their audits."""
    horizon, slopes = 32_000, {}
    for name, market in quadratic_markets().items():
        plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=20, n_worlds=400, seed=1)
        assert rcb.audit(market, plan, horizon=2000, n_worlds=500, n_users=30, seed=2).verdict == "pass"
        oracle = rcb.PosteriorOracle(market.platform_prior, market.noise, read="engine")
        runs = rcb.simulate(market, plan, horizon=horizon, n_worlds=16, oracle=oracle, seed=1)
        total = runs["regret"].cumsum("t").values  # (world, t)
        edges = [horizon // 8, horizon // 4, horizon // 2, horizon]
        slopes[name] = np.stack(
            [(total[:, stop - 1] - total[:, start - 1]) / (stop - start) for start, stop in pairwise(edges)]
        )  # (doubling, world), a round
        print(name, [tuple(round(bound, 5) for bound in interval(own)) for own in slopes[name]])
    lines, curves = slopes["linear"], slopes["smooth"]
    assert interval(lines[-1])[0] > 0.0  # grows with T
    assert interval(lines[-1])[1] > LEAST  # and no slower than any line must
    # Powers of T: the increments of a doubling double under T, and grow by sqrt(2) under its root.
    powers = {name: interval(1.0 + np.log2(own[-1] / own[0]) / 2.0) for name, own in slopes.items()}
    print(powers)
    assert powers["linear"][0] > 0.75  # nearer to T than to its root
    assert powers["smooth"][1] < 0.75
    assert interval(curves[-1] - curves[0])[1] < 0.0  # falls from doubling to doubling
    assert interval(curves[-1])[1] < LEAST / 2  # far below what any line pays


@pytest.mark.slow
def test_the_log_of_lines_in_a_parabola_warns():
    """Their own first rounds: rewards bend beyond the lines, and not beyond the curves."""
    for name, market in quadratic_markets().items():
        plan = rcb.fixed_plan(market, n_per_arm=40, exploration_rate=0.5)
        agent = rcb.Recommender(market, plan, keep_log=1000, seed=1)
        rng = np.random.default_rng(1)
        for x in market.covariates.sample(160, seed=2):
            told = agent.recommend(x)
            mean = 0.3 if told.arm == market.arms[0] else 0.8 - 1.5 * x[0] ** 2
            agent.observe(mean + 0.3 * rng.standard_normal(), ticket=told.ticket)
        assert (check_shape(market, agent.log).verdict == "fail") == (name == "linear")


def test_what_a_belief_knows_is_no_direction_of_its_own():
    """A belief that is sure of a slope fails where the slope is another, and passes where it is this one."""
    cov = np.diag([0.25, 0.0])
    prior = rcb.Prior.gaussian([[0.4, -0.7], [0.4, -0.7]], cov, arms=["old", "new"])
    sure = rcb.Market(prior=prior, covariates=LINE, noise=NOISE, features=PolynomialFeatures(1))
    assert check_shape(sure, log_of(1, bend=0.0)).verdict == "pass"
    assert check_shape(sure, log_of(1, bend=1.5)).verdict == "fail"
