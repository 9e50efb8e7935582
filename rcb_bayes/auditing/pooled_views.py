r"""Views of users who know less of the clock: moments that they cannot tell apart, as often as they are met.

A user who comes at an unknown moment of what she cannot tell apart meets a run there in proportion to the rounds that
it spends: worlds of a level count by the rounds that their paths spend in it, and levels and epochs by theirs. What is
recommended because she is explored does not depend on rewards, so that it enters as its average over all paths, the
same in every world: the form of that part is the prior gap's.

A level has worlds of its own. Of exploitation every world is looked at in one epoch, the one that a round drawn at
random from it falls into: epochs of the same world are no independent looks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.auditing.guards import RememberedGuards
from rcb_bayes.auditing.search import ViewOf
from rcb_bayes.auditing.seats import SeatsOf
from rcb_bayes.auditing.view import View
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares, is_best
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.mechanism.outlook import Outlook
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.promotion import Sets, distinct_sets
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Moments of a kind, as users see them.

    Attributes
    ----------
    rounds : that a run spends there on average
    fixed : the probability of each arm that does not depend on rewards, for users (U, d): (K, U)
    moving : the view of all that does, in some of the worlds; None where nothing does
    """

    rounds: float
    fixed: Callable[[Panel], FloatArray]
    moving: ViewOf | None


def pooled(parts: Sequence[Part], seats_of: SeatsOf, *, name: str, share: float) -> ViewOf:
    """What users see who cannot tell the parts apart."""
    total = sum(part.rounds for part in parts)

    def view(users: FloatArray, worlds: slice) -> View:
        seats = seats_of(users)
        users = seats.users
        fixed = sum(part.rounds / total * part.fixed(seats) for part in parts)
        seen = [(part.rounds / total, part.moving(users, worlds)) for part in parts if part.moving is not None]
        n = sum(one.n_worlds for _, one in seen)
        weights = np.concatenate([often * n / one.n_worlds * one.world_weights for often, one in seen])
        moving = weights.mean()  # below 1 where some part has nothing but what is fixed
        chances = np.concatenate([one.chances for _, one in seen], axis=2) * moving
        return View(
            name=name,
            chances=np.asarray(fixed).astype(users.dtype)[:, :, None] + chances,
            rewards=np.concatenate([one.rewards for _, one in seen], axis=2),
            prior_rewards=seats.prior_rewards,
            best=np.concatenate([one.best > 0 for _, one in seen], axis=2),
            share=share,
            weights=None if len(seen) == 1 and seen[0][1].weights is None else weights / moving,
        )

    return view


class LevelLooks:
    """A plan's rates as an audit asks for them, level by level: again and again of the same users."""

    def __init__(self, plan: Plan, market: Market, seats_of: SeatsOf) -> None:
        self._plan, self.market, self.seats_of = plan, market, seats_of
        self.agenda = plan.agenda
        self._level = 0
        self._known: dict[bytes, FloatArray] = {}

    def rates(self, seats: Panel, sets: Sets, level: int) -> FloatArray:
        """The rate of each user at each of the sets, (U, S); of a plan by level from rates by promoted arm."""
        if self._plan.knows == STAGE.name:
            arms = np.array(self.market.arms)
            columns = [self._plan.rate(seats.users, saturated=arms[row].tolist()) for row in sets.saturated]
            return np.stack(columns, axis=1)
        first = sets.promotion(seats.promoted_by).first
        return np.take_along_axis(self._by_arm(seats.users, level), first.astype(np.int64), axis=1)

    def _by_arm(self, users: FloatArray, level: int) -> FloatArray:
        if level != self._level:
            self._level, self._known = level, {}
        keys = [row.tobytes() for row in users]
        fresh = [place for place, key in enumerate(keys) if key not in self._known]
        if fresh:
            found = self._plan.rates_by_arm(users[fresh].astype(float), level=level)
            self._known.update(zip((keys[place] for place in fresh), found, strict=True))
        return np.array([self._known[key] for key in keys])


