"""Exact posteriors against the textbook: precisions inverted, evidences from the dense normal law of y, quadrature."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.belief import Prior
from rcb_bayes.belief.files import load_prior
from rcb_bayes.belief.law import Block, GaussianLaw, gaussian_law, joint_covariance
from rcb_bayes.errors import BeliefError, DataError
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior import Rows, Statistics, make_engine
from rcb_bayes.posterior import exact as exact_module
from rcb_bayes.posterior.data import unchecked_statistics
from rcb_bayes.posterior.engines import ExactEngine, fit_arms
from rcb_bayes.posterior.exact import Components, component_posterior, exact_draws, exact_moments
from tests.posterior import twins

K, D, SIGMA = 3, 2, 0.3
LIMIT = 4.5  # Monte Carlo errors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Rows of one data set: ``design`` (n, K d), each row zero but for its arm's features, and rewards (n,)."""

    design: np.ndarray
    reward: np.ndarray
    data: Statistics


def sample(counts: tuple[int, ...], *, d: int = D, sigma: float = SIGMA, seed: int = 0) -> Sample:
    rng = np.random.default_rng([seed, *counts])
    arm = np.repeat(np.arange(len(counts)), counts)
    x = rng.standard_normal((len(arm), d))
    design = np.zeros((len(arm), len(counts), d))
    design[np.arange(len(arm)), arm] = x
    reward = (x * rng.standard_normal((len(counts), d))[arm]).sum(axis=1) + sigma * rng.standard_normal(len(arm))
    data = Statistics.from_rows(x, arm=arm, reward=reward, n_arms=len(counts))
    return Sample(design=design.reshape(len(arm), len(counts) * d), reward=reward, data=data)


def random_covariance(rng: np.random.Generator, p: int, *, rank: int | None = None) -> np.ndarray:
    factor = rng.standard_normal((p, rank or p))
    return np.asarray(factor @ factor.T / p, dtype=np.float64)


