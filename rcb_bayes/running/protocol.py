"""What a policy is to whoever runs or audits it.

Three methods make one: probabilities, decisions, learning. What else callers ask for has an answer for everybody in
``Policy``: a policy that inherits from it gives its own where it has one, and ``completed`` gives the usual ones to a
policy that inherits from nothing.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.schema import FloatArray


class BarePolicy(Protocol):
    """The least that a recommendation policy in one world can do.

    ``decide`` answers for as many of the users, from the first on, as it can before it has to learn; ``update`` then
    gets exactly those.
    """

    @abstractmethod
    def recommend_proba(self, x: FloatArray) -> FloatArray:
        """Probability of recommending each arm to each user now, (n, d) -> (n, K)."""

    @abstractmethod
    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations for the first users; x (n, d), features (d, n), uniforms (n, 2)."""

    @abstractmethod
    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn from what was recommended to the users x (n, d) and what they got (n,)."""


@runtime_checkable
class Policy(BarePolicy, Protocol):
    """A recommendation policy in one world, with all that runs and audits ask of it.

    A policy that inherits from it is one without stages, cold start or spread, that acts on all it is told, where it
    does not say otherwise.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> from rcb_bayes.mechanism.decisions import EXPLOIT, Decisions
    >>> from rcb_bayes.running.protocol import Policy
    >>> class Coin(Policy):
    ...     def recommend_proba(self, x):
    ...         return np.full((len(x), 2), 0.5)
    ...
    ...     def decide(self, x, features, uniforms):
    ...         arm = (uniforms[:, 1] < 0.5).astype(int)
    ...         kind, counted = np.full(len(x), EXPLOIT), np.ones(len(x), dtype=bool)
    ...         nothing = np.zeros((2, len(x)))  # is expected of either arm
    ...         return Decisions(arm=arm, stage=kind, counted=counted, probabilities=nothing + 0.5, scores=nothing)
    ...
    ...     def update(self, x, decisions, reward):
    ...         pass
    >>> runs = rcb.simulate(market, lambda market, seed: Coin(), horizon=100, n_worlds=2, seed=1)
    >>> bool((runs["propensity"] == 0.5).all()), runs["cold_start_length"].values
    (True, array([0, 0]))
    """

    @property
    def known_stage(self) -> str | None:
        """The stage that users know of now; None of a policy without stages, whose rounds are known instead."""
        return None

    @property
    def n_acted_on(self) -> FloatArray | None:
        """How many of each arm's samples that count, its first ones, recommendations rest on now, (K,); None: all.

        Users reckon with these. Later ones change nothing they are told: they only blur what users expect.
        """
        return None

    def best(self, x: FloatArray) -> FloatArray | None:
        """Shares of the arms that it takes for the best of each user now, (n, d) -> (n, K); None where it has none."""
        return None

    @property
    def n_by_arm(self) -> np.ndarray | None:
        """Samples of each arm that it has learnt or will learn from, (K,); None where it does not count."""
        return None

    @property
    def cold_start_length(self) -> int:
        """Rounds of its cold start: 0 without one, -1 before it is over."""
        return 0

    @property
    def gamma(self) -> float:
        """The present spread of its recommendations; NaN without one."""
        return np.nan

    @property
    def n_fits(self) -> int:
        """Times that a posterior, or another learner, was fitted; 0 where it does not count them."""
        return 0

    @property
    def n_not_vouched(self) -> int:
        """Times that its engine did not vouch for the posterior."""
        return 0


PolicyMaker = Callable[[Market, int], BarePolicy]
"""A policy for a world, from the market and a seed."""


def completed(policy: BarePolicy) -> Policy:
    """The policy itself if it answers all that is asked; else with the usual answers."""
    return policy if isinstance(policy, Policy) else _Completed(policy)


class _Completed(Policy):
    def __init__(self, bare: BarePolicy) -> None:
        self._bare = bare

    def recommend_proba(self, x: FloatArray) -> FloatArray:
        return self._bare.recommend_proba(x)

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        return self._bare.decide(x, features, uniforms)

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        self._bare.update(x, decisions, reward)


def as_probabilities(values: FloatArray, *, n_users: int) -> FloatArray:
    """A policy's probabilities, (n, K), as they must be.

    Raises
    ------
    DataError
        Another shape, probabilities that are negative, not finite or do not sum to one.
    """
    found = np.asarray(values, dtype=float)
    if found.ndim != 2 or len(found) != n_users:
        raise DataError(f"A policy's probabilities must have a row for each of {n_users} users, got {found.shape}.")
    if not np.isfinite(found).all() or (found < -1e-9).any() or np.abs(found.sum(axis=1) - 1.0).max(initial=0.0) > 1e-6:
        raise DataError("A policy's probabilities must be finite, not negative, and sum to one for every user.")
    return found
