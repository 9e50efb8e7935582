"""The engines against each other and against textbook algebra, through the public interface."""

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.posterior import DiagnosticWarning
from rcb_bayes.posterior.importance import ImportanceSampler
from rcb_bayes.schema import FloatArray

SIGMA = 0.3


def simulate(
    prior: rcb.Prior, *, n: int, n_sets: int, seed: int = 0, sigma: float = SIGMA
) -> tuple[FloatArray, rcb.posterior.Statistics]:
    """True coefficients and the statistics of n samples per arm, users on the unit sphere."""
    rng = np.random.default_rng(seed)
    k, d = prior.n_arms, prior.n_features
    beta, _ = prior.draw_arrays(n_sets, rng=rng)
    x = rng.standard_normal((n_sets, k, n, d))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    y = np.einsum("mknd,mkd->mkn", x, beta) + sigma * rng.standard_normal((n_sets, k, n))
    return beta, rcb.posterior.Statistics(
        xtx=x.swapaxes(-1, -2) @ x,
        xty=np.einsum("mknd,mkn->mkd", x, y),
        yty=(y**2).sum(axis=-1),
        n=np.full((n_sets, k), float(n)),
    )


def textbook(mean: FloatArray, covariance: FloatArray, data: rcb.posterior.Statistics, sigma: float) -> FloatArray:
    """Posterior means of a joint Gaussian belief by dense precision matrices, (M, K, d)."""
    k, d = mean.shape
    out = np.empty((data.n_sets, k, d))
    for m in range(data.n_sets):
        information = np.zeros((k * d, k * d))
        for arm in range(k):
            rows = slice(arm * d, (arm + 1) * d)
            information[rows, rows] = data.xtx[m, arm] / sigma**2
        precision = np.linalg.inv(covariance)
        pull = precision @ mean.reshape(-1) + data.xty[m].reshape(-1) / sigma**2
        out[m] = np.linalg.solve(precision + information, pull).reshape(k, d)
    return out


@pytest.mark.parametrize("n", [1, 3, 100])
def test_exact_is_the_textbook_posterior_for_coupled_arms(n: int) -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((6, 6))
    prior = rcb.Prior.gaussian(rng.standard_normal((3, 2)), root @ root.T / 6)
    _, data = simulate(prior, n=n, n_sets=20)
    found = rcb.posterior.posterior_means(prior, rcb.GaussianNoise(SIGMA), data)
    wanted = textbook(prior.mean.values, prior.covariance.values.reshape(6, 6), data, SIGMA)
    np.testing.assert_allclose(found.mean, wanted, atol=1e-9)
    assert found.vouched.all()
    assert set(found.engine) == {"exact"}


def test_importance_agrees_with_exact_within_its_own_error() -> None:
    prior = rcb.Prior.gaussian(np.zeros((2, 3)), 0.25)
    _, data = simulate(prior, n=5, n_sets=200)
    exact = rcb.posterior.posterior_means(prior, rcb.GaussianNoise(SIGMA), data, covariance=True)
    sampled = ImportanceSampler(prior, sigma=SIGMA).fit(data)
    assert exact.covariance is not None
    sd = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2)).reshape(exact.mean.shape)
    # A Gaussian belief is its own surrogate: equal weights, so that only the Sobol points' error is left.
    assert np.abs((sampled.mean - exact.mean) / sd).max() < 0.05
    shifted = ImportanceSampler(rcb.Prior.gaussian(np.full((2, 3), 0.1), 0.25), sigma=SIGMA).fit(data)
    assert np.abs((shifted.mean - exact.mean) / sd).max() > 0.05  # a wrong belief is told apart


def test_posterior_means_are_calibrated() -> None:
    """E[beta - E[beta | S]] = 0 and its square is the posterior variance, over worlds of the belief itself."""
    prior = rcb.load_prior("student_t", n_arms=2, n_features=2)
    beta, data = simulate(prior, n=3, n_sets=1500, seed=5)
    engine = ImportanceSampler(prior, sigma=SIGMA)
    found = engine.fit(data, covariance=True)
    assert found.vouched.mean() > 0.97
    assert found.covariance is not None
    kept = found.vouched
    variance = np.diagonal(found.covariance, axis1=1, axis2=2).reshape(found.mean.shape)[kept]
    score = ((beta - found.mean)[kept] / np.sqrt(variance)).mean(axis=(1, 2))
    assert abs(score.mean()) < 4.5 * score.std() / np.sqrt(kept.sum())
    ratio = (((beta - found.mean)[kept] ** 2) / variance).mean(axis=(1, 2))
    assert abs(ratio.mean() - 1.0) < 4.5 * ratio.std() / np.sqrt(kept.sum())
    planted = ((beta - found.mean - 0.1)[kept] / np.sqrt(variance)).mean(axis=(1, 2))
    assert abs(planted.mean()) > 4.5 * planted.std() / np.sqrt(kept.sum())


