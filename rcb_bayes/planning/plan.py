"""A plan: whom to explore, how often, with how many samples, and what that takes.

A plan is data. It is frozen, it can be written to JSON and read back without loss, and what it needs to answer for any
user travels with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.planning.figures import PlanFigures
from rcb_bayes.planning.stages import PlannedStage
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, plain
from rcb_bayes.telling.html import as_html
from rcb_bayes.users import Covariates
from rcb_bayes.users.labelled import Users, as_users
from rcb_bayes.users.mapped import mapped
from rcb_bayes.users.stored import Whom

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rcb_bayes.planning.rule import Rule

# Arrays that a plan's file has, and its figures do not.
_BEHIND = ("prior_mean", "platform_mean", "known", "whom", "programme")


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan(PlanFigures):
    """How to explore a market so that users follow.

    What a part has can be read on the plan, too: ``plan.epsilon`` is ``plan.goal.epsilon``. Every estimate has its
    Monte Carlo error beside it, ``*_mcse``.

    Parameters
    ----------
    goal : Goal
        ``epsilon``, ``notion``, ``personalised``, ``knows``.
    constants : Constants
        ``n_per_arm`` (N), ``exploration_rate`` (q), ``inverse_rate`` (L), ``tau``, ``rho``, and how they were found.
    before : Expectations
        Arms, features, and what users and the platform expect before any data.
    cold_start : PlannedColdStart
        The stages, with the rate of each user.
    course : Course
        ``expected_cold_start``, ``expected_pulls``, ``expected_regret``, ``coverage``, shares of users.
    exploitation : PlannedExploitation
        ``guards``, ``guarded_for``, ``spread_multiple``.
    feasibility : Feasibility
        ``feasible``, ``reason``, ``nearest_epsilon``, the ``verdict`` of an audit, ``choices`` of N.
    provenance : Provenance
        Belief, users and noise in words and as fingerprints, engine, worlds, posteriors, seed, ``notes``.
    types : TypedPlans, optional
        Of a plan for several types of users, the plans of each: rates and guards are what these follow together.

    Examples
    --------
    With ``plan`` as in ``calibrate``:

    >>> print(plan.summary())
    sampled plan, user notion, epsilon 0.1, a rate for each user, users know which arms are saturated
    samples per arm N      10
    exploration rate       0.7...
    expected cold start    2... rounds
    users explored         100.0 %; 32.8 % lose at most epsilon by it and need no subsidy
    ...
    """

    # --- what the mechanism asks ---

    @property
    def agenda(self) -> Agenda:
        """Samples of each arm in the cold start, and which arms may be promoted when."""
        return self._agenda

    @cached_property
    def _agenda(self) -> Agenda:
        n_per_arm = self.constants.n_per_arm
        if self.before.admission is not None:
            return self.before.admission
        return Agenda(needed=n_per_arm) if isinstance(n_per_arm, tuple) else Agenda.same(n_per_arm, len(self.arms))

    def rate(self, x: Users, *, saturated: Sequence[str] | None = None) -> FloatArray:
        """Exploration rate of users x, (d,) -> a number, (U, d) -> (U,).

        ``saturated`` names the stage; without it the stages that cold starts pass are averaged. No arm, or all that are
        explored, is the stage at which nobody needs a subsidy: 1, but for users whose most popular arm is not explored.

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
        array([1. , 0.4])
        """
        users = self.features_of(x)
        rates = self._rates(np.atleast_2d(users), saturated)
        return rates if users.ndim == 2 else rates[0]

    def _rates(self, rows: FloatArray, saturated: Sequence[str] | None) -> FloatArray:
        """Rates of users by their features, (U, d) -> (U,); of several types, those that they follow together."""
        if self.types is not None:
            return self.types.followed([plan._rates(rows, saturated) for plan in self.types.plans])
        of_plan = {"goal": self.goal, "constants": self.constants, "before": self.before}
        if saturated is None:
            return self.cold_start.average_rates(rows, **of_plan)
        return self.cold_start.stage_rates(rows, self.before.in_order(saturated), **of_plan)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Labels of users' x: the belief's features, or what its feature map is told of users."""
        return self.features if self.before.feature_map is None else self.before.feature_map.inputs

    def features_of(self, x: Users) -> FloatArray:
        """Users as the plan's numbers have them: phi(x), or x where there is no map; (p,) -> (d,), (U, p) -> (U, d).

        Raises
        ------
        DataError
            Users of the wrong width.
        """
        users = as_users(x, features=self.inputs, name="x")
        return users if self.before.feature_map is None else self.before.feature_map(users)

    @property
    def by_features(self) -> "Plan":
        """The same plan, asked by features rather than by x: what simulations and audits do."""
        if self.before.feature_map is None:
            return self
        return replace(self, before=replace(self.before, whom=None))

    def for_market(self, market: Market) -> "Plan":
        """The plan with the market's users and feature map: a file has no map, and such a plan asks for features.

        Parameters
        ----------
        market : Market
            The market that the plan was made for.

        Returns
        -------
        Plan

        Raises
        ------
        RcbError
            A plan for another market.
        """
        from rcb_bayes.planning.checks import check_arms

        check_arms(market, self)
        return replace(self, before=replace(self.before, whom=Whom(market.covariates, market.feature_map)))

    def rates_by_arm(self, x: Users, *, level: int) -> FloatArray:
        """Exploration rates of users x where an arm is promoted to them, once ``level`` arms are saturated.

        (d,) -> (K,), (U, d) -> (U, K).

        Raises
        ------
        RcbError
            A plan whose users know which arms are saturated: its rates are by set.
        """
        if self.knows == STAGE.name:
            raise RcbError(
                "Rates by promoted arm are of plans for users who do not know which arms are saturated, got "
                f"knows='{STAGE.name}'. Use rate(x, saturated=)."
            )
        users = self.features_of(x)
        of_plan = {"goal": self.goal, "constants": self.constants, "before": self.before}
        rates = self.cold_start.rates_by_arm(np.atleast_2d(users), level, **of_plan)
        return rates if users.ndim == 2 else rates[0]

    def guard(self, x: Users, epoch: int) -> FloatArray:
        """Factors on each arm's off-best probability in an epoch of exploitation, (d,) -> (K,), (U, d) -> (U, K).

        All are 1 where the plan has no guard, and 0 of arms that are not explored. Epochs after those that were
        simulated have the last one's: the off-best probability only shrinks with time.
        """
        users = self.features_of(x)
        factors = self._factors(np.atleast_2d(users), epoch)
        return factors if users.ndim == 2 else factors[0]

    def _factors(self, rows: FloatArray, epoch: int) -> FloatArray:
        """The same of users by their features, (U, d) -> (U, K); of several types, what they follow together."""
        if self.types is not None:
            return self.types.followed([plan._factors(rows, epoch) for plan in self.types.plans])
        factors = self.exploitation.guard(rows, epoch, goal=self.goal, n_arms=len(self.before.arms))
        return factors if self.agenda.cut is None else factors * self.agenda.cut

    def guard_one(self, x: list[float], epoch: int) -> list[float]:
        """The same of one user, plain numbers in and out, of a plan with a guard: what a live loop asks."""
        if self.types is not None:
            return self._factors(np.array([x]), epoch)[0].tolist()
        factors = self.exploitation.guard_one(x, epoch, goal=self.goal)
        if self.agenda.cut is None:
            return factors
        return [factor * cut for factor, cut in zip(factors, self.agenda.cut.tolist(), strict=True)]

    # --- rules ---

    def distil(
        self, max_leaves: int = 256, *, covariates: Covariates | None = None, seed: int = DEFAULT_SEED
    ) -> "Rule":
        """Rates and guards as small tables, which are evaluated in microseconds.

        A tree sorts users into leaves, and each leaf holds the least rate, or the least factor of every arm, of the
        users in it; beyond a cut of its own, for each stage or arm, the least of the users there. One tree serves all
        stages, or all levels, another all epochs.

        Parameters
        ----------
        max_leaves : int
            Leaves of both tables together.
        covariates : Covariates, optional
            The population, where the plan does not know it: one from a file whose users are a table, or a class of
            your own.
        seed : int
            Of the users that leaves are made from and looked at.

        Returns
        -------
        Rule
            With the share that it keeps, ``kept``, of the cold start's length and of guards.

        Raises
        ------
        RcbError
            Fewer than one leaf; too few leaves to keep every stage open that the plan keeps open; a plan that was
            distilled before, that is not feasible, or that does not know its users.

        Applicability
        -------------
        Of a table of users the least is exact. Elsewhere it is the least of those looked at: many users at random, and
        others that are moved from the lowest of them within the support. Some user is always lower; ``exceeded`` tells
        how many, in users of its own. A lower rate is safe for the user herself, but it changes the data of all later
        stages. So audit the rule as it stands: ``rcb.audit(market, plan.with_rule(rule))``. With a feature map leaves
        are of features, and users who are looked at may be moved to features that no x has: these only lower rates.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> rule = plan.distil(max_leaves=16)
        >>> rule.n_leaves, rule.kept > 0.9
        (16, True)
        >>> rule.rate([[0.2, 0.5], [0.9, 0.5]], saturated=["old"]).round(1)
        array([1. , 0.4])
        """
        from rcb_bayes.planning.distilling import distil

        whom = self.before.whom
        if whom is None or whom.feature_map is None:
            return distil(self, max_leaves=max_leaves, covariates=covariates, seed=seed)
        users = mapped(covariates or whom.covariates, whom.feature_map)
        rule = distil(self.by_features, max_leaves=max_leaves, covariates=users, seed=seed)
        return replace(rule, feature_map=whom.feature_map)

    def with_rule(self, rule: "Rule") -> "Plan":
        """The plan with the rates and guards of a rule in the place of its own: simulated, audited and saved as such.

        The expected cold start is the rule's own; expected pulls, regret and the like stay those of the plan that was
        distilled.

        Parameters
        ----------
        rule : Rule
            What ``distil`` made of this plan.

        Returns
        -------
        Plan

        Raises
        ------
        RcbError
            A rule of another plan.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> ruled = plan.with_rule(plan.distil(max_leaves=16))
        >>> rcb.audit(market, ruled, horizon=50, n_worlds=500, n_users=20, seed=2).verdict
        'pass'
        """
        from rcb_bayes.planning.ruling import ruled

        return ruled(self, rule)

    # --- what people ask ---

    def explain(self, x: Users) -> str:
        """Why user x is explored as often as she is, stage by stage.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> print(plan.explain([0.2, 0.5]))
        before any data she expects 0.2 of old, 0.14 of new
        old saturated (100.0 % of cold starts): she loses at most 0.1 by the promoted arm, and is explored at the rate 1
        """
        from rcb_bayes.planning.plan_wording import explanation

        return explanation(self, x)

    def stage_name(self, stage: PlannedStage) -> str:
        """The saturated arms in words: ``arm_0 and 2 of arm_1, arm_2, arm_3``."""
        return self.cold_start.name_of(stage, self.before.arms)

    def __repr__(self) -> str:
        return f"<Plan: {self.summary()}>"

    def _repr_html_(self) -> str:
        return as_html("Plan", self.summary(), verdict="feasible" if self.feasible else "not feasible")

    def summary(self) -> str:
        """The plan in a few lines."""
        from rcb_bayes.planning.plan_wording import summary

        return summary(self)

    def plot(self, users: Users | None = None, *, axes: "Axes | None" = None) -> "Axes":
        """The map of exploration rates over some users; without any, over those the plan knows, else the coverage.

        Raises
        ------
        DataError
            Users of the wrong width, or of whom a plan for a table knows nothing.
        RcbError
            Nobody to draw, and no coverage: a plan that nothing was simulated for.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.plot().get_title()
        'Coverage of 10 samples of each arm'
        """
        from rcb_bayes.plots.plans import plot_coverage
        from rcb_bayes.plots.rates import plot_rates

        if users is None and self.known is not None:
            users = self.known.people
        return plot_coverage(self, axes=axes) if users is None else plot_rates(self, users, axes=axes)

    def to_dict(self) -> dict[str, Any]:
        """Every figure by its name, as plain data; without the arrays behind rates and guards, which the file has.

        What is endless or unknown is None.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> figures = plan.to_dict()
        >>> figures["n_per_arm"], figures["stages"][0]["saturated"]
        (10, ['old'])
        """
        figures = {
            item.name: getattr(part, item.name)
            for part in (getattr(self, item.name) for item in fields(self) if item.name != "types")
            for item in fields(part)
            if item.name not in _BEHIND
        }
        figures["stages"] = [
            {item.name: getattr(stage, item.name) for item in fields(stage) if item.name != "rule"}
            for stage in self.stages
        ]
        figures["guards"] = [{"kept": rule.kept, "closed": rule.closed} for rule in self.guards]
        if self.types is not None:
            told = zip(self.types.names, self.types.shares, self.types.plans, strict=True)
            figures["types"] = [{"name": name, "share": share, "epsilon": own.epsilon} for name, share, own in told]
            figures["least_share"] = self.types.least_share
        return plain(figures)

    # --- files ---

    def to_json(self) -> str:
        """The plan as text, without loss."""
        from rcb_bayes.planning.plan_files import plan_text

        return plan_text(self)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """A plan from its text.

        Parameters
        ----------
        text : str
            What ``to_json`` gave.

        Returns
        -------
        Plan

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

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        Plan

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
