"""One loop for all runs: a policy serves the users of a world, block by block, and learns.

A block is as many rounds as the policy can serve before it has to learn. Simulations, audits, faithful runs of a log's
users and replays are this loop in worlds of their own; each looks at the policy between blocks and keeps what it needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.decisions import Decisions
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
        """Rewards of the arms (n,) recommended in rounds that came together, from ``start`` on, (n,)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Rounds start, ..., stop - 1: users (n, d), what was decided for them, and their rewards (n,)."""

    start: int
    x: FloatArray
    decisions: Decisions
    reward: FloatArray

    @property
    def stop(self) -> int:
        """The round after the last."""
        return self.start + len(self.decisions)


def drive(policy: BarePolicy, world: World, *, horizon: int, start: int = 0) -> Iterator[Block]:
    """Serve the rounds from ``start`` to ``horizon``; each block comes once the policy has learnt from it.

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
        x, reward = came.x[:n], world.rewards(start, decisions.arm)
        policy.update(x, decisions, reward)
        yield Block(start=start, x=x, decisions=decisions, reward=reward)
        start += n