def level_part(
    looks: LevelLooks,
    outlook: Outlook,
    *,
    level: int,
    rounds: float,
    saturated: BoolArray,
    spent: FloatArray,
    chosen: np.ndarray,
) -> Part:
    """A level of the cold start.

    Parameters
    ----------
    outlook : in one world for each of the chosen paths, with weights
    rounds : spent at the level, on average over all runs
    saturated, spent : the sets of all paths that get there, (R, K), and the rounds that each spends there, (R,)
    chosen : the places of the worlds' paths among them, (W,)
    """
    distinct, places = distinct_sets(saturated)
    sets = Sets(distinct, looks.agenda)
    often = np.bincount(places, weights=spent, minlength=len(distinct))
    often = often / often.sum()

    def fixed(seats: Panel) -> FloatArray:
        rates = looks.rates(seats, sets, level) * often  # (U, S)
        promotion = sets.promotion(seats.promoted_by)
        u, k = seats.prior_rewards.shape
        if promotion.shares is not None:
            return np.einsum("kus,us->ku", promotion.shares, rates)
        group = (np.arange(u)[:, None] * k + promotion.first).reshape(-1)
        return np.bincount(group, weights=rates.reshape(-1), minlength=u * k).reshape(u, k).T

    def moving(users: FloatArray, worlds: slice) -> View:
        seats = looks.seats_of(users)
        users = seats.users
        part = outlook.in_worlds(worlds)
        rewards = part.rewards(users)
        organic = best_shares(rewards if len(part.tables) == 1 else part.acted_on(users), axis=0)
        rates = looks.rates(seats, sets, level)[:, places[chosen[worlds]]]  # (U, W)
        return View(
            name="",
            chances=(1.0 - rates).astype(users.dtype) * organic,
            rewards=rewards,
            prior_rewards=seats.prior_rewards,
            best=(organic > 0.0) & (rates < 1.0),  # where she is always explored, no organic round speaks for an arm
            weights=part.weights,
        )

    return Part(rounds=rounds, fixed=fixed, moving=moving)


def exploitation_part(
    outlook: Outlook,
    gamma: FloatArray,
    epoch: np.ndarray,
    guards: RememberedGuards,
    seats_of: SeatsOf,
    *,
    rounds: float,
) -> Part:
    """All of exploitation: every world in the epoch (W,) that a round of it, drawn at random, falls into."""
    numbers = np.unique(epoch)

    def moving(users: FloatArray, worlds: slice) -> View:
        wanted = np.arange(len(epoch))[worlds]
        parts = [_seen(users, wanted[epoch[wanted] == number], int(number)) for number in numbers]
        seen = [part for part in parts if part is not None]
        return replace(
            seen[0],
            chances=np.concatenate([part.chances for part in seen], axis=2),
            rewards=np.concatenate([part.rewards for part in seen], axis=2),
            best=np.concatenate([part.best > 0 for part in seen], axis=2),
        )

    def _seen(users: FloatArray, some: np.ndarray, number: int) -> View | None:
        if not len(some):
            return None
        part = outlook.in_worlds(some)
        rewards = part.rewards(users)
        scores = rewards if len(part.tables) == 1 else part.acted_on(users)
        k, u, w = scores.shape
        guard = guards(users, number)
        factors = None if guard is None else np.repeat(guard.T, w, axis=1)
        spread = np.tile(gamma[some], u)
        return View(
            name="",
            chances=ipgs_probabilities(scores.reshape(k, u * w), spread, guard=factors).reshape(k, u, w),
            rewards=rewards,
            prior_rewards=seats_of(users).prior_rewards,
            best=is_best(scores, axis=0),
        )

    return Part(rounds=rounds, fixed=lambda seats: np.zeros(seats.prior_rewards.T.shape), moving=moving)


def rounds_before(begins: FloatArray, horizon: int) -> FloatArray:
    """Rounds that each path spends at each level before the horizon, from when levels begin, (l + 1, R): (l, R)."""
    return np.diff(np.minimum(begins, horizon), axis=0)
