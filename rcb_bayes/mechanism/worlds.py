r"""Simulated worlds: true coefficients drawn from a belief, and the data that samples of them give.

With Gaussian rewards the samples of an arm are drawn as sufficient statistics: :math:`X'X` from the users, then

.. math:: X'y = R c, \qquad y'y = |c|^2 + \sigma^2 \chi^2_{n - r}, \qquad c = R'b + \sigma P z

with :math:`RR' = X'X`, z standard normal, P the projection on the range of R' and r its rank, so that nothing of length
n is kept.
Worlds come in blocks with seeds of their own, and each arm's samples have a stream of their own: a world's data on one
arm do not depend on how many worlds are drawn after it, nor on which other arms are sampled.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import Noise
from rcb_bayes.mechanism.outlook import find_rows, places_of
from rcb_bayes.posterior.data import Data, Rows, Statistics, Tallies, unchecked_statistics
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.users import Covariates, Empirical, Gaussian
from rcb_bayes.users.moments import spectrum

BLOCK = 500
_CHUNK_VALUES = 4_000_000
_LEAST_PIVOT = 1e-6  # of a feature's own square: below that rounding may be most of it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worlds:
    """W worlds: ``beta`` (W, K, d) and, where the belief has one, ``sigma`` (W,)."""

    beta: FloatArray
    sigma: FloatArray | None

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return len(self.beta)

    @classmethod
    def joined(cls, parts: "Sequence[Worlds]") -> "Worlds":
        """The worlds of all parts, one after the other."""
        sigmas = [part.sigma for part in parts if part.sigma is not None]
        return cls(beta=np.concatenate([part.beta for part in parts]), sigma=np.concatenate(sigmas) if sigmas else None)

    def renamed(self, names: np.ndarray) -> "Worlds":
        """The same worlds with the arms of each in another order, (W, K)."""
        return replace(self, beta=np.take_along_axis(self.beta, names[:, :, None], axis=1))


def loosened(
    worlds: Worlds, data: Statistics, *, mean: FloatArray, factor: float | FloatArray
) -> tuple[Worlds, Statistics]:
    """Worlds of a prior with variances multiplied by a factor, and what the same samples would have given there.

    Parameters
    ----------
    mean : of the prior, (K, d)
    factor : one for all worlds, or one for each, (W,)
    """
    if np.all(factor == 1.0):
        return worlds, data
    stretch = np.sqrt(np.broadcast_to(factor, worlds.n_worlds))[:, None, None]
    away = (stretch - 1.0) * (worlds.beta - mean)  # (W, K, d)
    moved = np.einsum("wkde,wke->wkd", data.xtx, away)
    yty = data.yty + 2.0 * (away * data.xty).sum(axis=2) + (away * moved).sum(axis=2)
    return replace(worlds, beta=worlds.beta + away), unchecked_statistics(data.xtx, data.xty + moved, yty, data.n)


def draw_worlds(prior: Prior, n: int, *, rng: np.random.Generator) -> Worlds:
    """True coefficients of n worlds."""
    beta, sigma = prior.draw_arrays(n, rng=rng)
    return Worlds(beta=beta, sigma=sigma)


def n_blocks_of(n_worlds: int) -> int:
    """Blocks that so many worlds come in."""
    return -(-n_worlds // BLOCK)


def block_seed(n_worlds: int, block: int, *, seed: int) -> tuple[int, np.random.Generator]:
    """One of the blocks: how many worlds it has, and its generator."""
    child = np.random.SeedSequence(seed, spawn_key=(block,))  # as the seed's own children have it
    return min(BLOCK, n_worlds - block * BLOCK), np.random.default_rng(child)


def block_seeds(n_worlds: int, *, seed: int) -> Iterator[tuple[int, np.random.Generator]]:
    """Blocks of worlds with a generator each: (number of worlds, generator)."""
    return (block_seed(n_worlds, block, seed=seed) for block in range(n_blocks_of(n_worlds)))


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


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Users behind n samples of an arm, ``x`` (len(worlds), n, d), in some of the worlds, and where they stand in a
    table, ``who`` (len(worlds), n), where they are from one; users behind samples from before, (m, d), which are the
    same in every world."""

    worlds: np.ndarray
    x: FloatArray
    who: np.ndarray | None = None
    past: FloatArray | None = None

    @property
    def n(self) -> int:
        """Samples in each of the worlds."""
        return self.x.shape[1] + (0 if self.past is None else len(self.past))

    def whole(self) -> FloatArray:
        """All users, those from before first, (len(worlds), n, d)."""
        if self.past is None:
            return self.x
        return np.concatenate([np.broadcast_to(self.past, (len(self.x), *self.past.shape)), self.x], axis=1)

    def grams(self) -> FloatArray:
        """X'X, (len(worlds), d, d)."""
        own = self.x.swapaxes(1, 2) @ self.x
        return own if self.past is None else own + self.past.T @ self.past


