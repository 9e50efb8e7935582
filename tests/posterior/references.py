"""References for the sampling engines that share no code with them: rows, dense algebra and quadrature.

Gaussian rewards: y is normal with mean Xm and covariance X V X' + sigma^2 I, over the rows themselves; scales are
integrated out on a grid. Bernoulli rewards: composite Gauss-Legendre rules in one or two features.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from rcb_bayes.belief import Prior
from rcb_bayes.posterior import Rows, Statistics
from rcb_bayes.schema import FloatArray

LIMIT = 4.5  # Monte Carlo errors


# --- Gaussian rewards ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianRows:
    """One data set: ``design`` (n, K d), zero outside the columns of a row's arm, and rewards ``y`` (n,)."""

    design: FloatArray
    y: FloatArray
    n_arms: int

    @property
    def statistics(self) -> Statistics:
        """The same data as sufficient statistics."""
        shaped = self.design.reshape(len(self.y), self.n_arms, -1)
        arm = np.abs(shaped).sum(axis=2).argmax(axis=1)
        return Statistics.from_rows(shaped[np.arange(len(arm)), arm], arm=arm, reward=self.y, n_arms=self.n_arms)


def gaussian_rows(beta: FloatArray, counts: Sequence[int], *, sigma: float, rng: np.random.Generator) -> GaussianRows:
    """counts[k] rewards of arm k, users standard normal, for coefficients beta (K, d)."""
    k, d = beta.shape
    arm = np.repeat(np.arange(k), counts)
    x = rng.standard_normal((len(arm), d))
    design = np.zeros((len(arm), k, d))
    design[np.arange(len(arm)), arm] = x
    y = (x * beta[arm]).sum(axis=1) + sigma * rng.standard_normal(len(arm))
    return GaussianRows(design=design.reshape(len(arm), k * d), y=y, n_arms=k)


