"""Samples of each arm, each its own: audits against rounds of plain worlds with true rewards, whatever users know.

Nothing of the package's walk is on the plain side (``twins.plain_mechanism``). One case has arms whose coefficients are
coupled: an arm that nobody explores then stands at what is expected of it given the samples of the others.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.agenda import Agenda
from tests.twins import plain_mechanism as plain
from tests.twins.coarse_plans import coarse_plan
from tests.twins.pooled_truth import rows_of
from tests.twins.truth import Case, Row, compared, scenario_of

MANY = 4.6  # errors, for hundreds of cells
HORIZON = 300
ROWS = [[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]]
THREE = Case(
    name="three arms",
    mean=[[0.30, 0.0], [0.15, 0.25], [0.10, 0.05]],
    variance=[0.3, 0.5, 0.4],
    sigma=0.5,
    rows=ROWS,
    shares=[0.5, 0.3, 0.2],
)
COUPLED = replace(THREE, name="coupled", variance=np.kron(0.2 * np.eye(3) + 0.2, np.eye(2)))
CASES = {case.name: case for case in (THREE, COUPLED)}
UNEQUAL, NO_THIRD, NO_FIRST = (6, 3, 4), (6, 4, 0), (0, 6, 3)


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A plan, an audit of it for users who know so much, and plain worlds under it."""

    case: Case
    knows: str
    plan: rcb.Plan
    found: rcb.Audit
    out: plain.Outcome

    @property
    def rows(self) -> list[Row]:
        if self.knows == "stage":
            return compared(self.case, self.plan, self.found, self.out)[0]
        return rows_of(self.found, self.out, self.knows)

    @property
    def apart(self) -> float:
        return max(abs(row.z) for row in self.rows)


@cache
def sides(
    name: str, n_per_arm: tuple[int, ...], knows: str, told: tuple[int, ...] | None = None, *, handed_out: bool = False
) -> Sides:
    """``told`` is what the plain worlds are told in the place of the plan's own numbers.

    Plans are as coarse as what users know, unless they are to be those that are handed out.
    """
    case = CASES[name]
    market = case.market()
    asked = {"epsilon": 0.05, "knows": knows, "horizon": HORIZON, "n_worlds": 1000, "seed": 1}
    plan = (rcb.calibrate if handed_out else coarse_plan)(market, n_per_arm=n_per_arm, **asked)
    assert plan.feasible
    found = rcb.audit(market, plan, horizon=HORIZON, knows=knows, users=np.array(ROWS), n_worlds=1000, seed=7)
    scenario = scenario_of(case, plan, horizon=HORIZON)
    out = plain.run_worlds(scenario if told is None else replace(scenario, n_per_arm=told), 8000, seed=3)
    return Sides(case=case, knows=knows, plan=plan, found=found, out=out)


@pytest.mark.parametrize(
    ("name", "n_per_arm", "knows"),
    [
        ("three arms", UNEQUAL, "stage"),
        ("three arms", NO_THIRD, "stage"),
        ("three arms", NO_FIRST, "level"),
        ("three arms", NO_THIRD, "phase"),
        ("three arms", NO_FIRST, "mechanism"),
        ("coupled", NO_THIRD, "stage"),
    ],
)
def test_margins_are_those_of_plain_rounds(name: str, n_per_arm: tuple[int, ...], knows: str) -> None:
    both = sides(name, n_per_arm, knows)
    assert len(both.rows) >= 9
    assert both.apart < MANY
    ended = both.out.cold_start[np.isfinite(both.out.cold_start)]
    if len(ended) == both.out.n_worlds:
        error = np.hypot(both.plan.expected_cold_start_mcse, ended.std() / np.sqrt(len(ended)))
        assert abs(both.plan.expected_cold_start - ended.mean()) < 4 * error


def test_a_finer_plan_that_is_handed_out_is_audited_for_users_who_know_less() -> None:
    both = sides("three arms", NO_THIRD, "phase", handed_out=True)
    assert both.plan.knows == "stage"
    assert len(both.rows) >= 9
    assert both.apart < MANY


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["stage", "level", "phase", "mechanism"])
@pytest.mark.parametrize("n_per_arm", [UNEQUAL, NO_THIRD, NO_FIRST], ids=str)
@pytest.mark.parametrize("name", list(CASES))
def test_margins_are_those_of_plain_rounds_in_every_combination(
    name: str, n_per_arm: tuple[int, ...], knows: str
) -> None:
    if (name, n_per_arm) == ("coupled", NO_FIRST):
        pytest.skip("its cold start does not end within the horizon")
    assert sides(name, n_per_arm, knows).apart < MANY


@pytest.mark.parametrize("told", [(6, 4, 4), (6, 6, 0)], ids=str)
def test_other_samples_on_the_plain_side_are_found_out(told: tuple[int, ...]) -> None:
    """The planted errors: an arm that is explored after all, and one with more samples than the plan's."""
    both = sides("three arms", NO_THIRD, "phase", told)
    assert both.apart > MANY


def test_an_arm_without_samples_is_recommended_where_it_is_best_and_nowhere_else() -> None:
    both = sides("three arms", NO_THIRD, "stage")
    market, plan = both.case.market(), both.plan
    assert plan.n_per_arm == NO_THIRD
    assert (plan.guard(np.array(ROWS), 0)[:, 2] == 0.0).all()
    runs = rcb.simulate(market, plan, horizon=100, n_worlds=10, seed=2)
    promoted = runs["recommended"].where(runs["stage"] == 1)
    assert not (promoted == 2).any()
    assert rcb.Plan.from_json(plan.to_json()).agenda == Agenda(needed=NO_THIRD)


def test_the_same_number_for_each_arm_is_that_number() -> None:
    market = THREE.market()
    one, each, named = (
        rcb.calibrate(market, n_per_arm=n, n_worlds=200, horizon=100, seed=1)
        for n in (5, [5, 5, 5], {"arm_2": 5, "arm_0": 5, "arm_1": 5})
    )
    assert one.to_json() == each.to_json() == named.to_json()


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ([0, 0, 0], "0 for every arm"),
        ([5, 5], "2 numbers for 3 arms"),
        ([5, -1, 5], "at least 0"),
        ([5, 2.5, 5], "integer"),
        ({"arm_0": 5, "arm_1": 5, "arm_9": 1}, "no arm 'arm_9'"),
        ({"arm_0": 5, "arm_1": 5}, "leaves out arm_2"),
        (0, "at least 1"),
        ("many", "integer"),
    ],
)
def test_impossible_samples_are_refused_before_anything_is_drawn(given: Any, part: str) -> None:
    market = THREE.market()
    for made in (rcb.calibrate, rcb.fixed_plan):
        with pytest.raises(rcb.RcbError, match=part):
            made(market, n_per_arm=given)


def test_a_first_phase_in_which_nobody_can_be_sampled_is_refused() -> None:
    far = replace(THREE, mean=[[3.0, 3.0], [0.0, 0.0], [0.0, 0.1]]).market()
    with pytest.raises(rcb.RcbError, match="Nobody can be sampled first"):
        rcb.calibrate(far, n_per_arm=[0, 5, 5], n_worlds=100)