def data_of_designs(
    worlds: Worlds,
    market: Market,
    designs: Mapping[int, Design],
    *,
    rng: np.random.Generator,
    table: FloatArray | None = None,
) -> Data:
    """Rewards of given users, ``designs`` being each sampled arm's: what an engine takes.

    With rewards other than Gaussian every world has samples of as many arms, whichever they are; they are counted for
    each user of the ``table`` that the users are from, where one is given.
    """
    w, k, d = worlds.beta.shape
    streams = rng.spawn(k)
    if table is not None:
        return _tallies_of_designs(worlds, market, designs, table, streams=streams)
    if not market.noise.is_gaussian:
        return _rows_of_designs(worlds, market, designs, streams=streams)
    sigma = noise_sd(worlds, market.noise)
    xtx, xty, yty, n = np.zeros((w, k, d, d)), np.zeros((w, k, d)), np.zeros((w, k)), np.zeros((w, k))
    for arm, design in designs.items():
        there, grams = design.worlds, design.grams()
        xtx[there, arm], n[there, arm] = grams, design.n
        if design.n <= d:  # no more rewards than sums of them
            x = design.whole()
            noise = sigma[there, None] * streams[arm].standard_normal(x.shape[:2])
            rewards = (x @ worlds.beta[there, arm, :, None])[..., 0] + noise
            xty[there, arm], yty[there, arm] = (rewards[:, None] @ x)[:, 0], (rewards**2).sum(axis=1)
            continue
        xty[there, arm], yty[there, arm] = draw_rewards(
            grams, worlds.beta[there, arm], sigma[there], n=design.n, rng=streams[arm]
        )
    return unchecked_statistics(xtx, xty, yty, n)


def _rows_of_designs(
    worlds: Worlds, market: Market, designs: Mapping[int, Design], *, streams: list[np.random.Generator]
) -> Rows:
    """Samples one by one, the arms of each world in their order."""
    w, k, d = worlds.beta.shape
    size = sum(design.n * len(design.worlds) for design in designs.values()) // max(w, 1)
    x, arms, rewards = np.zeros((w, size, d)), np.zeros((w, size), dtype=int), np.zeros((w, size))
    filled = np.zeros(w, dtype=int)
    for arm, design in designs.items():
        there, own = design.worlds, design.whole()
        columns = filled[there, None] + np.arange(own.shape[1])
        x[there[:, None], columns], arms[there[:, None], columns] = own, arm
        eta = (own @ worlds.beta[there, arm, :, None])[..., 0]
        rewards[there[:, None], columns] = market.noise.sample(eta, rng=streams[arm])
        filled[there] += own.shape[1]
    return Rows(x=x, arm=arms, reward=rewards, n_arms=k)


def _tallies_of_designs(
    worlds: Worlds,
    market: Market,
    designs: Mapping[int, Design],
    table: FloatArray,
    *,
    streams: list[np.random.Generator],
) -> Tallies:
    """The same rewards as one by one, counted for each user of a table."""
    w, k, _ = worlds.beta.shape
    trials, successes = np.zeros((w, k, len(table))), np.zeros((w, k, len(table)))
    for arm, design in designs.items():
        assert design.who is not None  # users of a table
        eta = (design.whole() @ worlds.beta[design.worlds, arm, :, None])[..., 0]
        who = design.who
        if design.past is not None:
            before = find_rows(places_of(table), design.past)
            who = np.concatenate([np.tile(before, (len(who), 1)), who], axis=1)
        at: Any = (design.worlds[:, None], arm, who)
        np.add.at(trials, at, 1.0)
        np.add.at(successes, at, market.noise.sample(eta, rng=streams[arm]))
    return Tallies(users=table, trials=trials, successes=successes)


def sample_grams(covariates: Covariates, *, n: int, n_sets: int, rng: np.random.Generator) -> FloatArray:
    """X'X of n users each, (n_sets, d, d).

    Gaussian users and long samples of a table are drawn from the law of X'X, at a cost that does not grow with n;
    other users are drawn one by one and summed in chunks.
    """
    d = covariates.n_features
    if n == 0:
        return np.zeros((n_sets, d, d))
    if isinstance(covariates, Gaussian) and n > d:
        return _gaussian_grams(covariates, n=n, n_sets=n_sets, rng=rng)
    if isinstance(covariates, Empirical) and n > covariates.n_rows:
        counts = rng.multinomial(n, covariates.weights, size=n_sets)  # (n_sets, rows)
        outer = covariates.rows[:, :, None] * covariates.rows[:, None, :]
        return (counts @ outer.reshape(covariates.n_rows, d * d)).reshape(n_sets, d, d)
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
    sigma = noise_sd(worlds, market.noise)
    xtx, xty, yty = np.zeros((w, k, d, d)), np.zeros((w, k, d)), np.zeros((w, k))
    for arm, stream in enumerate(rng.spawn(k)):
        n = int(n_per_arm[arm])
        if n == 0:
            continue
        xtx[:, arm] = sample_grams(market.population, n=n, n_sets=w, rng=stream)
        xty[:, arm], yty[:, arm] = draw_rewards(xtx[:, arm], worlds.beta[:, arm], sigma, n=n, rng=stream)
    return unchecked_statistics(xtx, xty, yty, np.broadcast_to(n_per_arm.astype(float), (w, k)))


