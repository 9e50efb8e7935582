"""Who is explored: users by each of their features, and how often the plan explores them."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rcb_bayes.planning.course import USUAL_STAGE
from rcb_bayes.planning.plan import Plan
from rcb_bayes.reporting.markup import Markup, join, table, tag
from rcb_bayes.reporting.pieces import bar
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.telling.wording import brief, percent
from rcb_bayes.users import Empirical

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report

_MOST_FEATURES = 12
_FEW_VALUES = 4  # told one by one; more are cut into thirds
_EVEN = 0.01  # a difference below this is not worth rows of a table
GROUPS = ["feature", "value", "of all users", "mean rate", "explored"]


class Group(NamedTuple):
    """Users with like values of a feature."""

    feature: str
    values: str
    share: float  # of all users
    rate: float
    explored: float  # share of the group, at some stage that is not rare


def groups(plan: Plan, users: FloatArray, *, weights: FloatArray) -> list[Group]:
    """Users by the value of each feature that varies: (U, d), with weights (U,) that sum to 1."""
    rates, explored = plan.rate(users), explores(plan, users)
    found: list[Group] = []
    for j, feature in enumerate(plan.inputs[:_MOST_FEATURES]):
        for name, members in _parts(users[:, j], weights):
            mass = float(weights[members].sum())
            if mass <= 0:
                continue
            own = weights[members] / mass
            found.append(
                Group(
                    feature=feature,
                    values=name,
                    share=mass,
                    rate=float(own @ rates[members]),
                    explored=float(own @ explored[members]),
                )
            )
    return found


def explores(plan: Plan, users: FloatArray) -> BoolArray:
    """Users who are explored at some stage that is not rare, (U,): what ``plan.share_explored`` is a share of."""
    usual = tuple(stage for stage in plan.stages if stage.share >= USUAL_STAGE)
    if usual and len(usual) < len(plan.stages):
        plan = replace(plan, cold_start=replace(plan.cold_start, stages=usual))
    return plan.rate(users) > 0


def weights_of(report: "Report") -> FloatArray:
    """Weights of the users on the map: the table's own where it is drawn whole."""
    users = report.market.covariates
    if isinstance(users, Empirical) and users.rows.shape == report.users.shape:
        return users.weights
    return np.full(len(report.users), 1.0 / len(report.users))


def by_group(report: "Report") -> Markup | None:
    """The same as a table; None where one rate serves all, or where features do not vary."""
    if not (report.plan.personalised and report.plan.feasible):
        return None
    found = groups(report.plan, report.users, weights=weights_of(report))
    if not found:
        return None
    even = alike_by(found)
    rows = [
        [one.feature, one.values, percent(one.share), bar(one.rate, f"{one.rate:.3f}"), percent(one.explored)]
        for one in found
        if one.feature not in even
    ]
    words = (
        f"Of the {len(report.users):,} users of the map: rates averaged over stages, and the share who are explored "
        "at some stage that one cold start in twenty passes. A feature with few values is told value by value, others "
        "in thirds. Look whether exploration falls on one group."
        + (f" By {', '.join(even)} rates differ by less than {_EVEN:g}." if even else "")
    )
    return join(
        tag("h3", "Who is explored, feature by feature"),
        table(GROUPS, rows, class_="stack labelled", numbers=2) if rows else None,
        tag("p", words, class_="note"),
    )


def alike_by(found: list[Group]) -> list[str]:
    """Features by which neither rates nor shares differ to speak of."""
    even = []
    for feature in dict.fromkeys(one.feature for one in found):
        own = np.array([[one.rate, one.explored] for one in found if one.feature == feature])
        if float(np.ptp(own, axis=0).max()) < _EVEN:
            even.append(feature)
    return even


def _parts(values: FloatArray, weights: FloatArray) -> list[tuple[str, BoolArray]]:
    """Parts of a feature, named: its values where they are few, else thirds of the users; none where it is constant."""
    kinds = np.unique(values[weights > 0])
    if len(kinds) < 2:
        return []
    if len(kinds) <= _FEW_VALUES:
        return [(brief(float(value)), values == value) for value in kinds]
    order = np.argsort(values, kind="stable")
    places = np.searchsorted(np.cumsum(weights[order]), [1 / 3, 2 / 3])
    low, high = (float(values[order[min(int(place), len(values) - 1)]]) for place in places)
    below, above = values < low, values >= high
    parts = [
        (f"below {brief(low)}", below),
        (f"{brief(low)} to {brief(high)}", ~below & ~above),
        (f"from {brief(high)}", above),
    ]
    return [(name, members) for name, members in parts if members.any()]
