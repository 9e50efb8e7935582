r"""A cold start simulated stage by stage, with the rates that each stage allows.

The law of the data is the mechanism's, not the population's: an arm is sampled where it was promoted, weighted by the
exploration rates of the stages before. So stages are taken in the order in which arms fill up. At each saturated set
that cold starts reach, worlds are drawn from the users' belief, the saturated arms' designs from the paths that lead
there, and the posterior means give every user's rate; the rates then say how paths go on.

A rate is the largest whose *predicted simultaneous audit bound* clears -epsilon. An audit of W_a worlds subtracts
c standard errors (c its critical value), and its estimate differs from the one here, of W worlds, by another c errors
at most, so that the slack is :math:`c (W_a^{-1/2} + (W_a^{-1} + W^{-1})^{1/2})` standard deviations over worlds.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.estimation import best_gap
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.margins import Notion, critical_value
from rcb_bayes.mechanism.panel import Panel, expected_rewards, make_panel
from rcb_bayes.mechanism.rates import (
    LinearOutlook,
    Outlook,
    TableOutlook,
    UserRates,
    binding_terms,
    crowd_rate,
    explored_terms,
    largest_rate,
    organic_rounds,
    organic_terms,
    subset,
    user_rates,
)
from rcb_bayes.mechanism.saturation import (
    Classes,
    Paths,
    arms_of,
    as_code,
    check_arms,
    draw_designs,
    first_paths,
    follow,
    sampling_of,
)
from rcb_bayes.mechanism.search import worst_users
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.worlds import block_seeds, data_of_designs, draw_worlds
from rcb_bayes.planning.goal import PlanRequest as Settings
from rcb_bayes.planning.plan import Plan
from rcb_bayes.posterior import Engine, make_engine
from rcb_bayes.posterior.data import Rows, Statistics
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track

N_USERS = 2048
N_PATHS = 20_000
LEVEL = 0.01  # of the bands at each stage
_LEAST_SHARE = 0.001  # of cold starts that pass a stage, for it to be planned
MAX_STAGES = 128
_CRITICAL_USERS = 256
_USERS_PER_WORLD = 16
_CROWD = 65_536
_FOUND = 0.9999  # of the least rate that a search finds, for what it leaves to find


@dataclass(slots=True, kw_only=True, eq=False)
class Stage:
    """What was found at one saturated set.

    Attributes
    ----------
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
    """

    code: int
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnUsers:
    """What users of each world's own expect, and what the platform does, (W, u, K): errors then cover the users too."""

    rewards: FloatArray
    acted_on: FloatArray


@dataclass(slots=True, kw_only=True, eq=False)
class Forward:
    """A cold start, followed to its end."""

    market: Market
    settings: Settings
    panel: Panel
    paths: Paths
    sampling: dict[int, FloatArray]
    stages: dict[int, Stage]
    simulator: "StageSimulator"


def run_forward(market: Market, settings: Settings) -> Forward:
    """Simulate the cold start to its end."""
    check_arms(market.n_arms)
    simulator = StageSimulator(market, settings)
    k = market.n_arms
    paths = first_paths(N_PATHS)
    sampling = {0: sampling_of(simulator.panel, 0, 1.0)}
    n, alike = settings.n_per_arm, simulator.alike
    paths = follow(paths, sampling, n_per_arm=n, rng=simulator.rng(Stream.PATHS, 0), alike=alike)
    stages: dict[int, Stage] = {}
    for level in range(1, k):
        members = paths.members()
        for code, some in track(list(members.items()), description=f"stages with {level} of {k} arms saturated"):
            # tau and rho are wanted from one stage at least, the last if no other needs simulating.
            wanted = level == k - 1 and all(stage.gap is None for stage in stages.values())
            is_rare = len(some) < _LEAST_SHARE * N_PATHS or len(stages) >= MAX_STAGES
            if is_rare and not wanted:
                sampling[code] = sampling_of(simulator.panel, code, simulator.is_free(code).astype(float))
                continue
            stage = simulator.stage(code, paths, some, sampling, wanted=wanted)
            stages[code] = stage
            sampling[code] = sampling_of(simulator.panel, code, stage.rates if settings.personalised else 1.0)
        paths = follow(paths, sampling, n_per_arm=n, rng=simulator.rng(Stream.PATHS, level), alike=alike)
    return Forward(
        market=market,
        settings=settings,
        panel=simulator.panel,
        paths=paths,
        sampling=sampling,
        stages=stages,
        simulator=simulator,
    )


