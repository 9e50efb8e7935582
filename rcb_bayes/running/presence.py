r"""Arms that are not there: for one user, for a time, or for good.

A plan's probabilities are those of all arms. What an arm that is not there would have had goes to the best of those
that are, by what the platform expects now; so does what an arm would have had beyond being the best that came without
the samples the plan gives it. With i, j two arms that are there, recommending i leaves

.. math:: H'_{ij} = H_{ij} + E[\text{mass moved to } i\; (m_i - m_j + \epsilon)] \ge H_{ij},

since mass moves to i only where :math:`m_i \ge m_j`: probabilities that users follow are still followed, among the arms
that are there. An explored round whose arm is not there is an organic one, and does not count. An arm that has left is
closed to promotion as a saturated one is, so that stages go on.

**The law of the samples.** H is an average over S, and whatever decides which arms are there decides who is sampled:
once arms were missing, a plan's rates and guards are those of another law, and may promise what users lose tenfold. No
law of availability is known, and none is needed: given whom the samples D of a stage are of, their rewards have the law
of the belief, so that

.. math:: H_{ij}(x) = E_D\big[\, q(x, D)\, e_{ij} + (1 - q(x, D))\, o_{ij}(D) \big] \ge 0
          \quad\text{if}\quad q(x, D)\, e_{ij} + (1 - q(x, D))\, o_{ij}(D) \ge 0 \text{ for every } D,

with e and o of ``mechanism.rates``. ``GivenSamples`` has such rates: in closed form where the belief is Gaussian with
independent arms, else from worlds in which these very users are sampled. They take the place of the plan's from then
on, stage by stage, whatever users know of the clock; and exploitation heeds users (``running.heeding``), whose margins
then hold given any data.

What that needs: which arms are there does not depend on rewards beyond what users know (an arm that is withdrawn
because it did badly tells them so). And the rounds before the first arm was missing went by the plan's law: of a run
that is told from the start that arms may be missing there are none; else which arms are there must not depend on who
the user is, for runs in which none was missing *so far* are then a choice among those who came.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from rcb_bayes.errors import MovesWarning, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.decisions import EXPLOIT, ORGANIC, Decisions
from rcb_bayes.mechanism.engines import Engines, make_engines
from rcb_bayes.mechanism.outlook import LinearOutlook, Outlook, TableOutlook
from rcb_bayes.mechanism.panel import Panel, make_panel, panel_of
from rcb_bayes.mechanism.rates import explored_terms, largest_rate, user_rates
from rcb_bayes.mechanism.regions import explored_at
from rcb_bayes.mechanism.simulator import untouched_arms
from rcb_bayes.mechanism.smoothing import settled_best
from rcb_bayes.mechanism.worlds import Design, data_of_designs, draw_rewards, draw_worlds, noise_sd
from rcb_bayes.planning.plan import Plan
from rcb_bayes.posterior.data import Data, unchecked_statistics
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.running.history import History
from rcb_bayes.schema import BoolArray, FloatArray, position_of

_ROOM = 0.95  # of the largest rate: at that itself users sit at -epsilon, and rounding decides
_ERRORS = 3.0  # Monte Carlo errors by which what is hidden in organic rounds is lowered, where it is simulated
_N_WORLDS = 2000
_N_USERS = 512  # who stand for the population


def as_present(available: object, arms: Sequence[str], gone: frozenset[int]) -> BoolArray:
    """Which arms are there for a user, (K,): those that have not left and, if told, are ``available`` to her.

    Raises
    ------
    RcbError
        Labels that are no arms, or nothing left.
    """
    present = np.array([arm not in gone for arm in range(len(arms))])
    if available is not None:
        names = [available] if isinstance(available, str) else [str(name) for name in available]  # type: ignore[union-attr]
        told = {position_of(name, arms) for name in names}
        present &= np.array([arm in told for arm in range(len(arms))])
    if not present.any():
        raise RcbError("No arm is left for this user: those that are available have all left. Name others.")
    return present


def confined(decisions: Decisions, present: BoolArray, sampled: BoolArray) -> Decisions:
    """The same recommendations where some arms are not there, or came without their samples, (K,) each."""
    scores = np.where(present[:, None], decisions.scores, -np.inf)
    best = scores.argmax(axis=0)  # (n,)
    columns = np.arange(len(best))
    keeps = np.tile((present & sampled)[:, None], len(best))
    keeps[best, columns] = True
    probabilities = np.where(keeps, decisions.probabilities, 0.0)
    probabilities[best, columns] += np.where(keeps, 0.0, decisions.probabilities).sum(axis=0)
    moved = ~keeps[decisions.arm, columns]
    in_cold_start = decisions.stage != EXPLOIT
    return replace(
        decisions,
        arm=np.where(moved, best, decisions.arm),
        stage=np.where(moved & in_cold_start, ORGANIC, decisions.stage).astype(decisions.stage.dtype),
        counted=decisions.counted & ~(moved & in_cold_start),
        probabilities=probabilities,
    )


# --- rates that users follow, whoever the samples are of -------------------------------------------------------------


def promises(plan: Plan) -> bool:
    """Whether a plan's promise can be kept where arms are missing: one that is made from a goal, for users alike."""
    return plan.kind == "sampled" and plan.types is None


@lru_cache(maxsize=8)
def _engines(market: Market) -> Engines:
    """Compiled once, for all stages and worlds of a market."""
    return make_engines(market, seed=0)


