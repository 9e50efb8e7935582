"""Proposals: exact under their own surrogate, with the density they claim, and broad enough for the belief."""

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.belief import Prior
from rcb_bayes.posterior import Statistics
from rcb_bayes.posterior.exact import Components, exact_moments
from rcb_bayes.posterior.proposal import (
    Proposal,
    Sites,
    _triangular_roots,
    expectation_propagation,
    mixed,
    moment_surrogate,
    scale_surrogate,
    surrogate_posterior,
)
from tests.posterior import twins

M, B, C, P = 3, 2, 3, 2
SIGMA = 0.3


def random_covariances(rng: np.random.Generator, *shape: int) -> np.ndarray:
    factor = rng.standard_normal(shape)
    return factor @ factor.swapaxes(-1, -2) + 0.1 * np.eye(shape[-1])


def random_proposal(seed: int, *, n_components: int = C) -> Proposal:
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(random_covariances(rng, M, B, n_components, P, P))
    weight = rng.dirichlet(np.ones(n_components), size=(M, B))
    return Proposal(rng.standard_normal((M, B, n_components, P)), root, np.log(weight))


def base_draws(n: int, *, seed: int = 1, p: int = P) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.random(n), rng.standard_normal((n, p))])


def scipy_log_density(proposal: Proposal, values: np.ndarray) -> np.ndarray:
    out = np.empty(values.shape[:-1])
    for m, b in np.ndindex(values.shape[:2]):
        terms = [
            proposal.log_weight[m, b, c]
            + stats.multivariate_normal(
                proposal.mean[m, b, c], proposal.root[m, b, c] @ proposal.root[m, b, c].T
            ).logpdf(values[m, b])
            for c in range(proposal.mean.shape[2])
        ]
        out[m, b] = np.logaddexp.reduce(terms, axis=0)
    return out


