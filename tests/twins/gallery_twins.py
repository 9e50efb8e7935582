"""Exact twins of the gallery's beliefs: mean, variance and log density of beta without PyMC.

Each twin takes the parameters of the model file of the same name and computes by NumPy, SciPy and quadrature alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, optimize, special, stats

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Moments of every element of beta, both (n_arms, n_features), and the joint log density where there is one."""

    mean: FloatArray
    variance: FloatArray
    logpdf: Callable[[FloatArray], float] | None = None


def gaussian(*, n_arms: int, n_features: int, mean: ArrayLike = 0.0, scale: ArrayLike = 0.5) -> Twin:
    return _independent(stats.norm(_full(mean, n_arms, n_features), _full(scale, n_arms, n_features)))


def student_t(*, n_arms: int, n_features: int, mean: ArrayLike = 0.0, scale: ArrayLike = 0.5, nu: float = 4.0) -> Twin:
    return _independent(stats.t(nu, _full(mean, n_arms, n_features), _full(scale, n_arms, n_features)))


def laplace(*, n_arms: int, n_features: int, mean: ArrayLike = 0.0, scale: ArrayLike = 0.35) -> Twin:
    return _independent(stats.laplace(_full(mean, n_arms, n_features), _full(scale, n_arms, n_features)))


def skewed(
    *, n_arms: int, n_features: int, family: str = "gamma", mean: ArrayLike = 0.5, scale: ArrayLike = 0.4
) -> Twin:
    location, spread = _full(mean, n_arms, n_features), _full(scale, n_arms, n_features)
    if family == "gamma":
        return _independent(stats.gamma(location**2 / spread**2, scale=spread**2 / location))
    ratio = 1 + spread**2 / location**2
    return _independent(stats.lognorm(np.sqrt(np.log(ratio)), scale=location / np.sqrt(ratio)))


def per_arm(
    *,
    n_arms: int,
    n_features: int,
    families: Sequence[str] = ("gaussian", "student_t", "laplace"),
    mean: ArrayLike = 0.0,
    scale: ArrayLike = 0.5,
    nu: float = 4.0,
) -> Twin:
    location, spread = _full(mean, n_arms, n_features), _full(scale, n_arms, n_features)
    make = {"gaussian": stats.norm, "student_t": lambda loc, scale: stats.t(nu, loc, scale), "laplace": stats.laplace}
    rows = [_independent(make[families[i % len(families)]](location[i], spread[i])) for i in range(n_arms)]
    return Twin(
        mean=np.stack([row.mean for row in rows]),
        variance=np.stack([row.variance for row in rows]),
        logpdf=lambda beta: sum(row.logpdf(own) for row, own in zip(rows, beta, strict=True) if row.logpdf),
    )


def unknown_noise(*, noise_scale: float = 0.1, **parameters) -> Twin:
    return gaussian(**parameters)


def setting_1(*, n_arms: int, n_features: int, variance: float = 0.2) -> Twin:
    return gaussian(n_arms=n_arms, n_features=n_features, scale=np.sqrt(variance))


def setting_2(*, n_arms: int, n_features: int, variance: float = 0.2) -> Twin:
    return setting_1(n_arms=n_arms, n_features=n_features, variance=variance)


def setting_3(*, n_arms: int, n_features: int, lam: float = 5.0) -> Twin:
    return setting_1(n_arms=n_arms, n_features=n_features, variance=1 / lam)


def setting_4(*, n_arms: int, n_features: int, variance: float = 0.02) -> Twin:
    mean = [1.0] + [0.0] * (n_arms - 1)
    return gaussian(n_arms=n_arms, n_features=n_features, mean=mean, scale=np.sqrt(variance))


def warfarin_physician(*, n_arms: int = 3, n_features: int, variance: float = 0.4) -> Twin:
    return gaussian(n_arms=3, n_features=n_features, mean=[0.0, 0.05, 0.0], scale=np.sqrt(variance))


def mixture(
    *,
    n_arms: int,
    n_features: int,
    weights: tuple[float, float] = (0.5, 0.5),
    means: tuple[ArrayLike, ArrayLike] = (0.5, -0.5),
    scales: tuple[float, float] = (0.3, 0.3),
) -> Twin:
    centers = np.stack([_full(mean, n_arms, n_features) for mean in means])  # (2, n_arms, n_features)
    share, spread = np.asarray(weights)[:, None, None], np.asarray(scales)[:, None, None]
    mean = (share * centers).sum(axis=0)

    def logpdf(beta: FloatArray) -> float:
        rows = np.sum(stats.norm.logpdf(beta, centers, spread), axis=-1)  # (2, n_arms): one label per arm
        total: Any = special.logsumexp(rows + np.log(share[..., 0]), axis=0)
        return float(np.sum(total))

    return Twin(mean=mean, variance=(share * (spread**2 + centers**2)).sum(axis=0) - mean**2, logpdf=logpdf)


def hierarchical(
    *,
    n_arms: int,
    n_features: int,
    mean: ArrayLike = 0.0,
    scale: float = 0.4,
    tau: float | None = None,
    tau_scale: float = 0.3,
    centred: bool = True,
) -> Twin:
    between = (tau_scale if tau is None else tau) ** 2  # a half-normal's second moment is its scale squared
    return Twin(mean=_full(mean, n_arms, n_features), variance=_full(scale**2 + between, n_arms, n_features))