def draw_rewards(
    grams: FloatArray, beta: FloatArray, sigma: FloatArray, *, n: int | FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """X'y (M, d) and y'y (M,) of n rewards each, given X'X (M, d, d), of full rank or not, b (M, d), sigma (M,).

    In coordinates of a root of X'X that does not depend on LAPACK's signs: the lower triangular one or, of X'X near a
    rank below d, the symmetric one, whichever other X'X are there. y'y is a sum of squares, so that it agrees with X'y
    however little is left of y.
    """
    root, is_full = triangular_root(grams)  # (d, d, M)
    noise = rng.standard_normal(beta.shape)
    c = np.einsum("ijm,mi->jm", root, beta)
    c += sigma * noise.T
    xty, squares = np.einsum("ijm,jm->mi", root, c), (c**2).sum(axis=0)
    rank = np.full(len(grams), beta.shape[1])
    odd = np.flatnonzero(~is_full)
    if len(odd):
        xty[odd], squares[odd], rank[odd] = _drawn_by_spectrum(grams[odd], beta[odd], sigma[odd], noise[odd])
    left = 2.0 * rng.standard_gamma(0.5 * np.maximum(n - rank, 0))  # chi-square, and 0 where no degree is left
    return xty, squares + sigma**2 * left


def triangular_root(grams: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Lower triangular R with RR' = X'X, (M, d, d) -> (d, d, M), and which X'X are well away from a lower rank, (M,).

    Worlds come last: all of them take each step together.
    """
    left = np.array(grams.transpose(1, 2, 0))  # what the columns so far do not account for
    root, is_full = np.zeros(left.shape), np.ones(len(grams), dtype=bool)
    for j in range(len(left)):
        whole = left[j, j].copy()
        if j:
            left[j:, j] -= np.einsum("ikm,km->im", root[j:, :j], root[j, :j])
        pivot = left[j, j]
        is_full &= pivot > _LEAST_PIVOT * whole
        root[j:, j] = left[j:, j] / np.sqrt(np.where(is_full, pivot, np.inf))  # else 0, or they grow without bound
    return root, is_full


def _drawn_by_spectrum(
    grams: FloatArray, beta: FloatArray, sigma: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """X'y, the part of y'y that X accounts for, and the rank, of X'X of any rank."""
    values, vectors = spectrum(grams)
    inside, root = values > 0, np.sqrt(values)
    b, z = ((part[:, None] @ vectors)[:, 0] for part in (beta, noise))
    c = root * b + sigma[:, None] * inside * z
    xty = (vectors @ (root * c)[..., None])[..., 0]
    xty[np.diagonal(grams, axis1=1, axis2=2) == 0.0] = 0.0  # a feature that no user has: not rounding, but nothing
    return xty, (c**2).sum(axis=1), inside.sum(axis=1)


def _simulate_rows(worlds: Worlds, market: Market, *, n_per_arm: FloatArray, rng: np.random.Generator) -> Rows:
    w, k, d = worlds.beta.shape
    of_users, of_rewards = rng.spawn(2)
    sizes = n_per_arm.astype(int)
    everywhere = np.arange(w)
    designs = {
        arm: Design(everywhere, market.population.sample(w * sizes[arm], seed=stream).reshape(w, sizes[arm], d))
        for arm, stream in enumerate(of_users.spawn(k))
        if sizes[arm]
    }
    data = data_of_designs(worlds, market, designs, rng=of_rewards)
    assert isinstance(data, Rows)  # these rewards are not Gaussian
    return data


def noise_sd(worlds: Worlds, noise: Noise) -> FloatArray:
    """The noise's standard deviation in every world, (W,)."""
    known = getattr(noise, "sigma", None)
    if known is not None:
        return np.full(worlds.n_worlds, float(known))
    assert worlds.sigma is not None  # a market without a known sigma has a belief about it
    return worlds.sigma


def _gaussian_grams(users: Gaussian, *, n: int, n_sets: int, rng: np.random.Generator) -> FloatArray:
    """X'X = W + n m m' with W Wishart of n - 1 degrees of freedom, by Bartlett, and m the users' average; n > d."""
    d = users.n_features
    factor = np.zeros((n_sets, d, d))
    rows, columns = np.tril_indices(d, -1)
    factor[:, rows, columns] = rng.standard_normal((n_sets, len(rows)))
    factor[:, range(d), range(d)] = np.sqrt(rng.chisquare(n - 1 - np.arange(d), size=(n_sets, d)))
    values, vectors = spectrum(users.cov)
    root = (vectors * np.sqrt(values)) @ vectors.T
    moved = root @ factor
    average = users.mean + rng.standard_normal((n_sets, d)) @ root / np.sqrt(n)
    return moved @ moved.swapaxes(1, 2) + n * average[:, :, None] * average[:, None, :]
