r"""Rates at each stage of a cold start: the largest that users follow, by the law of the data that the walk gives.

Stages are taken in the order in which arms fill up. At each of them, the posterior means in simulated worlds give every
user's rate; the rates then say how the walk goes on. A stage is what users can tell apart: a saturated set, or the
number of saturated arms (``level_planner``).

A rate is the largest whose *predicted simultaneous audit bound* clears -epsilon. An audit of W_a worlds subtracts
c standard errors (c its critical value), and its estimate differs from the one here, of W worlds, by another c errors
at most, so that the slack is :math:`c (W_a^{-1/2} + (W_a^{-1} + W^{-1})^{1/2})` standard deviations over worlds.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.estimation import best_gap
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.choice import TIE, best_shares, promotion_shares
from rcb_bayes.mechanism.knowledge import MOST_SETS, STAGE
from rcb_bayes.mechanism.level_rates import LevelRates
from rcb_bayes.mechanism.margins import N_BOOT, critical_value
from rcb_bayes.mechanism.outlook import LinearOutlook, Outlook, arms_first, organic_shares, own_linear_rewards
from rcb_bayes.mechanism.panel import Panel, panel_of
from rcb_bayes.mechanism.promotion import Sets
from rcb_bayes.mechanism.rates import (
    UserRates,
    binding_terms,
    crowd_rate,
    explored_terms,
    first_rates,
    is_free,
    largest_rate,
    organic_rounds,
    organic_terms,
    subset,
    user_rates,
)
from rcb_bayes.mechanism.regions import explored_at
from rcb_bayes.mechanism.search import worst_users
from rcb_bayes.mechanism.simulator import ColdStarts, Key, Simulator
from rcb_bayes.mechanism.smoothing import spread_of
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.mechanism.walk import Walk, arms_of
from rcb_bayes.planning.goal import MOST_NAMED, PlanRequest
from rcb_bayes.schema import FloatArray

LEVEL = 0.01  # of the bands at each stage
_SHARP_LEVEL = 0.001  # of bands in closed form: an audit's have half of the level of one of all its stages and epochs
_FIRST_WORLDS = 250  # for rates in closed form; doubled until they are
_PAID = 0.97  # of what so many worlds would allow that a plan's own leave no error
_COUNTLESS = 10**12
_UNSEEN = 3.0  # errors of a spread: the worlds of an audit may show more of what is rare
_QUANTILE_ERROR = np.sqrt((1.0 - LEVEL) / (LEVEL * N_BOOT))  # of a critical value, times that value: tails are normal
LEAST_RATE = 1e-4  # of users on average, below which a stage takes too long to be one of a plan
_LEAST_SHARE = 0.001  # of cold starts that pass a stage, for it to be planned
MAX_STAGES = MOST_SETS
CRITICAL_USERS = 256
_USERS_PER_WORLD = 16
_FEW_WORLDS = 50
_FOUND = 0.9999  # of the least rate that a search finds, for what it leaves to find


@dataclass(slots=True, kw_only=True, eq=False)
class StageRates:
    """What one stage allows: a saturated set, or all sets of a size.

    Attributes
    ----------
    saturated : the arms of the set; of a level, none
    level : how many arms are saturated
    key : what tells its random numbers from those of other stages
    sets : of a level, the saturated arms of each of its worlds
    promoted : the chance that each arm is promoted to the users of the panel, (P, K)
    share : of cold starts that pass the stage
    rates : the rate of every user of the panel, (P,): one for all unless personalised
    rate, rate_mcse : their average; for a uniform plan the rate that the stage allows
    is_free : which users need no subsidy, (P,)
    outlook, slack : what rates of other users are computed from; None where all users are free
    ideal : the average rate, or of one rate for all the least, by the point estimates: what more worlds would allow
    worlds_needed : worlds, of the plan and of its audit, from which on a rate above 0 could be certified
    worst : of one rate for all, the users who bind it, looked for within the support, (n, d)
    gap : tau and rho of the arm with the least tau rho, with errors: (tau, tau_mcse, rho, rho_mcse)
    organic : how often each arm is recommended in an organic round, (P, K)
    organic_value : what an organic round gives each user, (P,), and its average over users not explored, with error
    found : of a level with rates of each user's own, these by promoted arm
    """

    saturated: tuple[int, ...]
    level: int
    key: Key
    promoted: FloatArray
    share: float
    rates: FloatArray
    rate: float
    rate_mcse: float
    is_free: np.ndarray
    ideal: float = 1.0
    worlds_needed: float = 0.0
    outlook: Outlook | None = None
    slack: float = 0.0
    worst: FloatArray | None = None
    own: "OwnUsers | None" = None
    gap: tuple[float, float, float, float] | None = None
    organic: FloatArray | None = None
    organic_value: FloatArray | None = None
    organic_error: float = 0.0
    sets: Sets | None = None
    found: LevelRates | None = None

    @property
    def by_arm(self) -> FloatArray:
        """Rates of the panel's users at a level, by promoted arm, (P, K)."""
        return np.ones(self.promoted.shape) if self.found is None else self.found.by_arm

    def promoted_to(self, users: Panel, *, agenda: Agenda) -> FloatArray:
        """The chance that each arm is promoted to users, of the panel or not, (U, K)."""
        if self.sets is None:
            return promotion_shares(users.promoted_by, agenda.open_arms(self.saturated))
        weights = None if self.outlook is None else self.outlook.weights
        return self.sets.usually_promoted(users.promoted_by, weights)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnUsers:
    """What users of each world's own expect, and what the platform does, (K, u, W): errors then cover the users too."""

    rewards: FloatArray
    acted_on: FloatArray


