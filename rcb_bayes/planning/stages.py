"""The stages of a planned cold start, and how often each user is explored at them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.outlook import LinearOutlook, distinct_rows, find_rows, places_of
from rcb_bayes.mechanism.rates import UserRates, explored_terms, user_rates
from rcb_bayes.planning.expectations import Expectations
from rcb_bayes.planning.goal import Goal
from rcb_bayes.planning.leaves import LeafTable
from rcb_bayes.planning.parts import Constants
from rcb_bayes.schema import FloatArray


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
class TableRule:
    """Rates of the users of a table, (P, d) and (P,)."""

    users: FloatArray
    rates: FloatArray

    def rates_of(self, users: FloatArray) -> FloatArray:
        """Rates of some of them, (U, d) -> (U,)."""
        return self.rates[find_rows(self._places, users)]

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return places_of(self.users)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedStage:
    """The stage at which these arms are saturated.

    Attributes
    ----------
    saturated : labels of the saturated arms; of arms that are alike the first ones stand for any
    share : of cold starts that pass this stage
    rate : the users' average exploration rate, with its error; of one rate for all, the largest this stage allows
    share_explored : of users who can be explored at all
    share_free : of users who lose at most epsilon by it, so that nothing needs hiding
    rule : the rate of each user; None for one rate for all, or where only free users are explored
    """

    saturated: tuple[str, ...]
    share: float
    rate: float
    rate_mcse: float
    share_explored: float
    share_free: float
    rule: SampledRule | TableRule | LeafTable | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedColdStart:
    """The stages of a cold start; none where one rate was given for all of them.

    Attributes
    ----------
    alike : classes of arms with one and the same law: stages that differ only by which of them is saturated are one
    """

    stages: tuple[PlannedStage, ...] = ()
    alike: tuple[tuple[str, ...], ...] = ()

    def average_rates(self, users: FloatArray, *, goal: Goal, constants: Constants, before: Expectations) -> FloatArray:
        """Rates of users (U, d), averaged over the stages that cold starts pass, (U,)."""
        if not goal.personalised:
            return np.full(len(users), constants.exploration_rate)
        total = sum(stage.share for stage in self.stages)
        rates = np.zeros(len(users))
        for stage in self.stages:
            own = self.stage_rates(users, stage.saturated, goal=goal, constants=constants, before=before)
            rates += stage.share / total * own
        return rates

    def stage_rates(
        self, users: FloatArray, saturated: tuple[str, ...], *, goal: Goal, constants: Constants, before: Expectations
    ) -> FloatArray:
        """Rates of users (U, d) once these arms are saturated, (U,); 1 where that is none of them, or all."""
        if len(saturated) in (0, len(before.arms)):
            return np.ones(len(users))
        stage = self._by_arms.get(self._stands_for(saturated, before.arms))
        if constants.kind != "sampled" or (stage is not None and not goal.personalised):
            return np.full(len(users), constants.exploration_rate)
        if stage is None or stage.rule is None:
            free = _is_free(users, saturated, goal=goal, before=before).astype(float)
            return free if goal.personalised else free * constants.exploration_rate
        if isinstance(stage.rule, TableRule):
            return stage.rule.rates_of(users)
        if isinstance(stage.rule, LeafTable):
            before.check_known(users)
            return stage.rule.of(users)[:, 0]
        rows, places = distinct_rows(users)
        return sampled_rates(stage.rule, rows, stage.saturated, goal=goal, before=before).rate[places]

    def name_of(self, stage: PlannedStage, arms: tuple[str, ...]) -> str:
        """The saturated arms in words: ``arm_0 and 2 of arm_1, arm_2, arm_3``."""
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


def sampled_rates(
    rule: SampledRule, users: FloatArray, saturated: tuple[str, ...], *, goal: Goal, before: Expectations
) -> UserRates:
    """Rates of users (U, d) by a rule, and what binds them."""
    prior_rewards, promoted_by = before.of(users)
    return user_rates(
        rule.outlook,
        users,
        prior_rewards=prior_rewards,
        promoted_by=promoted_by,
        open_arms=before.open_arms(saturated),
        epsilon=goal.epsilon,
        notion=goal.sense,
        slack=rule.slack,
    )


def _is_free(users: FloatArray, saturated: tuple[str, ...], *, goal: Goal, before: Expectations) -> np.ndarray:
    """Who may be explored at a stage that nothing was simulated for: those who lose at most epsilon by it."""
    prior_rewards, promoted_by = before.of(users)
    promoted = promotion_shares(promoted_by, before.open_arms(saturated))
    terms = explored_terms(prior_rewards, promoted, epsilon=goal.epsilon, notion=goal.sense)
    return (terms >= 0.0).all(axis=(1, 2))
