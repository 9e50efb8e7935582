"""Simulated data sets, and exact posterior moments of one arm by quadrature, for any density of one or two features.

The references share no code with the engines: densities are SciPy's, the integrals composite Gauss-Legendre rules whose
knots follow both the belief and the likelihood.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.posterior import Statistics
from rcb_bayes.posterior.importance import ImportanceSampler
from rcb_bayes.schema import ARM, FEATURE, FloatArray, default_labels

LogDensity = Callable[[FloatArray], FloatArray]  # (..., d) -> (...)

# Distances from a point of interest, from a spike's width to a heavy tail's, in units of a scale.
_SPACING = np.sinh(np.linspace(0.0, 12.0, 21)[1:]) * 0.01
_WINDOW = np.linspace(-9.0, 9.0, 19)  # around the likelihood, in its standard deviations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Posterior ``mean`` (M, d) and ``covariance`` (M, d, d) of one arm."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviations, (M, d)."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))


def simulate_worlds(
    prior: Prior, n: int | Sequence[int], sigma: float | None, n_sets: int, seed: int
) -> tuple[FloatArray, Statistics]:
    """Coefficients from the belief (M, K, d), and n samples of each arm (or n[k] of arm k) given to users on the
    unit sphere; without ``sigma`` the noise is the belief's own."""
    rng = np.random.default_rng(seed)
    k, d = prior.n_arms, prior.n_features
    beta, own = prior.draw_arrays(n_sets, rng=rng)
    noise = own if sigma is None else np.full(n_sets, sigma)
    assert noise is not None
    counts = np.broadcast_to(np.asarray(n, dtype=int), (k,))
    xtx, xty, yty = np.zeros((n_sets, k, d, d)), np.zeros((n_sets, k, d)), np.zeros((n_sets, k))
    for arm, count in enumerate(counts):
        x = rng.standard_normal((n_sets, count, d))
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        y = (x @ beta[:, arm, :, None])[..., 0] + noise[:, None] * rng.standard_normal((n_sets, count))
        xtx[:, arm] = x.swapaxes(1, 2) @ x
        xty[:, arm] = (x.swapaxes(1, 2) @ y[..., None])[..., 0]
        yty[:, arm] = (y**2).sum(axis=1)
    return beta, Statistics(xtx=xtx, xty=xty, yty=yty, n=np.tile(counts.astype(float), (n_sets, 1)))


def simulate_statistics(prior: Prior, n: int | Sequence[int], sigma: float, n_sets: int, seed: int) -> Statistics:
    """M data sets whose coefficients come from the belief itself."""
    return simulate_worlds(prior, n, sigma, n_sets, seed)[1]


def quadrature_moments(
    log_density: LogDensity, data: Statistics, *, arm: int, sigma: float, knots: Sequence[float], scale: float
) -> Moments:
    """Posterior moments of one arm of one or two features, by quadrature, data set by data set.

    Parameters
    ----------
    log_density : of the arm's coefficients, (..., d) -> (...), up to a constant
    knots : where the density of a single coefficient is not smooth, or has a mode
    scale : a typical distance from the knots, the same for each feature
    """
    moments = _one_feature if data.xty.shape[-1] == 1 else _two_features
    grid = _prior_knots(np.asarray(knots, dtype=float), scale)
    gram, moment = data.xtx[:, arm] / sigma**2, data.xty[:, arm] / sigma**2
    found = [moments(log_density, g, h, grid) for g, h in zip(gram, moment, strict=True)]
    return Moments(mean=np.stack([mean for mean, _ in found]), covariance=np.stack([cov for _, cov in found]))


def _one_feature(log_density: LogDensity, gram: FloatArray, moment: FloatArray, grid: FloatArray):
    values, weights = _rule(grid, _likelihood_knots(moment[0], gram[0, 0]), n_nodes=12)
    log_weight = log_density(values[:, None]) + moment[0] * values - 0.5 * gram[0, 0] * values**2
    share = weights * np.exp(log_weight - log_weight.max())
    return _average(values[:, None], share)