class RatePlanner:
    """The rates of set after set, and what levels have in common with sets.

    Attributes
    ----------
    agenda : samples of each arm, and which arms may be promoted when
    stages : what each planned stage allows, by the code of its set, or by the level
    first : how often the panel's users are sampled while no arm is saturated, (P,), or all of them
    """

    def __init__(
        self,
        market: Market,
        settings: PlanRequest,
        *,
        simulator: Simulator | None = None,
    ) -> None:
        if settings.knows == STAGE.name and market.n_arms > MOST_NAMED:
            raise RcbError(
                f"Saturated sets are planned one by one for at most {MOST_NAMED} arms, got {market.n_arms}. "
                "Use knows='level', or plan for fewer arms at a time."
            )
        self.market = market
        self.settings = settings
        self.agenda: Agenda = as_agenda(settings.n_per_arm, market.n_arms)
        if self.agenda.regions is not None and not settings.personalised:
            raise RcbError("Arms are explored among some users only with a rate for each. Use personalised=True.")
        simulator = simulator or Simulator(market, engine=settings.engine, seed=settings.seed)
        self.simulator = simulator.under(self.agenda)
        self.panel = self.simulator.panel
        self.first = first_rates(
            self.agenda,
            self.panel.prior_rewards,
            self.panel.promoted_by,
            epsilon=settings.epsilon,
            notion=settings.sense,
            admitted=self.panel.admitted,
        )
        self.stages: dict[int, StageRates] = {}
        if not self.agenda.first_level and not np.any(self.first):
            raise RcbError(
                "Nobody can be sampled first: every user's favourite is an arm that is not explored, and any other "
                "costs her more than epsilon. Ask for samples of that arm, or allow a larger epsilon."
            )
        if settings.personalised and not market.noise.is_gaussian and not self.panel.is_exact:
            raise RcbError(
                "With Bernoulli rewards a rate of each user's own is known for the rows of a table only. "
                "Use covariates=Empirical(rows), or personalised=False."
            )

    def walked(self) -> ColdStarts:
        """The cold start to its end."""
        return self.simulator.walk(self.rates_at, n_per_arm=self.agenda, first=self.first)

    def rates_at(self, so_far: Walk, code: int, members: np.ndarray) -> FloatArray | float:
        """The rates of the panel's users at a set: planned, or, at a rare set, 1 for those who need no subsidy."""
        arms = arms_of(code)
        is_rare = len(members) < _LEAST_SHARE * so_far.n_paths or len(self.stages) >= MAX_STAGES
        wanted = self._is_wanted(len(arms))
        promoted = promotion_shares(self.panel.promoted_by, self.agenda.open_arms(arms))
        share = len(members) / so_far.n_paths
        stage = self._new(promoted, level=len(arms), share=share, key=(code,), saturated=arms)
        if is_rare and not wanted:
            return stage.is_free.astype(float)
        self.stages[code] = stage
        if self._needs_worlds(stage):
            chosen = self.simulator.paths_of_worlds(members, n_worlds=self.settings.n_worlds, key=stage.key)
            overlap = partial(so_far.overlap, members, arms)
            stage.outlook = self.simulator.outlook(so_far, chosen, level=stage.level, key=stage.key, overlap=overlap)
            self._enter_figures(stage, so_far.saturated(stage.level, chosen))
            if not stage.is_free.all():
                (self._rates_of_each if self.settings.sense.is_per_user else self._rate_of_all)(stage)
            self._forget_own(stage)
        return stage.rates if self.settings.personalised else 1.0

    def _new(
        self, promoted: FloatArray, *, level: int, share: float, key: Key, saturated: tuple[int, ...] = ()
    ) -> StageRates:
        """A stage at which nothing has been computed yet."""
        return StageRates(
            saturated=saturated,
            level=level,
            key=key,
            promoted=promoted,
            share=share,
            rates=np.ones(self.panel.n_users),
            rate=1.0,
            rate_mcse=0.0,
            is_free=self._is_free(promoted),
        )

    def _is_free(self, promoted: FloatArray) -> np.ndarray:
        """Which users lose at most epsilon by any arm that may be promoted to them, and are to be explored, (P,)."""
        s = self.settings
        free = is_free(self.panel.prior_rewards, promoted, epsilon=s.epsilon, notion=s.sense)
        asked = explored_at(promoted, self.panel.admitted)
        return free if asked is None else free & asked

    def _is_wanted(self, level: int) -> bool:
        """Whether the figures of a stage are wanted whoever is free: tau and rho, from the last if from no other."""
        return level == self.agenda.n_levels - 1 and all(stage.gap is None for stage in self.stages.values())

    def _needs_worlds(self, stage: StageRates) -> bool:
        """Whether a stage has to be simulated: one at which all users are free only where its figures are wanted."""
        return not (stage.is_free.all() and self.settings.personalised) or self._is_wanted(stage.level)

    def _enter_figures(self, stage: StageRates, saturated: np.ndarray) -> None:
        """Enter what is told of a stage with an outlook, whose worlds have these arms saturated, (W, K)."""
        assert stage.outlook is not None  # asked for where it is
        stage.own = self._own_users(stage.outlook, stage.key)
        stage.gap = _gap_of(stage.own.rewards, saturated, self.agenda.open(saturated))
        if not self.settings.personalised:  # one rate leaves organic rounds to everybody
            self._note_organic(stage, stage.outlook, np.arange(self.panel.n_users), self.panel.weights)
        if stage.is_free.all() and self.simulator.engines.platform is None:
            stage.outlook = None

    def _forget_own(self, stage: StageRates) -> None:
        """Drop users of worlds' own, as large as all else, where no average over users will be asked for again."""
        if self.settings.sense.is_per_user:
            stage.own = None

    def _own_users(self, outlook: Outlook, key: Key) -> OwnUsers:
        """What users of each world's own expect; with rewards that are not linear they are drawn from the panel."""
        n, rng = outlook.n_worlds, self.simulator.rng(Stream.USERS_OF_WORLDS, *key)
        if isinstance(outlook, LinearOutlook):
            users = self.market.population.sample(n * _USERS_PER_WORLD, seed=rng).reshape(n, _USERS_PER_WORLD, -1)
            expected = [own_linear_rewards(users, means) for means in outlook.tables]
        else:
            some = rng.choice(self.panel.n_users, size=(n, _USERS_PER_WORLD), p=self.panel.weights)
            expected = [arms_first(table[np.arange(n)[:, None], some]) for table in outlook.tables]
        return OwnUsers(rewards=expected[0], acted_on=expected[-1])

    # --- rates ---

    def _rates_of_each(self, stage: StageRates) -> None:
        panel, s = self.panel, self.settings
        assert stage.outlook is not None  # not all users are free
        bound = np.flatnonzero(~stage.is_free)
        whole = stage.outlook
        critical = self._critical(stage, bound)
        everyone = self.rates_of(stage.outlook, panel, promoted=stage.promoted, slack=stage.slack)
        stage.rates = everyone.rate
        if not s.personalised:
            self._one_rate(stage, critical)
            return
        found = subset(everyone, bound)
        terms = self._terms_of(stage, panel.take(bound), found)
        self._note_organic(stage, whole, bound, panel.weights[bound] * (1.0 - found.rate))
        stage.rate, of_users = panel.mean(everyone.rate)
        if stage.rate < LEAST_RATE * (1.0 - TIE):
            self._close(stage)
        stage.ideal = panel.mean(everyone.ideal)[0]
        stage.worlds_needed = float(_worlds_needed(found, critical).min())
        slope = _slope(found.gain - stage.slack * found.spread, found.loss)
        # What is lowered by the spread moves with it: an event more raises both. And the slack is a quantile of few.
        law = stage.outlook.law if isinstance(stage.outlook, LinearOutlook) else None
        reach = np.sqrt(1.0 / len(terms) + (0.0 if law is None else law.overlap()))
        weights = panel.weights[bound] * slope
        square = np.square(terms - found.gain) / np.maximum(2.0 * found.spread, TIE)
        of_worlds = ((terms - stage.slack * square) @ weights).std(ddof=1) * reach
        of_slack = 0.0
        if law is None:
            of_slack = _QUANTILE_ERROR / critical**2 * stage.slack * float(weights @ found.spread)
        stage.rate_mcse = float(np.sqrt(of_users**2 + of_worlds**2 + of_slack**2))

    def _close(self, stage: StageRates) -> None:
        """Leave out a stage that would take too long, but for users who need no subsidy."""
        stage.rates = stage.is_free.astype(float)
        stage.rate = self.panel.mean(stage.rates)[0]

    def _critical(self, stage: StageRates, bound: np.ndarray) -> float:
        """The critical value of a set's bands, from some of the users who are bound and are to be explored.

        It comes with the slack, and, where the law of posterior means is known, with as few worlds as will do.
        """
        panel = self.panel
        asked = explored_at(stage.promoted, panel.admitted)
        bound = bound if asked is None else bound[asked[bound]]
        some = self.simulator.rng(Stream.CRITICAL_USERS, *stage.key).permutation(bound)[:CRITICAL_USERS]
        if isinstance(stage.outlook, LinearOutlook) and stage.outlook.law is not None:
            return self._settle_worlds(stage, stage.outlook, some)
        assert stage.outlook is not None  # not all users are free
        if not len(some):
            critical = _critical_of(self.market.n_arms**2)
        else:
            users = panel.take(some)
            first = self.rates_of(stage.outlook, users, promoted=stage.promoted[some], slack=0.0)
            critical = critical_value(self._terms_of(stage, users, first), level=LEVEL, seed=self.settings.seed)
        stage.slack = self._slack(critical)
        return critical

    def _settle_worlds(self, stage: StageRates, outlook: LinearOutlook, some: np.ndarray) -> float:
        """Take as few worlds as will do, where these differ by who was sampled only, and as much slack as that takes.

        Such cells are judged by Bonferroni's bands, and what all of them have in common is the overlap of designs. Few
        designs may be poor ones, which make the spread: that is taken from all worlds, and with its own error.
        """
        assert outlook.law is not None  # asked for where it is
        critical = _critical_of(max(len(some), 1) * self.market.n_arms**2, level=_SHARP_LEVEL)
        overlap, n = outlook.law.overlap(), min(_FIRST_WORLDS, outlook.n_worlds)
        stage.outlook = outlook.in_worlds(slice(0, n))
        stage.slack = self._slack(critical, n_worlds=n, overlap=overlap)
        if not len(some):
            return critical
        users, promoted = self.panel.take(some), stage.promoted[some]
        found = self.rates_of(stage.outlook, users, promoted=promoted, slack=0.0)
        stage.outlook = outlook
        terms = self._terms_of(stage, users, found)  # (W, u)
        spread = spread_of(terms.T) * (1.0 + _UNSEEN * _error_of_spread(terms, n_worlds=self.settings.audit_worlds))
        while True:
            gain, own = terms[:n].mean(axis=0), spread_of(terms[:n].T)
            more = np.divide(spread, own, out=np.ones(len(own)), where=own > 0.0).max(initial=1.0)
            slack, least = (
                more * self._slack(critical, n_worlds=worlds, overlap=overlap) for worlds in (n, _COUNTLESS)
            )
            rates, most = (largest_rate(-found.loss, gain - room * own).sum() for room in (slack, least))
            if rates >= _PAID * most or n == outlook.n_worlds:
                stage.outlook, stage.slack = outlook.in_worlds(slice(0, n)), slack
                return critical
            n = min(2 * n, outlook.n_worlds)

    def _terms_of(self, stage: StageRates, users: Panel, rates: UserRates) -> FloatArray:
        """The organic terms of the pair that binds for each of users who are not free, world by world, (W, U)."""
        assert stage.outlook is not None  # not all users are free
        sense = {"epsilon": self.settings.epsilon, "notion": self.settings.sense}
        return binding_terms(stage.outlook, users.users, rates, prior_rewards=users.prior_rewards, **sense)

    def _one_rate(self, stage: StageRates, critical: float) -> None:
        """One rate for all: the least, over the panel and over users looked for from its worst ones on."""
        outlook = stage.outlook
        assert outlook is not None  # not all users are free

        def found_for(users: FloatArray) -> UserRates:
            panel = panel_of(self.market, users)
            promoted = stage.promoted_to(panel, agenda=self.agenda)
            return self.rates_of(outlook, panel, promoted=promoted, slack=stage.slack)

        if isinstance(outlook, LinearOutlook):
            stage.worst = worst_users(
                lambda users: found_for(users).rate,
                self.market.population,
                self.panel,
                rng=self.simulator.rng(Stream.LEAST_RATE, *stage.key),
                thorough=4,
            )[0]
        else:
            stage.worst = self.panel.users[np.argsort(stage.rates, kind="stable")[:1]]
        found = found_for(stage.worst)
        least = int(found.rate.argmin())
        worst = subset(found, np.array([least]))
        stage.rate = float(worst.rate[0]) * (1.0 if self.panel.is_exact or worst.is_free[0] else _FOUND)
        stage.ideal = float(found.ideal.min())
        stage.worlds_needed = float(_worlds_needed(found, critical).max())
        if not worst.is_free[0]:
            terms = self._terms_of(stage, panel_of(self.market, stage.worst[[least]]), worst)
            slope = _slope(worst.gain - stage.slack * worst.spread, worst.loss)
            stage.rate_mcse = float(slope[0] * terms[:, 0].std(ddof=1) / np.sqrt(len(terms)))

    def _rate_of_all(self, stage: StageRates) -> None:
        """On average over users, so that one rate serves all."""
        stage.rate, stage.rate_mcse = self.rate_of_all(stage, epsilon=self.settings.epsilon)
        stage.rates = np.full(self.panel.n_users, stage.rate)
        explored, _, organic, _ = self._crowd_terms(stage, epsilon=self.settings.epsilon)
        stage.ideal = float(largest_rate(explored, organic.mean(axis=0)).min())
        binds = explored < 0.0
        gain, spread = organic.mean(axis=0)[binds], organic.std(axis=0, ddof=1)[binds]
        stage.worlds_needed = float(certifying(gain, spread, _critical_of(len(explored))).max(initial=0.0))

    def rate_of_all(self, stage: StageRates, *, epsilon: float) -> tuple[float, float]:
        """The largest rate by a notion that averages over users, and its error."""
        explored, error, organic, user_error = self._crowd_terms(stage, epsilon=epsilon)
        critical = _critical_of(len(explored))
        slack = self._slack(critical)
        rate, cell = crowd_rate(explored, error, organic, organic_error=user_error, critical=critical, slack=slack)
        if rate == 1.0:
            return 1.0, 0.0
        spread = organic[:, cell].std(ddof=1)
        slope = _slope(np.atleast_1d(organic[:, cell].mean() - slack * spread), np.atleast_1d(-explored[cell]))
        return rate, float(slope[0] * spread / np.sqrt(len(organic)))

    def _crowd_terms(self, stage: StageRates, *, epsilon: float) -> tuple[FloatArray, ...]:
        """On average over users, of every promoted arm and rival: e and its error over users, o world by world.

        Last is the error that an audit's own users leave in o.
        """
        assert stage.own is not None  # not all users are free
        notion = self.settings.sense
        sets = np.zeros((1, self.market.n_arms), dtype=bool) if stage.sets is None else stage.sets.saturated
        if stage.sets is None:
            sets[0, list(stage.saturated)] = True
        still_open = np.flatnonzero(self.agenda.open(sets).any(axis=0)).tolist()
        pairs = [(i, j) for i in still_open for j in range(self.market.n_arms) if i != j]
        panel = self.simulator.many_users
        promoted = stage.promoted_to(panel, agenda=self.agenda)
        terms = explored_terms(panel.prior_rewards, promoted, epsilon=epsilon, notion=notion)
        means = [panel.mean(terms[:, i, j]) for i, j in pairs]
        shares = best_shares(stage.own.acted_on, axis=0)
        if stage.outlook is not None and stage.outlook.weights is not None:
            shares = shares * stage.outlook.weights
        organic = [
            organic_terms(stage.own.rewards, shares, arm=i, rival=j, epsilon=epsilon, notion=notion).mean(axis=0)
            for i, j in pairs
        ]  # (W,) each
        explored, error = (np.array(column) for column in zip(*means, strict=True))
        return explored, error, np.stack(organic, axis=1), self._user_error(stage, pairs, epsilon=epsilon)

    def _user_error(self, stage: StageRates, pairs: list[tuple[int, int]], *, epsilon: float) -> FloatArray:
        """Error that the users of an audit's panel leave in o, (cells,): none where the panel is everybody."""
        if self.panel.is_exact:
            return np.zeros(len(pairs))
        assert stage.outlook is not None  # not all users are free
        users = self.panel.users[
            self.panel.some(CRITICAL_USERS, rng=self.simulator.rng(Stream.USER_ERROR, *stage.key))[0]
        ]
        rewards, shares = stage.outlook.rewards(users), organic_shares(stage.outlook, users)
        means = [
            organic_terms(rewards, shares, arm=i, rival=j, epsilon=epsilon, notion=self.settings.sense).mean(axis=1)
            for i, j in pairs
        ]  # (users,) each
        return np.array([part.std(ddof=1) for part in means]) / np.sqrt(self.panel.n_users)

    def _note_organic(self, stage: StageRates, outlook: Outlook, some: np.ndarray, left: FloatArray) -> None:
        """Enter what organic rounds give some users, ``left`` being their weights."""
        shares, values = organic_rounds(outlook, self.panel.users[some])
        stage.organic = np.zeros((self.panel.n_users, self.market.n_arms))
        stage.organic[some] = shares
        stage.organic_value = np.zeros(self.panel.n_users)
        stage.organic_value[some] = values.mean(axis=0)
        stage.organic_error = float((values @ left).std(ddof=1) / np.sqrt(len(values)))

    def rates_of(
        self, outlook: Outlook, users: Panel, *, promoted: FloatArray, slack: float, epsilon: float | None = None
    ) -> UserRates:
        """Rates of users, of the panel or not, to whom arms are promoted with these chances, (U, K)."""
        return user_rates(
            outlook,
            users.users,
            prior_rewards=users.prior_rewards,
            promoted=promoted,
            epsilon=self.settings.epsilon if epsilon is None else epsilon,
            notion=self.settings.sense,
            slack=slack,
            asked=explored_at(promoted, users.admitted),
        )

    def _slack(self, critical: float, *, n_worlds: int | None = None, overlap: float = 0.0) -> float:
        """Standard deviations to leave; ``overlap`` is how much of the worlds' spread stays in their average."""
        fresh, ours = (1.0 / n + overlap for n in (self.settings.audit_worlds, n_worlds or self.settings.n_worlds))
        return critical * (np.sqrt(fresh) + np.sqrt(fresh + ours))


