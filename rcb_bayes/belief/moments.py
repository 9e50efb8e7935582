"""Prior means and covariances of a belief, with their Monte Carlo errors."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.belief.model import ModelBelief
    from rcb_bayes.belief.prior import Prior

_MOMENT_DRAWS = 65_536


def moment_arrays(
    prior: "Prior", source: "ModelBelief | None"
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Mean (K, d), its error, covariance (K d, K d), its error."""
    size = prior.n_arms * prior.n_features
    if prior.law is not None:
        mean, cov = prior.law.mean(), prior.law.covariance()
        error = np.zeros_like(mean) if prior.fit is None else prior.fit.mean_mcse
        return mean, error, cov, np.zeros((size, size))
    assert source is not None  # a belief has a source or a law
    beta, _ = source.draw(_MOMENT_DRAWS, np.random.default_rng(0))
    flat = beta.reshape(len(beta), size)
    exact = source.exact_mean
    mean = flat.mean(axis=0) if exact is None else exact.reshape(-1)
    error = flat.std(axis=0) / np.sqrt(len(flat)) if exact is None else np.zeros(size)
    cov, cov_error = _sampled_covariance(flat - mean, lost=0 if exact is not None else 1)
    if prior.has_finite_variance is False:
        cov = np.where(np.eye(size, dtype=bool), np.inf, np.nan)
        cov_error = np.full((size, size), np.nan)
    shape = prior.n_arms, prior.n_features
    return mean.reshape(shape), error.reshape(shape), cov, cov_error


def _sampled_covariance(centred: FloatArray, *, lost: int) -> tuple[FloatArray, FloatArray]:
    n = len(centred)
    cov = centred.T @ centred / (n - lost)
    second = (centred**2).T @ (centred**2) / n
    return cov, np.sqrt(np.clip(second - cov**2, 0.0, None) / n)
