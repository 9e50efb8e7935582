"""Pareto k-hat in batch, against ArviZ one row at a time."""

from collections.abc import Callable

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

from rcb_bayes.errors import RcbError
from rcb_bayes.posterior.importance import normalised
from rcb_bayes.posterior.pareto import pareto_khat

SIZES = [25, 40, 100, 225, 226, 256, 1000, 1024, 4096]

LogWeights = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
TAILS: dict[str, LogWeights] = {
    "light": lambda rng, shape: rng.standard_normal(shape),
    "log-normal": lambda rng, shape: 3.0 * rng.standard_normal(shape),
    "Pareto .3": lambda rng, shape: 0.3 * rng.standard_exponential(shape),
    "Pareto .7": lambda rng, shape: 0.7 * rng.standard_exponential(shape),
    "Pareto 1.5": lambda rng, shape: 1.5 * rng.standard_exponential(shape),
    "t over normal": lambda rng, shape: _ratio(3.0 * rng.standard_normal(shape), stats.t(3), stats.norm(0, 3)),
    "normal over t": lambda rng, shape: _ratio(rng.standard_t(3, shape), stats.norm(), stats.t(3)),
    "some weights zero": lambda rng, shape: np.where(rng.random(shape) < 0.5, -np.inf, rng.standard_normal(shape)),
    "shifted far": lambda rng, shape: 2.0 * rng.standard_normal(shape) - 900.0,
}


def _ratio(values: np.ndarray, target, proposal) -> np.ndarray:
    return target.logpdf(values) - proposal.logpdf(values)


def arviz_khat(log_weights: np.ndarray) -> np.ndarray:
    """ArviZ wants log likelihoods, the negative of log weights."""
    return np.array([array_stats.psislw(-row)[1] for row in log_weights])


def largest_over_mean(log_weights: np.ndarray) -> np.ndarray:
    return normalised(log_weights).max(axis=1) * log_weights.shape[1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tail", TAILS)
def test_as_arviz(tail: str, size: int):
    rng = np.random.default_rng(SIZES.index(size))
    log_weights = TAILS[tail](rng, (12, size))
    theirs = arviz_khat(log_weights)
    short = largest_over_mean(log_weights) <= 0.2 * 0.3 * size**0.7
    expected = np.where(short, 0.0, theirs)
    np.testing.assert_allclose(pareto_khat(log_weights), expected, rtol=0, atol=1e-10)


def test_the_sign_of_the_weights_is_seen():
    """ArviZ fed log weights as they are is far off, and so would we be."""
    log_weights = TAILS["Pareto .7"](np.random.default_rng(1), (12, 1000))
    wrong = np.array([array_stats.psislw(row)[1] for row in log_weights])
    assert np.abs(pareto_khat(log_weights) - wrong).min() > 0.1


@pytest.mark.parametrize("k", [0.6, 0.8, 1.2])
def test_a_pareto_tail_is_found(k: float):
    """The mean over rows lies within Monte Carlo error of the truth, shrunk to 1/2 by a prior of weight 10."""
    n_tail = int(3 * np.sqrt(4000))
    log_weights = k * np.random.default_rng(2).standard_exponential((200, 4000))
    khat = pareto_khat(log_weights)
    shrunk = (n_tail * k + 10 * 0.5) / (n_tail + 10)
    error = khat.std(ddof=1) / np.sqrt(len(khat))
    assert abs(khat.mean() - shrunk) < 4.5 * error + 0.02  # the fit itself is a little biased
    assert abs(khat.mean() - shrunk - 0.1) > 4.5 * error + 0.02  # a tenth would be seen


def test_weights_that_are_all_alike_are_no_worry():
    assert pareto_khat(np.full((2, 100), -7.0)).tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("row", [np.full(100, -np.inf), np.where(np.arange(100) < 3, 0.0, -np.inf)])
def test_collapsed_weights_are_not_a_number_and_fail_the_limit(row: np.ndarray):
    others = np.random.default_rng(3).standard_normal((2, 100))
    khat = pareto_khat(np.vstack([others[:1], row, others[1:]]))
    assert np.isnan(khat[1])
    assert not khat[1] <= 0.7
    np.testing.assert_array_equal(khat[[0, 2]], pareto_khat(others))  # the neighbours do not suffer


def test_a_single_weight_is_not_vouched_for():
    log_weights = np.random.default_rng(4).standard_normal((1, 1000))
    log_weights[0, 17] = 40.0
    assert not pareto_khat(log_weights)[0] <= 0.7


def test_a_plateau_below_slightly_larger_weights_is_no_long_tail():
    """Bounded weights, nearly all alike: ArviZ's fit sees a heavy tail, though no draw counts more than twice."""
    plateau = 1.0 + 1e-6 * np.random.default_rng(5).random((1, 2000))
    plateau[0, :20] = np.linspace(1.1, 2.0, 20)
    log_weights = np.log(plateau)
    assert arviz_khat(log_weights)[0] > 0.7
    assert pareto_khat(log_weights)[0] <= 0.0
    log_weights[0, :20] += np.log(20.0)  # now they do count
    assert pareto_khat(log_weights)[0] == pytest.approx(arviz_khat(log_weights)[0], abs=1e-10)


@pytest.mark.parametrize("size", [256, 4096])
def test_a_long_tail_is_not_taken_for_a_short_one(size: int):
    """Of a thousand rows with a tail of shape .7 hardly any has a largest weight so small that its fit is clipped."""
    log_weights = 0.7 * np.random.default_rng(9).standard_exponential((1000, size))
    short = largest_over_mean(log_weights) <= 0.2 * 0.3 * size**0.7
    assert short.mean() < 0.005


def test_rows_do_not_depend_on_each_other():
    log_weights = np.random.default_rng(6).standard_normal((9, 300)) * np.linspace(0.1, 5.0, 9)[:, None]
    one_by_one = np.concatenate([pareto_khat(row[None]) for row in log_weights])
    np.testing.assert_array_equal(pareto_khat(log_weights), one_by_one)
    np.testing.assert_array_equal(pareto_khat(log_weights[::-1]), one_by_one[::-1])


def test_order_of_the_draws_and_size_of_the_weights_do_not_matter():
    rng = np.random.default_rng(7)
    log_weights = 2.0 * rng.standard_normal((3, 500))
    expected = pareto_khat(log_weights)
    np.testing.assert_allclose(pareto_khat(rng.permuted(log_weights, axis=1)), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(pareto_khat(log_weights + 123.0), expected, rtol=0, atol=1e-10)


def test_the_weights_are_left_as_they_were():
    log_weights = np.random.default_rng(8).standard_normal((3, 100))
    kept = log_weights.copy()
    pareto_khat(log_weights)
    np.testing.assert_array_equal(log_weights, kept)


@pytest.mark.parametrize("size", [1, 5, 24])
def test_too_few_draws_are_refused(size: int):
    with pytest.raises(RcbError, match=rf"at least 25 draws, got {size}"):
        pareto_khat(np.zeros((2, size)))
