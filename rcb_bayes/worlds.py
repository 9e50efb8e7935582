r"""Simulated worlds: true coefficients drawn from a belief, and the data that samples of them give.

With Gaussian rewards the samples of an arm are drawn as sufficient statistics: :math:`X'X` from the users, then
:math:`X'y = X'X b + \sigma (X'X)^{1/2} z` and :math:`y'y` from their own laws, so that nothing of length n is kept.
Worlds are drawn in blocks with seeds of their own: the same seed gives the same worlds for any chunk size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rcb_bayes.covariates import Covariates, Gaussian
from rcb_bayes.market import Market
from rcb_bayes.noise import Noise
from rcb_bayes.posterior.data import Rows, Statistics
from rcb_bayes.posterior.exact import square_roots
from rcb_bayes.prior import Prior
from rcb_bayes.schema import FloatArray

BLOCK = 500
_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worlds:
    """W worlds: ``beta`` (W, K, d) and, where the belief has one, ``sigma`` (W,)."""

    beta: FloatArray
    sigma: FloatArray | None

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return len(self.beta)


def draw_worlds(prior: Prior, n: int, *, rng: np.random.Generator) -> Worlds:
    """True coefficients of n worlds."""
    beta, sigma = prior.draw_arrays(n, rng=rng)
    return Worlds(beta=beta, sigma=sigma)


def block_seeds(n_worlds: int, *, seed: int) -> Iterator[tuple[int, np.random.Generator]]:
    """Blocks of worlds with a generator each: (number of worlds, generator)."""
    starts = range(0, n_worlds, BLOCK)
    for start, child in zip(starts, np.random.SeedSequence(seed).spawn(len(starts)), strict=True):
        yield min(BLOCK, n_worlds - start), np.random.default_rng(child)


def simulate_data(
    worlds: Worlds, market: Market, *, n_per_arm: FloatArray, rng: np.random.Generator
) -> Statistics | Rows:
    """Samples of each arm in each world, users drawn from the population: what an engine takes.

    Parameters
    ----------
    n_per_arm : (K,), samples of each arm; 0 for an arm that nobody has tried
    """
    if market.noise.is_gaussian:
        return _simulate_statistics(worlds, market, n_per_arm=n_per_arm, rng=rng)
    return _simulate_rows(worlds, market, n_per_arm=n_per_arm, rng=rng)


def sample_grams(covariates: Covariates, *, n: int, n_sets: int, rng: np.random.Generator) -> FloatArray:
    """X'X of n users each, (n_sets, d, d); a Wishart draw for centred Gaussian users, sums in chunks for others."""
    d = covariates.n_features
    if n == 0:
        return np.zeros((n_sets, d, d))
    if isinstance(covariates, Gaussian) and not covariates.mean.any() and n >= d:
        return _wishart(covariates.second_moment, n=n, n_sets=n_sets, rng=rng)
    out = np.zeros((n_sets, d, d))
    step = max(1, _CHUNK_VALUES // (n_sets * d))
    for start in range(0, n, step):
        size = min(step, n - start)
        x = covariates.sample(n_sets * size, seed=rng).reshape(n_sets, size, d)
        out += x.swapaxes(1, 2) @ x
    return out


def _simulate_statistics(
    worlds: Worlds, market: Market, *, n_per_arm: FloatArray, rng: np.random.Generator
) -> Statistics:
    w, k, d = worlds.beta.shape
    sigma = _sigma(worlds, market.noise)
    xtx, noise, square = np.zeros((w, k, d, d)), np.zeros((w, k, d)), np.zeros((w, k))
    for arm in np.flatnonzero(n_per_arm):
        n = int(n_per_arm[arm])
        xtx[:, arm] = sample_grams(market.covariates, n=n, n_sets=w, rng=rng)
        roots = square_roots(xtx[:, arm])
        z = rng.standard_normal((w, d))
        noise[:, arm] = (roots @ z[..., None])[..., 0] * sigma[:, None]
        # Residual noise outside the span of X: n - rank degrees of freedom.
        rank = np.linalg.matrix_rank(xtx[:, arm], hermitian=True)
        inside = (z**2).sum(axis=1) if n >= d else _inside(xtx[:, arm], noise[:, arm] / sigma[:, None])
        square[:, arm] = sigma**2 * (inside + rng.chisquare(np.maximum(n - rank, 1e-12)) * (n > rank))
    signal = (xtx @ worlds.beta[..., None])[..., 0]
    xty = signal + noise
    yty = (worlds.beta * (signal + 2.0 * noise)).sum(axis=2) + square
    return Statistics(xtx=xtx, xty=xty, yty=yty, n=np.broadcast_to(n_per_arm.astype(float), (w, k)))


def _inside(gram: FloatArray, moment: FloatArray) -> FloatArray:
    """e'X (X'X)^+ X'e: the part of the noise's square that X'e fixes."""
    return np.einsum("wi,wij,wj->w", moment, np.linalg.pinv(gram, hermitian=True), moment)


def _simulate_rows(worlds: Worlds, market: Market, *, n_per_arm: FloatArray, rng: np.random.Generator) -> Rows:
    w, k, d = worlds.beta.shape
    arm = np.repeat(np.arange(k), n_per_arm.astype(int))
    x = market.covariates.sample(max(w * len(arm), 1), seed=rng)[: w * len(arm)].reshape(w, len(arm), d)
    eta = np.einsum("wnd,wnd->wn", x, worlds.beta[:, arm])
    reward = market.noise.sample(eta, rng=rng)
    return Rows(x=x, arm=np.broadcast_to(arm, eta.shape), reward=reward, n_arms=k)


def _sigma(worlds: Worlds, noise: Noise) -> FloatArray:
    known = getattr(noise, "sigma", None)
    if known is not None:
        return np.full(worlds.n_worlds, float(known))
    assert worlds.sigma is not None  # a market without a known sigma has a belief about it
    return worlds.sigma


def _wishart(scale: FloatArray, *, n: int, n_sets: int, rng: np.random.Generator) -> FloatArray:
    """Wishart draws by Bartlett's decomposition."""
    d = len(scale)
    factor = np.zeros((n_sets, d, d))
    rows, columns = np.tril_indices(d, -1)
    factor[:, rows, columns] = rng.standard_normal((n_sets, len(rows)))
    factor[:, range(d), range(d)] = np.sqrt(rng.chisquare(n - np.arange(d), size=(n_sets, d)))
    moved = square_roots(scale) @ factor
    return moved @ moved.swapaxes(1, 2)
