r"""What users would expect of every arm at a stage of the cold start, in simulated worlds of their own belief.

At a stage the arms of a set B have n samples each, the others none, and user x expects
:math:`m_j(x) = E[\mu(x, j) \mid S_B]` of arm j. Where arms are independent this depends on the arm's own samples alone:
an arm is fitted once and serves every stage, and an arm without samples keeps its prior mean.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.market import Market
from rcb_bayes.market.scales import LEAST_SAMPLES, RewardSizes, check_predictors, reward_sizes
from rcb_bayes.market.sizes import check_stage_size
from rcb_bayes.mechanism.outlook import arms_first
from rcb_bayes.mechanism.worlds import block_seed, block_seeds, draw_worlds, n_blocks_of, simulate_data
from rcb_bayes.posterior import Engine, make_engine
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.workers import Workers, check_workers, run_blocks
from rcb_bayes.workers.serving import in_worker

USERS_PER_WORLD = 16


class Stages:
    """Expectations at any stage; what was fitted for one is kept for the others.

    Parameters
    ----------
    n_per_arm : samples of every saturated arm, n; None: as many as tell something of rewards of this size
    n_worlds : simulated worlds, W
    engine : of the posteriors, see ``make_engine``
    workers : who simulates the worlds; see ``rcb_bayes.workers``

    Raises
    ------
    RcbError
        Counts below 1 (samples) or 2 (worlds), an engine that is unknown or cannot serve the market.
    """

    def __init__(
        self,
        market: Market,
        *,
        n_per_arm: int | None,
        n_worlds: int,
        engine: str = "auto",
        workers: Workers = None,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.market = market
        self.n_worlds = as_count(n_worlds, name="n_worlds", least=2)
        self.seed = as_count(seed, name="seed")
        check_predictors(market)
        if n_per_arm is None:
            check_stage_size(market, n_per_arm=LEAST_SAMPLES, n_worlds=self.n_worlds)  # before anything is drawn
            n_per_arm = self.sizes.n_per_arm
        self.n_per_arm = as_count(n_per_arm, name="n_per_arm", least=1)
        check_stage_size(market, n_per_arm=self.n_per_arm, n_worlds=self.n_worlds)
        self.workers = check_workers(workers)
        self.engine = make_engine(market.prior, market.noise, engine=engine, seed=seed)
        self.engine_name = engine
        self.n_fitted = self.n_not_vouched = 0
        self.n_sent = 0
        # With an unknown sigma every sample tells about every arm, independent or not.
        self.arms_apart = market.prior.arms_independent and not market.prior.has_sigma
        self._kept: dict[Any, FloatArray] = {}

    @cached_property
    def sizes(self) -> RewardSizes:
        """What is large beside these rewards."""
        return reward_sizes(self.market)

    @property
    def n_events(self) -> float | None:
        """How many of the rarer of 0 and 1 the samples of an arm are expected to hold, at least; None without 0/1."""
        return None if self.market.noise.is_gaussian else self.n_per_arm * (self.sizes.event_rate or 0.0)

    @property
    def told_samples(self) -> str:
        """The samples of an arm in words, with the events among them."""
        told = "" if self.n_events is None else f" (of the rarer outcome some {self.n_events:.2g})"
        return f"{self.n_per_arm:,} samples{told}"

    def rewards(self, saturated: Collection[int], *, users: FloatArray | None = None) -> FloatArray:
        """m_j(x) in every world once the arms at these positions are saturated, (K, U, W).

        ``users`` (U, d) are the same in all worlds; None gives every world fresh users of its own, so that errors over
        worlds cover the users too.
        """
        arms = tuple(sorted(set(saturated)))
        values = self._assembled(arms, users) if self.arms_apart else self._fitted(arms, users)  # (K, d or U, W)
        if not self.market.noise.is_gaussian:
            return values
        return arms_first(self._own_users() @ values.T) if users is None else users @ values

    def attrs(self) -> dict[str, Any]:
        """What is to be said about every figure of these stages."""
        return {
            "belief": self.market.prior.name,
            "arms": list(self.market.arms),
            "engine": self.engine.reason,
            "n_worlds": self.n_worlds,
            "n_per_arm": self.n_per_arm,
            **({} if self.n_events is None else {"n_events": self.n_events}),
            "n_not_vouched": self.n_not_vouched,
            "n_sent": self.n_sent,
            "seed": self.seed,
            "version": __version__,
        }

    def _assembled(self, arms: tuple[int, ...], users: FloatArray | None) -> FloatArray:
        """The stage from arms that are fitted apart; those not yet fitted are fitted together."""
        missing = tuple(arm for arm in arms if self._key(arm, users) not in self._kept)
        if missing:
            found = self._run(missing, users)
            self._kept |= {self._key(arm, users): found[arm] for arm in missing}
        before = self._before(users)
        out = np.broadcast_to(before, (*before.shape[:2], self.n_worlds)).copy()
        for arm in arms:
            out[arm] = self._kept[self._key(arm, users)]
        return out

    def _before(self, users: FloatArray | None) -> FloatArray:
        """What is expected without any samples: (K, d, 1), or (K, U, W)."""
        if self.market.noise.is_gaussian:
            return self.market.prior.mean.values[:, :, None]
        return self._fitted((), users)

    def _fitted(self, arms: tuple[int, ...], users: FloatArray | None) -> FloatArray:
        key = self._key(arms, users)
        if key not in self._kept:
            self._kept[key] = self._run(arms, users)
        return self._kept[key]

    def _key(self, what: int | tuple[int, ...], users: FloatArray | None) -> Any:
        """Linear rewards follow from posterior means, whoever the users are; others are kept for the users given."""
        return what if self.market.noise.is_gaussian or users is None else (what, users.shape, users.tobytes())

    def _run(self, arms: tuple[int, ...], users: FloatArray | None) -> FloatArray:
        """Posterior means (K, d, W) with linear rewards, the users' mean rewards (K, U, W) with others."""
        n = np.zeros(self.market.n_arms)
        n[list(arms)] = self.n_per_arm
        fit = partial(_fit_block, n_per_arm=n, n_worlds=self.n_worlds, seed=self.seed, users=users)
        parts = self.by_blocks(fit, n_blocks_of(self.n_worlds))
        self.n_fitted += self.n_worlds
        self.n_not_vouched += sum(not_vouched for _, not_vouched, _ in parts)
        self.n_sent += sum(n_sent for _, _, n_sent in parts)
        return np.concatenate([part for part, _, _ in parts], axis=2)

    def by_blocks[R](self, function: "Callable[[Desk, int], R]", n_blocks: int) -> list[R]:
        """What a function of a desk and a block's number gives, for all blocks, whoever works on them."""
        here = in_worker() or self.workers is None or self.workers == 1
        make = (lambda: Desk(self.market, self.engine)) if here else partial(_desk, *self._recipe())
        return run_blocks(function, n_blocks, make=make, workers=self.workers)

    def _recipe(self) -> tuple[Market, str, int]:
        return self.market, self.engine_name, self.seed

    def _own_users(self) -> FloatArray:
        """The users of each world, (W, U, d); a stream apart, so that they do not depend on the stage."""
        if "users" not in self._kept:
            blocks = block_seeds(self.n_worlds, seed=self.seed)
            self._kept["users"] = np.concatenate(
                [_block_users(self.market, size, rng.spawn(2)[1]) for size, rng in blocks]
            )
        return self._kept["users"]


