"""Rates where users know how many arms are saturated, level by level.

Every world of a level has a saturated set of its own and counts by the rounds that its cold start spends there. These
depend, a little, on the rates sought, so that both are found in turns.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.knowledge import LEVEL as KNOWS_LEVEL
from rcb_bayes.mechanism.level_rates import LevelRates, level_rates
from rcb_bayes.mechanism.margins import critical_value
from rcb_bayes.mechanism.outlook import organic_shares
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.promotion import Sets, distinct_sets, rare_sets_too
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.planning.goal import PlanRequest
from rcb_bayes.planning.stage_rates import CRITICAL_USERS, LEVEL, RatePlanner, StageRates, certifying
from rcb_bayes.schema import FloatArray

_TRIAL_USERS = 256
_REPEATS = 2  # of each turn
_PARTS = 4  # of the worlds of a level, for the error of its rate
_TRIALS = 2  # turns in which rates and rounds are found
_OTHER_PANELS = 1.2  # of a level's slack: how often its sets are met varies with the users of an audit's panel, too
_USUAL_CRITICAL = 3.5  # errors, in these turns


class LevelPlanner(RatePlanner):
    """The rates of level after level.

    Attributes
    ----------
    stages : what each level allows, by the number of its saturated arms
    raised : by level, shares by which the rates of the panel's users are raised towards 1 as the walk goes on, (P,)
    """

    def __init__(
        self,
        market: Market,
        settings: PlanRequest,
        *,
        raised: Mapping[int, FloatArray] | None = None,
        simulator: Simulator | None = None,
    ) -> None:
        super().__init__(market, settings, simulator=simulator)
        self.raised = raised or {}

    def walked(self) -> ColdStarts:
        """The cold start to its end."""
        return self.simulator.walk_by_level(self.rates_of_level, n_per_arm=self.agenda, first=self.first)

    def rates_of_level(self, so_far: ColdStarts, level: int) -> FloatArray | float:
        """The rates of the panel's users by promoted arm, (P, K), once so many arms are saturated."""
        members = so_far.at(level)
        if not len(members):
            return 0.0
        key = (0, level)
        saturated = so_far.saturated(level, members)
        rng = self.simulator.rng(Stream.PATHS_OF_WORLDS, *key)
        n_worlds = self.simulator.worlds_of_level(so_far, saturated, self.settings.n_worlds)
        places, counts = rare_sets_too(saturated, np.ones(len(members)), n_worlds=n_worlds, rng=rng)
        sets = Sets(saturated[places], self.agenda)
        promoted = sets.usually_promoted(self.panel.promoted_by, counts)
        stage = self._new(promoted, level=level, share=len(members) / so_far.n_paths, key=key)
        stage.sets = sets
        self.stages[level] = stage
        if self._needs_worlds(stage):
            stage.outlook = self.simulator.outlook(so_far, members[places], level=level, key=key)
            stage.outlook = stage.outlook.weighted(counts)
            self._weigh(stage, so_far, members[places], counts)
            self._enter_figures(stage, sets.saturated)
            if not stage.is_free.all():
                self._enter_level(stage)
            self._forget_own(stage)
        return self._raised(stage.found, level) if self.settings.personalised else 1.0

    def _raised(self, found: LevelRates | None, level: int, some: np.ndarray | None = None) -> FloatArray | float:
        """Rates by promoted arm of the panel's users, or some of them, as they are in force."""
        share = self.raised.get(level)
        if found is None or share is None:
            return 1.0 if found is None else found.by_arm
        share = share if some is None else share[some]
        return found.by_arm + share[:, None] * (found.most - found.by_arm)

    def _weigh(self, stage: StageRates, so_far: ColdStarts, chosen: np.ndarray, counts: FloatArray) -> None:
        """Count every world by the rounds that its path spends at the level: so much more often users meet it there.

        ``counts`` (W,) is how many times it counts as a path.
        """
        assert stage.outlook is not None  # asked for where it is
        rng = self.simulator.rng(Stream.TRIALS, *stage.key)
        some, shares = self.panel.some(_TRIAL_USERS, rng=rng)
        users = self.panel.take(some, weights=shares)
        of_each = self.settings.personalised
        for _ in range(_TRIALS if of_each else 1):
            by_arm = np.ones(users.promoted_by.shape)
            if of_each:
                own = self.level_rates_of(stage, users, slack=self._slack_of(stage, _USUAL_CRITICAL))
                by_arm = np.asarray(self._raised(own, stage.level, some))
            parts = [so_far.trial(stage.level, chosen, users=users, by_arm=by_arm, rng=rng) for _ in range(_REPEATS)]
            rounds = counts * np.mean(parts, axis=0)
            if not rounds.any():
                return
            stage.outlook = stage.outlook.weighted(rounds / rounds.mean())
        stage.promoted = stage.promoted_to(self.panel, agenda=self.agenda)

    def _enter_level(self, stage: StageRates) -> None:
        """Enter the rates of a level; of each user's own by promoted arm."""
        if not self.settings.personalised:
            (self._rates_of_each if self.settings.sense.is_per_user else self._rate_of_all)(stage)
            return
        panel, s = self.panel, self.settings
        bound = np.flatnonzero(~stage.is_free)
        some = self.simulator.rng(Stream.CRITICAL_USERS, *stage.key).permutation(bound)[:CRITICAL_USERS]
        n_levels = self.agenda.n_levels - max(self.agenda.first_level, 1)
        level = LEVEL / n_levels  # all levels together have as much as a set
        critical = critical_value(self._level_terms(stage, panel.take(some)), level=level, seed=s.seed)
        stage.slack = self._slack_of(stage, critical)
        found = stage.found = self.level_rates_of(stage, panel, slack=stage.slack)
        stage.rates, stage.organic_value = found.rate, found.organic_value
        stage.rate, of_users = panel.mean(found.rate)
        stage.ideal = panel.mean(found.ideal)[0]
        needed = np.where(found.is_bound, certifying(found.gain, found.spread, critical), 0.0)
        stage.worlds_needed = float(needed[bound].min())
        stage.rate_mcse = float(np.hypot(of_users, self._error_of_worlds(stage)))

    def _error_of_worlds(self, stage: StageRates) -> float:
        """Error that the worlds leave in the average rate of a level: from some users' rates in parts of them."""
        assert stage.outlook is not None  # not all users are free
        assert stage.sets is not None  # it is a level
        some, shares = self.panel.some(_TRIAL_USERS, rng=self.simulator.rng(Stream.TRIALS, *stage.key))
        users = self.panel.take(some, weights=shares)
        means = []
        for part in range(_PARTS):
            worlds = slice(part, None, _PARTS)
            sets = Sets(stage.sets.saturated[worlds], self.agenda)
            own = replace(stage, outlook=stage.outlook.in_worlds(worlds), sets=sets)
            means.append(users.weights @ self.level_rates_of(own, users, slack=0.5 * stage.slack).rate)
        return float(np.std(means, ddof=1) / np.sqrt(_PARTS))

    def level_rates_of(
        self,
        stage: StageRates,
        users: Panel,
        *,
        slack: float,
        epsilon: float | None = None,
        by_arm: FloatArray | None = None,
    ) -> LevelRates:
        """Rates at a level by promoted arm, of users of the panel or not; or what given ones lead to."""
        assert stage.outlook is not None  # it has worlds
        assert stage.sets is not None  # it is a level
        return level_rates(
            stage.outlook,
            stage.sets,
            users.users,
            prior_rewards=users.prior_rewards,
            promoted_by=users.promoted_by,
            epsilon=self.settings.epsilon if epsilon is None else epsilon,
            notion=self.settings.sense,
            slack=slack,
            by_arm=by_arm,
            admitted=users.admitted,
            forms=self.settings.knows != KNOWS_LEVEL.name,  # levels by themselves pay for no others
        )

    def _level_terms(self, stage: StageRates, users: Panel) -> FloatArray:
        """The organic terms of the pair that binds for each of some users, world by world, (W, U)."""
        assert stage.outlook is not None  # not all users are free
        s = self.settings
        found = self.level_rates_of(stage, users, slack=0.0)
        rewards, shares = stage.outlook.rewards(users.users), organic_shares(stage.outlook, users.users)
        at = np.arange(users.n_users)
        lead = rewards[found.arm, at] - rewards[found.rival, at]
        return s.sense.linear_form(shares[found.arm, at], lead, s.epsilon).T

    def _slack_of(self, stage: StageRates, critical: float) -> float:
        """The slack of a level, which may have more worlds than a set, here and in an audit."""
        assert stage.outlook is not None  # it has worlds
        assert stage.sets is not None  # it is a level
        more = _OTHER_PANELS if len(distinct_sets(stage.sets.saturated)[0]) > 1 else 1.0
        return more * self._slack(critical) * np.sqrt(self.settings.n_worlds / stage.outlook.n_worlds)