def joined(first: Statistics, *others: Statistics) -> Statistics:
    fields = ("xtx", "xty", "yty", "n")
    parts = {name: np.concatenate([getattr(data, name) for data in (first, *others)]) for name in fields}
    return Statistics(**parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dense:
    """A posterior by rows: moments of the stacked beta, and the log density of the rewards."""

    mean: np.ndarray
    covariance: np.ndarray
    evidence: float


def dense_gaussian(mean: np.ndarray, cov: np.ndarray, rows: Sample, *, sigma: float = SIGMA) -> Dense:
    """Conditioning on y in the joint law of (beta, y); no prior covariance is inverted."""
    design, reward = rows.design, rows.reward
    of_y = design @ cov @ design.T + sigma**2 * np.eye(len(reward))
    gain = np.linalg.solve(of_y, design @ cov).T
    law_of_y: Any = stats.multivariate_normal
    evidence = law_of_y.logpdf(reward, design @ mean, of_y) if len(reward) else 0.0
    return Dense(
        mean=mean + gain @ (reward - design @ mean), covariance=cov - gain @ design @ cov, evidence=float(evidence)
    )


def dense_mixture(law: GaussianLaw, rows: Sample, *, sigmas: dict[int, float] | None = None) -> Dense:
    """Every combination of the blocks' components, weighted by its evidence; sigmas by component of the only block."""
    size = law.n_arms * law.n_features
    parts, logs = [], []
    for labels in itertools.product(*(range(block.n_components) for block in law.blocks)):
        mean, cov, log_weight = np.zeros(size), np.zeros((size, size)), 0.0
        for block, c in zip(law.blocks, labels, strict=True):
            index = law.flat_index(block)
            mean[index] = block.means[c]
            cov[np.ix_(index, index)] = block.covariances[c]
            log_weight += np.log(block.weights[c])
        part = dense_gaussian(mean, cov, rows, sigma=SIGMA if sigmas is None else sigmas[labels[0]])
        parts.append(part)
        logs.append(log_weight + part.evidence)
    log_total = np.logaddexp.reduce(logs)
    weights = np.exp(np.array(logs) - log_total)
    mean = sum((w * part.mean for w, part in zip(weights, parts, strict=True)), np.zeros(size))
    second = sum(w * (part.covariance + np.outer(part.mean, part.mean)) for w, part in zip(weights, parts, strict=True))
    return Dense(mean=mean, covariance=second - np.outer(mean, mean), evidence=float(log_total))


def mixed_law() -> GaussianLaw:
    """Arms 0 and 2 together, two components; arm 1 alone, three components, one of them singular."""
    rng = np.random.default_rng(5)
    pair = Block(
        arms=(0, 2),
        weights=np.array([0.3, 0.7]),
        means=rng.standard_normal((2, 2 * D)),
        covariances=np.stack([random_covariance(rng, 2 * D), random_covariance(rng, 2 * D)]),
    )
    alone = Block(
        arms=(1,),
        weights=np.array([0.2, 0.5, 0.3]),
        means=rng.standard_normal((3, D)),
        covariances=np.stack([np.eye(D), 0.05 * np.eye(D), random_covariance(rng, D, rank=1)]),
    )
    return GaussianLaw(n_arms=K, n_features=D, blocks=(pair, alone))


def assert_same_posterior(law: GaussianLaw, rows: Sample, twin: Dense) -> None:
    mean, cov = exact_moments(law, rows.data, sigma=SIGMA, covariance=True)
    alone, none = exact_moments(law, rows.data, sigma=SIGMA, covariance=False)
    np.testing.assert_allclose(mean[0].reshape(-1), twin.mean, rtol=0, atol=1e-9)
    assert cov is not None
    np.testing.assert_allclose(cov[0], twin.covariance, rtol=0, atol=1e-9)
    np.testing.assert_allclose(alone, mean, rtol=0, atol=1e-9)
    assert none is None


COUNTS = [(0, 0, 0), (1, 0, 0), (0, 4, 0), (1, 1, 1), (1, 2, 7), (40, 0, 3), (30, 30, 30)]


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("coupled", [False, True])
def test_gaussian_by_the_textbook(counts: tuple[int, ...], coupled: bool):
    """Posterior precision V^-1 + X'X/s2, mean P (V^-1 m + X'y/s2)."""
    rng = np.random.default_rng(1)
    mean = rng.standard_normal((K, D))
    cov: Any = random_covariance(rng, K * D) if coupled else np.stack([random_covariance(rng, D) for _ in range(K)])
    prior, rows = Prior.gaussian(mean, cov), sample(counts)
    assert prior.arms_independent is not coupled
    joint = prior.covariance.values.reshape(K * D, K * D)
    posterior = np.linalg.inv(np.linalg.inv(joint) + rows.design.T @ rows.design / SIGMA**2)
    centre = posterior @ (np.linalg.solve(joint, mean.reshape(-1)) + rows.design.T @ rows.reward / SIGMA**2)
    batch = make_engine(prior, GaussianNoise(SIGMA)).fit(rows.data, covariance=True)
    assert batch.covariance is not None
    np.testing.assert_allclose(batch.mean[0].reshape(-1), centre, rtol=0, atol=1e-10)
    np.testing.assert_allclose(batch.covariance[0], posterior, rtol=0, atol=1e-10)
    assert batch.vouched.all()
    assert batch.engine.tolist() == ["exact"]


SINGULAR = {
    "a known coefficient": np.diag([1.0, 0.0, 1.0, 1.0, 0.5, 1.0]),
    "two arms alike": np.kron(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), np.eye(D)),
    "one direction": random_covariance(np.random.default_rng(2), K * D, rank=1),
    "everything known": np.zeros((K * D, K * D)),
}


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("cov", SINGULAR.values(), ids=SINGULAR.keys())
def test_singular_priors_by_the_joint_law_of_beta_and_y(cov: np.ndarray, counts: tuple[int, ...]):
    mean = np.arange(6.0).reshape(K, D) / 4.0
    rows = sample(counts)
    assert_same_posterior(gaussian_law(mean, cov), rows, dense_gaussian(mean.reshape(-1), cov, rows))


@pytest.mark.parametrize("counts", COUNTS)
def test_mixtures_by_the_dense_evidence(counts: tuple[int, ...]):
    rows = sample(counts)
    assert_same_posterior(mixed_law(), rows, dense_mixture(mixed_law(), rows))


