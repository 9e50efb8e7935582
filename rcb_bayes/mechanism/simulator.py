"""A market's cold start, simulated: who comes, what the walk samples, what is then expected of every arm.

Worlds are drawn from the users' belief. The designs of saturated arms are those of the walk, so that the law of the
data is the mechanism's and not the population's: an arm is sampled where it was promoted, weighted by the rates of the
stages before.
"""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.scales import check_predictors
from rcb_bayes.market.sizes import panel_size
from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.engines import fit_blocks, make_engines
from rcb_bayes.mechanism.exchange import random_names
from rcb_bayes.mechanism.handing_out import HandOut
from rcb_bayes.mechanism.knowledge import MOST_SETS, STAGE, Knowledge, count_sets
from rcb_bayes.mechanism.outlook import LinearOutlook, Outlook, TableOutlook, row_bytes
from rcb_bayes.mechanism.panel import Panel, make_panel
from rcb_bayes.mechanism.promotion import distinct_sets
from rcb_bayes.mechanism.protocol import Mechanism
from rcb_bayes.mechanism.regions import Regions
from rcb_bayes.mechanism.stepping import SampleWalk, fitting_paths, walk_by_samples
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.walk import Classes, RatesAt, Walk, alike_arms, arms_of, rates_by_arm, walk
from rcb_bayes.mechanism.worlds import BLOCK, Design, Worlds, block_seed, data_of_designs, draw_worlds, n_blocks_of
from rcb_bayes.posterior.data import Data, Statistics, Tallies
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import BoolArray, FloatArray

ColdStarts = Walk | SampleWalk
"""Cold starts, followed set by set or sample by sample."""
RatesOfLevel = Callable[[ColdStarts, int], FloatArray | float]
"""Rates of the panel's users by promoted arm, (P, K), or of all, at a level: from the walk so far, and the level."""
Key = tuple[int, ...]

N_USERS = 2048
N_PATHS = 20_000
_MANY_USERS = 65_536
_MOST_TIMES = 4
_MOST_LAW_VALUES = 20_000_000  # of covariances: worlds x (arms of a block x d)^2


