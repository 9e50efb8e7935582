"""Student-t mixtures: draws with the density they claim, and fits that find weighted moments."""

from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from rcb_bayes.belief.law import Block
from rcb_bayes.posterior.student import StudentMixture

stats: Any = scipy_stats  # its annotations do not fit its own use
M, C, P = 2, 2, 3


def mixture(seed: int = 0) -> StudentMixture:
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((M, C, P, P))
    root = np.linalg.cholesky(factor @ factor.swapaxes(-1, -2) + 0.2 * np.eye(P))
    own = rng.standard_normal((C, P, P))
    block = Block(
        arms=(0,),
        weights=np.full(C, 1.0 / C),
        means=rng.standard_normal((C, P)),
        covariances=own @ own.swapaxes(-1, -2) + 0.2 * np.eye(P),
    )
    return StudentMixture.around(rng.standard_normal((M, C, P)), root, block)


def scipy_density(mix: StudentMixture, values: np.ndarray, m: int) -> np.ndarray:
    out = np.zeros(len(values))
    for c in range(C):
        near, far = mix.root[m, c] @ mix.root[m, c].T, mix.belief_root[c] @ mix.belief_root[c].T
        for share, degrees, centre, shape in (
            (0.6, 8.0, mix.centre[m, c], near),
            (0.25, 3.0, mix.centre[m, c], near),
            (0.15, 8.0, mix.belief_centre[c], far),
        ):
            out += share / C * stats.multivariate_t(centre, shape, df=degrees).pdf(values)
    return out


def test_the_density_is_that_of_scipy_up_to_a_constant():
    mix = mixture()
    values = mix.draw(256, seed=(0,))
    found = np.logaddexp.reduce(mix.log_densities(values), axis=0)
    gap = np.stack([found[m] - np.log(scipy_density(mix, values[m], m)) for m in range(M)])
    np.testing.assert_allclose(gap, gap[0, 0], rtol=0, atol=1e-9)


def test_draws_have_the_density():
    """Weights of one mixture over another sum to one, and do not where the density is another's."""
    mix, other = mixture(0), mixture(1)
    values = mix.draw(2**15, seed=(0,))
    log_q = np.logaddexp.reduce(mix.log_densities(values), axis=0)
    log_p = np.logaddexp.reduce(mixture(0).take(np.array([1, 0])).log_densities(values), axis=0)
    ratio = np.exp(log_p - log_q)
    error = ratio.std(axis=1) / np.sqrt(ratio.shape[1])
    assert (np.abs(ratio.mean(axis=1) - 1.0) < 4.5 * error).all()
    wrong = np.exp(log_p - np.logaddexp.reduce(other.log_densities(values), axis=0))
    assert (np.abs(wrong.mean(axis=1) - 1.0) > 0.05).any()


def test_halves_are_independent():
    values = mixture().draw(512, seed=(0,))
    assert not np.isin(values[0, :256, 0], values[0, 256:, 0]).any()


def test_a_fit_finds_the_weighted_moments():
    """One component, weighted to a normal target: its centre and covariance are those of the target."""
    block = Block(arms=(0,), weights=np.ones(1), means=np.zeros((1, P)), covariances=np.eye(P)[None])
    mix = StudentMixture.around(np.zeros((1, 1, P)), np.eye(P)[None, None], block)
    values = mix.draw(8192, seed=(1,))
    log_q = mix.log_densities(values)
    target = stats.multivariate_normal([0.5, 0.0, -0.5], np.diag([0.25, 1.0, 0.25]))
    fit = mix.fitted(values, target.logpdf(values) - log_q[0], log_q)
    np.testing.assert_allclose(fit.centre[0, 0], [0.5, 0.0, -0.5], atol=0.05)
    np.testing.assert_allclose(fit.root[0, 0] @ fit.root[0, 0].T, np.diag([0.25, 1.0, 0.25]), atol=0.08)


def test_a_single_weight_does_not_make_a_proposal():
    mix = mixture()
    values = mix.draw(512, seed=(2,))
    log_weight = np.full((M, 512), -50.0)
    log_weight[:, 7] = 0.0
    fit = mix.fitted(values, log_weight, mix.log_densities(values))
    before, after = (np.linalg.det(one.root) for one in (mix, fit))
    assert (after > 0.3 * before).all()


@pytest.mark.parametrize("n_draws", [512, 2048])
def test_data_sets_may_be_taken_one_by_one(n_draws: int):
    mix = mixture()
    whole = mix.draw(n_draws, seed=(3,))
    for m in range(M):
        np.testing.assert_array_equal(mix.take(slice(m, m + 1)).draw(n_draws, seed=(3,))[0], whole[m])