def likelihood(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Precision (M, B, P, P) and linear part (M, B, P) of a log likelihood."""
    rng = np.random.default_rng(seed)
    return random_covariances(rng, M, B, P, P), rng.standard_normal((M, B, P))


def drawn(proposal: Proposal, n: int, information: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (M, B, S, P) and log ratios (M, B, S), written by halves of the data sets and in another order."""
    groups, half = np.arange(B)[::-1], M // 2
    index = groups[:, None] * P + np.arange(P)
    draws, log_ratio = np.empty((M, n, B * P)), np.empty((M, B, n))
    weigher = proposal.weigher(base_draws(n), information, pull)
    for rows in (slice(half), slice(half, M)):
        weigher.write(rows, index, groups, draws[rows], log_ratio[rows])
    return draws[:, :, index].transpose(0, 2, 1, 3), log_ratio[:, groups]


@pytest.mark.parametrize("n_components", [1, C])
def test_draws_come_with_their_weights(n_components: int):
    """Log likelihood less log density, but for one constant of each data set and group."""
    proposal, (information, pull) = random_proposal(1, n_components=n_components), likelihood(8)
    values, log_ratio = drawn(proposal, 50, information, pull)
    quadratic = np.einsum("mbsi,mbij,mbsj->mbs", values, information, values)
    expected = np.einsum("mbsp,mbp->mbs", values, pull) - 0.5 * quadratic - scipy_log_density(proposal, values)
    gap = log_ratio - expected
    np.testing.assert_allclose(gap, np.broadcast_to(gap[:, :, :1], gap.shape), rtol=0, atol=1e-9)
    log_density = proposal.log_density(values) - scipy_log_density(proposal, values)
    np.testing.assert_allclose(log_density, log_density[0, 0, 0], rtol=0, atol=1e-9)


def test_draws_have_the_moments_of_the_mixture():
    proposal, n = random_proposal(2), 20_000
    values, _ = drawn(proposal, n, *likelihood(9))
    weight = np.exp(proposal.log_weight)
    mean = np.einsum("mbc,mbcp->mbp", weight, proposal.mean)
    error = values.std(axis=2, ddof=1) / np.sqrt(n)
    assert (np.abs(values.mean(axis=2) - mean) < 4.5 * error).all()
    assert (np.abs(values.mean(axis=2) - mean - 0.1 * values.std(axis=2)) > 4.5 * error).all()
    centred = proposal.mean - mean[:, :, None]
    within = np.einsum("mbc,mbcij,mbckj->mbik", weight, proposal.root, proposal.root)
    variance = np.diagonal(within + np.einsum("mbc,mbci,mbcj->mbij", weight, centred, centred), axis1=2, axis2=3)
    squares = (values - mean[:, :, None]) ** 2
    assert (np.abs(squares.mean(axis=2) - variance) < 4.5 * squares.std(axis=2, ddof=1) / np.sqrt(n)).all()


def test_mixed_is_the_average_density():
    first, second = random_proposal(3), random_proposal(4, n_components=1)
    values = np.random.default_rng(5).standard_normal((M, B, 20, P))
    both = mixed(first, second, share=0.3)
    expected = np.logaddexp(np.log(0.3) + first.log_density(values), np.log(0.7) + second.log_density(values))
    np.testing.assert_allclose(both.log_density(values), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.exp(both.log_weight).sum(axis=2), 1.0)


def test_the_surrogates_posterior_is_exact():
    prior = Prior.gaussian(np.ones((2, P)), random_covariances(np.random.default_rng(6), 2, P, P))
    data = twins.simulate_statistics(prior, (1, 5), SIGMA, M, seed=1)
    assert prior.law is not None
    proposal = surrogate_posterior(Components.of(prior.law.blocks), data, sigma=SIGMA)
    mean, cov = exact_moments(prior.law, data, sigma=SIGMA, covariance=True)
    assert cov is not None
    np.testing.assert_allclose(proposal.mean[:, :, 0], mean, rtol=0, atol=1e-10)
    for b in range(2):
        block = slice(b * P, (b + 1) * P)
        square = proposal.root[:, b, 0] @ proposal.root[:, b, 0].swapaxes(1, 2)
        np.testing.assert_allclose(square, cov[:, block, block], rtol=1e-8)


@pytest.mark.parametrize("sigma", [1e-2, 1e-5, 1e-8])
def test_roots_are_triangular_whatever_rounding_does(sigma: float):
    """One precise sample of five features: the covariance has eigenvalues of order 1 and sigma^2."""
    prior = Prior.gaussian(np.zeros((2, 5)), 1.0)
    data = twins.simulate_statistics(prior, 1, sigma, 20, seed=2)
    assert prior.law is not None
    root = surrogate_posterior(Components.of(prior.law.blocks), data, sigma=sigma).root
    assert not np.triu(root, 1).any()
    assert (np.diagonal(root, axis1=-2, axis2=-1) > 0).all()


def test_a_singular_covariance_gets_a_triangular_root_too():
    rng = np.random.default_rng(7)
    factor = rng.standard_normal((4, 5, 2))
    rank_two = factor @ factor.swapaxes(-1, -2)
    rank_two -= 1e-11 * np.eye(5)  # as rounding may leave it
    root = _triangular_roots(rank_two)
    assert not np.triu(root, 1).any()
    assert (np.diagonal(root, axis1=-2, axis2=-1) > 0).all()
    np.testing.assert_allclose(root @ root.swapaxes(-1, -2), rank_two, rtol=0, atol=1e-6)


def test_the_moment_surrogate_has_the_beliefs_moments():
    prior = twins.two_camps(*twins.CAMPS, n_features=P)
    found = moment_surrogate(prior)
    assert prior.law is not None
    assert found.is_gaussian
    np.testing.assert_allclose(found.mean(), prior.law.mean())
    np.testing.assert_allclose(found.covariance(), prior.law.covariance(), atol=1e-9)


def test_a_belief_without_a_variance_gets_a_robust_surrogate():
    prior = twins.cached_prior("no_variance", 1)
    found = moment_surrogate(prior)
    assert np.isfinite(found.covariance()).all()
    assert 0.3 < np.sqrt(found.covariance()[0, 0]) < 3.0


def test_scales_leave_no_tail_uncovered():
    """A belief's density over its surrogate's is bounded by a small number, far out too; a Gaussian's is not."""
    prior = twins.cached_prior("student_t", 1)
    gaussian = moment_surrogate(prior)
    scaled = scale_surrogate(prior, gaussian)
    block = scaled.blocks[0]
    assert block.weights.sum() == pytest.approx(1.0)
    assert block.weights.min() > 0.005
    reach = np.linspace(-15.0, 15.0, 601)
    values = np.broadcast_to(reach[:, None, None], (601, 2, 1))
    excess = prior.group_log_density(values) - scaled.log_density(values)
    assert excess.max() < 1.0
    assert (prior.group_log_density(values) - gaussian.log_density(values)).max() > 50.0


def one_group(data: Statistics, sites: Sites, *, sigma: float) -> Proposal:
    return expectation_propagation(sites, np.array([[0]]), data, sigma=sigma)


def test_expectation_propagation_is_exact_for_gaussian_beliefs():
    prior = Prior.gaussian(np.full((2, 3), 0.5), np.diag([0.1, 1.0, 4.0]))
    assert prior.law is not None
    data = twins.simulate_statistics(prior, 2, SIGMA, M, seed=3)
    proposal = one_group(data, Sites(prior, prior.law), sigma=SIGMA)
    mean, cov = exact_moments(prior.law, data, sigma=SIGMA, covariance=True)
    assert cov is not None
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))[:, :3]
    np.testing.assert_allclose((proposal.mean[:, 0, 0] - mean[:, 0]) / sd, 0.0, atol=0.02)
    found = proposal.root[:, 0, 0] @ proposal.root[:, 0, 0].swapaxes(1, 2)
    np.testing.assert_allclose(np.sqrt(np.diagonal(found, axis1=1, axis2=2)) / sd, 1.0, atol=0.02)


@pytest.mark.parametrize("name", ["laplace", "student_t", "gamma"])
def test_expectation_propagation_has_the_right_moments_for_one_coefficient(name: str):
    """With a single site the tilted distribution is the posterior itself."""
    prior = twins.cached_prior(name, 1)
    data = twins.simulate_statistics(prior, 2, SIGMA, 20, seed=4)
    proposal = expectation_propagation(
        Sites(prior, moment_surrogate(prior)), np.array([[0]]), data, sigma=SIGMA, n_sweeps=12
    )
    twin = twins.BELIEFS[name].moments(data, arm=0, sigma=SIGMA)
    assert np.abs((proposal.mean[:, 0, 0] - twin.mean) / twin.sd).max() < 0.1
    assert np.abs(np.log(proposal.root[:, 0, 0, 0] / twin.sd)).max() < 0.2
