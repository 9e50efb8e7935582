"""A market's cold start, simulated: who comes, what the walk samples, what is then expected of every arm.

Worlds are drawn from the users' belief. The designs of saturated arms are those of the walk, so that the law of the
data is the mechanism's and not the population's: an arm is sampled where it was promoted, weighted by the rates of the
stages before.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.mechanism.engines import make_engines
from rcb_bayes.mechanism.outlook import LinearOutlook, Outlook, TableOutlook
from rcb_bayes.mechanism.panel import Panel, make_panel
from rcb_bayes.mechanism.protocol import Mechanism
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.walk import RatesAt, Walk, alike_arms, arms_of, walk
from rcb_bayes.mechanism.worlds import Worlds, block_seeds, data_of_designs, draw_worlds
from rcb_bayes.posterior.data import Rows, Statistics
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import FloatArray

N_USERS = 2048
N_PATHS = 20_000
_MANY_USERS = 65_536
_MOST_LAW_VALUES = 20_000_000  # of covariances: worlds x (arms of a block x d)^2


class Simulator:
    """Users, engines and random numbers of one simulation.

    Attributes
    ----------
    panel : users who stand for the population
    engines : what they, and the platform, make of data
    alike : classes of arms that may change places
    """

    def __init__(self, market: Market, *, engine: str = "auto", seed: int) -> None:
        self.market = market
        self.seed = seed
        self.panel = make_panel(market, n_users=N_USERS, rng=self.rng(Stream.PANEL))
        self.engines = make_engines(market, engine=engine, seed=seed)
        self.alike = alike_arms(market)

    def rng(self, purpose: Stream, *key: int) -> np.random.Generator:
        """A stream of this simulation's own."""
        return generator(self.seed, purpose, *key)

    @cached_property
    def many_users(self) -> Panel:
        """Many users, for averages that no world is needed for; prior rewards that are not linear cost too much."""
        if not self.market.noise.is_gaussian:
            return self.panel
        return make_panel(self.market, n_users=_MANY_USERS, rng=self.rng(Stream.MANY_USERS))

    def walk(self, rates_at: RatesAt, *, n_per_arm: int) -> Walk:
        """The cold start with rates that are told stage by stage."""
        return walk(
            self.panel,
            rates_at,
            n_per_arm=n_per_arm,
            n_paths=N_PATHS,
            rng_of=lambda level: self.rng(Stream.PATHS, level),
            alike=self.alike,
        )

    def walk_under(self, mechanism: Mechanism) -> Walk:
        """The cold start under a mechanism's own rates."""

        def rates_at(so_far: Walk, code: int, members: np.ndarray) -> FloatArray:
            return mechanism.rate(self.panel.users, saturated=[self.market.arms[arm] for arm in arms_of(code)])

        return self.walk(rates_at, n_per_arm=mechanism.n_per_arm)

    # --- worlds ---

    def outlook(self, walked: Walk, code: int, members: np.ndarray, *, n_worlds: int) -> Outlook:
        """What is expected of every arm once those of a set are saturated, in worlds of the paths that lead there."""
        chosen = self.rng(Stream.PATHS_OF_WORLDS, code).choice(members, size=n_worlds, replace=len(members) < n_worlds)
        seed = int(self.rng(Stream.STAGE_WORLDS, code).integers(2**63))
        blocks = [data for _, data in self._blocks(walked, chosen, arms_of(code), seed=seed)]
        fitted = [self._expected(data) for data in blocks]
        found = self._as_outlook(code, [np.concatenate(parts) for parts in zip(*fitted, strict=True)])
        if not isinstance(found, LinearOutlook):
            return found
        return replace(found, law=self._mean_law(blocks, partial(walked.overlap, members, arms_of(code))))

    def _mean_law(self, blocks: Sequence[Statistics | Rows], overlap: Callable[[], float]) -> MeanLaw | None:
        """The law of posterior means given the designs, where there is one and the platform goes by them."""
        belief, sigma = self.market.prior.law, getattr(self.market.noise, "sigma", None)
        if belief is None or sigma is None or not belief.is_gaussian or self.engines.platform is not None:
            return None
        grams = [data.xtx for data in blocks if isinstance(data, Statistics)]
        values = sum((len(block.arms) * belief.n_features) ** 2 for block in belief.blocks)  # of a world
        if values * sum(len(part) for part in grams) > _MOST_LAW_VALUES:
            return None
        return MeanLaw(belief=belief, grams=np.concatenate(grams), sigma=float(sigma), overlap=overlap)

    def after_cold_start(
        self, walked: Walk, ended: np.ndarray, *, n_worlds: int
    ) -> tuple[Worlds, Statistics, np.ndarray]:
        """Worlds, their data when every arm has its samples, and which of the paths ``ended`` each of them took, (W,).

        Gaussian rewards only.
        """
        rng = self.rng(Stream.AFTER_COLD_START)
        chosen = rng.choice(ended, size=n_worlds, replace=len(ended) < n_worlds)
        arms = range(self.market.n_arms)
        blocks = list(self._blocks(walked, chosen, arms, seed=int(rng.integers(2**63))))
        sets = [data for _, data in blocks if isinstance(data, Statistics)]
        return Worlds.joined([worlds for worlds, _ in blocks]), Statistics.joined(sets), chosen

    def _blocks(
        self, walked: Walk, chosen: np.ndarray, arms: Collection[int], *, seed: int
    ) -> Iterator[tuple[Worlds, Statistics | Rows]]:
        """Worlds of the users' belief that took the chosen paths, and their samples of some arms, block by block."""
        start = 0
        for size, rng in block_seeds(len(chosen), seed=seed):
            designs = walked.designs(chosen[start : start + size], arms, rng=rng)
            worlds = draw_worlds(self.market.prior, size, rng=rng)
            yield worlds, data_of_designs(worlds, self.market, designs, rng=rng)
            start += size

    def _expected(self, data: Statistics | Rows) -> list[FloatArray]:
        """Under each belief: posterior means, or the panel's mean rewards where these are not linear in beta."""
        users = None if self.market.noise.is_gaussian else self.panel.users
        batches = [engine.fit(data, users=users) for engine in self.engines.all]
        return [batch.mean if batch.reward is None else batch.reward for batch in batches]

    def _as_outlook(self, code: int, expected: list[FloatArray]) -> Outlook:
        """From posterior means (W, K, d), or mean rewards of the panel (W, P, K), under each belief.

        Arms that the data say nothing about keep their prior mean exactly: ties must stay ties.
        """
        market, panel = self.market, self.panel
        before = (panel.prior_rewards, panel.promoted_by)
        for k, (values, prior) in enumerate(zip(expected, (market.prior, market.platform_prior), strict=False)):
            same = untouched_arms(prior, arms_of(code))
            if market.noise.is_gaussian:
                values[:, same] = prior.mean.values[same]
            else:
                values[:, :, same] = before[k][:, same]
        platform = expected[1] if len(expected) > 1 else None
        if market.noise.is_gaussian:
            return LinearOutlook(expected[0], platform)
        return TableOutlook(panel.users, expected[0], platform)


def untouched_arms(prior: Prior, saturated: Collection[int]) -> list[int]:
    """Arms about which the samples of saturated ones say nothing; with an unknown sigma every sample tells of all."""
    if prior.has_sigma:
        return []
    return [arm for group in prior.groups if not set(group) & set(saturated) for arm in group]