def _two_features(log_density: LogDensity, gram: FloatArray, moment: FloatArray, grid: FloatArray):
    """The first coefficient outside, the second, whose likelihood is Gaussian given the first, inside."""
    precision = gram[0, 0] - gram[0, 1] ** 2 / gram[1, 1]  # of the first coefficient's profile likelihood
    centre = moment[0] - gram[0, 1] * moment[1] / gram[1, 1]
    # Along the ridge of the likelihood the second coefficient meets its own knots here:
    ridge = (moment[1] - gram[1, 1] * grid) / gram[0, 1]
    first, first_weights = _rule(grid, np.concatenate([ridge, _likelihood_knots(centre, precision)]), n_nodes=4)
    inner = _likelihood_knots(moment[1] - gram[0, 1] * first, gram[1, 1])  # (Q1, window)
    second, second_weights = _rule(grid, inner, n_nodes=4)  # (Q1, Q2)
    values = np.stack([np.broadcast_to(first[:, None], second.shape), second], axis=-1)
    across = moment[1] - gram[0, 1] * first - 0.5 * gram[1, 1] * second.T
    along = moment[0] * first - 0.5 * gram[0, 0] * first**2
    log_weight = log_density(values) + along[:, None] + second * across.T
    share = first_weights[:, None] * second_weights * np.exp(log_weight - log_weight.max())
    return _average(values.reshape(-1, 2), share.reshape(-1))