def followed(
    market: Market,
    plan: Plan,
    *,
    n_worlds: int,
    audit_worlds: int,
    seed: int,
    epsilon: float | None = None,
    notion: Notion | None = None,
) -> Forward:
    """The cold start under a plan's own rates, with users and random numbers of one's own."""
    settings = Settings(
        epsilon=plan.epsilon if epsilon is None else epsilon,
        notion=plan.notion if notion is None else notion,
        personalised=plan.personalised,
        n_per_arm=plan.n_per_arm,
        n_worlds=n_worlds,
        audit_worlds=audit_worlds,
        engine="auto",
        seed=seed,
    )
    simulator = StageSimulator(market, settings)
    panel = simulator.panel
    sampling = {0: sampling_of(panel, 0, 1.0)}
    n, alike = plan.n_per_arm, simulator.alike
    paths = follow(first_paths(N_PATHS), sampling, n_per_arm=n, rng=simulator.rng(Stream.PATHS, 0), alike=alike)
    for level in range(1, market.n_arms):
        for code in paths.members():
            labels = [market.arms[arm] for arm in arms_of(code)]
            sampling[code] = sampling_of(panel, code, plan.rate(panel.users, saturated=labels))
        paths = follow(paths, sampling, n_per_arm=n, rng=simulator.rng(Stream.PATHS, level), alike=alike)
    return Forward(
        market=market,
        settings=settings,
        panel=panel,
        paths=paths,
        sampling=sampling,
        stages={},
        simulator=simulator,
    )