@dataclass(frozen=True, slots=True, eq=False)
class Desk:
    """What is needed to work on blocks of worlds: the market, and the engine of its users' posteriors."""

    market: Market
    engine: Engine


def _desk(market: Market, engine: str, seed: int) -> Desk:
    return Desk(market, make_engine(market.prior, market.noise, engine=engine, seed=seed))


def _fit_block(
    desk: Desk, block: int, *, n_per_arm: FloatArray, n_worlds: int, seed: int, users: FloatArray | None
) -> tuple[FloatArray, int, int]:
    """What a block of worlds gives, with how many posteriors nobody vouches for, and how many went to NUTS."""
    market = desk.market
    size, rng = block_seed(n_worlds, block, seed=seed)
    of_data, of_users = rng.spawn(2)
    worlds = draw_worlds(market.prior, size, rng=rng)
    data = simulate_data(worlds, market, n_per_arm=n_per_arm, rng=of_data)
    if market.noise.is_gaussian:
        batch = desk.engine.fit(data)
        found = batch.mean.transpose(1, 2, 0)
    else:
        batch = desk.engine.fit(data, users=_block_users(market, size, of_users) if users is None else users)
        assert batch.reward is not None  # users were given
        found = arms_first(batch.reward)
    return found, int((~batch.vouched).sum()), batch.n_sent


def _block_users(market: Market, size: int, rng: np.random.Generator) -> FloatArray:
    return market.population.sample(size * USERS_PER_WORLD, seed=rng).reshape(size, USERS_PER_WORLD, -1)