def stacked(data: Sequence[Statistics]) -> Statistics:
    """Single data sets as one batch."""
    return Statistics(
        **{name: np.concatenate([getattr(one, name) for one in data]) for name in ("xtx", "xty", "yty", "n")}
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Averaged:
    """Posterior moments over a grid of scales: ``mean`` (p,), ``covariance`` (p, p), and the Monte Carlo errors of one
    draw of the scales from their posterior, ``mean_spread`` (p,) and ``variance_spread`` (p,)."""

    mean: FloatArray
    covariance: FloatArray
    mean_spread: FloatArray
    variance_spread: FloatArray


def averaged_over_scales(
    rows: GaussianRows,
    grid: FloatArray,
    log_prior: FloatArray,
    given: Callable[[float], tuple[FloatArray, FloatArray, float]],
) -> Averaged:
    """Posterior moments when beta is Gaussian given one scale: ``given(scale)`` is (mean, covariance, sigma).

    ``log_prior`` is the log density of the scale at the points of ``grid``, which need not be equally spaced.
    """
    found = [_dense(rows, *given(float(scale))) for scale in grid]
    log_weight = log_prior + np.array([evidence for _, _, evidence in found])
    weight = np.exp(log_weight - log_weight.max()) * np.gradient(grid)
    weight /= weight.sum()
    means = np.stack([mean for mean, _, _ in found])
    covariances = np.stack([covariance for _, covariance, _ in found])
    mean = weight @ means
    centred = means - mean
    between = (weight[:, None] * centred).T @ centred
    covariance = np.einsum("g,gij->ij", weight, covariances) + between
    parts = np.diagonal(covariances, axis1=1, axis2=2) + centred**2
    variance_spread = np.sqrt(weight @ (parts - weight @ parts) ** 2)
    return Averaged(
        mean=mean,
        covariance=covariance,
        mean_spread=np.sqrt(np.diag(between)),
        variance_spread=variance_spread,
    )


def _dense(
    rows: GaussianRows, mean: FloatArray, covariance: FloatArray, sigma: float
) -> tuple[FloatArray, FloatArray, float]:
    """Posterior mean and covariance of beta, and the log density of the rewards, by n x n algebra."""
    cross = covariance @ rows.design.T  # (p, n)
    factor = linalg.cho_factor(rows.design @ cross + sigma**2 * np.eye(len(rows.y)), lower=True)
    residual = rows.y - rows.design @ mean
    solved = linalg.cho_solve(factor, residual)
    log_det = 2.0 * np.log(np.diag(factor[0])).sum()
    evidence = -0.5 * (residual @ solved + log_det)
    return mean + cross @ solved, covariance - cross @ linalg.cho_solve(factor, cross.T), float(evidence)


# --- Bernoulli rewards ---------------------------------------------------------------------------------------------


def bernoulli_rows(prior: Prior, n: int, *, n_sets: int, seed: int, scale: float = 1.0) -> Rows:
    """M data sets of n rows, arms at random, users normal with sd ``scale``, coefficients from the belief."""
    return bernoulli_worlds(prior, n, n_sets=n_sets, seed=seed, scale=scale)[1]


def bernoulli_worlds(prior: Prior, n: int, *, n_sets: int, seed: int, scale: float = 1.0) -> tuple[FloatArray, Rows]:
    """As ``bernoulli_rows``, with the coefficients (M, K, d) that the rewards came from."""
    rng = np.random.default_rng(seed)
    beta = prior.draw_arrays(n_sets, rng=rng)[0]
    x = scale * rng.standard_normal((n_sets, n, prior.n_features))
    arm = rng.integers(0, prior.n_arms, (n_sets, n))
    eta = (x * beta[np.arange(n_sets)[:, None], arm]).sum(axis=2)
    reward = (rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return beta, Rows(x=x, arm=arm, reward=reward, n_arms=prior.n_arms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogitMoments:
    """Posterior ``mean`` (d,) and ``covariance`` (d, d) of an arm, and the ``reward`` (U,) it gives to users."""

    mean: FloatArray
    covariance: FloatArray
    reward: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviations, (d,)."""
        return np.sqrt(np.diag(self.covariance))


def logit_quadrature(
    log_density: Callable[[FloatArray], FloatArray],
    rows: Rows,
    *,
    arm: int,
    users: FloatArray,
    knots: Sequence[float],
    scale: float,
) -> Iterator[LogitMoments]:
    """Exact posterior moments of one arm with one or two features, data set by data set.

    ``log_density`` (..., d) -> (...) is the arm's, ``knots`` are where it is not smooth or has a mode, and ``scale`` is
    a typical distance from them.
    """
    d = rows.x.shape[2]
    reach, n_steps, n_nodes = (6000.0, 40, 8) if d == 1 else (60.0, 24, 4)
    line, line_weights = _line(knots, scale * np.geomspace(0.02, reach, n_steps), n_nodes=n_nodes)
    if d == 1:
        values, weights = line[:, None], line_weights
    else:
        values = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        weights = np.outer(line_weights, line_weights).reshape(-1)
    log_prior = log_density(values)
    kept = np.isfinite(log_prior)
    values, weights, log_prior = values[kept], weights[kept], log_prior[kept]
    rewards = 1.0 / (1.0 + np.exp(-np.clip(values @ users.T, -500.0, 500.0)))
    for x, arms, outcome in zip(rows.x, rows.arm, rows.reward, strict=True):
        own = arms == arm
        signed = x[own] * (2.0 * outcome[own, None] - 1.0)
        log_weight = log_prior + sum((-np.logaddexp(0.0, -values @ row) for row in signed), np.zeros(len(values)))
        share = weights * np.exp(log_weight - log_weight.max())
        share /= share.sum()
        mean = share @ values
        centred = values - mean
        yield LogitMoments(mean=mean, covariance=(share[:, None] * centred).T @ centred, reward=share @ rewards)


def _line(knots: Sequence[float], steps: FloatArray, *, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """A composite Gauss-Legendre rule on intervals that end at ``steps`` from the knots."""
    around = np.concatenate([-steps[::-1], [0.0], steps])
    edges = np.unique(np.concatenate([knot + around for knot in knots]))
    points, shares = np.polynomial.legendre.leggauss(n_nodes)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1.0 + points)).reshape(-1), (half * shares).reshape(-1)
