"""The stages of a planned cold start, and how often each user is explored at them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.mechanism.agenda import Agenda, first_chances, is_popular
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.mechanism.knowledge import LEVEL, STAGE, Moment
from rcb_bayes.mechanism.level_rates import LevelRates, level_rates
from rcb_bayes.mechanism.margins import below_best, user_means
from rcb_bayes.mechanism.outlook import LinearOutlook, distinct_rows, find_rows, places_of
from rcb_bayes.mechanism.programme import LevelledForms, Prices, raised_shares
from rcb_bayes.mechanism.promotion import Sets
from rcb_bayes.mechanism.rates import UserRates, explored_terms, first_rates, is_free, user_rates
from rcb_bayes.mechanism.regions import explored_at
from rcb_bayes.mechanism.walk import rates_by_arm
from rcb_bayes.planning.expectations import Expectations
from rcb_bayes.planning.exploitation import GuardRule
from rcb_bayes.planning.goal import Goal
from rcb_bayes.planning.leaves import LeafTable
from rcb_bayes.planning.parts import Constants
from rcb_bayes.schema import BoolArray, FloatArray

_USERS_AT_A_TIME = 256
COUNTED = 0.7  # of what other levels leave: how long each of them takes varies that much with the users of a panel
COUNTED_OF_ALL = 0.9  # where the panel is everybody, and the law of the data what varies
_MOST_KNOWN = 100_000  # users whose rates are kept


@dataclass(frozen=True, eq=False)
class SampledRule:
    """Rates from worlds simulated at plan time, for any user; rewards linear in beta.

    Attributes
    ----------
    outlook : posterior means in every world
    slack : standard deviations over worlds that are left for the audit's bands
    """

    outlook: LinearOutlook
    slack: float


@dataclass(frozen=True, eq=False)
class LevelRule:
    """The same where users know only how many arms are saturated: rates by promoted arm.

    Attributes
    ----------
    saturated : which arms are, in every world, (W, K)
    """

    outlook: LinearOutlook
    saturated: BoolArray
    slack: float

    def sets_under(self, agenda: Agenda | None) -> Sets:
        """The sets of the worlds, and what may be promoted there."""
        return self._known.setdefault(agenda, Sets(self.saturated, agenda))

    @cached_property
    def _known(self) -> dict[Agenda | None, Sets]:
        return {}


@dataclass(frozen=True, eq=False)
class LaterWorlds:
    """Exploitation as users meet it who cannot tell it from the cold start: every world in one of its epochs.

    Attributes
    ----------
    outlook, gamma : what is expected, and the spread, (W,)
    epochs : the epoch of each world, (W,)
    rounds : that a run spends in exploitation
    slack : standard deviations over worlds that are left for the audit's bands
    guards : in force
    """

    outlook: LinearOutlook
    gamma: FloatArray
    epochs: FloatArray
    rounds: float
    slack: float
    guards: tuple[GuardRule, ...]

    def forms(self, users: FloatArray, *, goal: Goal, agenda: Agenda | None) -> FloatArray:
        """The linear form of users (U, d), lowered by the slack, (U, K, K)."""
        fixed, extra = goal.sense.epsilon_parts(goal.epsilon)
        chances, below = self._seen(users, goal=goal, agenda=agenda)
        mean, square = user_means(chances, below, below * below, extra)
        return fixed + mean - self.slack * np.sqrt(np.maximum(square - mean**2, 0.0))

    def terms(self, users: FloatArray, *, goal: Goal, agenda: Agenda | None) -> FloatArray:
        """What these forms are averages of, world by world, for every user, arm and rival, (W, U K K)."""
        chances, below = self._seen(users, goal=goal, agenda=agenda)
        leads = below[:, None] - below + goal.sense.epsilon_parts(goal.epsilon)[1]
        return (chances[:, None] * leads).reshape(-1, len(self.gamma)).T

    def _seen(self, users: FloatArray, *, goal: Goal, agenda: Agenda | None) -> tuple[FloatArray, FloatArray]:
        """Chances of every arm, and what it is worth below the best, (K, U, W) each."""
        rewards = self.outlook.rewards(users)
        scores = rewards if self.outlook.platform is None else self.outlook.acted_on(users)
        k, u, w = scores.shape
        factors = None
        if self.guards:
            factors = np.ones((k, u, w))
            for epoch in np.unique(self.epochs):
                rule = self.guards[min(int(epoch), len(self.guards) - 1)]
                factors[:, :, self.epochs == epoch] = rule.of(users, goal=goal).T[:, :, None]
            factors = factors.reshape(k, u * w)
        if agenda is not None and agenda.cut is not None:
            factors = agenda.cut[:, None] * (np.ones((k, u * w)) if factors is None else factors)
        chances = ipgs_probabilities(scores.reshape(k, u * w), np.tile(self.gamma, u), guard=factors).reshape(k, u, w)
        return chances, below_best(rewards)


@dataclass(frozen=True, eq=False)
class Programme:
    """What raises the rates of levels where users cannot tell them apart; see ``mechanism.programme``.

    Attributes
    ----------
    levels : by their number of saturated arms, those whose rates are raised, (L,)
    rounds, worth : of each level, and what a sample there is worth, (L,)
    first_rounds : of the most popular arm's phase
    later : exploitation, where users cannot tell it from the cold start
    counted : of what other rounds leave, the share that is counted on; ``COUNTED`` where a file does not say
    """

    levels: tuple[int, ...]
    rounds: FloatArray
    worth: FloatArray
    first_rounds: float
    later: LaterWorlds | None = None
    counted: float | None = None

    @property
    def prices(self) -> Prices:
        """As the programme has them."""
        return Prices(rounds=self.rounds, worth=self.worth)


@dataclass(frozen=True, eq=False)
class TableRule:
    """Rates of the users of a table, (P, d): (P,), or by promoted arm, (P, K)."""

    users: FloatArray
    rates: FloatArray

    def rates_of(self, users: FloatArray) -> FloatArray:
        """Rates of some of them, (U, d) -> (U,) or (U, K)."""
        return self.rates[find_rows(self._places, users)]

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return places_of(self.users)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedStage:
    """The stage at which these arms, or so many arms, are saturated.

    Attributes
    ----------
    saturated : labels of the saturated arms; of arms that are alike the first ones stand for any, and of a stage that
        only counts arms there are none
    level : how many arms are saturated
    share : of cold starts that pass this stage
    rate : the users' average exploration rate, with its error; of one rate for all, the largest this stage allows
    share_explored : of users who can be explored at all
    share_free : of users who lose at most epsilon by it, so that nothing needs hiding
    rule : the rate of each user; None for one rate for all, or where only free users are explored
    """

    saturated: tuple[str, ...]
    level: int
    share: float
    rate: float
    rate_mcse: float
    share_explored: float
    share_free: float
    rule: SampledRule | LevelRule | TableRule | LeafTable | None = None

    @classmethod
    def unplanned(cls, saturated: tuple[str, ...]) -> "PlannedStage":
        """A stage that is too rare to be planned."""
        return cls(
            saturated=saturated,
            level=len(saturated),
            share=0.0,
            rate=0.0,
            rate_mcse=0.0,
            share_explored=0.0,
            share_free=0.0,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedColdStart:
    """The stages of a cold start; none where one rate was given for all of them.

    Attributes
    ----------
    alike : classes of arms with one and the same law: stages that differ only by which of them is saturated are one
    programme : what raises the rates of levels that users cannot tell apart
    """

    stages: tuple[PlannedStage, ...] = ()
    alike: tuple[tuple[str, ...], ...] = ()
    programme: Programme | None = None

    def average_rates(self, users: FloatArray, *, goal: Goal, constants: Constants, before: Expectations) -> FloatArray:
        """Rates of users (U, d), averaged over the stages that cold starts pass, (U,)."""
        if not goal.personalised or not self.stages:
            return np.full(len(users), constants.exploration_rate)
        total = sum(stage.share for stage in self.stages)
        rates = np.zeros(len(users))
        for stage in self.stages:
            if goal.knows == STAGE.name:
                own = self._own_rates(users, stage, goal=goal, before=before)
            else:
                own = self._usual_rates(users, stage, goal=goal, before=before)
            rates += stage.share / total * own
        return rates

    def stage_rates(
        self, users: FloatArray, saturated: tuple[str, ...], *, goal: Goal, constants: Constants, before: Expectations
    ) -> FloatArray:
        """Rates of users (U, d) once these arms are saturated, (U,); 1 where all are that ever will be."""
        if len(saturated) == before.n_levels:
            return np.ones(len(users))
        if not saturated:
            return _first_rates(users, goal=goal, constants=constants, before=before)
        if goal.knows != STAGE.name:
            by_arm = self.rates_by_arm(users, len(saturated), goal=goal, constants=constants, before=before)
            return rates_by_arm(by_arm, before.of(users)[1], before.open_arms(saturated))
        stage = self._by_arms.get(self._stands_for(saturated, before.arms))
        if constants.kind != "sampled" or (stage is not None and not goal.personalised):
            return np.full(len(users), constants.exploration_rate)
        rates = self._own_rates(users, stage or PlannedStage.unplanned(saturated), goal=goal, before=before)
        return rates if goal.personalised else rates * constants.exploration_rate

    def rates_by_arm(
        self, users: FloatArray, level: int, *, goal: Goal, constants: Constants, before: Expectations
    ) -> FloatArray:
        """Rates of users (U, d) where an arm is promoted to them, once so many arms are saturated, (U, K)."""
        shape = (len(users), len(before.arms))
        if level == before.n_levels:
            return np.ones(shape)
        if level == 0:
            return np.tile(_first_rates(users, goal=goal, constants=constants, before=before)[:, None], shape[1])
        stage = self._by_level.get(level)
        if constants.kind != "sampled" or not goal.personalised:
            return np.full(shape, constants.exploration_rate)
        if stage is None:
            return np.zeros(shape)
        rows, places = distinct_rows(users)
        if isinstance(stage.rule, TableRule | LeafTable):
            return _by_table(stage.rule, users, before)
        if isinstance(stage.rule, LevelRule):
            if self.programme is not None and level in self.programme.levels:
                return self._raised(rows, level, goal=goal, before=before)[places]
            return rates_at_level(stage.rule, rows, goal=goal, before=before).by_arm[places]
        prior_rewards, admitted = before.of(rows)[0], before.admitted(rows)
        free = prior_rewards - prior_rewards.max(axis=1, keepdims=True) >= -goal.epsilon
        return (free if admitted is None else free & admitted).astype(float)[places]

    def _raised(self, users: FloatArray, level: int, *, goal: Goal, before: Expectations) -> FloatArray:
        """Rates by promoted arm, raised as the programme has it, (U, K); all levels at once, and kept."""
        assert self.programme is not None  # asked for where it is
        known = self._known_rates
        keys = [row.tobytes() for row in users]
        fresh = [place for place, key in enumerate(keys) if key not in known]
        for start in range(0, len(fresh), _USERS_AT_A_TIME):
            some = fresh[start : start + _USERS_AT_A_TIME]
            found = raised_rates(self, users[some], goal=goal, before=before)  # (u, L, K)
            if len(known) > _MOST_KNOWN:
                known.clear()
            known.update(zip((keys[place] for place in some), found, strict=True))
        place = self.programme.levels.index(level)
        missing = [key for key in keys if key not in known]
        if missing:  # forgotten on the way
            return raised_rates(self, users, goal=goal, before=before)[:, place]
        return np.array([known[key][place] for key in keys])

    @cached_property
    def _known_rates(self) -> dict[bytes, FloatArray]:
        return {}

    def _usual_rates(self, users: FloatArray, stage: PlannedStage, *, goal: Goal, before: Expectations) -> FloatArray:
        """Rates at a level on average over what is promoted there, (U,)."""
        if isinstance(stage.rule, LevelRule):
            rows, places = distinct_rows(users)
            return rates_at_level(stage.rule, rows, goal=goal, before=before).rate[places]
        if isinstance(stage.rule, TableRule | LeafTable):
            return _by_table(stage.rule, users, before).mean(axis=1)  # which arm is promoted how often is not known
        return np.ones(len(users))

    def _own_rates(self, users: FloatArray, stage: PlannedStage, *, goal: Goal, before: Expectations) -> FloatArray:
        """Rates of each user's own at a set; where nothing was simulated for it, 1 for who loses at most epsilon."""
        if isinstance(stage.rule, TableRule | LeafTable):
            return _by_table(stage.rule, users, before).reshape(len(users))
        if stage.rule is None:
            return _is_free(users, stage.saturated, goal=goal, before=before).astype(float)
        rows, places = distinct_rows(users)
        return sampled_rates(stage, rows, goal=goal, before=before).rate[places]

    def name_of(self, stage: PlannedStage, arms: tuple[str, ...]) -> str:
        """The saturated arms in words: ``arm_0 and 2 of arm_1, arm_2, arm_3``, or ``2 of 5 arms``."""
        if not stage.saturated:
            return LEVEL.label(Moment(saturated=tuple(range(stage.level))), arms)
        parts = []
        for alike in self.alike or tuple((arm,) for arm in arms):
            n = sum(arm in stage.saturated for arm in alike)
            if n:
                parts.append(", ".join(alike) if n == len(alike) else f"{n} of {', '.join(alike)}")
        return " and ".join(parts)

    def _stands_for(self, saturated: tuple[str, ...], arms: tuple[str, ...]) -> tuple[str, ...]:
        """The stage that stands for a set of saturated arms."""
        named = {arm for alike in self.alike for arm in alike[: sum(arm in saturated for arm in alike)]}
        return tuple(arm for arm in arms if arm in named) if self.alike else saturated

    @cached_property
    def _by_arms(self) -> dict[tuple[str, ...], PlannedStage]:
        return {stage.saturated: stage for stage in self.stages}

    @cached_property
    def _by_level(self) -> dict[int, PlannedStage]:
        return {stage.level: stage for stage in self.stages}


