"""Greedy in many worlds: against quadrature, against the policy that learns user by user, and planted errors."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.baselines import Greedy
from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.mechanism.greedy import GreedyRuns, greedy_runs, is_exact, learning_rounds
from rcb_bayes.mechanism.panel import make_panel
from rcb_bayes.posterior import make_engine
from rcb_bayes.running.simulation import simulate
from rcb_bayes.schema import FloatArray
from rcb_bayes.users import Empirical, Sphere
from tests.twins.starvation import starvation

ALIKE = Empirical([[1.0]])
SIGMA, ROUNDS = 0.4, 16


def runs_of(market: Market, *, horizon: int, n_worlds: int, seed: int = 1) -> GreedyRuns:
    panel = make_panel(market, n_users=512, rng=np.random.default_rng(0))
    engine = None if is_exact(market) else make_engine(market.prior, market.noise, seed=1)
    return greedy_runs(market, panel, engine, horizon=horizon, n_worlds=n_worlds, rng=np.random.default_rng(seed))


def nodes_of(law: Any, *, least: float = 1e-5) -> tuple[FloatArray, FloatArray]:
    """Values of a law on a grid, and their probabilities."""
    low, high = law.ppf([least, 1.0 - least])
    values = np.linspace(low, high, 301)
    edges = np.concatenate([[-np.inf], (values[1:] + values[:-1]) / 2, [np.inf]])
    return values, np.diff(law.cdf(edges))


class Mixed:
    """Two normal laws, each as likely."""

    def __init__(self, *laws: Any) -> None:
        self.laws = laws

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.mean([law.cdf(x) for law in self.laws], axis=0)

    def sf(self, x: FloatArray) -> FloatArray:
        return 1.0 - self.cdf(x)

    def ppf(self, share: FloatArray) -> FloatArray:
        return np.array([min(law.ppf(share[0]) for law in self.laws), max(law.ppf(share[1]) for law in self.laws)])


def of_gallery(name: str, **settings: Any) -> Callable[[], Prior]:
    return lambda: load_prior(name, n_arms=2, n_features=1, **settings)


CASES: dict[str, tuple[Callable[[], Prior], Any, Any]] = {
    "gaussian": (lambda: Prior.gaussian([[0.3], [0.0]], 0.05), stats.norm(0.3, 0.05**0.5), stats.norm(0, 0.05**0.5)),
    "mixture": (
        of_gallery("mixture", means=([0.6, 0.5], [-0.2, -0.4]), scales=(0.3, 0.3)),
        Mixed(stats.norm(0.6, 0.3), stats.norm(-0.2, 0.3)),
        Mixed(stats.norm(0.5, 0.3), stats.norm(-0.4, 0.3)),
    ),
    "student_t": (of_gallery("student_t", mean=[0.3, 0.0], scale=0.3), stats.t(4, 0.3, 0.3), stats.t(4, 0, 0.3)),
    "laplace": (of_gallery("laplace", mean=[0.3, 0.0], scale=0.25), stats.laplace(0.3, 0.25), stats.laplace(0, 0.25)),
    "skewed": (
        of_gallery("skewed", mean=[0.7, 0.4], scale=0.3),
        stats.gamma((0.7 / 0.3) ** 2, scale=0.3**2 / 0.7),
        stats.gamma((0.4 / 0.3) ** 2, scale=0.3**2 / 0.4),
    ),
}
FAST = ("gaussian", "mixture")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in CASES])
def test_starvation_of_users_who_are_alike_is_that_of_quadrature(name: str) -> None:
    build, old, new = CASES[name]
    prior = build()
    market = Market(prior=prior, covariates=ALIKE, noise=GaussianNoise(SIGMA))
    values, weights = nodes_of(old)
    new_mean = float(prior.mean.values[1, 0])
    truth = starvation(values, weights, new_mean, new.sf(values), sigma=SIGMA, n=ROUNDS)
    runs = runs_of(market, horizon=ROUNDS, n_worlds=20_000 if is_exact(market) else 4000)
    starved = runs.starved(share=0.01)
    error = starved.std(ddof=1) / np.sqrt(len(starved))
    assert abs(starved.mean() - truth) < 4 * error
    # A platform that tries the new arm a little later, or learns from the first samples only, is told from it.
    planted = starvation(values, weights, new_mean - 0.1, new.sf(values), sigma=SIGMA, n=ROUNDS)
    assert abs(starved.mean() - planted) > 4 * error
    planted = starvation(values, weights, new_mean, new.sf(values), sigma=SIGMA, n=3)
    assert abs(starved.mean() - planted) > 4 * error


@pytest.mark.parametrize("name", ["setting_1", pytest.param("mixture", marks=pytest.mark.slow)])
def test_worlds_side_by_side_are_runs_of_the_policy(name: str) -> None:
    market = Market(prior=load_prior(name, n_arms=3), covariates=Sphere(5), noise=GaussianNoise(0.05))
    ours = runs_of(market, horizon=200, n_worlds=2000)
    plain = simulate(market, lambda market, seed: Greedy(market, seed=seed), horizon=200, n_worlds=49, every=200)
    theirs = plain["regret"].sum("t").values
    error = np.hypot(ours.regret.std() / np.sqrt(2000), theirs.std() / 7)
    assert abs(ours.regret.mean() - theirs.mean()) < 4 * error
    assert (ours.n_tried.sum(axis=1) == 200).all()
    np.testing.assert_allclose(ours.best_share.sum(axis=1), 1.0)


def test_fitting_anew_gives_what_the_closed_form_gives() -> None:
    market = Market(prior=load_prior("gaussian", n_arms=3), covariates=Sphere(5), noise=GaussianNoise(0.3))
    panel = make_panel(market, n_users=512, rng=np.random.default_rng(0))
    engine = make_engine(market.prior, market.noise, seed=1)
    asked: dict[str, Any] = {"horizon": 16, "n_worlds": 4000}
    exact = greedy_runs(market, panel, None, rng=np.random.default_rng(1), **asked)
    fitted = greedy_runs(market, panel, engine, rng=np.random.default_rng(2), **asked)
    assert fitted.n_fitted == 16 * 4000
    error = np.hypot(exact.regret.std(), fitted.regret.std()) / np.sqrt(4000)
    assert abs(exact.regret.mean() - fitted.regret.mean()) < 4 * error
    never = [(runs.n_tried == 0).mean(axis=0) for runs in (exact, fitted)]
    assert np.abs(never[0] - never[1]).max() < 4 * np.sqrt(2 * 0.25 / 4000)


def test_arms_that_are_coupled_learn_together() -> None:
    joint = 0.04 * np.array([[1.0, 0.99], [0.99, 1.0]])
    coupled = Market(
        prior=Prior.gaussian([[0.1], [0.0]], joint), covariates=Empirical([[1.0], [-1.0]]), noise=GaussianNoise(0.1)
    )
    apart = Market(
        prior=Prior.gaussian([[0.1], [0.0]], 0.04), covariates=Empirical([[1.0], [-1.0]]), noise=GaussianNoise(0.1)
    )
    gains = [runs_of(market, horizon=50, n_worlds=4000).regret.mean() for market in (coupled, apart)]
    assert gains[0] < gains[1]


def test_rewards_of_0_and_1() -> None:
    prior = load_prior("gaussian", n_arms=2, n_features=1, mean=[0.5, 0.0], scale=0.5)
    market = Market(prior=prior, covariates=ALIKE, noise=BernoulliLogit())
    runs = runs_of(market, horizon=8, n_worlds=60)
    assert (runs.n_tried.sum(axis=1) == 8).all()
    assert runs.n_fitted == 8 * 60
    assert (runs.regret >= 0).all()


def test_rounds_at_which_it_learns() -> None:
    rounds = list(learning_rounds(100, each=4, growth=1.5))
    assert rounds[:5] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6)]
    assert rounds[-1][1] == 100
    assert all(stop == start for (_, stop), (start, _) in pairwise(rounds))


def test_starved_and_neglected() -> None:
    runs = GreedyRuns(
        n_tried=np.array([[100.0, 0.0], [97.0, 3.0], [100.0, 0.0]]),
        best_share=np.array([[0.5, 0.5], [0.5, 0.5], [0.995, 0.005]]),
        regret=np.zeros(3),
    )
    assert runs.starved(share=0.01).tolist() == [True, False, False]
    assert runs.neglected(share=0.01, part=0.1, horizon=100).tolist() == [True, True, False]