def test_the_dense_evidence_would_notice_a_lost_determinant(monkeypatch: pytest.MonkeyPatch):
    factor = exact_module._factor
    monkeypatch.setattr(exact_module, "_factor", lambda inner: (factor(inner)[0], np.zeros(inner.shape[:-2])))
    rows = sample((1, 2, 7))
    mean, _ = exact_moments(mixed_law(), rows.data, sigma=SIGMA, covariance=False)
    assert np.abs(mean[0].reshape(-1) - dense_mixture(mixed_law(), rows).mean).max() > 0.01


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (3, 2), (50, 50)])
def test_components_with_a_sigma_of_their_own_by_the_dense_evidence(counts: tuple[int, int]):
    """Both arms in one block, so that the label tells the noise of all rewards."""
    rng = np.random.default_rng(3)
    sigmas = {0: 0.1, 1: 0.3, 2: 1.0}
    law = GaussianLaw(
        n_arms=2,
        n_features=D,
        blocks=(
            Block(
                arms=(0, 1),
                weights=np.array([0.2, 0.5, 0.3]),
                means=rng.standard_normal((3, 2 * D)),
                covariances=np.stack([random_covariance(rng, 2 * D) for _ in range(3)]),
            ),
        ),
    )
    rows = sample(counts)
    precision = np.array([[1.0 / sigma**2 for sigma in sigmas.values()]])
    found = component_posterior(Components.of(law.blocks), rows.data, precision=precision)
    twin = dense_mixture(law, rows, sigmas=sigmas)
    np.testing.assert_allclose(found.mixed_mean()[0, 0], twin.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.mixed_covariance()[0, 0], twin.covariance, rtol=0, atol=1e-9)
    means_only = component_posterior(Components.of(law.blocks), rows.data, precision=precision, covariance=False)
    np.testing.assert_allclose(means_only.log_weight, found.log_weight, rtol=0, atol=1e-9)


def test_the_dense_evidence_would_notice_lost_noise_terms(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact_module, "_noise_terms", lambda arms, data, tau: 0.0)
    with pytest.raises(AssertionError):
        test_components_with_a_sigma_of_their_own_by_the_dense_evidence((3, 2))


@pytest.mark.parametrize("sigma", [0.05, 1.0])
@pytest.mark.parametrize("n", [1, 3, 100])
@pytest.mark.parametrize("d", [1, 2])
def test_two_camps_by_quadrature(d: int, n: int, sigma: float):
    belief = twins.BELIEFS["two_camps"]
    prior = belief.build(d)
    data = twins.simulate_statistics(prior, n, sigma, 3, seed=n)
    batch = make_engine(prior, GaussianNoise(sigma)).fit(data, covariance=True)
    assert batch.covariance is not None
    twin = belief.moments(data, arm=1, sigma=sigma)
    np.testing.assert_allclose((batch.mean[:, 1] - twin.mean) / twin.sd, 0.0, atol=1e-5)
    np.testing.assert_allclose(batch.covariance[:, d:, d:], twin.covariance, rtol=1e-4, atol=1e-6)


def test_without_data_the_posterior_is_the_prior():
    law = mixed_law()
    empty = sample((0, 0, 0)).data
    mean, cov = exact_moments(law, empty, sigma=SIGMA, covariance=True)
    np.testing.assert_allclose(mean[0], law.mean(), rtol=0, atol=1e-12)
    assert cov is not None
    np.testing.assert_allclose(cov[0], law.covariance(), rtol=0, atol=1e-12)


def test_data_on_one_arm_move_only_the_arms_it_is_coupled_with():
    law = mixed_law()
    mean, _ = exact_moments(law, sample((9, 0, 0)).data, sigma=SIGMA, covariance=False)
    np.testing.assert_allclose(mean[0, 1], law.mean()[1], rtol=0, atol=1e-12)
    assert np.abs(mean[0, 2] - law.mean()[2]).min() > 1e-3


