r"""Rates where users know less than the level: what one level leaves pays for another.

At level l a user x has rates that its own worlds pay for, with the form :math:`B_l` (lowered by the audit's slack), and
the form :math:`A_l` if she were always explored. Raised by a share :math:`\theta_l(x)` towards 1 the form is linear,
:math:`(1 - \theta_l) B_l + \theta_l A_l`, and a user who cannot tell levels apart needs only

.. math:: \sum_l n_l \bigl[(1 - \theta_l) B_l + \theta_l A_l\bigr] + F \ge 0

for every arm and rival, n_l the rounds of level l and F what other rounds leave that she cannot tell from these: those
of the most popular arm, and of exploitation. With :math:`e_l(x) = n_l \theta_l(x)` and the samples s_l that level l
needs,

.. math:: \min_{n, e} \sum_l n_l \quad\text{subject to that},\quad 0 \le e_l(x) \le n_l, \quad
          E_x[n_l r_l + e_l (1 - r_l)] = s_l

is a linear programme, r_l(x) being the rates not raised. Its prices (duals of the samples) tell what a sample at each
level is worth, and with them every user has a programme of her own, which serves users outside the panel, too.
"""

from dataclasses import dataclass, fields

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import FloatArray

_CELLS = 8  # of a user that her programme has; the others are looked at afterwards
_TURNS = 6


class NoAnswer(RcbError):
    """What all rounds leave does not pay for the samples that some level needs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelledForms:
    """Forms of U users at L levels.

    Attributes
    ----------
    explored, own : A and B, (U, L, C) each, C being all pairs of arms
    others : F, (U, C)
    rates, most : r, (U, L), and what it is if raised all the way
    """

    explored: FloatArray
    own: FloatArray
    others: FloatArray
    rates: FloatArray
    most: FloatArray

    def at(self, users: np.ndarray) -> "LevelledForms":
        """Of some of the users."""
        return LevelledForms(**{item.name: getattr(self, item.name)[users] for item in fields(self)})

    def binding(self, rounds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A, B and F of the cells of each user that are worst if she is always explored, (U, L, c), (U, c)."""
        worst = np.einsum("l,ulc->uc", rounds, self.explored) + self.others
        cells = np.argsort(worst, axis=1)[:, :_CELLS]
        explored, own = (np.take_along_axis(part, cells[:, None], axis=2) for part in (self.explored, self.own))
        return explored, own, np.take_along_axis(self.others, cells, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """What the programme comes to: rounds of each level, (L,), and what a sample there is worth, (L,), in rounds."""

    rounds: FloatArray
    worth: FloatArray


def priced(forms: LevelledForms, weights: FloatArray, samples: FloatArray, *, rounds: FloatArray) -> Prices:
    """The programme of all users together, with weights (U,); ``rounds`` (L,) as they are without it.

    Raises
    ------
    NoAnswer
        The solver's own words, where it has no answer.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    explored, own, others = forms.binding(rounds)
    u, n_levels, c = own.shape
    scale = float(rounds.sum())
    # Variables: n (L), then e (U, L), in units of all rounds. Rows: forms (U c), then e <= n (U L).
    user, level, cell = (part.reshape(-1) for part in np.indices((u, n_levels, c)))
    rows, columns = user * c + cell, n_levels + user * n_levels + level
    cap_rows, capped = u * c + np.arange(u * n_levels), np.ones(u * n_levels)
    upper = coo_array(
        (
            np.concatenate([(own - explored).reshape(-1), -own.reshape(-1), capped, -capped]),
            (
                np.concatenate([rows, rows, cap_rows, cap_rows]),
                np.concatenate(
                    [columns, level, n_levels + np.arange(u * n_levels), np.tile(np.arange(n_levels), u)]
                ),
            ),
        ),
        shape=(u * c + u * n_levels, n_levels * (u + 1)),
    ).tocsr()  # fmt: skip
    needed = np.zeros((n_levels, n_levels * (u + 1)))
    needed[range(n_levels), range(n_levels)] = weights @ forms.rates
    places = n_levels + np.arange(u)[:, None] * n_levels + np.arange(n_levels)
    for k in range(n_levels):
        needed[k, places[:, k]] = weights * (forms.most - forms.rates)[:, k]
    cost = np.concatenate([np.ones(n_levels), np.zeros(u * n_levels)])
    found = linprog(
        cost,
        A_ub=upper,
        b_ub=np.concatenate([others.reshape(-1) / scale, np.zeros(u * n_levels)]),
        A_eq=needed,
        b_eq=samples / scale,
        bounds=(0.0, None),
        method="highs",
    )
    if found.x is None:
        raise NoAnswer(f"The programme of the rates has no answer: {found.message}")
    return Prices(rounds=found.x[:n_levels] * scale, worth=np.maximum(found.eqlin.marginals, 1e-9))


def raised_shares(forms: LevelledForms, prices: Prices) -> FloatArray:
    """theta of every user by her own programme, (U, L): all constraints hold at the rounds of the prices."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    rounds = prices.rounds
    explored, own, others = forms.binding(rounds)
    u, n_levels, c = own.shape
    room = np.einsum("l,ulc->uc", rounds, own) + others
    cost = rounds[None, :, None] * (own - explored)  # (U, L, c)
    shares = np.ones((u, n_levels))
    bound = np.flatnonzero((cost.sum(axis=1) > room).any(axis=1))
    if len(bound):
        user, level, cell = (part.reshape(-1) for part in np.indices((len(bound), n_levels, c)))
        size = np.abs(cost[bound]).max(axis=(1, 2), keepdims=True) + 1e-300
        rows = coo_array(
            ((cost[bound] / size).reshape(-1), (user * c + cell, user * n_levels + level)),
            shape=(len(bound) * c, len(bound) * n_levels),
        ).tocsr()
        worth = prices.worth * rounds * (forms.most - forms.rates)[bound]
        found = linprog(
            -(worth / worth.max(axis=1, keepdims=True, initial=1e-300)).reshape(-1),
            A_ub=rows,
            b_ub=np.maximum(room[bound] / size[:, :, 0], 0.0).reshape(-1),
            bounds=(0.0, 1.0),
            method="highs",
        )
        shares[bound] = 0.0 if found.x is None else found.x.reshape(len(bound), n_levels).clip(0.0, 1.0)
    return shares * _bearable(forms, rounds, shares)[:, None]


def _bearable(forms: LevelledForms, rounds: FloatArray, shares: FloatArray) -> FloatArray:
    """The largest factor on a user's shares at which all her cells hold, (U,)."""
    own = np.einsum("l,ulc->uc", rounds, forms.own) + forms.others
    cost = np.einsum("l,ul,ulc->uc", rounds, shares, forms.own - forms.explored)
    bears = np.divide(np.maximum(own, 0.0), cost, out=np.ones(own.shape), where=cost > np.maximum(own, 0.0))
    return bears.min(axis=1, initial=1.0)


def settled(
    forms: LevelledForms, weights: FloatArray, samples: FloatArray, prices: Prices
) -> tuple[Prices, FloatArray]:
    """Prices whose rounds are those that the users' shares lead to, and the shares (U, L)."""
    for _ in range(_TURNS):
        shares = raised_shares(forms, prices)
        rates = weights @ (forms.rates + shares * (forms.most - forms.rates))
        rounds = samples / np.maximum(rates, 1e-12)
        prices = Prices(rounds=0.5 * (prices.rounds + rounds), worth=prices.worth)
    return prices, raised_shares(forms, prices)
