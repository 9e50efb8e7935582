"""Simulation-based calibration: the truth is one more draw of its own posterior, so its ranks are uniform.

Ranks are pooled over the arms, which are independent or nearly so, and tested for each feature by chi-square. The
level, 1e-6 in all, is one that a fresh seed almost never fails; draws that are too wide, too narrow or shifted do.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.noise import GaussianNoise
from rcb_bayes.posterior.engines import Engine, ExactEngine, ImportanceEngine
from rcb_bayes.prior import Prior
from tests.posterior import twins

N_DRAWS, N_BINS, LEVEL = 63, 16, 1e-6
SIGMA = 0.3


def coupled_gaussian() -> Prior:
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((4, 4))
    return Prior.gaussian(rng.standard_normal((2, 2)), factor @ factor.T / 4)


EXACT: dict[str, Callable[[], Prior]] = {
    "independent arms": lambda: Prior.gaussian(np.ones((2, 2)), np.array([[0.5, 0.2], [0.2, 0.3]])),
    "coupled arms": coupled_gaussian,
    "two camps": lambda: twins.two_camps((0.3, 0.7), (-0.5, 0.7), (0.2, 0.5), n_features=2),
}


@cache
def truth_and_draws(engine: str, belief: str, n: int, n_sets: int) -> tuple[np.ndarray, np.ndarray]:
    """True coefficients (M, K, d) and draws of their posteriors (M, N_DRAWS, K, d)."""
    noise = GaussianNoise(SIGMA)
    made: Engine = (
        ExactEngine(EXACT[belief](), noise)
        if engine == "exact"
        else ImportanceEngine(twins.cached_prior(belief, 2), noise)
    )
    beta, data = twins.simulate_worlds(made.prior, n, SIGMA, n_sets, seed=n)
    return beta, made.draw(data, N_DRAWS, rng=np.random.default_rng(n + 1))


def ranks(beta: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """How many of its posterior's draws lie below each true coefficient, (M, K, d)."""
    return (draws < beta[:, None]).sum(axis=1)


def smallest_p_value(ranks: np.ndarray, *, systematic: bool) -> float:
    """The smallest of the features' p-values, times their number.

    Independent draws give ranks that are uniform on 0, ..., N_DRAWS. Systematic resampling takes equally spaced
    quantiles, so that the two extreme ranks are half as likely as others: the jitter is reflected at the ends.
    """
    jitter = np.random.default_rng(0).random(ranks.shape)
    if systematic:
        place = (ranks + jitter - 0.5) / N_DRAWS
        place = 1.0 - np.abs(1.0 - np.abs(place))
    else:
        place = (ranks + jitter) / (N_DRAWS + 1)
    found = [
        stats.chisquare(np.histogram(place[..., k], bins=N_BINS, range=(0.0, 1.0))[0]).pvalue
        for k in range(ranks.shape[2])
    ]
    return float(min(found) * len(found))


def stretched(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    """Draws spread around their own mean."""
    return lambda draws: draws.mean(axis=1, keepdims=True) + factor * (draws - draws.mean(axis=1, keepdims=True))


def shifted(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """Draws moved by a share of their standard deviation."""
    return lambda draws: draws + share * draws.std(axis=1, keepdims=True)


PLANTED = {"too wide": stretched(1.15), "too narrow": stretched(0.87), "shifted": shifted(0.15)}


@pytest.mark.parametrize("name", EXACT)
def test_exact_is_calibrated(name: str):
    found = ranks(*truth_and_draws("exact", name, 3, 1500))
    assert smallest_p_value(found, systematic=False) > LEVEL


@pytest.mark.parametrize("change", PLANTED.values(), ids=PLANTED.keys())
def test_a_miscalibrated_exact_engine_is_caught(change: Callable[[np.ndarray], np.ndarray]):
    beta, draws = truth_and_draws("exact", "two camps", 3, 1500)
    assert smallest_p_value(ranks(beta, change(draws)), systematic=False) < LEVEL


@pytest.mark.parametrize(("name", "n", "n_sets"), [("student_t", 3, 500), ("gamma", 3, 500), ("laplace", 10, 1500)])
def test_importance_is_calibrated(name: str, n: int, n_sets: int):
    found = ranks(*truth_and_draws("importance", name, n, n_sets))
    assert smallest_p_value(found, systematic=True) > LEVEL


@pytest.mark.parametrize("change", PLANTED.values(), ids=PLANTED.keys())
def test_a_miscalibrated_importance_engine_is_caught(change: Callable[[np.ndarray], np.ndarray]):
    beta, draws = truth_and_draws("importance", "laplace", 10, 1500)
    assert smallest_p_value(ranks(beta, change(draws)), systematic=True) < LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 100])
@pytest.mark.parametrize("name", ["student_t", "laplace", "gamma", "lognormal", "two_camps", "no_variance"])
def test_importance_is_calibrated_on_many_data_sets(name: str, n: int):
    found = ranks(*truth_and_draws("importance", name, n, 4000))
    assert smallest_p_value(found, systematic=True) > LEVEL


def test_ranks_of_equally_spaced_quantiles_are_uniform_too():
    """The reflection is right: systematic draws of a uniform posterior, and the truth from it."""
    rng = np.random.default_rng(4)
    offset, truth = rng.random((60_000, 1)), rng.random((60_000, 1))
    draws = (np.arange(N_DRAWS) + offset) / N_DRAWS
    found = (draws < truth).sum(axis=1)[:, None, None]
    assert smallest_p_value(found, systematic=True) > LEVEL
    assert smallest_p_value(found, systematic=False) < LEVEL