class Simulator:
    """Users, engines and random numbers of one simulation.

    Attributes
    ----------
    panel : users who stand for the population
    engines : what they, and the platform, make of data
    n_paths : cold starts that a walk follows
    regions : for whom each arm is explored; everybody where there are none
    """

    def __init__(
        self,
        market: Market,
        *,
        engine: str = "auto",
        seed: int,
        n_users: int | None = None,
        n_paths: int | None = None,
        remember: bool = False,
        hand_out: HandOut | None = None,
    ) -> None:
        check_predictors(market)
        self.market = market
        self.seed = seed
        self.n_paths = min(N_PATHS, n_paths or N_PATHS)
        n_users = panel_size(market, most=min(N_USERS, n_users or N_USERS))
        self.panel = self._everybody = make_panel(market, n_users=n_users, rng=self.rng(Stream.PANEL))
        self.regions: Regions | None = None
        _check_past(market, self.panel)
        self.engines = make_engines(market, engine=engine, remember=remember, hand_out=hand_out, seed=seed)

    def again(self) -> "Simulator":
        """The same users, engines and random numbers for another plan, which counts its posteriors by itself."""
        other = copy(self)
        other.engines = self.engines.recounted()
        return other

    def under(self, agenda: Agenda) -> "Simulator":
        """The same where each arm is explored among some users only, if the agenda says so."""
        if agenda.regions is self.regions:
            return self
        other = copy(self)
        other.__dict__.pop("many_users", None)
        other.regions, other.panel = agenda.regions, self._everybody.under(agenda.regions)
        return other

    def rng(self, purpose: Stream, *key: int) -> np.random.Generator:
        """A stream of this simulation's own."""
        return generator(self.seed, purpose, *key)

    @cached_property
    def many_users(self) -> Panel:
        """Many users, for averages that no world is needed for; prior rewards that are not linear cost too much."""
        if not self.market.noise.is_gaussian:
            return self.panel
        return make_panel(self.market, n_users=_MANY_USERS, rng=self.rng(Stream.MANY_USERS)).under(self.regions)

    def alike(self, agenda: Agenda) -> Classes:
        """Classes of arms that may change places under an agenda."""
        return alike_arms(self.market, agenda)

    def walk(
        self,
        rates_at: RatesAt,
        *,
        n_per_arm: int | Agenda,
        alike: Classes | None = None,
        first: FloatArray | float = 1.0,
    ) -> Walk:
        """The cold start with rates that are told stage by stage; arms that are alike change places unless told.

        ``first`` is how often the panel's users are sampled while no arm is saturated, (P,), or all of them.
        """
        agenda = as_agenda(n_per_arm, self.market.n_arms)
        return walk(
            self.panel,
            rates_at,
            n_per_arm=agenda,
            n_paths=self.n_paths,
            rng_of=lambda level: self.rng(Stream.PATHS, level),
            alike=self.alike(agenda) if alike is None else alike,
            first=first,
        )

    def walk_by_level(
        self, rates_at: RatesOfLevel, *, n_per_arm: int | Agenda, first: FloatArray | float = 1.0
    ) -> ColdStarts:
        """The cold start with rates that are told level by level: set by set where sets are few, else by samples.

        Arms that are alike keep their names: users average over which of them is saturated.

        Raises
        ------
        RcbError
            So many arms that differ, and samples of each, that cold starts cannot be followed.
        """
        return walk_levels(
            self.panel,
            rates_at,
            n_per_arm=as_agenda(n_per_arm, self.market.n_arms),
            n_paths=self.n_paths,
            rng_of=lambda level: self.rng(Stream.PATHS, level),
            first=first,
        )

    def walk_under(self, mechanism: Mechanism, *, knows: Knowledge = STAGE, names: bool = False) -> ColdStarts:
        """The cold start under a mechanism's own rates, as users see it who know so much of the clock.

        Arms that are alike change places only where users know which of them is saturated and nobody asks for
        ``names``, or there are too many sets.
        """
        arms, agenda = self.market.arms, mechanism.agenda
        apart = mechanism.types is not None  # arms may be alike to some types of users only
        alike = tuple((arm,) for arm in range(len(arms))) if apart else self.alike(agenda)
        known: dict[frozenset[int], FloatArray] = {}

        def rates_at(so_far: Walk, code: int, members: np.ndarray) -> FloatArray:
            full = arms_of(code)
            stand_in = frozenset(arm for each in alike for arm in each[: sum(arm in full for arm in each)])
            if stand_in not in known:
                known[stand_in] = mechanism.rate(self.panel.users, saturated=[arms[arm] for arm in sorted(stand_in)])
            return known[stand_in]

        first = 1.0 if agenda.is_plain else mechanism.rate(self.panel.users, saturated=())
        if mechanism.knows == STAGE.name:
            keeps_names = apart or ((names or knows is not STAGE) and n_sets(agenda) <= MOST_SETS)
            return self.walk(rates_at, n_per_arm=agenda, alike=() if keeps_names else None, first=first)
        return self.walk_by_level(
            lambda so_far, level: mechanism.rates_by_arm(self.panel.users, level=level), n_per_arm=agenda, first=first
        )

    # --- worlds ---

    def paths_of_worlds(self, members: np.ndarray, *, n_worlds: int, key: Key) -> np.ndarray:
        """Some of the paths, one for each world, (W,)."""
        rng = self.rng(Stream.PATHS_OF_WORLDS, *key)
        return rng.choice(members, size=n_worlds, replace=len(members) < n_worlds)

    def worlds_of_level(self, walked: ColdStarts, saturated: BoolArray, n_worlds: int) -> int:
        """Worlds of a level, for so many of a set: more where it has several sets, as long as these are few."""
        if n_sets(walked.agenda) > MOST_SETS:
            return n_worlds
        return n_worlds * min(len(distinct_sets(saturated)[0]), _MOST_TIMES)

    def outlook(
        self,
        walked: ColdStarts,
        chosen: np.ndarray,
        *,
        level: int,
        key: Key,
        overlap: Callable[[], float] | None = None,
    ) -> Outlook:
        """What is expected of every arm at a level, in a world of the users' belief for each of the chosen paths.

        ``key`` tells its random numbers from those of other views. With ``overlap``, how much of the spread of designs
        stays in their average, the law of what is expected is told, too, where there is one.
        """
        blocks = range(n_blocks_of(len(chosen)))
        with_law = overlap is not None and self.has_mean_law(len(chosen))
        parts = self.expected(walked, chosen, level=level, key=key, blocks=blocks, with_law=with_law)
        return self.outlook_of(parts, overlap=overlap)

    def expected(
        self,
        walked: ColdStarts,
        chosen: np.ndarray,
        *,
        level: int,
        key: Key,
        blocks: Sequence[int],
        with_law: bool = False,
    ) -> "list[Expected]":
        """What is expected at a level in some of the blocks of worlds that take the chosen paths; see ``outlook``.

        With the law of what is expected, its designs are told, too.
        """
        saturated = walked.saturated(level, chosen)  # (W, K)
        seed = int(self.rng(Stream.STAGE_WORLDS, *key).integers(2**63))
        data = [self._block(walked, chosen, saturated, seed=seed, block=block)[1] for block in blocks]
        found = []
        for block, part, tables in zip(blocks, data, self._expected(data), strict=True):
            some = slice(block * BLOCK, (block + 1) * BLOCK)
            grams = part.xtx if with_law and isinstance(part, Statistics) else None
            found.append(Expected(tables=tuple(self._kept_before(saturated[some], tables)), grams=grams))
        return found

    def outlook_of(self, parts: "Sequence[Expected]", *, overlap: Callable[[], float] | None = None) -> Outlook:
        """The outlook in the worlds of several blocks, one after the other."""
        tables = [_joined(tables) for tables in zip(*(part.tables for part in parts), strict=True)]
        platform = tables[1] if len(tables) > 1 else None
        if not self.market.noise.is_gaussian:
            return TableOutlook(self.panel.users, tables[0], platform)
        grams = [part.grams for part in parts if part.grams is not None]
        belief, sigma = self.market.prior.law, getattr(self.market.noise, "sigma", None)
        if not grams or overlap is None or belief is None or sigma is None:
            return LinearOutlook(tables[0], platform)
        law = MeanLaw(belief=belief, grams=_joined(grams), sigma=float(sigma), overlap=overlap)
        return LinearOutlook(tables[0], platform, law=law)

    def has_mean_law(self, n_worlds: int) -> bool:
        """Whether the law of posterior means given the designs is known, fits, and is what the platform goes by."""
        belief, sigma = self.market.prior.law, getattr(self.market.noise, "sigma", None)
        if belief is None or sigma is None or not belief.is_gaussian or self.engines.platform is not None:
            return False
        values = sum((len(block.arms) * belief.n_features) ** 2 for block in belief.blocks)  # of a world
        return values * n_worlds <= _MOST_LAW_VALUES

    def paths_after_cold_start(self, ended: np.ndarray, *, n_worlds: int) -> tuple[np.ndarray, int]:
        """One of the paths ``ended`` for each world, (W,), and the seed of the worlds."""
        rng = self.rng(Stream.AFTER_COLD_START)
        chosen = rng.choice(ended, size=n_worlds, replace=len(ended) < n_worlds)
        return chosen, int(rng.integers(2**63))

    def after_cold_start(
        self, walked: ColdStarts, chosen: np.ndarray, *, seed: int, block: int | None = None
    ) -> tuple[Worlds, Statistics | Tallies]:
        """Worlds that took the chosen paths, or a block of them, and their data when every arm has its samples.

        0/1 rewards are counted for each user of the panel. Paths name arms that are alike in the order in which they
        filled up, which users do not know any more: from here on each of them may be any of those.
        """
        saturated = np.tile(walked.agenda.is_sampled, (len(chosen), 1))
        counted = not self.market.noise.is_gaussian
        wanted = range(n_blocks_of(len(chosen))) if block is None else (block,)
        blocks = [self._block(walked, chosen, saturated, seed=seed, block=each, counted=counted) for each in wanted]
        worlds = Worlds.joined([part for part, _ in blocks])
        data = (
            Tallies.joined([data for _, data in blocks if isinstance(data, Tallies)])
            if counted
            else Statistics.joined([data for _, data in blocks if isinstance(data, Statistics)])
        )
        alike, stream = self.alike(walked.agenda), self.rng(Stream.NAMES_AFTER_COLD_START)
        names = random_names(alike, self.market.n_arms, n_worlds=len(chosen), rng=stream)
        if names is None:
            return worlds, data
        names = names if block is None else names[block * BLOCK : (block + 1) * BLOCK]
        return worlds.renamed(names), data.renamed(names)

    def _block(
        self,
        walked: ColdStarts,
        chosen: np.ndarray,
        saturated: BoolArray,
        *,
        seed: int,
        block: int,
        counted: bool = False,
    ) -> tuple[Worlds, Data]:
        """A block of worlds of the users' belief that took the chosen paths, and samples of their saturated arms.

        With ``counted``, 0/1 rewards come as counts for each user of the panel.
        """
        sampled = np.flatnonzero(saturated.any(axis=0))
        if not self.market.noise.is_gaussian:  # rows are as many in every world, counts need not be
            counted = counted or len(np.unique(saturated @ walked.agenda.totals)) > 1
        size, rng = block_seed(len(chosen), block, seed=seed)
        some = slice(block * BLOCK, block * BLOCK + size)
        designs = {}
        for arm, stream in zip(sampled.tolist(), rng.spawn(len(sampled)), strict=True):
            there = np.flatnonzero(saturated[some, arm])
            who = walked.design(chosen[some][there], arm, rng=stream)
            designs[arm] = Design(there, self.panel.users[who], who, self._before(arm))
        worlds = draw_worlds(self.market.prior, size, rng=rng)
        table = self.panel.users if counted else None
        return worlds, data_of_designs(worlds, self.market, designs, rng=rng, table=table)

    def _before(self, arm: int) -> FloatArray | None:
        """Users behind samples of an arm from before, (m, d)."""
        past = self.market.past
        if past is None or arm not in past.arm:
            return None
        return past.users_of(arm)

    def _expected(self, blocks: Sequence[Data]) -> list[list[FloatArray]]:
        """Of every block, under each belief: posterior means, or the panel's mean rewards where they are not linear."""
        users = None if self.market.noise.is_gaussian else self.panel.users
        batches = [fit_blocks(engine, blocks, users=users) for engine in self.engines.all]
        return [
            [batch.mean if batch.reward is None else batch.reward for batch in own]
            for own in zip(*batches, strict=True)
        ]

    def _kept_before(self, saturated: BoolArray, expected: list[FloatArray]) -> list[FloatArray]:
        """Posterior means (W, K, d), or mean rewards of the panel (W, P, K), under each belief.

        Arms that the data say nothing about keep their prior mean exactly: ties must stay ties.
        """
        market, panel = self.market, self.panel
        before = (panel.prior_rewards, panel.promoted_by)
        expected = [values.copy() for values in expected]  # an engine may remember its answers
        for k, (values, prior) in enumerate(zip(expected, (market.prior, market.platform_prior), strict=False)):
            for group in [] if prior.has_sigma else prior.groups:
                arms = np.array(list(group))
                at = np.ix_(np.flatnonzero(~saturated[:, arms].any(axis=1)), arms)
                if market.noise.is_gaussian:
                    values[at] = prior.mean.values[arms]
                else:
                    values.swapaxes(1, 2)[at] = before[k].T[arms]
        return expected


