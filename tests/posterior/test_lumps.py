"""Lumps: what a Gaussian hides is found, completed, and never vouched for; smooth beliefs are left alone."""

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.posterior.exact import exact_moments
from rcb_bayes.posterior.importance import LADDER, ImportanceSampler, Weighted
from rcb_bayes.posterior.lumps import Cover, find_lumps, log_hiding, mixture_weights
from rcb_bayes.posterior.proposal import moment_surrogate, scale_surrogate
from tests.posterior import twins

# Weights, means and standard deviations of two camps of an arm, the first of them hard to see.
HIDDEN = {
    "spike in a slab": ((0.5, 0.5), (0.0, 0.0), (0.005, 1.0)),
    "spike off the centre": ((0.3, 0.7), (1.0, 0.0), (0.02, 0.5)),
    "rare spike": ((0.03, 0.97), (1.0, 0.0), (0.01, 1.0)),
    "rare and far": ((0.03, 0.97), (5.0, 0.0), (0.3, 0.5)),
}


def surrogates(prior: Prior) -> tuple[Cover, int]:
    """The cover of a belief, and how many components the smooth surrogate had."""
    gaussian = moment_surrogate(prior)
    smooth = scale_surrogate(prior, gaussian)
    return find_lumps(prior, gaussian, smooth, fewest=256, most=4096), smooth.blocks[0].n_components


def errors(prior: Prior, found: Weighted, data: twins.Statistics, *, sigma: float) -> np.ndarray:
    """The largest error of each data set in posterior standard deviations, (M,)."""
    assert prior.law is not None
    mean, cov = exact_moments(prior.law, data, sigma=sigma, covariance=True)
    assert cov is not None
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2)).reshape(mean.shape)
    return (np.abs(found.mean - mean) / sd).max(axis=(1, 2))


@pytest.mark.parametrize("camps", HIDDEN.values(), ids=HIDDEN.keys())
@pytest.mark.parametrize("d", [2, 5])
def test_what_a_gaussian_hides_is_found(camps: tuple, d: int):
    prior = twins.two_camps(*camps, n_features=d)
    cover, n_smooth = surrogates(prior)
    assert cover.gaussian_hides
    assert all(block.n_components > n_smooth for block in cover.law.blocks)
    assert all(block.weights.sum() == pytest.approx(1.0) for block in cover.law.blocks)
    draws, _ = prior.draw_arrays(4000, rng=np.random.default_rng(11))
    still_hidden = prior.group_log_density(draws) - cover.law.log_density(draws) > log_hiding(256)
    assert still_hidden.mean() < 0.01


@pytest.mark.parametrize(("name", "d"), [("student_t", 1), ("laplace", 1), ("gamma", 1), ("student_t", 2)])
def test_smooth_beliefs_have_no_lumps(name: str, d: int):
    cover, n_smooth = surrogates(twins.cached_prior(name, d))
    assert not cover.gaussian_hides
    assert [block.n_components for block in cover.law.blocks] == [n_smooth, n_smooth]


def test_overlapping_camps_are_no_lumps():
    cover, n_smooth = surrogates(twins.two_camps(*twins.CAMPS, n_features=5))
    assert not cover.gaussian_hides
    assert cover.law.blocks[0].n_components == n_smooth


@pytest.mark.parametrize("camps", HIDDEN.values(), ids=HIDDEN.keys())
@pytest.mark.parametrize("n", [1, 5])
def test_hidden_camps_are_not_silently_missed(camps: tuple, n: int):
    """Five features and little data, where a Gaussian's 256 draws never hit the narrow camp."""
    prior, sigma = twins.two_camps(*camps, n_features=5), 0.3
    data = twins.simulate_statistics(prior, n, sigma, 16, seed=n)
    found = ImportanceSampler(prior, sigma=sigma).fit(data)
    wrong = errors(prior, found, data, sigma=sigma)
    assert found.vouched.mean() > 0.5
    assert wrong[found.vouched].max() < 0.3


def test_k_hat_and_effective_size_alone_would_miss_them(monkeypatch: pytest.MonkeyPatch):
    """The danger is real: without the cover nearly every data set is vouched for, and most are far off."""
    prior, sigma = twins.two_camps(*HIDDEN["spike in a slab"], n_features=5), 0.3
    data = twins.simulate_statistics(prior, 3, sigma, 24, seed=3)
    sampler = ImportanceSampler(prior, sigma=sigma)
    blind = Cover(scale_surrogate(prior, moment_surrogate(prior)), False)
    monkeypatch.setitem(sampler.__dict__, "_cover", blind)
    found = sampler.fit(data)
    assert found.vouched.mean() > 0.5
    assert (errors(prior, found, data, sigma=sigma)[found.vouched] > 0.3).mean() > 0.5


def test_data_that_outweigh_the_lump_are_answered_at_once():
    """With much data the camps' widths no longer matter, and the plain Gaussian is enough."""
    prior, sigma = twins.two_camps((0.3, 0.7), (1.0, 0.0), (0.2, 1.0), n_features=5), 0.05
    assert surrogates(prior)[0].gaussian_hides
    data = twins.simulate_statistics(prior, 200, sigma, 24, seed=5)
    found = ImportanceSampler(prior, sigma=sigma).fit(data)
    assert (found.effective_size <= LADDER[0].n_draws).all()
    assert errors(prior, found, data, sigma=sigma).max() < 0.1


def test_mixture_weights_are_those_that_made_the_draws():
    rng = np.random.default_rng(6)
    centres, true = np.array([-2.0, 0.0, 2.0]), np.array([0.2, 0.5, 0.3])
    draws = centres[rng.choice(3, size=20_000, p=true)] + rng.standard_normal(20_000)
    found = mixture_weights(-0.5 * (draws[:, None] - centres) ** 2, least=0.0)
    np.testing.assert_allclose(found, true, atol=0.03)
    least = mixture_weights(-0.5 * (draws[:, None] - np.append(centres, 50.0)) ** 2, least=0.01)
    assert 0.009 < least[3] < 0.011
