"""A rule: a plan's rates and guards as two small tables of leaves, in Python or wherever JSON can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.knowledge import STAGE, as_knowledge
from rcb_bayes.mechanism.outlook import find_rows, places_of
from rcb_bayes.planning.leaves import LeafTable, count_leaves
from rcb_bayes.schema import FloatArray, arms_among, as_count, plain
from rcb_bayes.telling.wording import figure, percent
from rcb_bayes.users.labelled import Users, as_users

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What tables keep of a plan's exploration, over users that they were not made from.

    Attributes
    ----------
    rates : of the length of all stages but the first phase: the plan's rounds over the rule's, with its error
    guards : of the off-best probability that the plan's guards let through, over its epochs, with its error
    exceeded : the share of users to whom some leaf gives more than the plan does, with its error
    exceeded_upper : what that share is at most, by a one-sided 95 % bound
    exceeded_by : how much more, at most, among the users looked at
    stages : of each stage's length, with errors: the plan's rounds over the rule's
    length : of a cold start under the rule, in rounds, simulated, with its error; 0 where none was simulated
    length_of_plan : the plan's own among the same users
    stuck : the share of cold starts that do not end under the rule
    """

    rates: float = 1.0
    rates_mcse: float = 0.0
    guards: float = 1.0
    guards_mcse: float = 0.0
    exceeded: float = 0.0
    exceeded_mcse: float = 0.0
    exceeded_upper: float = 0.0
    exceeded_by: float = 0.0
    stages: tuple[float, ...] = ()
    stages_mcse: tuple[float, ...] = ()
    length: float = 0.0
    length_mcse: float = 0.0
    length_of_plan: float = 0.0
    stuck: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """Rates and guards of a plan, as tables of leaves.

    Parameters
    ----------
    arms, features : tuple of str
        Labels.
    alike : tuple of tuples
        Classes of arms with one and the same law, each arm once; the first ones of a class stand for any.
    epsilon, notion : float and str
        What the plan's users put up with, in which sense.
    knows : str
        What users know of the clock.
    of_plan : str
        The digest of the plan.
    stages : tuple of tuples
        Saturated arms of the stages, a column of ``rates`` each; none where one rate was given for all of them, or
        stages only count arms.
    levels : tuple of int
        Then: numbers of saturated arms, with a column of ``rates`` for each arm that is promoted.
    shares : tuple of floats
        Of cold starts that pass each stage, or level.
    promoted_by : ndarray or None
        With levels: what arms are promoted by, the platform's prior means (K, d), or its expectations of the users of
        ``table``, (P, K).
    rates : LeafTable
        Rates, (n_leaves, number of stages, or of levels times arms), or (1, 1) where there are none of either.
    guards : LeafTable or None
        Factors, (n_leaves, number of epochs times arms); None without a guard.
    table : ndarray or None
        Users whose rates are known, (P, d), where rewards are not linear in beta.
    shares_kept : Kept
        What is kept, and exceeded.
    max_leaves, n_users, seed : int
        What was asked for, and users looked at.
    course : tuple of pairs
        Leaves, and the share kept by them as they were grown.
    feature_map : FeatureMap or None
        From x to the features that leaves are of; a file has none, and such a rule asks for features.

    Examples
    --------
    With ``plan`` as in ``calibrate``:

    >>> rule = plan.distil(max_leaves=16)
    >>> print(rule.summary())
    rule of 16 leaves, user notion, epsilon 0.1
    exploration kept       ...
    ...
    """

    arms: tuple[str, ...]
    features: tuple[str, ...]
    alike: tuple[tuple[str, ...], ...]
    epsilon: float
    notion: str
    of_plan: str
    stages: tuple[tuple[str, ...], ...]
    shares: tuple[float, ...]
    rates: LeafTable
    guards: LeafTable | None
    table: FloatArray | None
    shares_kept: Kept
    max_leaves: int
    n_users: int
    seed: int
    course: tuple[tuple[int, float], ...]
    knows: str = STAGE.name
    levels: tuple[int, ...] = ()
    promoted_by: FloatArray | None = None
    feature_map: FeatureMap | None = None

    # --- figures ---

    @property
    def n_leaves(self) -> int:
        """Leaves of both tables together; a table with one is the same for all users, and such tables share it."""
        return count_leaves(table.leaves.n_leaves for table in (self.rates, self.guards) if table is not None)

    @property
    def n_epochs(self) -> int:
        """Epochs with factors of their own; the last one's serve all later ones."""
        return 0 if self.guards is None else self.guards.values.shape[1] // len(self.arms)

    @property
    def kept(self) -> float:
        """The share that is kept of the cold start's length or of guards, whichever is less."""
        return min(self.shares_kept.rates, self.shares_kept.guards)

    @property
    def kept_mcse(self) -> float:
        """The error of ``kept``; none of a table of users."""
        found = self.shares_kept
        return found.rates_mcse if found.rates <= found.guards else found.guards_mcse

    # --- what a mechanism asks ---

    def rate(self, x: Users, *, saturated: Sequence[str] | None = None) -> FloatArray:
        """Exploration rate of users x, (d,) -> a number, (U, d) -> (U,); arguments are those of ``Plan.rate``.

        Raises
        ------
        DataError
            Users of the wrong width, or outside the table that the plan is for.
        RcbError
            Arms that do not exist, or a stage that no simulated cold start has passed.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> rule = plan.distil(max_leaves=16)
        >>> bool((rule.rate([[0.2, 0.5], [0.9, 0.5]]) <= plan.rate([[0.2, 0.5], [0.9, 0.5]])).all())
        True
        """
        users = self._users(x)
        rows = np.atleast_2d(users)
        if saturated is None:
            rates = self.rates.of(rows) @ self._average
        elif len(own := arms_among(saturated, self.arms)) in (0, len(self.arms)):
            rates = np.ones(len(rows))
        else:
            columns = self._by_arm(rows, own) if self.levels else np.full(len(rows), self._column(own))
            rates = np.take_along_axis(self.rates.of(rows), columns[:, None], axis=1)[:, 0]
        return rates if users.ndim == 2 else rates[0]

    def guard(self, x: Users, epoch: int) -> FloatArray:
        """Factors on each arm's off-best probability in an epoch, (d,) -> (K,), (U, d) -> (U, K); see ``Plan.guard``.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.distil(max_leaves=16).guard([0.9, 0.5], 0).shape
        (2,)
        """
        epoch = as_count(epoch, name="epoch")
        users = self._users(x)
        rows, k = np.atleast_2d(users), len(self.arms)
        if self.guards is None:
            factors = np.ones((len(rows), k))
        else:
            first = min(epoch, self.n_epochs - 1) * k
            factors = self.guards.of(rows)[:, first : first + k]
        return factors if users.ndim == 2 else factors[0]

    def _users(self, x: Users) -> FloatArray:
        own = self.feature_map
        users = as_users(x, features=self.features if own is None else own.inputs, name="x")
        users = users if own is None else own(users)
        if self.table is not None:
            find_rows(self._places, np.atleast_2d(users))
        return users

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {} if self.table is None else places_of(self.table)

    @property
    def _average(self) -> FloatArray:
        """Weights of the stages in a rate that names none."""
        shares = np.repeat(self.shares, len(self.arms) if self.levels else 1)
        return shares / shares.sum() if len(shares) else np.ones(1)

    def _by_arm(self, users: FloatArray, saturated: tuple[str, ...]) -> np.ndarray:
        """The column of each user once these arms are saturated: the level's, of the arm promoted to her; (U,)."""
        assert self.promoted_by is not None  # as levels are
        if len(saturated) not in self.levels:
            raise RcbError(
                f"The rule has no rates for {len(saturated)} saturated arms: no simulated cold start has passed there."
            )
        known = self.table is not None
        hopes = self.promoted_by[find_rows(self._places, users)] if known else users @ self.promoted_by.T
        still_open = [place for place, arm in enumerate(self.arms) if arm not in saturated]
        first = promotion_shares(hopes, still_open).argmax(axis=1)  # of tied arms the first, as plans have it
        return self.levels.index(len(saturated)) * len(self.arms) + first

    def _column(self, own: tuple[str, ...]) -> int:
        if not self.stages:
            return 0
        named = {arm for alike in self.alike for arm in alike[: sum(arm in own for arm in alike)]}
        stage = tuple(arm for arm in self.arms if arm in named)
        if stage not in self.stages:
            raise RcbError(
                f"The rule has no stage with {', '.join(own)} saturated: no simulated cold start has passed it. "
                "plan.with_rule(rule) explores those there who lose at most epsilon by it."
            )
        return self.stages.index(stage)

    # --- what people ask ---

    def __repr__(self) -> str:
        return f"<Rule: {self.summary()}>"

    def summary(self) -> str:
        """The rule in a few lines."""
        found = self.shares_kept
        known = "" if self.knows == STAGE.name else f", users know {as_knowledge(self.knows).words}"
        parts = [f"length {figure(found.rates, found.rates_mcse)} in {_leaves(self.rates.leaves.n_leaves)}"]
        if self.guards is not None:
            parts.append(f"guards {figure(found.guards, found.guards_mcse)} in {_leaves(self.guards.leaves.n_leaves)}")
        lines = [
            f"rule of {_leaves(self.n_leaves)}, {self.notion} notion, epsilon {self.epsilon:g}{known}",
            f"exploration kept       {percent(self.kept)}: {', '.join(parts)}",
        ]
        if found.length > 0.0:
            own, least = figure(found.length, found.length_mcse), int(np.argmin(found.stages))
            where = ", ".join(self.stages[least]) if self.stages else f"{self.levels[least]} of {len(self.arms)} arms"
            share = figure(found.stages[least], found.stages_mcse[least])
            lines += [
                f"expected cold start    {own} rounds, the plan's {found.length_of_plan:,.1f}",
                f"least kept             {share} of its length, with {where} saturated",
            ]
        if found.exceeded_upper > 0.0:
            most = f"at most {percent(found.exceeded_upper)} (95 %)"
            share = figure(found.exceeded, found.exceeded_mcse)
            by = f", by up to {found.exceeded_by:.2g}" if found.exceeded > 0.0 else ""
            lines.append(f"above the plan's own   for a share of {share} of other users, {most}{by}")
        lines.append("audit                  rcb.audit(market, plan.with_rule(rule)) makes one")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Every figure by its name, as plain data; the tables are in ``to_json``.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.distil(max_leaves=16).to_dict()["n_leaves"]
        16
        """
        found = self.shares_kept
        return plain(
            {
                "n_leaves": self.n_leaves,
                "max_leaves": self.max_leaves,
                "kept": self.kept,
                "kept_mcse": self.kept_mcse,
                "kept_rates": found.rates,
                "kept_rates_mcse": found.rates_mcse,
                "kept_guards": found.guards,
                "kept_guards_mcse": found.guards_mcse,
                "kept_stages": found.stages,
                "kept_stages_mcse": found.stages_mcse,
                "expected_cold_start": found.length or None,
                "expected_cold_start_mcse": found.length_mcse,
                "expected_cold_start_of_plan": found.length_of_plan or None,
                "stuck": found.stuck,
                "exceeded": found.exceeded,
                "exceeded_mcse": found.exceeded_mcse,
                "exceeded_upper": found.exceeded_upper,
                "exceeded_by": found.exceeded_by,
                "epsilon": self.epsilon,
                "notion": self.notion,
                "knows": self.knows,
                "of_plan": self.of_plan,
                "n_users": self.n_users,
                "seed": self.seed,
            }
        )

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """The share of exploration that is kept, over the number of leaves.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.distil(max_leaves=16).plot().get_xlabel()
        'leaves'
        """
        from rcb_bayes.plots.rules import plot_kept

        return plot_kept(self, axes=axes)

    # --- files ---

    def to_json(self) -> str:
        """The rule as plain JSON: splits, thresholds, values. ``rcb_bayes/planning/rule.js`` evaluates it."""
        from rcb_bayes.planning.rule_files import rule_text

        return rule_text(self)

    @classmethod
    def from_json(cls, text: str) -> "Rule":
        """A rule from its text.

        Parameters
        ----------
        text : str
            What ``to_json`` gave.

        Returns
        -------
        Rule

        Raises
        ------
        RcbError
            Text that is no rule, or one of another format; a digit that was changed; what no rule could be.
        """
        from rcb_bayes.planning.rule_files import rule_of_text

        return rule_of_text(text)

    def save(self, path: str | Path) -> None:
        """Write the rule to a JSON file, with a digest of its content; an interrupted write leaves the old file.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.distil(max_leaves=16).save("rule.json")
        >>> rcb.Rule.load("rule.json").n_leaves
        16
        """
        from rcb_bayes.planning.rule_files import write_rule

        write_rule(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "Rule":
        """Read a rule from a JSON file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        Rule

        Raises
        ------
        RcbError
            A file that is not there, or is no rule; a digit that was changed; what no rule could be.

        Examples
        --------
        With ``plan`` as in ``calibrate``:

        >>> plan.distil(max_leaves=16).save("rule.json")
        >>> rcb.Rule.load("rule.json").rate([[0.2, 0.5], [0.9, 0.5]], saturated=["old"]).round(1)
        array([1. , 0.4])
        """
        from rcb_bayes.planning.rule_files import read_rule

        return read_rule(path)


def _leaves(n: int) -> str:
    return "one leaf" if n == 1 else f"{n} leaves"
