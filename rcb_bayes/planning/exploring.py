r"""Which arms are explored, and in which order, where there are many: decided from the belief, before any reward.

*Elimination*: an arm that is best with a probability below a stated share, for every user, is not explored; where it is
contextual, every arm is explored among those users only for whom it may be the best (``mechanism.regions``). With
:math:`p_i(x) = \Pr(\mu(x, i) = \max_j \mu(x, j))` under the belief and E the eliminated arms, what is given up is at
most

.. math:: E_x \sum_{i \in E} p_i(x) \text{ of users, and } E[\max_j \mu(x, j) - \max_{j \notin E} \mu(x, j)]

a round, told from other draws than those that decided; where elimination is contextual, E is another set for each user.
*Clusters*: arms that the platform's belief holds close, by :math:`E_x E(\mu(x, i) - \mu(x, j))^2`, are put together,
and one of each is explored; the others learn what the belief couples to it. *Admission*: arms are promoted one after
the other, in a published order. None of it looks at data, or stages would tell about rewards.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.panel import Panel, make_panel
from rcb_bayes.mechanism.regions import Regions
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.worlds import draw_worlds
from rcb_bayes.schema import BoolArray, FloatArray, as_count, is_number
from rcb_bayes.telling.wording import figure, percent

_USERS = 256
_DRAWS = 4000  # that decide, and as many others that tell what it gives up
_CLUSTER_DRAWS = 400
_DRAWS_PER_SHARE, _FEWEST_DRAWS, _MOST_DRAWS = 20.0, 2000, 10_000  # that say for whom an arm may be the best
_CHUNK_VALUES = 10_000_000
_SURELY = 3.0  # errors below the share, for an arm to be eliminated


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploring:
    """How to live with many arms.

    Parameters
    ----------
    eliminate : float, optional
        Arms that are best with a probability below this, for every user, are not explored.
    contextual : bool
        Every arm is explored only among users for whom it is best with that probability, or is the most popular one.
        The others wait for an arm that is theirs. Where an arm has few such users it takes long to fill.
    top : int, optional
        How many arms are explored at first; whenever one is saturated, the next is admitted. The order is by how often
        an arm is a user's favourite before any data, then by what users expect of it.
    clusters : int, optional
        Arms are put together in so many clusters, and one of each is explored.

    Raises
    ------
    RcbError
        A share outside (0, 1), counts below 1, ``contextual`` without a share.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> rcb.Exploring(eliminate=0.01, top=20)
    Exploring(eliminate=0.01, top=20, clusters=None, contextual=False)
    """

    eliminate: float | None = None
    top: int | None = None
    clusters: int | None = None
    contextual: bool = False

    def __post_init__(self) -> None:
        if self.eliminate is not None and not (is_number(self.eliminate) and 0.0 < self.eliminate < 1.0):
            raise RcbError(f"eliminate is a share between 0 and 1, such as 0.01, got {self.eliminate!r}.")
        for name in ("top", "clusters"):
            if getattr(self, name) is not None:
                as_count(getattr(self, name), name=name, least=1)
        if not isinstance(self.contextual, bool):
            raise RcbError(f"contextual is True or False, got {self.contextual!r}.")
        if self.contextual and self.eliminate is None:
            raise RcbError("contextual says that arms are eliminated user by user: below which share? Pass eliminate=.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplored:
    """Arms that are not explored, and why.

    Attributes
    ----------
    eliminated, siblings : labels of arms that are hardly ever best, and of those that another one stands for
    share : below which an arm was eliminated
    best_for, best_for_mcse : the share of users for whom one of them is the best arm, under the belief
    regret, regret_mcse : what a round loses at most by them, if they are never recommended
    explored_with : where elimination is contextual, the share of users with whom an arm is explored, on average over
        arms that are; else None. Then ``best_for`` counts users for whom an arm is best that is not explored with them,
        and ``regret`` is what they lose if they never get it
    """

    eliminated: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()
    share: float | None = None
    best_for: float = 0.0
    best_for_mcse: float = 0.0
    regret: float = 0.0
    regret_mcse: float = 0.0
    explored_with: float | None = None

    def words(self, n_arms: int) -> str:
        """Which arms are explored, which are not, and why."""
        left_out = len(self.eliminated) + len(self.siblings)
        why = []
        if self.eliminated:
            why.append(f"{len(self.eliminated):,} are best with a chance below {self.share:g} for every user")
        if self.siblings:
            why.append(f"{len(self.siblings):,} have another arm of their cluster stand for them")
        n_explored = f"{n_arms - left_out:,} of {n_arms:,} arms are explored"
        lost = (
            f"for {percent(self.best_for)} of users (± {100 * self.best_for_mcse:.2g} points), and a round loses "
            f"{figure(self.regret, self.regret_mcse)} at most"
        )
        if self.explored_with is None:
            return f"{n_explored}: {' and '.join(why)}. One of these is best {lost} by leaving them out."
        because = f": {' and '.join(why)}" if why else ""
        return (
            f"{n_explored}{because}. Each is explored with {percent(self.explored_with)} of users on average, for whom "
            f"it may be the best. An arm that is not explored with them is best {lost} if they never get it."
        )


def explored_by(
    market: Market, agenda: Agenda, exploring: Exploring, *, seed: int
) -> tuple[Agenda, Unexplored | None, tuple[str, ...]]:
    """The agenda without arms that are not to be explored, and in order; what was left out, and notes.

    Raises
    ------
    RcbError
        More clusters than arms, or no arm left.
    """
    rng = generator(seed, Stream.EXPLORED_ARMS)
    kept = agenda.missing > 0
    if not kept.any():  # a history has filled them all
        return agenda, None, ()
    panel = _panel(market, rng)
    gone, stands_for = np.zeros(len(kept), dtype=bool), np.arange(len(kept))
    notes: list[str] = []
    regions = _regions(market, exploring, rng)
    if exploring.eliminate is not None:
        gone = kept & _hardly_best(market, panel, exploring.eliminate, rng)
        if regions is not None:  # other draws: nobody may be left for an arm
            gone |= kept & ~regions.likely(panel.users, market.n_arms).any(axis=0)
        if not (kept & ~gone).any():
            raise RcbError(
                f"Every arm is best with a chance below {exploring.eliminate:g} for every user: none would be left. "
                "Eliminate with a smaller share, or explore the arms one after the other (top)."
            )
    if exploring.clusters is not None:
        stands_for = _stands_for(market, panel, kept & ~gone, exploring.clusters, rng)
        if (stands_for != np.arange(len(kept))).any() and market.platform_prior.arms_independent:
            notes.append(
                "Arms are independent under the belief: those that another arm of their cluster stands for learn "
                "nothing from it."
            )
    siblings = stands_for != np.arange(len(kept))
    left = kept & ~gone & ~siblings
    regions = None if regions is None else regions.of_arms(kept & ~gone, stands_for)
    needed = tuple(
        int(n) if keeps or not there else 0 for n, keeps, there in zip(agenda.needed, left, kept, strict=True)
    )
    made = Agenda(needed=needed, past=agenda.past, regions=regions)
    if exploring.top is not None and exploring.top < left.sum():
        order = tuple(arm for arm in _in_order(panel) if left[arm])
        made = replace(made, order=order, first=exploring.top)
    explored = None if regions is None else panel.under(regions).admitted
    if exploring.eliminate is not None and explored is None and not gone.any():
        notes.append(
            f"No arm is best with a chance surely below {exploring.eliminate:g} for every user: none is left out by "
            f"that ({_DRAWS:,} draws tell no chance below {_SURELY / _DRAWS:.2g})."
        )
    if not (gone | siblings).any() and explored is None:
        return made, None, tuple(notes)
    arms = np.array(market.arms)
    found = Unexplored(
        eliminated=tuple(arms[gone].tolist()),
        siblings=tuple(arms[siblings].tolist()),
        share=exploring.eliminate if gone.any() else None,
        explored_with=None if explored is None else float((panel.weights @ explored)[left].mean()),
        **_given_up(market, panel, gone | siblings, explored, rng),
    )
    return made, found, (*notes, found.words(len(kept)))


def _panel(market: Market, rng: np.random.Generator) -> Panel:
    panel = make_panel(market, n_users=_USERS, rng=rng)
    if panel.n_users <= _USERS:
        return panel
    some, weights = panel.some(_USERS, rng=rng)
    return panel.take(some, weights=weights)


def _rewards(
    market: Market, panel: Panel, n_draws: int, rng: np.random.Generator, *, belief: Prior | None = None
) -> Iterator[FloatArray]:
    """Mean rewards of the panel's users in worlds of a belief (users' unless given), some at a time, (K, w, P)."""
    belief = belief or market.prior
    step = max(1, _CHUNK_VALUES // (market.n_arms * panel.n_users))
    for start in range(0, n_draws, step):
        worlds = draw_worlds(belief, min(step, n_draws - start), rng=rng)
        yield market.noise.mean_reward(worlds.beta.swapaxes(0, 1) @ panel.users.T)


def _regions(market: Market, exploring: Exploring, rng: np.random.Generator) -> Regions | None:
    """For whom arms are explored, as far as draws of all of them say, where elimination is contextual.

    Draws are rounded to single precision: a plan that is kept weighs less, and every process has the same.
    """
    if not exploring.contextual or exploring.eliminate is None:
        return None
    n_draws = int(np.clip(_DRAWS_PER_SHARE / exploring.eliminate, _FEWEST_DRAWS, _MOST_DRAWS))
    draws = draw_worlds(market.prior, n_draws, rng=rng).beta.astype(np.float32).astype(float)
    arms = tuple(range(market.n_arms))
    return Regions(share=exploring.eliminate, draws=draws, arms=arms, stands_for=arms)


def _hardly_best(market: Market, panel: Panel, share: float, rng: np.random.Generator) -> BoolArray:
    """Arms that are best with a chance surely below a share, for every user, (K,)."""
    often = np.zeros((market.n_arms, panel.n_users))
    for rewards in _rewards(market, panel, _DRAWS, rng):
        best = rewards.argmax(axis=0)  # (w, P)
        np.add.at(often, (best, np.arange(panel.n_users)[None]), 1.0)
    chance = often / _DRAWS
    error = np.sqrt(np.maximum(chance * (1.0 - chance), 1.0 / _DRAWS) / _DRAWS)
    return (chance + _SURELY * error < share).all(axis=1)


def _given_up(
    market: Market, panel: Panel, gone: BoolArray, explored: BoolArray | None, rng: np.random.Generator
) -> dict[str, float]:
    """What leaving arms out gives up: for which share of users one is best, and how much of a round's reward.

    ``explored`` says with whom each arm is, (P, K); of users with whom none is, none but ``gone`` counts as left out.
    """
    left_out = np.tile(gone, (panel.n_users, 1)) if explored is None else gone | ~explored
    left_out = np.where(left_out.all(axis=1, keepdims=True), gone, left_out).T[:, None]  # (K, 1, P)
    shares, losses = [], []
    for rewards in _rewards(market, panel, _DRAWS, rng):
        lost = rewards.max(axis=0) - np.where(left_out, -np.inf, rewards).max(axis=0)  # (w, P)
        shares.append(lost > 0.0)
        losses.append(lost)
    out: dict[str, float] = {}
    for name, parts in (("best_for", shares), ("regret", losses)):
        values = np.concatenate(parts).astype(float)
        mean, of_users = panel.mean(values.mean(axis=0))
        of_worlds = (values @ panel.weights).std(ddof=1) / np.sqrt(len(values))
        out |= {name: float(mean), f"{name}_mcse": float(np.hypot(of_users, of_worlds))}
    return out


def _stands_for(market: Market, panel: Panel, kept: BoolArray, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """The arm of each one's cluster that is explored, (K,): users' favourite there, else the closest to the others.

    Favourites are what the first phase can sample.
    """
    from sklearn.cluster import AgglomerativeClustering

    arms = np.flatnonzero(kept)
    if n_clusters > len(arms):
        raise RcbError(f"{n_clusters} clusters of {len(arms)} arms that are to be explored: ask for fewer clusters.")
    out = np.arange(len(kept))
    if n_clusters == len(arms):
        return out
    products, n = np.zeros((len(arms), len(arms))), 0
    for rewards in _rewards(market, panel, _CLUSTER_DRAWS, rng, belief=market.platform_prior):
        own = (rewards[arms] * np.sqrt(panel.weights)).reshape(len(arms), -1)
        products += own @ own.T
        n += rewards.shape[1]
    favourite = panel.weights @ best_shares(panel.promoted_by)
    squares = np.diag(products)
    distance = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2.0 * products, 0.0) / n)
    np.fill_diagonal(distance, 0.0)
    labels = AgglomerativeClustering(n_clusters=n_clusters, metric="precomputed", linkage="average").fit_predict(
        distance
    )
    for label in range(n_clusters):
        members = np.flatnonzero(labels == label)
        apart = distance[np.ix_(members, members)].sum(axis=1)
        centre = members[np.lexsort((apart, -favourite[arms[members]]))[0]]
        out[arms[members]] = arms[centre]
    return out


def _in_order(panel: Panel) -> list[int]:
    """Arms by how often they are users' favourite before any data, then by what users expect of them."""
    favourite = panel.weights @ best_shares(panel.promoted_by)
    expected = panel.weights @ panel.promoted_by
    return np.lexsort((np.arange(len(expected)), -expected, -favourite)).tolist()