class GivenSamples:
    """The rates of a stage of the cold start, given whom its samples are of.

    Parameters
    ----------
    plan : by features; for what users put up with, in which sense, and for whom arms are explored
    history : samples of all arms
    saturated, closed : positions of arms with their samples, and of those that are not promoted any more
    gone : positions of arms that are not there
    """

    def __init__(
        self,
        market: Market,
        plan: Plan,
        history: History,
        saturated: tuple[int, ...],
        closed: tuple[int, ...],
        gone: frozenset[int],
    ) -> None:
        self.market, self.plan = market, plan
        self._open = plan.agenda.open_arms(closed)
        self._there = [arm for arm in range(market.n_arms) if arm not in gone]
        panel = make_panel(market, n_users=_N_USERS, rng=np.random.default_rng(plan.seed)).under(plan.agenda.regions)
        self._law = _mean_law(market, history, saturated)
        self._outlook = None
        if self._law is None:
            self._outlook = _outlook(market, history, saturated, panel=panel, there=self._there, seed=plan.seed)
        found = self._of(panel)
        self._least = float(found.min())
        if not found.any():
            told = (
                "No user would be explored with the samples that there are: the cold start stands still, with organic "
                "rounds for all. Let users find all arms for a while, or plan anew for a larger epsilon."
            )
            warnings.warn(told, MovesWarning, stacklevel=2)

    def rates(self, users: FloatArray) -> FloatArray:
        """How often users (U, d) are explored, (U,); of a plan with one rate for all, no user more than another."""
        if self.plan.personalised:
            return self._of(panel_of(self.market, users).under(self.plan.agenda.regions))
        least = np.full(len(users), min(self._least, self.plan.exploration_rate))
        if isinstance(self._outlook, TableOutlook):
            return least
        return np.minimum(least, self._of(panel_of(self.market, users)))

    def _of(self, panel: Panel) -> FloatArray:
        """The largest rates that users follow, with some room, (P,)."""
        promoted = promotion_shares(panel.promoted_by, self._open)
        asked = explored_at(promoted, panel.admitted)
        prior_rewards, promoted = panel.prior_rewards[:, self._there], promoted[:, self._there]
        sense = {"epsilon": self.plan.epsilon, "notion": self.plan.goal.sense.by_user}
        if self._outlook is not None:
            terms = {"prior_rewards": prior_rewards, "promoted": promoted, "slack": _ERRORS / np.sqrt(_N_WORLDS)}
            found = user_rates(self._outlook, panel.users, **terms, **sense, asked=asked)
            return np.where(found.is_free, found.rate, _ROOM * found.rate)
        assert self._law is not None  # one of the two is there
        best = settled_best(prior_rewards, self._law.variances(panel.users)[self._there])
        shares, rewards = best.shares[:, :, 0].T, best.rewards[:, :, 0].T
        explored = explored_terms(prior_rewards, promoted, **sense)
        lead = prior_rewards[:, :, None] - rewards[:, None, :]
        organic = sense["notion"].linear_form(shares[:, :, None], lead, sense["epsilon"])
        rate = np.where(explored < 0.0, _ROOM * largest_rate(explored, organic), 1.0).min(axis=(1, 2))
        return rate if asked is None else rate * asked


def _mean_law(market: Market, history: History, saturated: tuple[int, ...]) -> MeanLaw | None:
    """The law of posterior means given who was sampled, where an arm without samples stays at its prior mean."""
    belief, sigma = market.prior.law, getattr(market.noise, "sigma", None)
    if belief is None or sigma is None or not belief.is_gaussian or market.platform_prior is not market.prior:
        return None
    grams = history.sums().of_arms(saturated).xtx
    law = MeanLaw(belief=belief, grams=grams, sigma=float(sigma), overlap=lambda: 0.0)
    return None if law.is_coupled else law


def _outlook(
    market: Market, history: History, saturated: tuple[int, ...], *, panel: Panel, there: list[int], seed: int
) -> Outlook:
    """What is expected of the arms that are there, in worlds of the users' belief in which these users are sampled."""
    data = _data(market, history, saturated, rng=np.random.default_rng(seed))
    is_linear, engines = market.noise.is_gaussian, _engines(market)
    before = (panel.prior_rewards, panel.promoted_by)
    tables = []
    for k, (engine, prior) in enumerate(zip(engines.all, (market.prior, market.platform_prior), strict=False)):
        batch = engine.fit(data, users=None if is_linear else panel.users)
        values = (batch.mean if batch.reward is None else batch.reward.swapaxes(1, 2)).copy()  # (W, K, d or P)
        same = untouched_arms(prior, saturated)  # ties must stay ties
        values[:, same] = (prior.mean.values if is_linear else before[k].T)[same]
        tables.append(values[:, there])
    if is_linear:
        return LinearOutlook(*tables)
    return TableOutlook(panel.users, *(values.swapaxes(1, 2) for values in tables))


def _data(market: Market, history: History, saturated: tuple[int, ...], *, rng: np.random.Generator) -> Data:
    """Rewards drawn anew of the users whom saturated arms were sampled of."""
    worlds = draw_worlds(market.prior, _N_WORLDS, rng=rng)
    if not market.noise.is_gaussian:
        rows, every = history.as_rows(saturated), np.arange(_N_WORLDS)
        own = {arm: rows.x[0][rows.arm[0] == arm] for arm in saturated}
        designs = {arm: Design(every, np.broadcast_to(x, (_N_WORLDS, *x.shape))) for arm, x in own.items()}
        return data_of_designs(worlds, market, designs, rng=rng)
    sums, sigma = history.sums().of_arms(saturated), noise_sd(worlds, market.noise)
    xtx, xty, yty, n = (np.repeat(part, _N_WORLDS, axis=0) for part in (sums.xtx, sums.xty, sums.yty, sums.n))
    for arm in saturated:
        drawn = draw_rewards(xtx[:, arm], worlds.beta[:, arm], sigma, n=int(n[0, arm]), rng=rng)
        xty[:, arm], yty[:, arm] = drawn
    return unchecked_statistics(xtx, xty, yty, n)
