"""Worlds to run a policy in: true coefficients, with users of the population or given ones.

Users, choices and noise of a simulated world come in pages with seeds of their own, so that no answer depends on how
rounds are cut into blocks, nor on other worlds.
"""

from dataclasses import replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.running.driving import Arrivals
from rcb_bayes.schema import FloatArray

PAGE = 8192
_COEFFICIENTS, _PAGES, _POLICY, _PAST, _WHIMS = range(5)


class Nature:
    """True coefficients ``beta`` (K, d), drawn from nature, and the noise's standard deviation where there is one."""

    def __init__(self, market: Market, seed: np.random.SeedSequence) -> None:
        self.noise = market.noise
        beta, sigma = market.nature.draw_arrays(1, rng=_stream(seed, 0, _COEFFICIENTS))
        self.beta = beta[0]
        known = getattr(market.noise, "sigma", None)
        self.sigma = float(known) if known is not None else None if sigma is None else float(sigma[0])

    def rewards(self, eta: FloatArray, noise: FloatArray) -> FloatArray:
        """Rewards of linear predictors (n,), given standard normal noise."""
        if isinstance(self.noise, GaussianNoise):
            assert self.sigma is not None  # known, or drawn with the world
            return eta + self.sigma * noise
        from scipy.special import ndtr

        return (ndtr(noise) < self.noise.mean_reward(eta)).astype(float)

    def remembered(self, market: Market, seed: np.random.SeedSequence) -> Market:
        """The market with the private history that this world has: its users and arms, with rewards of this nature."""
        past = market.past
        if past is None:
            return market
        eta = (past.x * self.beta[past.arm]).sum(axis=1)
        noise = _stream(seed, 0, _PAST).standard_normal(len(eta))
        return replace(market, past=past.rewarded(self.rewards(eta, noise)))


class GivenUsers:
    """A world of users x (n, d) in their order, with uniforms (n, 2) for choices and standard normal noise (n,)."""

    def __init__(self, nature: Nature, *, x: FloatArray, uniforms: FloatArray, noise: FloatArray) -> None:
        self.nature = nature
        self.x, self.uniforms, self.noise = x, uniforms, noise
        self._features = np.ascontiguousarray(x.T)
        self._predictors = nature.beta @ self._features  # (K, n)
        is_linear = nature.noise.is_gaussian
        self._means = self._predictors if is_linear else nature.noise.mean_reward(self._predictors)

    def arrivals(self, start: int, stop: int) -> Arrivals:
        """All of these rounds."""
        rounds = slice(start, stop)
        return Arrivals(x=self.x[rounds], features=self._features[:, rounds], uniforms=self.uniforms[rounds])

    def mean_rewards(self, start: int, stop: int) -> FloatArray:
        """True mean rewards, (K, n)."""
        return self._means[:, start:stop]

    def rewards(self, start: int, arm: np.ndarray) -> FloatArray:
        """Rewards of arms, (n,)."""
        stop = start + len(arm)
        return self.nature.rewards(self._predictors[arm, np.arange(start, stop)], self.noise[start:stop])


class SimulatedWorld:
    """A world of users drawn from the population, page by page."""

    def __init__(self, market: Market, seed: np.random.SeedSequence) -> None:
        self.nature = Nature(market, seed)
        self.market = self.nature.remembered(market, seed)
        self._seed = seed
        self._number = -1
        self._whims = Whims(seed)

    @property
    def beta(self) -> FloatArray:
        """True coefficients, (K, d)."""
        return self.nature.beta

    def page(self, number: int) -> GivenUsers:
        """The users and random numbers of ``PAGE`` rounds; the last page is kept."""
        if number != self._number:
            rng = _stream(self._seed, number, _PAGES)
            uniforms = _choices(rng)
            x = self.market.population.sample(PAGE, seed=rng)
            self._page = GivenUsers(self.nature, x=x, uniforms=uniforms, noise=rng.standard_normal(PAGE))
            self._number = number
        return self._page

    def arrivals(self, start: int, stop: int) -> Arrivals:
        """Users up to the end of a page."""
        number, place = divmod(start, PAGE)
        return self.page(number).arrivals(place, min(PAGE, place + stop - start))

    def mean_rewards(self, start: int, stop: int) -> FloatArray:
        """True mean rewards of rounds on one page, (K, n)."""
        number, place = divmod(start, PAGE)
        return self.page(number).mean_rewards(place, place + stop - start)

    def rewards(self, start: int, arm: np.ndarray) -> FloatArray:
        """Rewards of arms on one page, (n,)."""
        number, place = divmod(start, PAGE)
        return self.page(number).rewards(place, arm)

    def whims(self, start: int, stop: int) -> FloatArray:
        """Uniform numbers of the users' own in rounds on one page, (n, 3)."""
        return self._whims.of_rounds(start, stop - start)

    def noise(self, start: int, stop: int) -> FloatArray:
        """The standard normal part of rewards in rounds on one page, (n,): the larger, the better."""
        number, place = divmod(start, PAGE)
        found = self.page(number).noise[place : place + stop - start]
        return found if self.nature.noise.is_gaussian else -found


class Whims:
    """Uniform numbers by which users of a simulated world do as they like, the same for any cut into blocks."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._seed = seed
        self._number = -1

    def of_rounds(self, start: int, n: int) -> FloatArray:
        """Of n rounds on one page, (n, 3)."""
        number, place = divmod(start, PAGE)
        if number != self._number:
            self._number, self._page = number, _stream(self._seed, number, _WHIMS).random((PAGE, 3))
        return self._page[place : place + n]


class Choices:
    """The uniforms of a simulated world's rounds, by which the platform chooses: all that a live run draws."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._seed = seed
        self._number = -1

    def of_rounds(self, start: int, n: int) -> FloatArray:
        """Of n rounds, or those of them on one page, (m, 2)."""
        place = self._turn_to(start)
        return self._uniforms[place : place + n]

    def of_round(self, number: int) -> float:
        """The number by which the arm of one round is picked."""
        place = self._turn_to(number)
        return self._picks[place]

    def _turn_to(self, round_number: int) -> int:
        """Have the page of a round at hand; returns the round's place on it."""
        number, place = divmod(round_number, PAGE)
        if number != self._number:
            self._number, self._uniforms = number, _choices(_stream(self._seed, number, _PAGES))
            self._picks: list[float] = self._uniforms[:, 1].tolist()
        return place


def policy_seed(seed: np.random.SeedSequence) -> int:
    """The seed of a policy's own random numbers in a world."""
    return int(_stream(seed, 0, _POLICY).integers(2**31))


def _choices(rng: np.random.Generator) -> FloatArray:
    """What a page's stream begins with."""
    return rng.random((PAGE, 2))


def _stream(seed: np.random.SeedSequence, page: int, purpose: int) -> np.random.Generator:
    key = (*seed.spawn_key, page, purpose)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))
