r"""The linear form of a stage, averaged over the population world by world, for notions that average over users.

With weights w_x, :math:`\sum_x w_x p_i (m_i - m_j + \epsilon)` is a product of matrices in every world, users some at a
time: no cell's terms are written down. What p_i is in every world alike, a_i, is taken from the prior gap exactly;
where a_i is known for any user, as in a cold start with one rate, it is averaged over users of its own, as many as one
likes.
"""

from collections.abc import Callable

import numpy as np

from rcb_bayes.auditing.view import Averages, View
from rcb_bayes.mechanism.margins import below_best, user_leads
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.schema import FloatArray

_CHUNK_VALUES = 400_000
_LEAST_USERS, _MOST_VALUES = 25, 2_000_000  # at a time: every time all worlds and pairs of arms are gone through

Fixed = Callable[[FloatArray], FloatArray]
"""The probability of each arm that is the same in all worlds, for users (U, d): (U, K)."""


def averages_of(
    view_of: Callable[[slice], View],
    population: Panel,
    *,
    epsilon: float,
    n_worlds: int,
    fixed: Fixed | None = None,
    fixed_mean: tuple[FloatArray, FloatArray] | None = None,
) -> Averages:
    """Averages over the population of what its users see in W worlds.

    Parameters
    ----------
    view_of : the stage as some users of the population, given by their places, see it
    fixed, fixed_mean : a_i where it is known, with the average of a_i (U_ij + epsilon), (K, K), and its error
    """
    so_far: _Sums | None = None
    start, step = 0, 1
    while start < population.n_users:
        some = slice(start, min(start + step, population.n_users))
        own = None if fixed is None or fixed_mean is None else fixed(population.users[some])
        view = view_of(some).counted()
        so_far = so_far or _Sums(view, epsilon)
        so_far.add(view, population.weights[some], fixed=own)
        start += step
        each = n_worlds * len(view.chances)
        del view  # before the next is made
        step = max(1, _CHUNK_VALUES // each, min(_LEAST_USERS, _MOST_VALUES // each))
    assert so_far is not None  # a population has somebody in it
    none = np.zeros(so_far.constant.shape)
    constant, error = fixed_mean or (none, none)
    return Averages(
        varying=so_far.varying(),
        constant=so_far.constant + constant,
        chances=so_far.chances,
        weights=so_far.world_weights,
        user_values=np.concatenate(so_far.user_values),
        user_chances=np.concatenate(so_far.user_chances),
        fixed_error=error,
        is_exact=population.is_exact,
        n_events=so_far.events.sum(axis=1),
        least=so_far.least,
    )


def fixed_mean(fixed: Fixed, panel: Panel, *, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """The average of a_i (U_ij + epsilon) over many users, (K, K), and its error."""
    share, prior = fixed(panel.users), panel.prior_rewards
    k = prior.shape[1]
    mean, error = np.zeros((k, k)), np.zeros((k, k))
    for arm in range(k):
        for rival in range(k):
            gap = prior[:, arm] - prior[:, rival] + epsilon
            mean[arm, rival], error[arm, rival] = panel.mean(share[:, arm] * gap)
    return mean, error


class _Sums:
    """Averages over users as far as they have been added; see ``Averages``."""

    def __init__(self, view: View, epsilon: float) -> None:
        k, _, w = view.chances.shape
        self._epsilon = epsilon
        self.world_weights = view.weights
        self._products, self._moving = np.zeros((w, k, k)), np.zeros((k, w))
        self.constant, self._same = np.zeros((k, k)), np.zeros(k)
        self.events = np.zeros((k, w), dtype=bool)
        self.user_values: list[FloatArray] = []
        self.user_chances: list[FloatArray] = []
        self.least = np.full((k, k), np.inf)

    def add(self, view: View, weights: FloatArray, *, fixed: FloatArray | None) -> None:
        """Some users with their weights; with ``fixed`` (U, K) their part that never moves is left to others."""
        chances, prior = view.chances, view.prior_rewards
        lowest = chances.min(axis=2)  # (K, U)
        same = lowest if fixed is None else np.minimum(fixed.T, lowest)
        moving = chances - same[:, :, None]
        below = below_best(view.rewards)
        first = np.ascontiguousarray((moving * weights[:, None]).transpose(2, 0, 1))  # (W, K, U)
        self._products += first @ np.ascontiguousarray(below.transpose(2, 1, 0))
        self._moving += first.sum(axis=2).T
        self._same += same @ weights
        if view.weights is not None:
            moving *= view.weights
        values = user_leads(moving, below, self._epsilon)
        if fixed is None:
            own = same.T[:, :, None] * (prior[:, :, None] - prior[:, None, :] + self._epsilon)
            values += own
            self.constant += np.tensordot(weights, own, axes=(0, 0))
        self.user_values.append(values)
        self.user_chances.append((same + moving.mean(axis=2)).T)
        self.events |= view.best.any(axis=1)
        self._note_least(chances, below)

    @property
    def chances(self) -> FloatArray:
        """How often each arm is recommended, (K, W)."""
        return self._moving + self._same[:, None]

    def varying(self) -> FloatArray:
        """The average of (p_i - a_i) (m_i - m_j + epsilon) in every world, (K, K, W)."""
        products = np.ascontiguousarray(self._products.transpose(1, 2, 0))
        own = np.einsum("iiw->iw", products) + self._epsilon * self._moving
        return np.subtract(own[:, None], products, out=products)

    def _note_least(self, chances: FloatArray, below: FloatArray) -> None:
        """The lowest lead of an arm where it is recommended; of one that has broken its constraint no lower one."""
        for arm, own in enumerate(below):
            rivals = np.flatnonzero(self.least[arm] >= -self._epsilon)
            if not len(rivals):
                continue
            used = chances[arm] > 0.0
            if np.where(used, own, 0.0).min() >= 0.0:  # the best wherever it is recommended, if it is
                if used.any():
                    self.least[arm] = np.minimum(self.least[arm], 0.0)
                continue
            leads = own[used]
            for rival in rivals:
                self.least[arm, rival] = min(self.least[arm, rival], float((leads - below[rival][used]).min()))
