"""Claims are judged by intervals: planted effects are found, absent ones refuted, thin ones left open."""

import numpy as np
import pytest

from rcb_bayes.studies.paper import claims
from rcb_bayes.studies.paper.claims import Claim
from rcb_bayes.studies.paper.judging import judge_setting
from tests.studies.paper.cells_for_tests import made_up_cell


def found(name: str, cells: list, claim: str, kind: str = "fixed") -> Claim:
    return next(one for one in judge_setting(name, cells) if one.claim.startswith(claim) and one.kind == kind)


def environment(exponent: float, *, in_d: float = 0.0, **more) -> list:
    return [
        made_up_cell(
            {"fixed": {"kind": "fixed", "regret": k**exponent * d**in_d, "cold_start": 10.0 * k, **more}},
            n_arms=k,
            n_features=d,
            seed=k * d,
        )
        for k in (2, 5, 10)
        for d in (3, 5)
    ]


@pytest.mark.parametrize(("exponent", "verdict"), [(3.0, "held"), (1.0, "not held"), (2.5, "undecided")])
def test_growth_in_the_number_of_arms(exponent: float, verdict: str):
    claim = found("setting-1", environment(exponent), "cost grows like K cubed (regret)")
    assert claim.verdict == verdict
    assert abs(claim.estimate - exponent) < 5 * claim.error


def test_growth_in_the_number_of_features_is_compared_with_that_in_arms():
    assert found("setting-1", environment(1.0, in_d=0.1), "mild in d").verdict == "held"
    assert found("setting-1", environment(0.2, in_d=1.5), "mild in d").verdict == "not held"


@pytest.mark.parametrize(("gain", "verdict"), [(0.2, "held"), (-0.2, "not held"), (-0.05, "undecided")])
def test_realised_gains_against_minus_epsilon(gain: float, verdict: str):
    assert found("setting-1", environment(1.0, gain=gain), "gain above -epsilon (realised)").verdict == verdict


@pytest.mark.parametrize(
    ("verdict", "expected"), [("pass", "held"), ("fail", "not held"), ("inconclusive", "undecided")]
)
def test_audits_decide_the_claim_about_users(verdict: str, expected: str):
    assert (
        found("setting-1", environment(1.0, verdict=verdict), "gain above -epsilon (audited, user)").verdict == expected
    )


@pytest.mark.parametrize(("slope", "verdict"), [(0.02, "held"), (-0.02, "not held"), (0.0, "undecided")])
def test_trends(slope: float, verdict: str):
    assert found("setting-1", environment(1.0, slope=slope), "upward trend").verdict == verdict


def test_regret_over_epsilon_and_variance_goes_by_differences_in_the_same_worlds():
    cells = [
        made_up_cell(
            {"fixed": {"kind": "fixed", "regret": 100.0 - 400.0 * epsilon - 100.0 * variance}},
            epsilon=epsilon,
            variance=variance,
        )
        for epsilon in (0.01, 0.03, 0.05)
        for variance in (0.1, 0.3)
    ]
    assert found("setting-3", cells, "regret falls with epsilon").verdict == "held"
    assert found("setting-3", cells, "regret larger for small prior variance").verdict == "held"


def test_runs_that_do_not_depend_on_epsilon_do_not_fall_with_it():
    cells = [made_up_cell({"fixed": {"kind": "fixed"}}, epsilon=epsilon) for epsilon in (0.01, 0.05)]
    claim = found("setting-3", cells, "regret falls with epsilon")
    assert claim.verdict == "not held"
    assert claim.estimate == 0.0


def test_schedules_are_alike_within_a_tenth():
    def cells(factor: float) -> list:
        names = ("linear", "sqrt", "log")
        runs = {
            f"fixed, {name}": {"kind": "fixed", "inflation": name, "regret": 10.0 * (factor if name == "log" else 1.0)}
            for name in names
        }
        return [made_up_cell(runs, variance=variance) for variance in (0.02, 0.1)]

    assert found("setting-4", cells(1.02), "inflation schedules alike").verdict == "held"
    assert found("setting-4", cells(1.5), "inflation schedules alike").verdict == "not held"


def test_an_ad_hoc_number_of_samples_is_judged_for_each_number():
    runs = {
        f"fixed, N = {n}": {"kind": "fixed", "n_per_arm": float(n), "gain": gain, "verdict": verdict}
        for n, gain, verdict in ((10, -0.3, "fail"), (100, 0.3, "pass"))
    }
    judged = [one for one in judge_setting("setting-2", [made_up_cell(runs)]) if one.claim.startswith("ad hoc")]
    assert [(one.claim.split(" (")[1], one.verdict) for one in judged] == [
        ("realised)", "held"),
        ("realised)", "not held"),
        ("audited, user)", "held"),
        ("audited, user)", "not held"),
    ]


def test_what_was_not_run_is_not_judged():
    cell = made_up_cell({"theorem": {"kind": "theorem"}, "uniform": {"kind": "uniform"}})
    cell["regret"][{"run": 1}] = np.nan
    assert {one.kind for one in judge_setting("setting-1", [cell])} == {"theorem"}
    assert len(claims.runs_of(cell, "uniform")) == 0


def test_runs_that_never_leave_the_cold_start_are_counted():
    cell = made_up_cell({"theorem": {"kind": "theorem"}})
    cell["cold_share"][:] = 1.0
    claim = found("setting-1", [cell], "gain above -epsilon (realised)", kind="theorem")
    assert claim.figure.endswith("1 of 1 runs never leave the cold start")