def sampled_rates(stage: PlannedStage, users: FloatArray, *, goal: Goal, before: Expectations) -> UserRates:
    """Rates of users (U, d) by a set's sampled rule, and what binds them."""
    assert isinstance(stage.rule, SampledRule)  # asked for where it is
    prior_rewards, promoted_by = before.of(users)
    promoted = promotion_shares(promoted_by, before.open_arms(stage.saturated))
    return user_rates(
        stage.rule.outlook,
        users,
        prior_rewards=prior_rewards,
        promoted=promoted,
        epsilon=goal.epsilon,
        notion=goal.sense,
        slack=stage.rule.slack,
        asked=explored_at(promoted, before.admitted(users)),
    )


def rates_at_level(
    rule: LevelRule, users: FloatArray, *, goal: Goal, before: Expectations, forms: bool = False
) -> LevelRates:
    """Rates of users (U, d) by a level's rule, and what binds them; ``forms`` where other levels are to pay for it."""
    prior_rewards, promoted_by = before.of(users)
    return level_rates(
        rule.outlook,
        rule.sets_under(before.admission),
        users,
        prior_rewards=prior_rewards,
        promoted_by=promoted_by,
        epsilon=goal.epsilon,
        notion=goal.sense,
        slack=rule.slack,
        admitted=before.admitted(users),
        forms=forms,
    )