def _gap_of(
    rewards: FloatArray, saturated: np.ndarray, is_open: np.ndarray
) -> tuple[float, float, float, float] | None:
    """tau and rho of the open arm with the least tau rho, with errors, from rewards (K, u, W) and sets (W, K).

    An arm counts in the worlds in which it may be promoted, where these are not a few; None where no arm does.
    """
    n_arms, _, n_worlds = rewards.shape
    best_known = np.where(saturated.T[:, None], rewards, -np.inf).max(axis=0)
    usual = [arm for arm in range(n_arms) if is_open[:, arm].sum() >= min(_FEW_WORLDS, n_worlds)]
    if not usual:
        return None
    if saturated.min(axis=0).tolist() == saturated.max(axis=0).tolist():
        return best_gap(rewards[usual] - best_known)
    found = [best_gap((rewards[arm] - best_known)[None, :, is_open[:, arm]]) for arm in usual]
    return min(found, key=lambda gap: gap[0] * gap[2])


def _critical_of(n_cells: int, *, level: float = LEVEL) -> float:
    """Bonferroni's critical value of so many cells at a stage."""
    from scipy.special import ndtri

    return float(ndtri(1.0 - level / n_cells))


def _error_of_spread(terms: FloatArray, *, n_worlds: int) -> FloatArray:
    """The error, relative to it, of a standard deviation over so many worlds, from terms (W, U): by their kurtosis."""
    spread = spread_of(terms.T)
    apart = np.divide(terms - terms.mean(axis=0), spread, out=np.zeros(terms.shape), where=spread > 0.0)
    kurtosis = np.maximum((apart**4).mean(axis=0), 1.0)
    return np.sqrt((kurtosis - 1.0) / (4.0 * min(n_worlds, len(terms))))


def _worlds_needed(rates: UserRates, critical: float) -> FloatArray:
    """Worlds from which on each user's rate is above 0, (U,); infinite where no world seen has a gain for her."""
    return np.where(rates.is_free, 0.0, certifying(rates.gain, rates.spread, critical))


def certifying(gain: FloatArray, spread: FloatArray, critical: float) -> FloatArray:
    """Worlds W, of plan and audit alike, at which gain = slack x spread: see the slack of the module's docstring."""
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = (critical * (1.0 + np.sqrt(2.0)) * spread / gain) ** 2
    return np.where(gain > 0.0, needed, np.inf)


def _slope(organic: FloatArray, loss: FloatArray) -> FloatArray:
    """How fast a rate o / (o + loss) moves with o; zero where the rate is."""
    usable = np.maximum(organic, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(usable > 0.0, loss / (usable + loss) ** 2, 0.0)
