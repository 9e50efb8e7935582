"""Users who know the mechanism and do what is best for them: the audit's arithmetic, as behaviour."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rcb_bayes.auditing.judging import own_margins
from rcb_bayes.auditing.plan_views import views_for_anybody
from rcb_bayes.auditing.search import ViewOf
from rcb_bayes.auditing.view import Asked
from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.knowledge import MOST_SETS, STAGE, as_knowledge, count_sets
from rcb_bayes.mechanism.margins import MIN_WORLDS
from rcb_bayes.mechanism.notions import USER
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.conduct import Conduct, Offers, Scene
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_amount, as_count
from rcb_bayes.users import Empirical

_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rational:
    r"""Users who follow where they expect to lose at most epsilon, by their own belief and all they know of the clock.

    User x who is recommended arm i at a moment that she cannot tell from others follows where
    :math:`E[m_i - m_j | I = i, x] \ge -\epsilon` against every rival j, and else takes the rival that is best for her.
    That is the constraint of an audit (``notion="user"``), estimated in as many simulated worlds for this very user.

    Parameters
    ----------
    epsilon : float, optional
        What they put up with; the plan's unless given.
    prior : Prior, optional
        What they believe; the market's users' belief unless given.
    knows : str, optional
        What they know of the clock, "stage", "level", "phase" or "mechanism"; what the plan is made for unless given.
    n_worlds : int
        Simulated worlds behind what they expect.
    seed : int
        Of these worlds. The same seed gives the same answer.

    Raises
    ------
    RcbError
        A negative epsilon, unknown knowledge, too few worlds. When it is used: a policy that is no plan, a belief about
        other arms, 0/1 rewards of users who are not a table, more saturated sets than can be told apart.

    Applicability
    -------------
    As in an audit, she reckons with everybody before her having followed. Where she is at -epsilon up to the error of
    the worlds, she follows by chance of the seed: a plan with room left is followed. At a moment that no simulated run
    gets to she follows.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``: those it was made for follow, those who put up with nothing less.

    >>> kinds = [rcb.behaviour.Rational(n_worlds=500), rcb.behaviour.Rational(epsilon=0.0, n_worlds=500)]
    >>> runs = [rcb.simulate(market, plan, horizon=200, n_worlds=3, behaviour=kind, seed=1) for kind in kinds]
    >>> [float(one["followed"].mean()) == 1.0 for one in runs]
    [True, False]
    """

    epsilon: float | None = None
    prior: Prior | None = field(default=None, repr=False)
    knows: str | None = None
    n_worlds: int = 1000
    seed: int = DEFAULT_SEED

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            as_amount(self.epsilon, name="epsilon")
        if self.knows is not None:
            as_knowledge(self.knows)
        as_count(self.n_worlds, name="n_worlds", least=MIN_WORLDS)
        as_count(self.seed, name="seed")

    def check(self, market: Market, plan: Any) -> None:
        """Refuse what no audit could judge."""
        if plan is None:  # one is to be made for them
            return
        if not isinstance(plan, Plan):
            raise RcbError("Rational users reckon with a plan. Give one, or other users (obedient, stubborn, ...).")
        self.own(market)
        knows = as_knowledge(self.knows or plan.knows)
        n = count_sets([[arm] for arm in range(market.n_arms)])
        if plan.knows == STAGE.name and n > MOST_SETS:
            raise RcbError(
                f"A cold start of {market.n_arms} arms has {n:,} possible stages (sets of saturated arms). Rational "
                f"users tell at most {MOST_SETS} apart. Make the plan with knows='level'."
            )
        if not market.noise.is_gaussian and not isinstance(market.covariates, Empirical):
            raise RcbError("Rational users with 0/1 rewards are those of a table: covariates=Empirical(rows).")
        if knows is STAGE and plan.knows != STAGE.name and n > MOST_SETS:
            raise RcbError(f"Rational users tell at most {MOST_SETS} saturated sets apart. Use knows='level', or less.")

    def own(self, market: Market) -> Market:
        """The market as they see it."""
        return market if self.prior is None else replace(market, prior=self.prior, nature=self.prior)

    def prepared(self, scene: Scene) -> Callable[[], Conduct]:
        """What they reckon with at every moment."""
        plan = scene.plan
        assert plan is not None  # checked
        market = self.own(scene.market)
        asked = Asked(
            notion=USER,
            epsilon=plan.epsilon if self.epsilon is None else float(self.epsilon),
            n_worlds=self.n_worlds,
            n_users=1,
            level=0.05,
            seed=self.seed,
            knows=as_knowledge(self.knows or plan.knows),
            alone=True,
        )
        views = views_for_anybody(market, plan, asked, horizon=scene.horizon, options=scene.options)
        users = _Reckoning(views, asked, market.n_arms)
        return lambda: users

    def response(self, market: Market, prior_rewards: Table) -> FloatArray:
        """Users for whom a plan is made follow it, as long as it is made for them, (U, K, K)."""
        if self.epsilon is not None or self.prior is not None or self.knows is not None:
            raise RcbError(
                "A plan for rational users is made for their own epsilon, belief and knowledge: give these to "
                "calibrate (epsilon=, market, knows=), and use behaviour=Rational()."
            )
        u, k = prior_rewards.shape
        return np.broadcast_to(np.eye(k), (u, k, k))


class _Reckoning:
    def __init__(self, views: dict[Hashable, ViewOf], asked: Asked, n_arms: int) -> None:
        self._views, self._asked, self._n_arms = views, asked, n_arms

    def take(self, offers: Offers) -> np.ndarray:
        moment = offers.moment
        view_of = None if moment is None else self._views.get(self._asked.knows.key(moment))
        if view_of is None:
            return offers.arm
        taken = offers.arm.copy()
        step = max(1, _CHUNK_VALUES // (self._asked.n_worlds * self._n_arms))
        for start in range(0, len(offers), step):
            some = slice(start, start + step)
            margins = own_margins(view_of(offers.features[some], slice(None)), self._asked)
            taken[some] = best_reply(margins, offers.arm[some], epsilon=self._asked.epsilon)
        return taken


def best_reply(margins: FloatArray, arm: np.ndarray, *, epsilon: float) -> np.ndarray:
    """What users take, (n,): the arm where its margins, of (n, K, K), are at -epsilon or above, else its best rival."""
    own = margins[np.arange(len(arm)), arm]  # (n, K)
    lowest = np.where(np.isnan(own), np.inf, own)
    return np.where(lowest.min(axis=1) >= -epsilon, arm, lowest.argmin(axis=1))
