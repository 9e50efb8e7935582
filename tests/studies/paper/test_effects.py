"""Further claims of the paper: planted effects are found, absent ones refuted."""

import numpy as np
import pytest
import xarray as xr

from rcb_bayes.studies.paper import effects
from rcb_bayes.studies.paper.claims import runs_of, schedules_alike
from tests.studies.paper.cells_for_tests import made_up_cell


def runs(cells: list[xr.Dataset], kind: str = "fixed") -> list[xr.Dataset]:
    return [run for cell in cells for run in runs_of(cell, kind)]


def cell(n: float = 10.0, seed: int = 0, name: str = "fixed", **given) -> xr.Dataset:
    planted = {key: given.pop(key) for key in ("regret", "gain", "inflation") if key in given}
    return made_up_cell({name: {"kind": "fixed", "n_per_arm": n, **planted}}, seed=seed, **given)


@pytest.mark.parametrize(("exponent", "verdict"), [(0.5, "held"), (0.95, "held"), (1.0, "not held"), (1.3, "not held")])
def test_sublinear_regret(exponent: float, verdict: str):
    made = cell()
    share = (made["t"] / made["t"][-1]) ** exponent
    made["regret"] = made["regret"].isel(t=-1) * share
    (claim,) = effects.sublinear("fixed", runs([made.transpose("run", "world", "t")]))
    assert claim.verdict == verdict
    assert claim.estimate == pytest.approx(exponent, abs=0.02)


@pytest.mark.parametrize(("regret", "verdict"), [(1e3, "held"), (1e5, "not held"), (10**3.5, "undecided")])
def test_levels_of_regret(regret: float, verdict: str):
    (claim,) = effects.level("setting-2", "fixed", runs([cell(regret=regret)]))
    assert claim.verdict == verdict


@pytest.mark.parametrize(("most", "verdict"), [(9.0, "held"), (0.5, "not held")])
def test_ten_arms(most: float, verdict: str):
    cells = [cell(regret=r, n_arms=k, n_features=d) for k, r in ((3, 1.0), (5, 2.0), (10, most)) for d in (3, 5)]
    (claim,) = effects.ten_arms_cost_more("fixed", runs(cells))
    assert claim.verdict == verdict
    assert not effects.ten_arms_cost_more("fixed", runs(cells[1:]))  # a number of features is missing for K = 3


@pytest.mark.parametrize(("gains", "verdict"), [((-0.1, -0.4), "held"), ((-0.4, -0.1), "not held")])
def test_more_features_make_gains_more_negative(gains: tuple[float, float], verdict: str):
    cells = [cell(gain=gain, n_arms=10, n_features=d, seed=d) for gain, d in zip(gains, (3, 10), strict=True)]
    (claim,) = effects.worse_with_features("fixed", runs(cells))
    assert claim.verdict == verdict


@pytest.mark.parametrize(("gain", "verdict"), [(-0.2, "held"), (0.2, "not held")])
def test_most_cells_with_many_samples(gain: float, verdict: str):
    cells = [cell(n=1000.0, gain=gain, n_features=d, seed=d) for d in (5, 10)]
    (claim,) = effects.mostly_negative("fixed", runs(cells))
    assert claim.verdict == verdict


@pytest.mark.parametrize(("linear", "verdict"), [(0.5, "held"), (0.1, "not held")])
def test_schedules_and_gains(linear: float, verdict: str):
    gains = {"linear": linear, "log": 0.3}
    parts = [
        xr.concat(
            [cell(name=word, inflation=word, gain=gain, variance=v) for word, gain in gains.items()],
            dim="run",
            combine_attrs="override",
        )
        for v in (0.02, 0.1)
    ]
    (claim,) = effects.linear_gains_most("fixed", runs(parts))
    assert claim.verdict == verdict


@pytest.mark.parametrize(("gains", "verdict"), [((0.1, 0.4), "held"), ((0.4, 0.1), "not held")])
def test_gains_over_variance(gains: tuple[float, float], verdict: str):
    cells = [cell(gain=gain, variance=v) for gain, v in zip(gains, (0.02, 0.1), strict=True)]
    (claim,) = effects.gain_grows_with_variance("fixed", runs(cells))
    assert claim.verdict == verdict


@pytest.mark.parametrize(("apart", "verdict"), [((2.0, 1.1), "held"), ((1.1, 2.0), "not held")])
def test_schedules_that_come_together(apart: tuple[float, float], verdict: str):
    cells = [
        cell(name=word, inflation=word, regret=10.0 * factor, variance=v, seed=4)
        for v, ratio in zip((0.02, 0.1), apart, strict=True)
        for word, factor in (("linear", 1.0), ("log", ratio))
    ]
    (claim,) = effects.schedules_converge("fixed", runs(cells))
    assert claim.verdict == verdict


def test_runs_that_never_leave_the_cold_start_say_nothing_of_what_comes_after_it():
    cells = [cell(name=word, inflation=word, variance=v) for word in ("linear", "log") for v in (0.02, 0.1)]
    judges = (effects.linear_gains_most, effects.gain_grows_with_variance, effects.schedules_converge, schedules_alike)
    assert all(len(judge("fixed", runs(cells))) == 1 for judge in judges)
    for one in cells:
        one["cold_share"][:] = 1.0
    assert not any(judge("fixed", runs(cells)) for judge in judges)


@pytest.mark.parametrize(("ratio", "verdict"), [(100.0, "held"), (0.5, "not held")])
def test_ad_hoc_against_the_theorem(ratio: float, verdict: str):
    theorem = made_up_cell({"theorem": {"kind": "theorem", "regret": 10.0 * ratio}}, seed=2)
    (claim,) = effects.below_setting_1(runs([cell(seed=2)]), runs([theorem], "theorem"))
    assert claim.verdict == verdict
    assert np.exp(claim.estimate) == pytest.approx(ratio, rel=0.05)
    assert not effects.below_setting_1(runs([cell(n_arms=3)]), runs([theorem], "theorem"))