def raised_rates(cold_start: PlannedColdStart, users: FloatArray, *, goal: Goal, before: Expectations) -> FloatArray:
    """Rates of users (U, d) by promoted arm at all levels of the programme, (U, L, K)."""
    programme = cold_start.programme
    assert programme is not None  # asked for where it is
    rules = {stage.level: stage.rule for stage in cold_start.stages}
    found = []
    for level in programme.levels:
        rule = rules[level]
        assert isinstance(rule, LevelRule)  # as the programme has it
        found.append(rates_at_level(rule, users, goal=goal, before=before, forms=True))
    later = (
        None
        if programme.later is None
        else programme.later.rounds * programme.later.forms(users, goal=goal, agenda=before.admission)
    )
    first = first_of(users, goal=goal, before=before)
    expected = before.of(users)[0]
    told = {"first_rounds": programme.first_rounds, "later": later, "counted": programme.counted or COUNTED}
    forms = forms_of(found, expected, first, goal=goal, **told)
    shares = raised_shares(forms, programme.prices)  # (U, L)
    by_arm, most = (np.stack([getattr(one, name) for one in found], axis=1) for name in ("by_arm", "most"))
    return by_arm + shares[:, :, None] * (most - by_arm)


def forms_of(
    found: Sequence[LevelRates],
    prior_rewards: FloatArray,
    first: FloatArray,
    *,
    goal: Goal,
    first_rounds: float,
    later: FloatArray | None,
    counted: float,
) -> LevelledForms:
    """Forms of users at all levels, and what the most popular arm's rounds, and later ones (U, K, K), leave.

    ``first`` (U, K) are the chances of each arm in the first of these; of what pays a share is ``counted``.
    """
    k = prior_rewards.shape[1]
    others = first_rounds * explored_terms(prior_rewards, first, epsilon=goal.epsilon, notion=goal.sense)
    others = others if later is None else others + later
    pairs = ~np.eye(k, dtype=bool)
    explored = np.stack([one.always[:, pairs] for one in found], axis=1)
    return LevelledForms(
        explored=np.where(explored > 0.0, counted, 1.0) * explored,
        # A level by itself holds: what its lowered form lacks is what its worlds leave open, not what it owes.
        own=counted * np.maximum(np.stack([one.own[:, pairs] for one in found], axis=1), 0.0),
        others=counted * np.maximum(others[:, pairs], 0.0),
        rates=np.stack([one.rate for one in found], axis=1),
        most=np.stack([one.most_rate for one in found], axis=1),
    )