class StageSimulator:
    """The simulation of one stage; keeps engines and what they could not vouch for."""

    def __init__(self, market: Market, settings: Settings) -> None:
        self.market = market
        self.settings = settings
        self.panel = make_panel(market, n_users=N_USERS, rng=self.rng(Stream.PANEL))
        self.engine = make_engine(market.prior, market.noise, engine=settings.engine, seed=settings.seed)
        self.platform: Engine | None = None
        if market.platform_prior is not market.prior:
            self.platform = make_engine(market.platform_prior, market.noise, seed=settings.seed)
        self.alike = _alike(market)
        self.n_fitted = 0
        self.n_not_vouched = 0
        self.n_sent = 0
        if settings.personalised and not market.noise.is_gaussian and not self.panel.is_exact:
            raise RcbError(
                "With Bernoulli rewards a rate of each user's own is known for the rows of a table only. "
                "Use covariates=Empirical(rows), or personalised=False."
            )

    def rng(self, purpose: Stream, *key: int) -> np.random.Generator:
        """A stream of this simulation's own."""
        return generator(self.settings.seed, purpose, *key)

    def is_free(self, code: int) -> np.ndarray:
        """Which users lose at most epsilon by any arm that may be promoted to them, (P,)."""
        promoted = promotion_shares(self.panel.promoted_by, self.open_arms(code))
        s = self.settings
        terms = explored_terms(self.panel.prior_rewards, promoted, epsilon=s.epsilon, notion=s.notion)
        return (terms >= 0.0).all(axis=(1, 2))

    def open_arms(self, code: int) -> list[int]:
        """The arms that are not saturated."""
        return [arm for arm in range(self.market.n_arms) if not code >> arm & 1]

    def stage(
        self, code: int, paths: Paths, members: np.ndarray, sampling: dict[int, FloatArray], *, wanted: bool
    ) -> Stage:
        """Rates at a stage; a stage at which all users are free is simulated only where its figures are wanted."""
        free = self.is_free(code)
        stage = Stage(
            code=code,
            share=len(members) / paths.sets.shape[1],
            rates=np.ones(self.panel.n_users),
            rate=1.0,
            rate_mcse=0.0,
            is_free=free,
        )
        if free.all() and self.settings.personalised and not wanted:
            return stage
        outlook, own = self.simulated(code, paths, members, sampling)
        gaps = own.rewards[:, :, self.open_arms(code)] - own.rewards[:, :, list(arms_of(code))].max(axis=2)[:, :, None]
        stage.gap = best_gap(gaps)
        stage.outlook, stage.own = outlook, own
        if not self.settings.personalised:  # one rate leaves organic rounds to everybody
            self._note_organic(stage, np.arange(self.panel.n_users), self.panel.weights)
        if free.all():
            stage.outlook = stage.outlook if self.platform is not None else None
            return stage
        if self.settings.notion == "definition":
            self._rate_of_all(stage)
        else:
            self._rates_of_each(stage)
        return stage

    # --- rates ---

    def _rates_of_each(self, stage: Stage) -> None:
        panel, s = self.panel, self.settings
        assert stage.outlook is not None  # not all users are free
        bound = np.flatnonzero(~stage.is_free)
        some = self.rng(Stream.CRITICAL_USERS, stage.code).permutation(bound)[:_CRITICAL_USERS]
        first = self.user_rates(stage.outlook, some, code=stage.code, slack=0.0)
        terms = binding_terms(stage.outlook, panel.users[some], first, epsilon=s.epsilon, notion=s.notion)
        critical = critical_value(terms, level=LEVEL, seed=s.seed)
        stage.slack = self._slack(critical)
        everyone = self.user_rates(stage.outlook, np.arange(panel.n_users), code=stage.code, slack=stage.slack)
        stage.rates = everyone.rate
        if not s.personalised:
            self._one_rate(stage, critical)
            return
        found = subset(everyone, bound)
        terms = binding_terms(stage.outlook, panel.users[bound], found, epsilon=s.epsilon, notion=s.notion)
        self._note_organic(stage, bound, panel.weights[bound] * (1.0 - found.rate))
        stage.rate, of_users = panel.mean(everyone.rate)
        stage.ideal = panel.mean(everyone.ideal)[0]
        stage.worlds_needed = float(_worlds_needed(found, critical).min())
        slope = _slope(found.gain - stage.slack * found.spread, found.loss)
        of_worlds = (terms @ (panel.weights[bound] * slope)).std(ddof=1) / np.sqrt(len(terms))
        stage.rate_mcse = float(np.hypot(of_users, of_worlds))

    def _one_rate(self, stage: Stage, critical: float) -> None:
        """One rate for all: the least, over the panel and over users looked for from its worst ones on."""
        s = self.settings
        outlook = stage.outlook
        assert outlook is not None  # not all users are free

        def rates(users: FloatArray) -> FloatArray:
            return self.rates_at(outlook, users, code=stage.code, slack=stage.slack).rate

        if isinstance(outlook, LinearOutlook):
            stage.worst = worst_users(
                rates, self.market.covariates, self.panel, rng=self.rng(Stream.LEAST_RATE, stage.code), thorough=4
            )[0]
        else:
            stage.worst = self.panel.users[np.argsort(stage.rates, kind="stable")[:1]]
        found = self.rates_at(outlook, stage.worst, code=stage.code, slack=stage.slack)
        least = int(found.rate.argmin())
        worst = subset(found, np.array([least]))
        stage.rate = float(worst.rate[0]) * (1.0 if self.panel.is_exact or worst.is_free[0] else _FOUND)
        stage.ideal = float(found.ideal.min())
        stage.worlds_needed = float(_worlds_needed(found, critical).max())
        if not worst.is_free[0]:
            terms = binding_terms(outlook, stage.worst[[least]], worst, epsilon=s.epsilon, notion=s.notion)
            slope = _slope(worst.gain - stage.slack * worst.spread, worst.loss)
            stage.rate_mcse = float(slope[0] * terms[:, 0].std(ddof=1) / np.sqrt(len(terms)))

    def _rate_of_all(self, stage: Stage) -> None:
        """``definition``: averaged over users, so that one rate serves all."""
        stage.rate, stage.rate_mcse = self.rate_of_all(stage, epsilon=self.settings.epsilon)
        stage.rates = np.full(self.panel.n_users, stage.rate)
        explored, _, organic, _ = self._crowd_terms(stage, epsilon=self.settings.epsilon)
        stage.ideal = float(largest_rate(explored, organic.mean(axis=0)).min())
        binds = explored < 0.0
        gain, spread = organic.mean(axis=0)[binds], organic.std(axis=0, ddof=1)[binds]
        stage.worlds_needed = float(_certifying(gain, spread, _critical_of(len(explored))).max(initial=0.0))

    def rate_of_all(self, stage: Stage, *, epsilon: float) -> tuple[float, float]:
        """The largest rate under ``definition``, and its error."""
        explored, error, organic, user_error = self._crowd_terms(stage, epsilon=epsilon)
        critical = _critical_of(len(explored))
        slack = self._slack(critical)
        rate, cell = crowd_rate(explored, error, organic, organic_error=user_error, critical=critical, slack=slack)
        if rate == 1.0:
            return 1.0, 0.0
        spread = organic[:, cell].std(ddof=1)
        slope = _slope(np.atleast_1d(organic[:, cell].mean() - slack * spread), np.atleast_1d(-explored[cell]))
        return rate, float(slope[0] * spread / np.sqrt(len(organic)))

    def _crowd_terms(self, stage: Stage, *, epsilon: float) -> tuple[FloatArray, ...]:
        """Under ``definition``, of every promoted arm and rival: e and its error over users, o world by world.

        Last is the error that an audit's own users leave in o.
        """
        assert stage.own is not None  # not all users are free
        open_arms = self.open_arms(stage.code)
        pairs = [(i, j) for i in open_arms for j in range(self.market.n_arms) if i != j]
        panel = self.crowd
        promoted = promotion_shares(panel.promoted_by, open_arms)
        terms = explored_terms(panel.prior_rewards, promoted, epsilon=epsilon, notion="definition")
        means = [panel.mean(terms[:, i, j]) for i, j in pairs]
        rewards, acted_on = (np.moveaxis(part, 2, 0) for part in (stage.own.rewards, stage.own.acted_on))
        shares = best_shares(acted_on, axis=0)
        organic = [
            organic_terms(rewards, shares, arm=i, rival=j, epsilon=epsilon, notion="definition") for i, j in pairs
        ]  # (W, u) each
        explored, error = (np.array(part) for part in zip(*means, strict=True))
        user_error = self._user_error(stage, pairs, epsilon=epsilon)
        return explored, error, np.stack([part.mean(axis=1) for part in organic], axis=1), user_error

    def _user_error(self, stage: Stage, pairs: list[tuple[int, int]], *, epsilon: float) -> FloatArray:
        """Error that the users of an audit's panel leave in o, (cells,): none where the panel is everybody."""
        if self.panel.is_exact:
            return np.zeros(len(pairs))
        assert stage.outlook is not None  # not all users are free
        users = self.panel.users[self.panel.some(_CRITICAL_USERS, rng=self.rng(Stream.USER_ERROR, stage.code))[0]]
        rewards, shares = stage.outlook.rewards(users), best_shares(stage.outlook.acted_on(users), axis=0)
        means = [
            organic_terms(rewards, shares, arm=i, rival=j, epsilon=epsilon, notion="definition").mean(axis=1)
            for i, j in pairs
        ]  # (users,) each
        return np.array([part.std(ddof=1) for part in means]) / np.sqrt(N_USERS)

    @cached_property
    def crowd(self) -> Panel:
        """Many users, for averages that no world is needed for; prior rewards that are not linear cost too much."""
        if not self.market.noise.is_gaussian:
            return self.panel
        return make_panel(self.market, n_users=_CROWD, rng=self.rng(Stream.MANY_USERS))

    def _note_organic(self, stage: Stage, some: np.ndarray, left: FloatArray) -> None:
        """Enter what organic rounds give some users, ``left`` being their weights."""
        assert stage.outlook is not None  # the stage was simulated
        shares, values = organic_rounds(stage.outlook, self.panel.users[some])
        stage.organic = np.zeros((self.panel.n_users, self.market.n_arms))
        stage.organic[some] = shares
        stage.organic_value = np.zeros(self.panel.n_users)
        stage.organic_value[some] = values.mean(axis=0)
        stage.organic_error = float((values @ left).std(ddof=1) / np.sqrt(len(values)))

    def user_rates(
        self, outlook: Outlook, some: np.ndarray, *, code: int, slack: float, epsilon: float | None = None
    ) -> UserRates:
        """Rates of some users of the panel."""
        s = self.settings
        return user_rates(
            outlook,
            self.panel.users[some],
            prior_rewards=self.panel.prior_rewards[some],
            promoted_by=self.panel.promoted_by[some],
            open_arms=self.open_arms(code),
            epsilon=s.epsilon if epsilon is None else epsilon,
            notion=s.notion,
            slack=slack,
        )

    def rates_at(
        self, outlook: Outlook, users: FloatArray, *, code: int, slack: float, epsilon: float | None = None
    ) -> UserRates:
        """Rates of any users (U, d), of the panel or not."""
        s, market = self.settings, self.market
        prior_rewards = expected_rewards(market.prior, market.noise, users)
        same = market.platform_prior is market.prior
        return user_rates(
            outlook,
            users,
            prior_rewards=prior_rewards,
            promoted_by=prior_rewards if same else expected_rewards(market.platform_prior, market.noise, users),
            open_arms=self.open_arms(code),
            epsilon=s.epsilon if epsilon is None else epsilon,
            notion=s.notion,
            slack=slack,
        )

    def _slack(self, critical: float) -> float:
        fresh, ours = 1.0 / self.settings.audit_worlds, 1.0 / self.settings.n_worlds
        return critical * (np.sqrt(fresh) + np.sqrt(fresh + ours))

    # --- simulation ---

    def simulated(
        self, code: int, paths: Paths, members: np.ndarray, sampling: dict[int, FloatArray]
    ) -> tuple[Outlook, OwnUsers]:
        """Worlds at this stage: designs of the paths that lead here, rewards, posterior means."""
        market, n = self.market, self.settings.n_worlds
        chosen = self.rng(Stream.PATHS_OF_WORLDS, code).choice(members, size=n, replace=len(members) < n)
        results: list[list[FloatArray]] = []
        start = 0
        for size, rng in block_seeds(n, seed=int(self.rng(Stream.STAGE_WORLDS, code).integers(2**63))):
            designs = self._designs(code, paths, chosen[start : start + size], sampling, rng=rng)
            worlds = draw_worlds(market.prior, size, rng=rng)
            data = data_of_designs(worlds, market, designs, rng=rng)
            results.append(self._fitted(data))
            start += size
        make = self._linear if market.noise.is_gaussian else self._tabulated
        return make(code, [np.concatenate(part) for part in zip(*results, strict=True)])

    def _linear(self, code: int, means: list[FloatArray]) -> tuple[Outlook, OwnUsers]:
        """From posterior means (W, K, d) under the users' belief and, where it is another, the platform's.

        Arms that the data say nothing about keep their prior mean exactly: ties must stay ties.
        """
        for part, prior in zip(means, (self.market.prior, self.market.platform_prior), strict=False):
            same = _untouched(prior, code)
            part[:, same] = prior.mean.values[same]
        n = self.settings.n_worlds
        users = self.market.covariates.sample(n * _USERS_PER_WORLD, seed=self.rng(Stream.USERS_OF_WORLDS, code))
        own = [users.reshape(n, _USERS_PER_WORLD, -1) @ part.swapaxes(1, 2) for part in means]
        outlook = LinearOutlook(means[0], means[1] if len(means) > 1 else None)
        return outlook, OwnUsers(rewards=own[0], acted_on=own[-1])

    def _tabulated(self, code: int, tables: list[FloatArray]) -> tuple[Outlook, OwnUsers]:
        """From the mean rewards of the panel's users (W, P, K); each world's own users are drawn from the panel."""
        panel = self.panel
        known = (panel.prior_rewards, panel.promoted_by)
        for part, prior, before in zip(tables, (self.market.prior, self.market.platform_prior), known, strict=False):
            same = _untouched(prior, code)
            part[:, :, same] = before[:, same]
        n = self.settings.n_worlds
        some = self.rng(Stream.USERS_OF_WORLDS, code).choice(panel.n_users, size=(n, _USERS_PER_WORLD), p=panel.weights)
        own = [part[np.arange(n)[:, None], some] for part in tables]
        outlook = TableOutlook(panel.users, tables[0], tables[1] if len(tables) > 1 else None)
        return outlook, OwnUsers(rewards=own[0], acted_on=own[-1])

    def _fitted(self, data: Statistics | Rows) -> list[FloatArray]:
        """Under each belief: posterior means, or the panel's mean rewards where these are not linear in beta."""
        found: list[FloatArray] = []
        for engine in (self.engine, self.platform):
            if engine is None:
                continue
            batch = engine.fit(data, users=None if self.market.noise.is_gaussian else self.panel.users)
            found.append(batch.mean if batch.reward is None else batch.reward)
            self.n_fitted += batch.n_sets
            self.n_not_vouched += int((~batch.vouched).sum())
            self.n_sent += batch.n_sent
        return found

    def _designs(
        self,
        code: int,
        paths: Paths,
        some: np.ndarray,
        sampling: dict[int, FloatArray],
        *,
        rng: np.random.Generator,
    ) -> dict[int, FloatArray]:
        """Users behind the samples of each saturated arm, (worlds, N, d)."""
        n = self.settings.n_per_arm
        return {
            arm: self.panel.users[draw_designs(paths, some, sampling, arm, n_per_arm=n, rng=stream)]
            for arm, stream in zip(arms_of(code), rng.spawn(len(arms_of(code))), strict=True)
        }


