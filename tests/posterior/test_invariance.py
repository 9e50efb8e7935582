"""What must not matter: the other data sets of a batch, their order, the number of workers, the order of the arms.

Every engine's answer is a function of the data set, the belief and the seed. Arms in another order meet other random
numbers, so that answers agree within Monte Carlo error; the other invariances hold to rounding. Chunk sizes are varied
beside each engine's other tests.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise, Noise
from rcb_bayes.posterior import PosteriorBatch, Rows, Statistics
from rcb_bayes.posterior.engines import Engine, make_engine
from tests.posterior.references import LIMIT, bernoulli_rows
from tests.posterior.twins import simulate_statistics

SIGMA = 0.5
MEANS = (0.0, 1.0, -0.5)
N_SETS = 24
# Each arm with a mean of its own, so that the order shows.
BUILDERS: dict[str, Callable[[np.ndarray], Prior]] = {
    "exact": lambda mean: Prior.gaussian(np.outer(mean, np.ones(2)), 0.3),
    "importance": lambda mean: load_prior("student_t", n_arms=3, n_features=2, mean=mean),
    "conditional": lambda mean: load_prior("unknown_noise", n_arms=3, n_features=2, mean=mean, noise_scale=0.5),
    "laplace": lambda mean: load_prior("student_t", n_arms=3, n_features=2, mean=mean),
    "nuts": lambda mean: Prior.gaussian(np.outer(mean, np.ones(2)), 0.3),
}
ENGINES = [pytest.param(name, marks=pytest.mark.slow if name == "nuts" else ()) for name in BUILDERS]


@cache
def engine_of(name: str, order: tuple[int, ...] = (0, 1, 2)) -> Engine:
    prior = BUILDERS[name](np.array(MEANS)[list(order)])
    noise: Noise = BernoulliLogit() if name == "laplace" else GaussianNoise(None if prior.has_sigma else SIGMA)
    return make_engine(prior, noise, engine=name, seed=3)


@cache
def data_of(name: str) -> Statistics | Rows:
    prior = engine_of(name).prior
    if name == "laplace":
        return bernoulli_rows(prior, 20, n_sets=N_SETS, seed=1)
    return simulate_statistics(prior, (2, 5, 9), SIGMA, 3 if name == "nuts" else N_SETS, seed=1)


def assert_same(found: PosteriorBatch, expected: PosteriorBatch, index: np.ndarray) -> None:
    """Means and diagnostics of some data sets, to rounding."""
    np.testing.assert_allclose(found.mean, expected.mean[index], rtol=1e-9, atol=1e-11)
    for name, values in expected.diagnostics.items():
        np.testing.assert_allclose(found.diagnostics[name], values[index], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ENGINES)
def test_one_by_one_is_the_batch(name: str):
    data, engine = data_of(name), engine_of(name)
    batch = engine.fit(data)
    for m in range(data.n_sets):
        assert_same(engine.fit(data.take(slice(m, m + 1))), batch, np.array([m]))


@pytest.mark.parametrize("name", ENGINES)
def test_data_sets_may_come_in_any_order(name: str):
    data, engine = data_of(name), engine_of(name)
    order = np.random.default_rng(0).permutation(data.n_sets)
    assert_same(engine.fit(data.take(order)), engine.fit(data), order)


@pytest.mark.parametrize("name", ["importance", "laplace", pytest.param("nuts", marks=pytest.mark.slow)])
def test_another_seed_gives_another_answer(name: str):
    """Otherwise the tests above would say nothing about random numbers; the other engines have no seed."""
    engine = engine_of(name)
    noise = BernoulliLogit() if name == "laplace" else GaussianNoise(SIGMA)
    other = make_engine(engine.prior, noise, engine=name, seed=4).fit(data_of(name))
    assert (other.mean != engine.fit(data_of(name)).mean).any(axis=(1, 2)).all()


def permuted(data: Statistics | Rows, order: tuple[int, ...]) -> Statistics | Rows:
    """The same data with the arms in another order: new arm k is old arm order[k]."""
    if isinstance(data, Rows):
        place = np.argsort(order)
        return Rows(x=data.x, arm=place[data.arm], reward=data.reward, n_arms=data.n_arms)
    index = list(order)
    return Statistics(xtx=data.xtx[:, index], xty=data.xty[:, index], yty=data.yty[:, index], n=data.n[:, index])


def largest_difference(name: str, order: tuple[int, ...], *, shift: float = 0.0) -> float:
    """Between means with the arms in order and in another, in Monte Carlo errors (exact: in units of rounding)."""
    plain = engine_of(name).fit(data_of(name), covariance=True)
    moved = engine_of(name, order).fit(permuted(data_of(name), order))
    assert plain.covariance is not None
    sd = np.sqrt(np.diagonal(plain.covariance, axis1=1, axis2=2)).reshape(plain.mean.shape)[:, list(order)]
    difference = np.abs(moved.mean - plain.mean[:, list(order)]) / sd + shift
    if name == "exact":
        return float(difference.max() / 1e-9)
    size = "ess_bulk" if name == "nuts" else "effective_size"
    size = np.minimum(plain.diagnostics[size], moved.diagnostics[size])[:, None, None]
    return float((difference / np.sqrt(2.0 / size)).max())


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 2)])
@pytest.mark.parametrize("name", ENGINES)
def test_arms_may_come_in_any_order(name: str, order: tuple[int, ...]):
    assert largest_difference(name, order) < LIMIT < largest_difference(name, order, shift=0.5)


def fit_part(name: str, start: int, stop: int) -> np.ndarray:
    """What a worker does: builds the engine itself, and fits some of the data sets."""
    return engine_of(name).fit(data_of(name).take(slice(start, stop))).mean


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDERS)
def test_the_number_of_workers_does_not_matter(name: str):
    """Parts of unlike size, each by a process of its own."""
    n_sets = data_of(name).n_sets
    edges = [0, n_sets // 3 - 1, n_sets]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        parts = list(pool.map(fit_part, [name] * 2, edges[:-1], edges[1:]))
    np.testing.assert_allclose(np.concatenate(parts), fit_part(name, 0, n_sets), rtol=1e-9, atol=1e-11)