def arm_features(
    *, n_arms: int, n_features: int, table: ArrayLike, mean: ArrayLike = 0.0, scale: ArrayLike = 0.4, own: float = 0.2
) -> Twin:
    told = (np.asarray(table) ** 2 * np.asarray(scale) ** 2).sum(axis=1) + own**2
    return Twin(mean=_full(mean, n_arms, n_features), variance=_full(told, n_arms, n_features))


def correlated(*, n_arms: int, n_features: int, mean: ArrayLike = 0.0, scale: float = 0.5, eta: float = 2.0) -> Twin:
    return Twin(mean=_full(mean, n_arms, n_features), variance=_full(scale**2, n_arms, n_features))


def lkj_variance(*, n_features: int, eta: float) -> float:
    """Variance of each off-diagonal element of an LKJ matrix: r is 2 Beta(a, a) - 1 with a = eta + n_features/2 - 1."""
    a = eta + n_features / 2 - 1
    return float(4 * stats.beta(a, a).var())


def horseshoe(
    *,
    n_arms: int,
    n_features: int,
    mean: ArrayLike = 0.0,
    scale: float = 0.1,
    slab_scale: float = 1.0,
    slab_nu: float = 4.0,
) -> Twin:
    """Variance E[c^2 (tau lam)^2 / (c^2 + (tau lam)^2)] by quadrature.

    The expectation over lam ~ HalfCauchy(1) is c^2 tau/(c + tau) in closed form; tau = scale tan(pi u/2), u uniform.
    """
    shape, rate = slab_nu / 2, slab_nu * slab_scale**2 / 2

    def integrand(u: float, log_slab: float) -> float:
        c, tau = np.exp(log_slab / 2), scale * np.tan(np.pi * u / 2)
        return c**2 * tau / (c + tau) * stats.invgamma.pdf(c**2, shape, scale=rate) * c**2

    low, high = np.log(stats.invgamma.ppf([1e-12, 0.5], shape, scale=rate))
    variance = sum(
        integrate.dblquad(integrand, *ends, 0, 1, epsrel=1e-8)[0] for ends in ((low, high), (high, high + 25))
    )
    return Twin(mean=_full(mean, n_arms, n_features), variance=_full(variance, n_arms, n_features))


def empirical_bayes(
    arm: Sequence[str],
    X: FloatArray,
    y: FloatArray,
    *,
    arms: Sequence[str],
    tau: float | None = None,
    discount: float = 1.0,
) -> Twin:
    """The random-coefficient model by dense matrices: restricted likelihood of all rows, then one linear system."""
    labels = np.asarray(arm)
    same = labels[:, None] == labels[None, :]

    def negative_restricted_likelihood(log_variances: FloatArray) -> float:
        noise, spread = np.exp(log_variances) if tau is None else (np.exp(log_variances[0]), tau**2)
        total = noise * np.eye(len(y)) + spread * same * (X @ X.T)
        weighted = np.linalg.solve(total, X)
        residual = y - X @ np.linalg.solve(X.T @ weighted, weighted.T @ y)
        logdets = np.linalg.slogdet(total)[1] + np.linalg.slogdet(X.T @ weighted)[1]
        return 0.5 * float(logdets + residual @ np.linalg.solve(total, residual))

    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    start = np.log([y.var(), y.var()])[: 2 if tau is None else 1]
    best = optimize.minimize(negative_restricted_likelihood, start, method="Nelder-Mead", options=options).x
    noise, spread = np.exp(best) if tau is None else (np.exp(best[0]), tau**2)

    n_arms, d = len(arms), X.shape[1]
    precision, target = np.zeros(((n_arms + 1) * d,) * 2), np.zeros((n_arms + 1) * d)
    common = slice(n_arms * d, None)  # the last block is m
    for i, name in enumerate(arms):
        own, block = labels == name, slice(i * d, (i + 1) * d)
        precision[block, block] = discount * X[own].T @ X[own] / noise + np.eye(d) / spread
        precision[block, common] = precision[common, block] = -np.eye(d) / spread
        precision[common, common] += np.eye(d) / spread
        target[block] = discount * X[own].T @ y[own] / noise
    covariance = np.linalg.inv(precision)
    mean = (covariance @ target)[: n_arms * d].reshape(n_arms, d)
    blocks = [covariance[i * d : (i + 1) * d, i * d : (i + 1) * d] for i in range(n_arms)]

    def logpdf(beta: FloatArray) -> float:
        apart = [row - center for row, center in zip(beta, mean, strict=True)]
        squares = [away @ np.linalg.solve(block, away) for away, block in zip(apart, blocks, strict=True)]
        logdets = [np.linalg.slogdet(2 * np.pi * block)[1] for block in blocks]
        return -0.5 * float(np.sum(squares) + np.sum(logdets))

    return Twin(mean=mean, variance=np.stack([np.diag(block) for block in blocks]), logpdf=logpdf)


def _independent(law) -> Twin:
    """Twin of a frozen SciPy distribution whose elements are independent."""
    return Twin(mean=law.mean(), variance=law.var(), logpdf=lambda beta: float(law.logpdf(beta).sum()))


def _full(value: ArrayLike, n_arms: int, n_features: int) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    return np.array(np.broadcast_to(array[:, None] if array.ndim == 1 else array, (n_arms, n_features)))
