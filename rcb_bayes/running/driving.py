"""One loop for all runs: a policy serves the users of a world, block by block, and learns.

A block is as many rounds as the policy can serve before it has to learn. Simulations, audits, faithful runs of a log's
users and replays are this loop in worlds of their own; each looks at the policy between blocks and keeps what it needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.running.conduct import Conduct, Offers, as_taken
from rcb_bayes.running.protocol import BarePolicy
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrivals:
    """Users of rounds in a row, x (n, d) and features (d, n), and uniforms (n, 2) for the platform's choices."""

    x: FloatArray
    features: FloatArray
    uniforms: FloatArray


class World(Protocol):
    """Who arrives, and what they get. Rounds are counted from 0."""

    def arrivals(self, start: int, stop: int) -> Arrivals:
        """Users of the rounds from ``start`` on: one at least, none from ``stop`` on."""
        ...

    def mean_rewards(self, start: int, stop: int) -> FloatArray | None:
        """True mean rewards of every arm in rounds that came together, (K, n); None where they are not known."""
        ...

    def rewards(self, start: int, arm: np.ndarray) -> FloatArray:
        """Rewards of the arms (n,) taken in rounds that came together, from ``start`` on, (n,)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Rounds start, ..., stop - 1: users (n, d), what was decided for them, the arms they took and their rewards."""

    start: int
    x: FloatArray
    decisions: Decisions
    taken: np.ndarray
    reward: FloatArray

    @property
    def stop(self) -> int:
        """The round after the last."""
        return self.start + len(self.decisions)


def drive(
    policy: BarePolicy, world: World, *, horizon: int, start: int = 0, conduct: Conduct | None = None
) -> Iterator[Block]:
    """Serve the rounds from ``start`` to ``horizon``; each block comes once the policy has learnt from it.

    Users take what is recommended unless ``conduct`` says what they do, in a ``PeopledWorld``.

    Raises
    ------
    DataError
        A policy that decides for nobody, or for more users than there are.
    """
    while start < horizon:
        came = world.arrivals(start, horizon)
        decisions = policy.decide(came.x, came.features, came.uniforms)
        n = len(decisions)
        if not 1 <= n <= len(came.x):
            raise DataError(f"A policy must decide for 1 to {len(came.x)} users, the first ones, it did for {n}.")
        x, taken = came.x[:n], decisions.arm
        if conduct is not None:
            taken = conduct.take(_offers(policy, world, x, decisions, start))
        reward = world.rewards(start, taken)
        policy.update(x, decisions if conduct is None else as_taken(decisions, taken), reward)
        yield Block(start=start, x=x, decisions=decisions, taken=taken, reward=reward)
        start += n


def _offers(policy: BarePolicy, world: Any, x: FloatArray, decisions: Decisions, start: int) -> Offers:
    stop = start + len(decisions)
    return Offers(
        features=x,
        arm=decisions.arm,
        moment=getattr(policy, "moment", None),
        whims=world.whims(start, stop),
        noise=world.noise(start, stop),
        rewards=lambda arm: world.rewards(start, arm),
    )
