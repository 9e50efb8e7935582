"""A plan: whom to explore, how often, with how many samples, and what that takes.

A plan is data. It is frozen, it can be written to JSON and read back without loss, and what it needs to answer for any
user travels with it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.guard import users_guard
from rcb_bayes.mechanism.margins import Notion
from rcb_bayes.mechanism.rates import (
    LinearOutlook,
    UserRates,
    distinct_rows,
    explored_terms,
    find_rows,
    places_of,
    user_rates,
)
from rcb_bayes.schema import FloatArray, plain, suggestion
from rcb_bayes.telling.wording import figure, percent
from rcb_bayes.users.labelled import Users, as_users

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PlanKind = Literal["sampled", "theorem", "fixed"]


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

    @cached_property
    def places(self) -> dict[bytes, int]:
        """Where each user stands."""
        return places_of(self.users)


@dataclass(frozen=True, eq=False)
class KnownUsers:
    """Users (P, d) whose expectations before any data are known, (P, K), where rewards are not linear in beta.

    ``promoted_by`` are those of the platform.
    """

    users: FloatArray
    prior_rewards: FloatArray
    promoted_by: FloatArray

    @cached_property
    def places(self) -> dict[bytes, int]:
        """Where each user stands."""
        return places_of(self.users)


@dataclass(frozen=True, eq=False)
class GuardRule:
    """What the guard of an epoch is computed from, for any user.

    Attributes
    ----------
    outlook : posterior means at the epoch's beginning, in worlds simulated at plan time; None where factors serve all
    gamma : the spread in each of them, (W,)
    slack : standard deviations over worlds that are left for the audit's bands
    factors : (K,), where one cut serves all users (``definition``), or nothing is cut for any user of the panel
    kept : the share of off-best probability that is left, over the panel's users
    closed : the share of users to whom some arm is recommended only where it is the best
    """

    outlook: LinearOutlook | None
    gamma: FloatArray
    slack: float
    factors: FloatArray | None
    kept: float
    closed: float


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
    rule: SampledRule | TableRule | None = None


@dataclass(frozen=True, kw_only=True)
class SampleChoice:
    """What a number of samples per arm would come to.

    Attributes
    ----------
    feasible : whether its cold start can end before the horizon
    regret : expected over the horizon, cold start and exploitation, with its error
    needs_guard : whether the paper's kernel alone would break the constraint for some user of the panel in some epoch
    verdict : of an audit of the plan in fresh worlds; empty where none was made
    """

    n_per_arm: int
    feasible: bool
    regret: float = math.inf
    regret_mcse: float = 0.0
    cold_start: float = math.inf
    needs_guard: bool = True
    verdict: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """How to explore a market so that users follow.

    Attributes
    ----------
    epsilon, notion : what users put up with, in which sense
    personalised : a rate for each user, or one for all
    n_per_arm : N, samples of each arm in the cold start
    exploration_rate : q; for a personalised plan the mean over users, and over the stages that cold starts pass
    inverse_rate : L = 1/q
    tau, rho : the gap that the least favoured arm reaches, and how often, once the others are saturated
    expected_cold_start : rounds until every arm has its N samples
    expected_pulls : in how many of them each arm is recommended
    coverage : each arm's smallest eigenvalue of X'X/N, averaged over cold starts
    spread_multiple : of the posterior spread in exploitation; 1 unless it was tuned
    guards : of the first epochs of exploitation, the last serving all later ones; none leaves the paper's kernel
    choices : the numbers of samples N was chosen from; none where it was given
    share_explored : users who are explored at some stage that one cold start in twenty passes
    share_free : users who need no subsidy, averaged over the stages that cold starts pass
    ideal_rate : what ``exploration_rate`` would be by the point estimates, with nothing left for an audit's bands
    verdict : of an audit in fresh worlds, made where N was chosen; empty where none was made
    guarded_for : the words of the exploitation stage that the guards were computed for, such as "feed all"
    n_posteriors, n_not_vouched : behind the plan, and those of them that no engine vouches for
    made_for, made_of : belief, users and rewards in words, and their fingerprints (``Market.fingerprint``)
    feasible, reason, nearest_epsilon : whether the cold start can end, if not why, and the epsilon from which it could
    prior_mean, platform_mean : the beliefs' means (K, d), by which arms are promoted; the latter where it differs
    first_epoch, guarantee_probability : of a theorem's plan, m_0, and rho rho*, with which the theorem speaks at all
    known : users whose expectations are known, where rewards are not linear in beta
    alike : classes of arms with one and the same law: stages that differ only by which of them is saturated are one

    Every estimate has its Monte Carlo error beside it, ``*_mcse``.

    Examples
    --------
    With ``plan`` as in ``calibrate``:

    >>> print(plan.summary())
    sampled plan, user notion, epsilon 0.1, a rate for each user
    samples per arm N      10
    exploration rate       0.6...
    expected cold start    2... rounds
    users explored         100.0 %; 32.8 % lose at most epsilon by it and need no subsidy
    ...
    """

    kind: PlanKind
    epsilon: float
    notion: Notion
    personalised: bool
    n_per_arm: int
    exploration_rate: float
    exploration_rate_mcse: float
    inverse_rate: float
    inverse_rate_mcse: float
    tau: float
    tau_mcse: float
    rho: float
    rho_mcse: float
    expected_cold_start: float
    expected_cold_start_mcse: float
    feasible: bool
    reason: str
    nearest_epsilon: float | None
    arms: tuple[str, ...]
    features: tuple[str, ...]
    prior_mean: FloatArray
    platform_mean: FloatArray | None = None
    known: KnownUsers | None = None
    alike: tuple[tuple[str, ...], ...] = ()
    stages: tuple[PlannedStage, ...] = ()
    expected_pulls: tuple[float, ...] = ()
    expected_pulls_mcse: tuple[float, ...] = ()
    coverage: tuple[float, ...] = ()
    coverage_mcse: tuple[float, ...] = ()
    spread_multiple: float = 1.0
    guards: tuple[GuardRule, ...] = ()
    choices: tuple[SampleChoice, ...] = ()
    share_explored: float = 1.0
    share_free: float = 0.0
    expected_regret: float = math.nan
    expected_regret_mcse: float = math.nan
    first_epoch: int | None = None
    guarantee_probability: float = math.nan
    belief: str = ""
    made_for: str = ""
    made_of: dict[str, str] = field(default_factory=dict)
    engine: str = ""
    n_worlds: int = 0
    audit_worlds: int = 0
    n_posteriors: int = 0
    n_not_vouched: int = 0
    ideal_rate: float = math.nan
    verdict: str = ""
    guarded_for: tuple[str, ...] = ()
    seed: int = 0
    version: str = ""
    notes: tuple[str, ...] = field(default=())

    def rate(self, x: Users, *, saturated: Sequence[str] | None = None) -> FloatArray:
        """Exploration rate of users x, (d,) -> a number, (U, d) -> (U,).

        ``saturated`` names the stage; without it the stages that cold starts pass are averaged. No arm, or all of them,
        is the stage at which nobody needs a subsidy: 1.

        Raises
        ------
        DataError
            Users of the wrong width, or of whom a plan for a table knows nothing.
        RcbError
            Arms that do not exist.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.rate([[0.2, 0.5], [0.9, 0.5]]).round(1)
        array([1. , 0.3])
        """
        users = as_users(x, features=self.features, name="x")
        panel = np.atleast_2d(users)
        rates = self._average_rate(panel) if saturated is None else self._stage_rate(panel, self._as_arms(saturated))
        return rates if users.ndim == 2 else rates[0]

    @property
    def has_guard(self) -> bool:
        """Whether anything may be cut in exploitation."""
        return any(rule.factors is None or (rule.factors < 1.0).any() for rule in self.guards)

    @property
    def unguarded_n(self) -> int | None:
        """The smallest N tried at which no user needs a guard; None where there is none, or N was given."""
        return min((one.n_per_arm for one in self.choices if one.feasible and not one.needs_guard), default=None)

    def guard(self, x: Users, epoch: int) -> FloatArray:
        """Factors on each arm's off-best probability in an epoch of exploitation, (d,) -> (K,), (U, d) -> (U, K).

        All are 1 where the plan has no guard. Epochs after those that were simulated have the last one's: the off-best
        probability only shrinks with time.
        """
        users = as_users(x, features=self.features, name="x")
        panel = np.atleast_2d(users)
        out = np.ones((len(panel), len(self.arms)))
        if self.guards:
            rule = self.guards[min(epoch, len(self.guards) - 1)]
            out = self._guard(panel, rule) if rule.factors is None else np.tile(rule.factors, (len(panel), 1))
        return out if users.ndim == 2 else out[0]

    def _guard(self, users: FloatArray, rule: GuardRule) -> FloatArray:
        assert rule.outlook is not None  # there are no factors for all
        rows, places = distinct_rows(users)
        shared = {"epsilon": self.epsilon, "notion": self.notion, "slack": rule.slack}
        return users_guard(rule.outlook, rule.gamma, rows, **shared)[places]

    def explain(self, x: Users) -> str:
        """Why user x is explored as often as she is, stage by stage.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> print(plan.explain([0.2, 0.5]))
        before any data she expects 0.2 of old, 0.14 of new
        old saturated (100.0 % of cold starts): she loses at most 0.1 by the promoted arm, and is explored at the rate 1
        """
        user = as_users(x, features=self.features, name="x", ndim=1)
        self.rate(user)  # refused here if it is no user
        expected = self._expected(user[None])[0][0]
        lines = ["before any data she expects " + ", ".join(self._named(expected))]
        if not self.personalised:
            return "\n".join([*lines, f"every user is explored at the rate {self.exploration_rate:.3g}"])
        for stage in self.stages:
            when = f"{self.stage_name(stage)} saturated ({percent(stage.share)} of cold starts)"
            lines.append(f"{when}: {self._why(stage, user)}")
        return "\n".join(lines)

    def stage_name(self, stage: PlannedStage) -> str:
        """The saturated arms in words: ``arm_0 and 2 of arm_1, arm_2, arm_3``."""
        parts = []
        for arms in self.alike or tuple((arm,) for arm in self.arms):
            n = sum(arm in stage.saturated for arm in arms)
            if n:
                parts.append(", ".join(arms) if n == len(arms) else f"{n} of {', '.join(arms)}")
        return " and ".join(parts)

    def __repr__(self) -> str:
        return f"<Plan: {self.summary()}>"

    def summary(self) -> str:
        """The plan in a few lines."""
        who = "a rate for each user" if self.personalised else "one rate for all users"
        length = figure(self.expected_cold_start, self.expected_cold_start_mcse)
        ends = math.isfinite(self.expected_cold_start)
        sand = f"; {self.n_not_vouched:,} of {self.n_posteriors:,} posteriors behind it are not vouched for"
        lines = [
            f"{self.kind} plan, {self.notion} notion, epsilon {self.epsilon:g}, {who}"
            + (sand if self.n_not_vouched else ""),
            f"samples per arm N      {self.n_per_arm:,}" + (", by expected regret" if self.choices else ""),
            f"exploration rate       {figure(self.exploration_rate, self.exploration_rate_mcse)}"
            f" (L = {figure(self.inverse_rate, self.inverse_rate_mcse)})",
            f"expected cold start    {length} rounds" if ends else "expected cold start    no end",
        ]
        if self.kind == "sampled":
            lines.append(
                f"users explored         {percent(self.share_explored)}; "
                f"{percent(self.share_free)} lose at most epsilon by it and need no subsidy"
            )
        if self.guards:
            first, last = self.guards[0], self.guards[-1]
            lines.append(
                f"guard                  keeps {percent(first.kept)} of off-best recommendations at first, "
                f"{percent(last.kept)} later; {percent(last.closed)} of users have an arm closed"
            )
        lines += [] if self.feasible else [f"not feasible           {self.reason}"]
        if self.kind == "sampled" and self.feasible:
            lines.append(f"audit                  {self.verdict or 'not made: rcb.audit(market, plan) makes one'}")
        return "\n".join([*lines, *self.notes])

    def plot(self, users: Users | None = None, *, axes: "Axes | None" = None) -> "Axes":
        """The map of exploration rates over some users; without any, over those the plan knows, else the coverage."""
        from rcb_bayes.plots.plans import plot_coverage
        from rcb_bayes.plots.rates import plot_rates

        if users is None and self.known is not None:
            users = self.known.users
        return plot_coverage(self, axes=axes) if users is None else plot_rates(self, users, axes=axes)

    def to_dict(self) -> dict[str, Any]:
        """Every figure by its name, as plain data; without the arrays behind rates and guards, which the file has."""
        apart = ("prior_mean", "platform_mean", "stages", "guards", "known")
        figures: dict[str, Any] = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name not in apart
        }
        figures["stages"] = [
            {item.name: getattr(stage, item.name) for item in fields(stage) if item.name != "rule"}
            for stage in self.stages
        ]
        figures["guards"] = [{"kept": rule.kept, "closed": rule.closed} for rule in self.guards]
        return plain(figures)

    def to_json(self) -> str:
        """The plan as text, without loss."""
        from rcb_bayes.planning.plan_files import plan_text

        return plan_text(self)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """A plan from its text.

        Raises
        ------
        RcbError
            Text that is no plan, or one of another format; a digit that was changed; what no plan could be.
        """
        from rcb_bayes.planning.plan_files import plan_of_text

        return plan_of_text(text)

    def save(self, path: str | Path) -> None:
        """Write the plan to a JSON file, with a digest of its content; an interrupted write leaves the old file.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.save("plan.json")
        >>> rcb.Plan.load("plan.json").n_per_arm
        10
        """
        from rcb_bayes.planning.plan_files import write_plan

        write_plan(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "Plan":
        """Read a plan from a JSON file.

        Raises
        ------
        RcbError
            A file that is not there, or is no plan; a digit that was changed; what no plan could be.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.save("plan.json")
        >>> rcb.Plan.load("plan.json").to_json() == plan.to_json()
        True
        """
        from rcb_bayes.planning.plan_files import read_plan

        return read_plan(path)

    def _as_arms(self, saturated: Sequence[str]) -> tuple[str, ...]:
        names = [saturated] if isinstance(saturated, str) else [str(name) for name in saturated]
        for name in names:
            if name not in self.arms:
                raise RcbError(
                    f"There is no arm '{name}'.{suggestion(name, self.arms)} The arms are {', '.join(self.arms)}."
                )
        return tuple(arm for arm in self.arms if arm in names)

    def _average_rate(self, users: FloatArray) -> FloatArray:
        if not self.personalised:
            return np.full(len(users), self.exploration_rate)
        total = sum(stage.share for stage in self.stages)
        rates = np.zeros(len(users))
        for stage in self.stages:
            rates += stage.share / total * self._stage_rate(users, stage.saturated)
        return rates

    def _stage_rate(self, users: FloatArray, saturated: tuple[str, ...]) -> FloatArray:
        if len(saturated) in (0, len(self.arms)):
            return np.ones(len(users))
        stage = self._by_arms.get(self._stands_for(saturated))
        if self.kind != "sampled" or (stage is not None and not self.personalised):
            return np.full(len(users), self.exploration_rate)
        if stage is None or stage.rule is None:
            free = self._is_free(users, saturated).astype(float)
            return free if self.personalised else free * self.exploration_rate
        if isinstance(stage.rule, TableRule):
            return stage.rule.rates[find_rows(stage.rule.places, users)]
        rows, places = distinct_rows(users)
        return self._rates(rows, stage.saturated, stage.rule).rate[places]

    def _stands_for(self, saturated: tuple[str, ...]) -> tuple[str, ...]:
        """The stage that stands for a set of saturated arms."""
        named = {arm for arms in self.alike for arm in arms[: sum(arm in saturated for arm in arms)]}
        return tuple(arm for arm in self.arms if arm in named) if self.alike else saturated

    @cached_property
    def _by_arms(self) -> dict[tuple[str, ...], PlannedStage]:
        return {stage.saturated: stage for stage in self.stages}

    def _open(self, saturated: tuple[str, ...]) -> list[int]:
        return [k for k, arm in enumerate(self.arms) if arm not in saturated]

    def _expected(self, users: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What users, and what the platform, expect of every arm before any data, (U, K) each."""
        if self.known is not None:
            rows = find_rows(self.known.places, users)
            return self.known.prior_rewards[rows], self.known.promoted_by[rows]
        before = users @ self.prior_mean.T
        return before, before if self.platform_mean is None else users @ self.platform_mean.T

    def _is_free(self, users: FloatArray, saturated: tuple[str, ...]) -> np.ndarray:
        """Who may be explored at a stage that nothing was simulated for: those who lose at most epsilon by it."""
        prior_rewards, promoted_by = self._expected(users)
        promoted = promotion_shares(promoted_by, self._open(saturated))
        terms = explored_terms(prior_rewards, promoted, epsilon=self.epsilon, notion=self.notion)
        return (terms >= 0.0).all(axis=(1, 2))

    def _rates(self, users: FloatArray, saturated: tuple[str, ...], rule: SampledRule) -> UserRates:
        prior_rewards, promoted_by = self._expected(users)
        return user_rates(
            rule.outlook,
            users,
            prior_rewards=prior_rewards,
            promoted_by=promoted_by,
            open_arms=self._open(saturated),
            epsilon=self.epsilon,
            notion=self.notion,
            slack=rule.slack,
        )

    def _why(self, stage: PlannedStage, user: FloatArray) -> str:
        if not isinstance(stage.rule, SampledRule):
            return f"explored at the rate {self._stage_rate(user[None], stage.saturated)[0]:.3g}"
        found = self._rates(user[None], stage.saturated, stage.rule)
        if found.is_free[0]:
            return f"she loses at most {self.epsilon:g} by the promoted arm, and is explored at the rate 1"
        arm, rival = self.arms[found.arm[0]], self.arms[found.rival[0]]
        return (
            f"{arm} in the place of {rival} costs her {found.loss[0]:.3g} beyond epsilon if explored and brings "
            f"{found.gain[0]:.3g} (sd {found.spread[0]:.2g}) if not; she is explored at the rate {found.rate[0]:.3g} "
            f"(at most {found.ideal[0]:.3g} if nothing were left for the audit)"
        )

    def _named(self, values: FloatArray) -> list[str]:
        return [f"{value:.3g} of {arm}" for arm, value in zip(self.arms, values, strict=True)]