@pytest.mark.parametrize(
    ("belief", "engine"),
    [("gaussian", "exact"), ("mixture", "exact"), ("laplace", "importance"), ("hierarchical", "conditional")],
)
def test_auto_says_what_it_picked_and_why(belief: str, engine: str) -> None:
    chosen = rcb.posterior.make_engine(rcb.load_prior(belief), rcb.GaussianNoise(0.1))
    assert chosen.name == engine
    assert chosen.reason.startswith(f"{engine}: ")


def test_the_tree_repeats_the_engines_means() -> None:
    prior = rcb.load_prior("mixture", n_arms=2, n_features=2)
    _, data = simulate(prior, n=4, n_sets=1)
    tree = rcb.posterior.fit_posterior(prior, rcb.GaussianNoise(SIGMA), data, seed=3)
    assert {"posterior", "sample_stats", "observed_data"} <= set(tree.children)
    assert tree["posterior"]["beta"].dims == ("chain", "draw", "arm", "feature")
    wanted = rcb.posterior.posterior_means(prior, rcb.GaussianNoise(SIGMA), data).mean[0]
    np.testing.assert_allclose(rcb.posterior.summary_means(tree).values, wanted, atol=1e-12)


def test_an_arm_without_samples_keeps_its_prior() -> None:
    prior = rcb.load_prior("skewed", n_arms=2, n_features=2)
    _, data = simulate(prior, n=5, n_sets=4)
    xtx, xty, yty, n = data.xtx.copy(), data.xty.copy(), data.yty.copy(), data.n.copy()
    xtx[:, 1], xty[:, 1], yty[:, 1], n[:, 1] = 0.0, 0.0, 0.0, 0.0
    found = rcb.posterior.posterior_means(
        prior, rcb.GaussianNoise(SIGMA), rcb.posterior.Statistics(xtx=xtx, xty=xty, yty=yty, n=n)
    )
    np.testing.assert_array_equal(found.mean[:, 1], np.broadcast_to(prior.mean.values[1], (4, 2)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"xtx": np.full((1, 2, 1, 1), np.nan)}, "finite"),
        ({"xtx": np.full((1, 2, 1, 1), -1.0)}, "positive semi-definite"),
        ({"n": np.zeros((1, 2))}, "no sample"),
        ({"n": np.full((1, 2), 0.5)}, "whole numbers"),
        ({"xty": np.full((1, 2, 1), 50.0)}, "larger than"),
        ({"yty": np.zeros((1, 3))}, "shape"),
    ],
)
def test_impossible_statistics_are_refused(change: dict[str, FloatArray], message: str) -> None:
    good = {
        "xtx": np.full((1, 2, 1, 1), 2.0),
        "xty": np.ones((1, 2, 1)),
        "yty": np.ones((1, 2)),
        "n": np.full((1, 2), 2.0),
    }
    rcb.posterior.Statistics(**good)
    with pytest.raises(DataError, match=message):
        rcb.posterior.Statistics(**(good | change))


def test_engines_refuse_what_they_cannot_do() -> None:
    hierarchical, noise = rcb.load_prior("hierarchical"), rcb.GaussianNoise(0.1)
    with pytest.raises(RcbError, match=r"density.*conditional"):
        rcb.posterior.make_engine(hierarchical, noise, engine="importance")
    with pytest.raises(RcbError, match="Did you mean 'exact'"):
        rcb.posterior.make_engine(hierarchical, noise, engine="exakt")
    with pytest.raises(RcbError, match="Bernoulli"):
        rcb.posterior.make_engine(hierarchical, noise, engine="laplace")


def test_what_is_not_vouched_for_warns() -> None:
    from rcb_bayes.posterior.results import PosteriorBatch, warn_if_not_vouched

    batch = PosteriorBatch(
        mean=np.zeros((2, 1, 1)),
        covariance=None,
        vouched=np.array([True, False]),
        engine=np.array(["nuts", "nuts"], dtype=object),
        diagnostics={"rhat": np.array([1.0, 1.3])},
    )
    with pytest.warns(DiagnosticWarning, match=r"1 of 2 posteriors are not vouched for \(r-hat up to 1.30\)"):
        warn_if_not_vouched(batch)