def _untouched(prior: Prior, code: int) -> list[int]:
    """Arms about which the samples of the saturated ones say nothing."""
    if prior.has_sigma:
        return []
    return [arm for group in prior.groups if not as_code(group) & code for arm in group]


def _critical_of(n_cells: int) -> float:
    """Bonferroni's critical value of so many cells at a stage."""
    from scipy.special import ndtri

    return float(ndtri(1.0 - LEVEL / n_cells))


def _worlds_needed(rates: UserRates, critical: float) -> FloatArray:
    """Worlds from which on each user's rate is above 0, (U,); infinite where no world seen has a gain for her."""
    return np.where(rates.is_free, 0.0, _certifying(rates.gain, rates.spread, critical))


def _certifying(gain: FloatArray, spread: FloatArray, critical: float) -> FloatArray:
    """Worlds W, of plan and audit alike, at which gain = slack x spread: see the slack of the module's docstring."""
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = (critical * (1.0 + np.sqrt(2.0)) * spread / gain) ** 2
    return np.where(gain > 0.0, needed, np.inf)


def _slope(organic: FloatArray, loss: FloatArray) -> FloatArray:
    """How fast a rate o / (o + loss) moves with o; zero where the rate is."""
    usable = np.maximum(organic, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(usable > 0.0, loss / (usable + loss) ** 2, 0.0)


def _alike(market: Market) -> Classes:
    """Classes of arms that may change places, under the users' and the platform's belief."""
    laws = [prior.law for prior in (market.prior, market.platform_prior)]
    if any(law is None for law in laws) or market.prior.has_sigma:
        return tuple((arm,) for arm in range(market.n_arms))
    ours, theirs = (law.alike() for law in laws if law is not None)
    both = [tuple(arm for arm in one if arm in other) for one in ours for other in theirs]
    return tuple(sorted(arms for arms in both if arms))