def test_a_batch_is_its_data_sets_one_by_one():
    law = mixed_law()
    ones = [sample(counts, seed=3).data for counts in COUNTS]
    mean, cov = exact_moments(law, joined(*ones), sigma=SIGMA, covariance=True)
    assert cov is not None
    for m, one in enumerate(ones):
        own_mean, own_cov = exact_moments(law, one, sigma=SIGMA, covariance=True)
        assert own_cov is not None
        np.testing.assert_allclose(mean[m], own_mean[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(cov[m], own_cov[0], rtol=0, atol=1e-12)


def test_chunks_do_not_show():
    """Ten arms of ten features: the engine takes two bites at this batch."""
    prior = Prior.gaussian(np.zeros((10, 10)), 0.25)
    data = twins.simulate_statistics(prior, 3, SIGMA, 2100, seed=1)
    whole = ExactEngine(prior, GaussianNoise(SIGMA)).fit(data)
    assert prior.law is not None
    for piece in (slice(0, 5), slice(1998, 2003), slice(2095, None)):
        expected, _ = exact_moments(prior.law, data.take(piece), sigma=SIGMA, covariance=False)
        np.testing.assert_allclose(whole.mean[piece], expected, rtol=0, atol=1e-12)
    assert whole.n_sets == 2100


def test_no_data_set_at_all():
    prior = Prior.gaussian(np.zeros((K, D)), 0.25)
    batch = ExactEngine(prior, GaussianNoise(SIGMA)).fit(sample((1, 1, 1)).data.take(slice(0, 0)), covariance=True)
    assert batch.covariance is not None
    assert batch.mean.shape == (0, K, D)
    assert batch.covariance.shape == (0, K * D, K * D)


@pytest.mark.parametrize("order", list(itertools.permutations(range(K))))
def test_arms_may_come_in_any_order(order: tuple[int, ...]):
    law, data = mixed_law(), sample((3, 5, 2)).data
    place = {arm: position for position, arm in enumerate(order)}
    moved_law = GaussianLaw(
        n_arms=K,
        n_features=D,
        blocks=tuple(
            Block(
                arms=tuple(place[arm] for arm in block.arms),
                weights=block.weights,
                means=block.means,
                covariances=block.covariances,
            )
            for block in law.blocks
        ),
    )
    index = list(order)
    moved = Statistics(xtx=data.xtx[:, index], xty=data.xty[:, index], yty=data.yty[:, index], n=data.n[:, index])
    mean, cov = exact_moments(law, data, sigma=SIGMA, covariance=True)
    moved_mean, moved_cov = exact_moments(moved_law, moved, sigma=SIGMA, covariance=True)
    np.testing.assert_allclose(moved_mean, mean[:, index], rtol=0, atol=1e-12)
    assert cov is not None
    assert moved_cov is not None
    flat = [arm * D + k for arm in index for k in range(D)]
    np.testing.assert_allclose(moved_cov[0], cov[0][np.ix_(flat, flat)], rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_units_of_the_features_do_not_matter(scale: float):
    rng = np.random.default_rng(6)
    cov = joint_covariance([random_covariance(rng, D) for _ in range(K)])
    data = sample((1, 2, 30)).data
    scaled = Statistics(xtx=data.xtx * scale**2, xty=data.xty * scale, yty=data.yty, n=data.n)
    mean, _ = exact_moments(gaussian_law(np.ones((K, D)), cov), data, sigma=SIGMA, covariance=False)
    law = gaussian_law(np.ones((K, D)) / scale, cov / scale**2)
    found, _ = exact_moments(law, scaled, sigma=SIGMA, covariance=False)
    np.testing.assert_allclose(found * scale, mean, rtol=0, atol=1e-9)


def test_a_vague_prior_gives_least_squares_even_with_little_noise():
    rows = sample((20, 20, 20), sigma=1e-3)
    law = gaussian_law(np.zeros((K, D)), 1e6 * np.eye(K * D))
    for covariance in (False, True):
        mean, _ = exact_moments(law, rows.data, sigma=1e-3, covariance=covariance)
        expected = np.linalg.lstsq(rows.design, rows.reward, rcond=None)[0]
        np.testing.assert_allclose(mean[0].reshape(-1), expected, rtol=0, atol=1e-7)


def largest_z(values: np.ndarray, claimed: np.ndarray) -> float:
    """The largest distance of the draws' mean from a claimed one, in Monte Carlo errors; constants must be equal."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return float((np.abs(values.mean(axis=0) - claimed) / (error + 1e-12)).max())


@pytest.mark.parametrize("counts", [(0, 0, 0), (1, 2, 7), (40, 0, 3)])
def test_draws_have_the_posterior_moments(counts: tuple[int, ...]):
    law, rows = mixed_law(), sample(counts)
    twin = dense_mixture(law, rows)
    drawn = exact_draws(law, rows.data, precision=1.0 / SIGMA**2, n=20_000, rng=np.random.default_rng(7))
    assert drawn.shape == (1, 20_000, K, D)
    flat = drawn[0].reshape(20_000, -1)
    centred = flat - twin.mean
    products = centred[:, :, None] * centred[:, None, :]
    assert largest_z(flat, twin.mean) < LIMIT
    assert largest_z(products, twin.covariance) < LIMIT
    # A twentieth of a standard deviation, or five per cent in scale, would be seen.
    assert largest_z(flat, twin.mean + 0.05 * np.sqrt(np.diag(twin.covariance))) > LIMIT
    assert largest_z(1.05**2 * products, twin.covariance) > LIMIT


def test_draws_of_a_known_coefficient_stay_there():
    cov = SINGULAR["a known coefficient"]
    law = gaussian_law(np.full((K, D), 2.0), cov)
    drawn = exact_draws(law, sample((3, 3, 3)).data, precision=1.0 / SIGMA**2, n=50, rng=np.random.default_rng(8))
    np.testing.assert_allclose(drawn[0, :, 0, 1], 2.0, rtol=0, atol=1e-6)


def test_draws_repeat_with_the_seed():
    engine = make_engine(Prior.gaussian(np.zeros((K, D)), 1.0), GaussianNoise(SIGMA))
    data = sample((1, 2, 3)).data
    first, again, other = (engine.draw(data, 5, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_rewards_of_users_are_linear_in_the_mean():
    engine = make_engine(Prior.gaussian(np.zeros((K, D)), 1.0), GaussianNoise(SIGMA))
    users = np.array([[1.0, 0.0], [0.5, -2.0]])
    batch = engine.fit(sample((1, 2, 3)).data, users=users)
    assert batch.reward is not None
    np.testing.assert_allclose(batch.reward[0], users @ batch.mean[0].T)


def test_only_gaussian_beliefs_with_a_known_sigma_are_taken():
    with pytest.raises(BeliefError, match="known sigma"):
        ExactEngine(Prior.gaussian(np.zeros((K, D)), 1.0), GaussianNoise())
    with pytest.raises(DataError, match="given as Statistics"):
        ExactEngine(Prior.gaussian(np.zeros((K, D)), 1.0), GaussianNoise(1.0)).fit(
            Rows(x=np.zeros((1, 1, D)), arm=np.zeros((1, 1), dtype=int), reward=np.zeros((1, 1)), n_arms=K)
        )


@pytest.mark.parametrize("belief", ["independent", "coupled", "mixture"])
def test_covariances_arm_by_arm_are_those_of_the_joint_one(belief: str) -> None:
    """``fit_arms`` leaves out how arms go together, and nothing else."""
    rng = np.random.default_rng(11)
    if belief == "mixture":
        prior = load_prior("mixture", n_arms=3, n_features=2)
    else:
        root = rng.standard_normal((6, 6)) if belief == "coupled" else np.eye(6)
        prior = Prior.gaussian(rng.standard_normal((3, 2)), (root @ root.T + np.eye(6)) if belief == "coupled" else 0.4)
    x = rng.standard_normal((40, 3, 8, 2))
    y = rng.standard_normal((40, 3, 8))
    data = unchecked_statistics(
        x.swapaxes(2, 3) @ x, (x * y[..., None]).sum(axis=2), (y**2).sum(axis=2), np.full((40, 3), 8.0)
    )
    engine = ExactEngine(prior, GaussianNoise(0.5))
    joint, own = engine.fit(data, covariance=True), fit_arms(engine, data)
    assert own.covariance is not None
    assert own.covariance.shape == (40, 3, 2, 2)
    np.testing.assert_allclose(own.mean, joint.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(own.arm_covariances(), joint.arm_covariances(), rtol=1e-10, atol=1e-12)
    assert not np.allclose(own.arm_covariances()[:, 0], joint.arm_covariances()[:, 1], rtol=1e-10)