def first_of(users: FloatArray, *, goal: Goal, before: Expectations) -> FloatArray:
    """Chances of each arm while none is saturated, under a sampled plan, (U, d) -> (U, K)."""
    prior_rewards, promoted_by = before.of(users)
    if before.admission is None:
        return promotion_shares(promoted_by, range(len(before.arms)))
    sense, admitted = {"epsilon": goal.epsilon, "notion": goal.sense}, before.admitted(users)
    rates = first_rates(before.admission, prior_rewards, promoted_by, **sense, admitted=admitted)
    return first_chances(before.admission, promoted_by, rates)


def _first_rates(users: FloatArray, *, goal: Goal, constants: Constants, before: Expectations) -> FloatArray:
    """How often users (U, d) are sampled while no arm is saturated, (U,)."""
    agenda = before.admission
    if agenda is None or agenda.is_plain:
        return np.ones(len(users))
    prior_rewards, promoted_by = before.of(users)
    if constants.kind != "sampled":
        return np.where(is_popular(agenda, promoted_by), 1.0, constants.exploration_rate)
    sense, admitted = {"epsilon": goal.epsilon, "notion": goal.sense}, before.admitted(users)
    found = first_rates(agenda, prior_rewards, promoted_by, **sense, admitted=admitted)
    return np.broadcast_to(found, len(users)).copy()


def _by_table(rule: TableRule | LeafTable, users: FloatArray, before: Expectations) -> FloatArray:
    """Rates of users that stand in a table: of each user's own, or by promoted arm."""
    if isinstance(rule, TableRule):
        return rule.rates_of(users)
    before.check_known(users)
    return rule.of(users)


def _is_free(users: FloatArray, saturated: tuple[str, ...], *, goal: Goal, before: Expectations) -> np.ndarray:
    """Who may be explored at a set that nothing was simulated for: those who lose at most epsilon by it."""
    prior_rewards, promoted_by = before.of(users)
    promoted = promotion_shares(promoted_by, before.open_arms(saturated))
    free = is_free(prior_rewards, promoted, epsilon=goal.epsilon, notion=goal.sense)
    asked = explored_at(promoted, before.admitted(users))
    return free if asked is None else free & asked