def walk_levels(
    panel: Panel,
    rates_at: RatesOfLevel,
    *,
    n_per_arm: Agenda,
    n_paths: int,
    rng_of: Callable[[int], np.random.Generator],
    first: FloatArray | float = 1.0,
) -> ColdStarts:
    """The cold start of a panel's users with rates that are told level by level; see ``Simulator.walk_by_level``."""
    agenda = n_per_arm
    if n_sets(agenda) <= MOST_SETS:
        of_sets = _set_by_set(rates_at, panel.promoted_by, agenda)
        return walk(panel, of_sets, n_per_arm=agenda, n_paths=n_paths, rng_of=rng_of, first=first)
    n_most = int(agenda.missing.max())
    n_paths = min(fitting_paths(agenda.n_arms, n_most), n_paths)
    if not n_paths:
        raise RcbError(
            f"A cold start of {agenda.n_arms} different arms with {n_most:,} samples each takes too much "
            "memory or time to simulate. Ask for fewer samples of each arm, or fewer arms at a time."
        )
    return walk_by_samples(panel, rates_at, n_per_arm=agenda, n_paths=n_paths, rng_of=rng_of, first=first)


def _set_by_set(rates_of_level: RatesOfLevel, promoted_by: FloatArray, agenda: Agenda) -> RatesAt:
    """Rates by promoted arm, told level by level, as rates at each set."""
    known: dict[int, FloatArray | float] = {}

    def rates_at(so_far: Walk, code: int, members: np.ndarray) -> FloatArray | float:
        level = len(arms_of(code))
        if level not in known:
            known[level] = rates_of_level(so_far, level)
        by_arm = known[level]
        if not isinstance(by_arm, np.ndarray):
            return by_arm
        return rates_by_arm(by_arm, promoted_by, agenda.open_arms(arms_of(code)))

    return rates_at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """What is expected of every arm in a block of worlds.

    Attributes
    ----------
    tables : posterior means (w, K, d), or mean rewards of the panel (w, P, K): users' and, where it is another, the
        platform's
    grams : X'X behind them, (w, K, d, d); None where nobody asks for it
    """

    tables: tuple[FloatArray, ...]
    grams: FloatArray | None


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _check_past(market: Market, panel: Panel) -> None:
    """Refuse a private history with 0/1 rewards of users who are in no table: these are counted for each of its users.

    Raises
    ------
    RcbError
        Such a history.
    """
    if market.past is None or market.noise.is_gaussian:
        return
    known = set(row_bytes(panel.users)) if panel.is_exact else set()
    if not all(row in known for row in row_bytes(market.past.x)):
        raise RcbError(
            "With 0/1 rewards users of a private history must be rows of the covariates' table. Use "
            "covariates=Empirical(rows) with their rows in it, or a public history."
        )


def n_sets(agenda: Agenda) -> int:
    """Saturated sets where every arm keeps its name: users who count arms do not know which of several it is."""
    return count_sets([[arm] for arm in np.flatnonzero(agenda.missing).tolist()])


def untouched_arms(prior: Prior, saturated: Collection[int]) -> list[int]:
    """Arms about which the samples of saturated ones say nothing; with an unknown sigma every sample tells of all."""
    if prior.has_sigma:
        return []
    return [arm for group in prior.groups if not set(group) & set(saturated) for arm in group]
