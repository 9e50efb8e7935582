"""Gaps known by other means: closed forms, quadrature and exact sums for two or three arms and one user type, x = 1.

With one feature and x = 1 the data on an arm are its average, y ~ N(b, s^2) with s^2 = sigma^2/n. For any belief the
posterior mean m(y) = E[b | y] rises with y, so that with c = mu0 - t for the unsaturated arm

    Pr(G >= t) = Pr(m(y) <= c) = E[Phi((y_t - b)/s)]   with m(y_t) = c,
    A          = E[(mu0 - b) Phi((y_0 - b)/s)]         (the tower property: no posterior mean is left).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy import optimize, stats

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.schema import FloatArray
from rcb_bayes.users import Empirical


@dataclass(frozen=True, slots=True)
class Truth:
    """rho at some taus, A and rho+."""

    rho: tuple[float, ...]
    gain: float
    positive: float

    def with_gain(self, factor: float) -> "Truth":
        """A planted error in A."""
        return Truth(self.rho, self.gain * factor, self.positive)


def worst_z(found: xr.Dataset, truth: Truth) -> float:
    """The largest distance from the truth in Monte Carlo errors; ``found`` has one arm left."""
    pairs = [
        *zip(found["rho"].values, found["rho_mcse"].values, truth.rho, strict=True),
        (found["expected_gain"].item(), found["expected_gain_mcse"].item(), truth.gain),
        (found["prob_positive"].item(), found["prob_positive_mcse"].item(), truth.positive),
    ]
    return max(abs(value - true) / error for value, error, true in pairs)


def one_type(prior: Prior, *, sigma: float) -> Market:
    """A market whose users are all x = 1."""
    return Market(prior=prior, covariates=Empirical([[1.0]]), noise=GaussianNoise(sigma))


def normal_truth(mean: float, sd: float, taus: Sequence[float]) -> Truth:
    """G ~ N(mean, sd^2)."""
    z = mean / sd
    return Truth(
        rho=tuple(float(stats.norm.sf(tau, mean, sd)) for tau in taus),
        gain=float(mean * stats.norm.cdf(z) + sd * stats.norm.pdf(z)),
        positive=float(stats.norm.cdf(z)),
    )


def gaussian_truth(mean: tuple[float, float], prior_sd: float, *, sigma: float, n: int, taus: Sequence[float]) -> Truth:
    """The gap of the second arm once the first, b ~ N(mean, prior_sd^2), has n samples."""
    spread = prior_sd**2 / np.sqrt(prior_sd**2 + sigma**2 / n)  # of the posterior mean
    return normal_truth(mean[1] - mean[0], spread, taus)


def least_of_normals(mean: FloatArray, cov: FloatArray, taus: Sequence[float]) -> Truth:
    """G the smaller of two jointly normal differences."""

    negated: Any = stats.multivariate_normal(-mean, cov)  # pyright: ignore[reportArgumentType]

    def reach(tau: float) -> float:
        return float(negated.cdf(np.full(2, -tau)))

    top = float((mean + 9 * np.sqrt(np.diag(cov))).max())
    nodes, weights = np.polynomial.legendre.leggauss(60)
    half = 0.5 * top
    gain = half * float(weights @ np.array([reach(half * (1 + node)) for node in nodes]))
    return Truth(rho=tuple(reach(tau) for tau in taus), gain=gain, positive=reach(0.0))


@dataclass(frozen=True, slots=True)
class Belief:
    """A frozen SciPy law, or a mixture of some, of one coefficient; ``knots`` are where its density is not smooth."""

    laws: tuple[Any, ...]
    weights: tuple[float, ...] = (1.0,)
    knots: tuple[float, ...] = ()

    def expect(self, function: Callable[[FloatArray], FloatArray], *, around: float, s: float) -> float:
        """E[function(b)], by Gauss-Legendre rules between the belief's knots and quantiles and around a point."""
        tails = np.array([1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.2])
        points, shares = np.polynomial.legendre.leggauss(24)
        total = 0.0
        for law, weight in zip(self.laws, self.weights, strict=True):
            quantiles = [*law.ppf(tails), law.ppf(0.5), *law.isf(tails)]
            ends = np.unique([*quantiles, *self.knots, *(around + s * np.linspace(-8, 8, 17))])
            ends = np.unique(np.clip(ends, quantiles[0], law.isf(tails[0])))
            half = 0.5 * np.diff(ends)[:, None]
            values = ends[:-1, None] + half * (1 + points)
            total += weight * float((half * shares * law.pdf(values) * function(values)).sum())
        return total

    def posterior_mean(self, y: float, s: float) -> float:
        """E[b | y]."""
        mass = self.expect(lambda b: stats.norm.pdf(y, b, s), around=y, s=s)
        return self.expect(lambda b: b * stats.norm.pdf(y, b, s), around=y, s=s) / mass

    def truth(self, prior_mean: float, *, s: float, taus: Sequence[float]) -> Truth:
        """The gap of an arm of the given prior mean once this one's average has error s."""

        def threshold(tau: float) -> float:
            def miss(y: float) -> float:
                return self.posterior_mean(y, s) - (prior_mean - tau)

            found: Any = optimize.brentq(miss, prior_mean - 3.0, prior_mean + 3.0, xtol=1e-7)
            return float(found)

        def reach(y: float) -> float:
            return self.expect(lambda b: stats.norm.cdf(y, b, s), around=y, s=s)

        zero = threshold(0.0)
        gain = self.expect(lambda b: (prior_mean - b) * stats.norm.cdf(zero, b, s), around=zero, s=s)
        return Truth(rho=tuple(reach(threshold(tau)) for tau in taus), gain=gain, positive=reach(zero))


def logit_truth(mean: tuple[float, float], sd: float, *, n: int, taus: Sequence[float]) -> Truth:
    """Bernoulli rewards of users x = 1 and b ~ N(mean, sd^2): the number of successes is all that matters."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()

    def chances(centre: float) -> FloatArray:
        return 1 / (1 + np.exp(-(centre + sd * nodes)))

    p = chances(mean[0])
    mass = weights * stats.binom.pmf(np.arange(n + 1)[:, None], n, p)  # (successes, nodes)
    total = mass.sum(axis=1)
    gap = weights @ chances(mean[1]) - mass @ p / total
    return Truth(
        rho=tuple(float(total[gap >= tau].sum()) for tau in taus),
        gain=float(total @ np.maximum(gap, 0.0)),
        positive=float(total[gap > 0].sum()),
    )


GAMMA = stats.gamma((0.5 / 0.4) ** 2, scale=0.4**2 / 0.5)


def mixture_parameters(other: float) -> dict[str, Any]:
    return {"means": ([0.8, other + 0.4], [-0.4, other - 0.6]), "weights": (0.6, 0.4), "scales": (0.3, 0.2)}


# The gallery's model, its parameters for an other arm of the given mean, and the law of the first arm.
BELIEFS: dict[str, tuple[str, Callable[[float], dict[str, Any]], Belief]] = {
    "laplace": ("laplace", lambda other: {"mean": [0.1, other]}, Belief((stats.laplace(0.1, 0.35),), knots=(0.1,))),
    "mixture": ("mixture", mixture_parameters, Belief((stats.norm(0.8, 0.3), stats.norm(-0.4, 0.2)), (0.6, 0.4))),
    "gamma": ("skewed", lambda other: {"mean": [0.5, other]}, Belief((GAMMA,))),
    "student_t": ("student_t", lambda other: {"mean": [0.1, other]}, Belief((stats.t(4, 0.1, 0.5),))),
}