def _average(values: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    share = share / share.sum()
    mean = share @ values
    return mean, ((values - mean) * share[:, None]).T @ (values - mean)


def _prior_knots(knots: FloatArray, scale: float) -> FloatArray:
    around = scale * np.concatenate([-_SPACING[::-1], [0.0], _SPACING])
    return np.unique(knots[:, None] + around)


def _likelihood_knots(moment: FloatArray, precision: float) -> FloatArray:
    """Knots around the likelihood's peak, the last axis; all at zero where the likelihood is flat."""
    if precision <= 1e-9:
        return np.zeros((*np.shape(moment), 1))
    return (np.asarray(moment) / precision)[..., None] + _WINDOW / np.sqrt(precision)


def _rule(grid: FloatArray, more: FloatArray, *, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on the intervals between the knots of the grid and more knots (..., k) inside its range."""
    more = np.clip(more, grid[0], grid[-1])
    knots = np.sort(np.concatenate([np.broadcast_to(grid, (*more.shape[:-1], len(grid))), more], axis=-1), axis=-1)
    points, shares = np.polynomial.legendre.leggauss(n_nodes)
    half = 0.5 * np.diff(knots)[..., None]
    nodes = knots[..., :-1, None] + half * (1.0 + points)
    weights = half * shares
    return nodes.reshape(*more.shape[:-1], -1), weights.reshape(*more.shape[:-1], -1)


# --- beliefs with a density known in closed form -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Belief:
    """A belief of independent, identical arms: how to build it for d features, and the density of one arm."""

    build: Callable[[int], Prior]
    log_density: LogDensity
    knots: tuple[float, ...]
    scale: float

    def moments(self, data: Statistics, *, arm: int, sigma: float) -> Moments:
        """Exact posterior moments of an arm."""
        return quadrature_moments(self.log_density, data, arm=arm, sigma=sigma, knots=self.knots, scale=self.scale)


def total(terms: FloatArray) -> FloatArray:
    """The sum over a short last axis, which NumPy's own is slow at."""
    out = terms[..., 0].copy()
    for k in range(1, terms.shape[-1]):
        out += terms[..., k]
    return out


def log_student(values: FloatArray, nu: float, centre: float, scale: float) -> FloatArray:
    """Log density of a Student-t coefficient, without its constant but with its scale."""
    return -0.5 * (nu + 1.0) * np.log1p(((values - centre) / scale) ** 2 / nu) - np.log(scale)


def log_normal(values: FloatArray, centre: float, sd: float) -> FloatArray:
    """Log density of a normal coefficient, without its constant but with its scale."""
    return -0.5 * ((values - centre) / sd) ** 2 - np.log(sd)


def on_positive(log_density: Callable[[FloatArray], FloatArray]) -> LogDensity:
    """The product over coefficients of a density of positive values, given as a function of their logarithm."""

    def density(values: FloatArray) -> FloatArray:
        positive = values > 0
        return total(np.where(positive, log_density(np.log(np.where(positive, values, 1.0))), -np.inf))

    return density


def two_camps(weights: Sequence[float], means: Sequence[float], sds: Sequence[float], *, n_features: int) -> Prior:
    """Two arms, each with its own label: all of its coefficients are normal around the label's mean."""
    eye = np.eye(n_features)
    blocks = tuple(
        Block(
            arms=(arm,),
            weights=np.asarray(weights, dtype=float),
            means=np.outer(means, np.ones(n_features)),
            covariances=np.square(sds)[:, None, None] * eye,
        )
        for arm in range(2)
    )
    return Prior(
        arms=default_labels(ARM, 2),
        features=default_labels(FEATURE, n_features),
        groups=((0,), (1,)),
        law=GaussianLaw(n_arms=2, n_features=n_features, blocks=blocks),
        source=None,
        name="two camps",
    )


def log_two_camps(weights: Sequence[float], means: Sequence[float], sds: Sequence[float]) -> LogDensity:
    """The density of one arm of ``two_camps``."""

    def density(values: FloatArray) -> FloatArray:
        parts = zip(weights, means, sds, strict=True)
        return np.logaddexp.reduce([np.log(w) + total(log_normal(values, m, s)) for w, m, s in parts], axis=0)

    return density


def from_gallery(name: str, **parameters: object) -> Callable[[int], Prior]:
    """The gallery's belief of that name, for two arms and any number of features."""
    return lambda n_features: load_prior(name, n_arms=2, n_features=n_features, **parameters)


def spiky(n_features: int) -> Prior:
    """Every coefficient in one of two narrow, heavy-tailed camps."""
    pm: Any = import_module("pymc")  # its annotations do not fit its own use
    parts = [pm.StudentT.dist(nu=4.0, mu=m, sigma=s) for m, s in zip(SPIKES, SPIKE_SCALES, strict=True)]
    with pm.Model(coords={ARM: ["a", "b"], FEATURE: [f"x{k}" for k in range(n_features)]}) as model:
        pm.Mixture("beta", w=np.array(SPIKE_WEIGHTS), comp_dists=parts, dims=(ARM, FEATURE))
    return Prior.from_pymc(model, name="spiky")


def log_spiky(values: FloatArray) -> FloatArray:
    """The density of one arm of ``spiky``."""
    parts = zip(SPIKE_WEIGHTS, SPIKES, SPIKE_SCALES, strict=True)
    terms = [np.log(w) + log_student(values, 4.0, m, s) for w, m, s in parts]
    return total(np.logaddexp.reduce(terms, axis=0))


SPIKE_WEIGHTS, SPIKES, SPIKE_SCALES = (0.4, 0.6), (-0.6, 0.8), (0.05, 0.1)
CAMPS = ((0.5, 0.5), (0.5, -0.5), (0.3, 0.3))
_LOG_VARIANCE = float(np.log1p((0.4 / 0.5) ** 2))
_LOG_MEAN = float(np.log(0.5) - _LOG_VARIANCE / 2)
_SHAPE, _RATE = (0.5 / 0.4) ** 2, 0.5 / 0.4**2

BELIEFS: dict[str, Belief] = {
    "student_t": Belief(
        build=from_gallery("student_t"),
        log_density=lambda b: total(log_student(b, 4.0, 0.0, 0.5)),
        knots=(0.0,),
        scale=0.5,
    ),
    "no_variance": Belief(
        build=from_gallery("student_t", nu=1.8, scale=0.3),
        log_density=lambda b: total(log_student(b, 1.8, 0.0, 0.3)),
        knots=(0.0,),
        scale=0.5,
    ),
    "laplace": Belief(
        build=from_gallery("laplace"),
        log_density=lambda b: -total(np.abs(b)) / 0.35,
        knots=(0.0,),
        scale=0.5,
    ),
    "gamma": Belief(
        build=from_gallery("skewed"),
        log_density=on_positive(lambda log_b: (_SHAPE - 1.0) * log_b - _RATE * np.exp(log_b)),
        knots=(0.0, 0.3),
        scale=0.5,
    ),
    "lognormal": Belief(
        build=from_gallery("skewed", family="lognormal"),
        log_density=on_positive(lambda log_b: -log_b - 0.5 * (log_b - _LOG_MEAN) ** 2 / _LOG_VARIANCE),
        knots=(0.0, 0.3),
        scale=0.5,
    ),
    "spiky": Belief(build=spiky, log_density=log_spiky, knots=SPIKES, scale=0.2),
    "two_camps": Belief(
        build=lambda d: two_camps(*CAMPS, n_features=d), log_density=log_two_camps(*CAMPS), knots=CAMPS[1], scale=0.3
    ),
}


@cache
def cached_prior(name: str, n_features: int) -> Prior:
    """The belief of that name, built and compiled once."""
    return BELIEFS[name].build(n_features)


def cached_sampler(name: str, n_features: int, *, sigma: float) -> ImportanceSampler:
    """An importance sampler of the belief of that name, its surrogates made once: they do not depend on sigma."""
    sampler = copy(_ready_sampler(name, n_features))
    sampler._sigma = sigma
    return sampler


@cache
def _ready_sampler(name: str, n_features: int) -> ImportanceSampler:
    sampler = ImportanceSampler(cached_prior(name, n_features), sigma=1.0)
    sampler.fit(simulate_statistics(cached_prior(name, n_features), 1, 1.0, 8, seed=0))
    return sampler
