"""Rates at a level with every array written out, users x K^3: the twin of ``mechanism.level_rates``."""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.choice import TIE, best_shares
from rcb_bayes.mechanism.level_rates import LevelRates
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.outlook import Outlook
from rcb_bayes.mechanism.promotion import Sets
from rcb_bayes.mechanism.rates import largest_rate
from rcb_bayes.schema import BoolArray, FloatArray

_FEW_WORLDS, _USUAL, _RARE, _CUTS = 50, 0.02, 1.5, 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseMoments:
    """What rates are computed from, of U users.

    Attributes
    ----------
    gap : U_ij + epsilon, as far as it is allowed for every unit of mass, (U, K, K)
    fixed : what is allowed of epsilon whatever the mass
    explored : e_ki, (U, K, K)
    organic : O^k_ij, (U, K, K, K), and ``squares``, the means of its squared terms
    shares : how often k is promoted and i organic, (U, K, K), and ``values``, what that gives
    n_promoted : in how many worlds each arm is promoted, (U, K)
    n_worlds : W
    """

    gap: FloatArray
    fixed: float
    explored: FloatArray
    organic: FloatArray
    squares: FloatArray
    shares: FloatArray
    values: FloatArray
    n_promoted: np.ndarray
    n_worlds: int

    @property
    def costs(self) -> BoolArray:
        """Where recommending i in the place of j to a user who is explored costs her more than epsilon, (U, K, K)."""
        scale = np.maximum(np.abs(self.gap).max(axis=(1, 2), keepdims=True), 1.0)
        return self.gap < -TIE * scale

    @property
    def loses(self) -> BoolArray:
        """The same of arms that are promoted to her in some world."""
        return self.costs & (self.explored.sum(axis=1) > 0.0)[:, :, None]

    def paid(self, rates: FloatArray) -> FloatArray:
        """The explored part of the form at rates (U, K), (U, K, K)."""
        return np.einsum("uk,uki->ui", rates, self.explored)[:, :, None] * self.gap

    def earned(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The organic part, and its standard deviation over worlds, (U, K, K) each."""
        left = 1.0 - rates
        mean = np.einsum("uk,ukij->uij", left, self.organic)
        square = np.einsum("uk,ukij->uij", left**2, self.squares) - mean**2
        return mean, np.sqrt(np.maximum(square, 0.0) * self.n_worlds / (self.n_worlds - 1))


def dense_level_rates(
    outlook: Outlook,
    sets: Sets,
    users: FloatArray,
    *,
    prior_rewards: FloatArray,
    promoted_by: FloatArray,
    epsilon: float,
    notion: Notion,
    slack: float,
    by_arm: FloatArray | None = None,
) -> LevelRates:
    """All figures of all users, forms included."""
    fixed, extra = notion.epsilon_parts(epsilon)
    w = outlook.n_worlds
    weights = np.ones(w) if outlook.weights is None else outlook.weights
    promoted = sets.promoted(promoted_by)  # (K, U, W)
    k = len(promoted)
    is_first = (promoted.argmax(axis=0) == np.arange(k)[:, None, None]).astype(float)
    rewards, organic = outlook.rewards(users), best_shares(outlook.acted_on(users), axis=0) * weights
    lead = rewards[:, None] - rewards[None] + extra  # (K, K, U, W)
    moments = DenseMoments(
        gap=prior_rewards[:, :, None] - prior_rewards[:, None, :] + extra,
        fixed=fixed,
        explored=np.einsum("kuw,iuw,w->uki", is_first, promoted, weights) / w,
        organic=np.einsum("kuw,iuw,ijuw->ukij", is_first, organic, lead) / w,
        squares=np.einsum("kuw,iuw,ijuw->ukij", is_first, organic**2, lead**2) / w,
        shares=np.einsum("kuw,iuw->uki", is_first, organic) / w,
        values=np.einsum("kuw,iuw,iuw->uki", is_first, organic, rewards) / w,
        n_promoted=is_first.sum(axis=2).T,
        n_worlds=w,
    )
    return _rates(moments, slack=slack, given=by_arm)


def _rates(moments: DenseMoments, *, slack: float, given: FloatArray | None = None) -> LevelRates:
    """Rates of users; those that are given, or the largest."""
    loses = moments.loses
    ideal = _raised(moments, _own(moments, loses), loses, slack=0.0)
    alone = _own(moments, loses)
    rates = _raised(moments, _cut(moments, alone, loses, slack=slack), loses, slack=slack) if given is None else given
    alone = np.minimum(rates, _cut(moments, alone, loses, slack=_RARE * slack))
    mean, spread = moments.earned(rates)
    own = moments.paid(rates) + moments.fixed + mean - slack * spread
    u, k = rates.shape
    arm, rival = np.divmod(np.where(loses, own, np.inf).reshape(u, -1).argmin(axis=1), k)
    place = (np.arange(u), arm, rival)
    often = moments.explored.sum(axis=2)
    # How rare a rare arm is, is hardly known; other levels are not to pay for it, nor it for them.
    is_usual = _is_seen(moments) & (often >= _USUAL)
    most = np.where(is_usual | ~moments.costs.any(axis=2), 1.0, alone if given is None else rates)
    always, counted = moments.paid(most) + moments.fixed + moments.earned(most)[0], own
    if given is None:
        always = _secured(moments, most, is_usual) - slack * moments.earned(most)[1]
        counted = _secured(moments, rates, is_usual) - slack * spread
    left = (1.0 - rates)[:, :, None]
    return LevelRates(
        by_arm=rates,
        rate=(often * rates).sum(axis=1),
        ideal=(often * ideal).sum(axis=1),
        explored=np.einsum("uk,uki->ui", rates, moments.explored),
        organic=(left * moments.shares).sum(axis=1),
        organic_value=(left * moments.values).sum(axis=(1, 2)),
        most=most,
        most_rate=(often * most).sum(axis=1),
        always=always,
        own=counted,
        is_bound=loses.any(axis=(1, 2)),
        arm=arm,
        rival=rival,
        gain=moments.fixed + mean[place],
        spread=spread[place],
    )


def _secured(moments: DenseMoments, rates: FloatArray, is_usual: BoolArray) -> FloatArray:
    """The form arm by promoted arm, where what unusual ones leave is not counted on, (U, K, K)."""
    total = np.full(moments.gap.shape, moments.fixed)
    for user, arm in np.ndindex(rates.shape):
        share = rates[user, arm]
        part = share * moments.explored[user, arm, :, None] * moments.gap[user]
        part = part + (1.0 - share) * moments.organic[user, arm]
        total[user] += part if is_usual[user, arm] else np.minimum(part, 0.0)
    return total


def _own(moments: DenseMoments, loses: BoolArray) -> FloatArray:
    """What each arm's own worlds pay for by the point estimates, (U, K): 1 where nothing is lost by it.

    An arm that is promoted in hardly any world has none, unless nothing is lost by it.
    """
    k = loses.shape[1]
    arms = np.arange(k)
    of_arm = moments.explored[:, arms, arms]
    organic = moments.organic[:, arms, arms] + moments.fixed
    explored = np.minimum(of_arm[:, :, None] * moments.gap + moments.fixed, 0.0)
    rates = np.where(loses, largest_rate(explored, organic), 1.0).min(axis=2)
    return np.where(_is_seen(moments) | ~moments.costs.any(axis=2), rates, 0.0)


def _is_seen(moments: DenseMoments) -> BoolArray:
    """Arms that are promoted in worlds enough for something to be known of their rates, (U, K)."""
    return moments.n_promoted >= min(_FEW_WORLDS, moments.n_worlds)


def _cut(moments: DenseMoments, rates: FloatArray, loses: BoolArray, *, slack: float) -> FloatArray:
    """Rates lowered arm by arm to where the lowered organic part pays for them; what is lowered pays for others."""
    for _ in range(_CUTS):
        paid = moments.paid(rates)
        mean, spread = moments.earned(rates)
        usable = moments.fixed + mean - slack * spread
        short = loses & (paid + usable < 0.0) & (paid < 0.0)
        kept = np.divide(usable, -paid, out=np.ones(paid.shape), where=short).clip(0.0, 1.0).min(axis=2)  # (U, K)
        # An arm that stands for others is lowered as far as any of them.
        together = np.where(moments.explored > 0.0, kept[:, None], 1.0).min(axis=2)
        rates = rates * together
    return rates


def _raised(moments: DenseMoments, rates: FloatArray, loses: BoolArray, *, slack: float) -> FloatArray:
    """Rates raised as far as every constraint allows: all above 0 by one share towards 1, then one after the other."""
    mean, spread = moments.earned(rates)
    form = moments.paid(rates) + moments.fixed + mean - slack * spread
    towards = np.where(rates > 0.0, 1.0 - rates, 0.0)
    cost = np.einsum("uk,ukij->uij", towards, moments.organic)
    cost = cost - np.einsum("uk,uki->ui", towards, moments.explored)[:, :, None] * moments.gap
    share = _room(form, cost, loses).min(axis=(1, 2)).clip(0.0, 1.0)
    rates = rates + share[:, None] * towards
    form = form - share[:, None, None] * cost
    for arm in range(rates.shape[1]):
        left = 1.0 - rates[:, arm]
        if not left.any():
            continue
        cost = moments.organic[:, arm] - moments.explored[:, arm, :, None] * moments.gap
        more = np.minimum(_room(form, cost, loses).min(axis=(1, 2)).clip(0.0), left)
        more = np.where(_is_seen(moments)[:, arm], more, 0.0)
        rates[:, arm] += more
        form = form - more[:, None, None] * cost
    return rates


def _room(form: FloatArray, cost: FloatArray, loses: BoolArray) -> FloatArray:
    """How many times each cell can bear a cost, (U, K, K); infinite where it costs nothing."""
    bears = np.divide(np.maximum(form, 0.0), cost, out=np.full(form.shape, np.inf), where=loses & (cost > 0.0))
    return bears
