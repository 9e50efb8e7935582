"""Ways to live with many arms, together: audits against rounds of plain worlds with true rewards.

Samples of each arm its own, none of some, a private history, elimination for everybody or user by user, an order,
clusters; independent arms, coupled ones, and a coupling that the platform has and users do not; whatever users know.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from tests.twins import plain_mechanism as plain
from tests.twins.pooled_truth import rows_of
from tests.twins.truth import Case, compared, scenario_of

MANY = 4.6  # errors, for hundreds of cells
HORIZON = 300
ROWS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
MEAN = [[0.30, 0.0], [0.25, 0.1], [-0.1, 0.25], [0.1, 0.0], [-1.2, -1.2]]
VARIANCE = np.array([0.3, 0.3, 0.2, 0.3, 0.05])
APART = Case(name="independent", mean=MEAN, variance=VARIANCE, sigma=0.5, rows=ROWS, shares=[0.4, 0.3, 0.3])
PAIRS = np.eye(5)
PAIRS[0, 1] = PAIRS[1, 0] = PAIRS[2, 3] = PAIRS[3, 2] = 0.8
COUPLING = np.kron(PAIRS * np.sqrt(np.outer(VARIANCE, VARIANCE)), np.eye(2))
SHARED = replace(APART, name="coupled", variance=COUPLING)
NOT_SHARED = replace(APART, name="not shared", platform_mean=MEAN, platform_variance=COUPLING)
CASES = {case.name: case for case in (APART, SHARED, NOT_SHARED)}

UNEQUAL = (5, 3, 4, 0, 4)
WAYS: dict[str, dict[str, Any]] = {
    "eliminate": {"eliminate": 0.05},
    "user by user": {"eliminate": 0.1, "contextual": True},
    "in order": {"eliminate": 0.05, "top": 1},
    "clusters": {"eliminate": 0.05, "clusters": 2},
    "all": {"eliminate": 0.1, "contextual": True, "clusters": 3, "top": 2},
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A case, a way, samples of each arm, and those of before, if any."""

    case: str
    way: str
    n_per_arm: int | tuple[int, ...] = 4
    past: tuple[int, ...] = ()
    knows: str = "stage"

    def __str__(self) -> str:
        return f"{self.case}, {self.way}, {self.n_per_arm}, {self.past}, {self.knows}"

    @property
    def rows_of_before(self) -> list[np.ndarray]:
        return [ROWS[np.arange(n) % 3] for n in self.past]


@cache
def both(asked: Asked) -> tuple[rcb.Plan, rcb.Audit, plain.Scenario]:
    case = CASES[asked.case]
    market = case.market()
    if asked.past:
        x = np.concatenate(asked.rows_of_before)
        arm = np.repeat(np.arange(5), asked.past)
        market = market.with_history({"x": x, "arm": arm, "reward": np.ones(len(arm))}, public=False)
    plan = rcb.calibrate(
        market,
        exploring=rcb.Exploring(**WAYS[asked.way]),
        n_per_arm=asked.n_per_arm,
        knows=asked.knows,
        epsilon=0.7 if asked.case == "not shared" else 0.05,  # users whom the platform's best arms cost much
        horizon=HORIZON,
        n_worlds=1000,
        seed=1,
    )
    assert plan.feasible, plan.reason
    found = rcb.audit(market, plan, horizon=HORIZON, knows=asked.knows, users=ROWS, n_worlds=1000, seed=7)
    past = tuple(asked.rows_of_before) if asked.past else None

    def admits(rows: np.ndarray) -> np.ndarray:
        found = plan.before.admitted(rows)
        return np.ones((len(rows), 5), dtype=bool) if found is None else found

    return plan, found, scenario_of(case, plan, horizon=HORIZON, past=past, admits=admits)


def apart(asked: Asked, **changed: Any) -> float:
    """How many errors the audit and plain rounds are apart; with something changed on the plain side."""
    plan, found, scenario = both(asked)
    out = plain.run_worlds(replace(scenario, **changed), 8000, seed=3)
    rows = (
        compared(CASES[asked.case], plan, found, out)[0] if asked.knows == "stage" else rows_of(found, out, asked.knows)
    )
    assert len(rows) >= 9
    return max(abs(row.z) for row in rows)


FEW = [
    Asked(case="independent", way="in order", n_per_arm=UNEQUAL, past=(0, 3, 1, 2, 0)),
    Asked(case="coupled", way="clusters", past=(2, 0, 1, 0, 3), knows="level"),
    Asked(case="not shared", way="clusters"),
]
MORE = [
    Asked(case=case, way=way, n_per_arm=n, past=past, knows=knows)
    for knows, case, way, n, past in [
        ("stage", "independent", "user by user", UNEQUAL, (2, 0, 1, 3, 0)),
        ("stage", "coupled", "user by user", 4, (1, 4, 0, 0, 2)),
        ("stage", "coupled", "all", 4, ()),
        ("stage", "not shared", "in order", UNEQUAL, (0, 3, 1, 2, 0)),
        ("stage", "not shared", "all", 4, (0, 0, 2, 2, 0)),
        ("level", "independent", "all", 4, (2, 0, 1, 0, 3)),
        ("level", "independent", "eliminate", UNEQUAL, (5, 0, 0, 2, 1)),
        ("level", "coupled", "user by user", UNEQUAL, ()),
        ("level", "not shared", "clusters", 4, (0, 2, 0, 3, 0)),
        ("phase", "independent", "in order", UNEQUAL, (0, 3, 1, 2, 0)),
        ("phase", "independent", "user by user", 4, (2, 0, 1, 3, 0)),
        ("phase", "coupled", "all", 4, (2, 0, 1, 0, 3)),
        ("phase", "coupled", "clusters", 4, ()),
        ("mechanism", "independent", "user by user", UNEQUAL, (2, 0, 1, 3, 0)),
        ("mechanism", "independent", "in order", 4, (0, 3, 1, 2, 0)),
        ("mechanism", "coupled", "clusters", 4, (2, 0, 1, 0, 3)),
        ("mechanism", "coupled", "all", 4, ()),
    ]
]


@pytest.mark.parametrize("asked", FEW, ids=str)
def test_margins_are_those_of_plain_rounds(asked: Asked) -> None:
    assert apart(asked) < MANY


@pytest.mark.slow
@pytest.mark.parametrize("asked", MORE, ids=str)
def test_margins_are_those_of_plain_rounds_in_more_of_them(asked: Asked) -> None:
    assert apart(asked) < MANY


def test_users_who_do_not_share_a_coupling_do_not_learn_by_it() -> None:
    """The planted error: users who reckon with the platform's coupling would get other margins."""
    asked = FEW[2]
    assert apart(asked, belief=SHARED.belief(), platform=None) > MANY


def test_a_history_of_other_users_is_found_out() -> None:
    assert apart(FEW[1], past=tuple(0.1 * rows for rows in FEW[1].rows_of_before)) > MANY
