"""Results are alike: each is told, drawn, turned into plain data, saved and read back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.axes import Axes

import rcb_bayes as rcb
from rcb_bayes.studies.paper.judging import judge_setting
from rcb_bayes.studies.paper.tables import as_table
from tests.reporting.reports import market_of, small_report
from tests.studies.actg.results import made_up_result as made_up_trial_result
from tests.studies.paper.cells_for_tests import made_up_cell
from tests.studies.warfarin.results import made_up_result


@cache
def market() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


@cache
def plan() -> rcb.Plan:
    return rcb.calibrate(market(), epsilon=0.1, n_per_arm=8, n_worlds=200)


def audit() -> rcb.Audit:
    return rcb.audit(market(), plan(), horizon=40, n_worlds=100, n_users=10)


def mixed() -> rcb.MixedAudit:
    types = [rcb.UserType(name="strict", share=0.4, epsilon=0.02), rcb.UserType(name="easy", share=0.6, epsilon=0.2)]
    return rcb.audit_types(market(), plan(), types, horizon=40, n_worlds=100, n_users=10)


def log_check() -> rcb.LogCheck:
    agent = rcb.Recommender(market(), plan(), keep_log=100)
    for x in market().covariates.sample(50, seed=2):
        agent.observe(0.4 * x.sum(), ticket=agent.recommend(x).ticket)
    return rcb.check_log(market(), agent.log, plan())


def outcome() -> rcb.studies.Outcome:
    cells = [
        made_up_cell({"theorem": {"kind": "theorem"}, "own": {"kind": "uniform", "regret": 5.0}}, n_arms=arms)
        for arms in (2, 5)
    ]
    claims = tuple(judge_setting("setting-1", cells))
    keys = ("n_features", "n_arms")
    return rcb.studies.Outcome(
        name="setting-1", title="made up", table=as_table(cells), keys=keys, claims=claims, parts=tuple(cells)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of result: how one is made, how its file is called, how it is read, and what the summary begins with."""

    make: Callable[[], Any]
    file: str = "result.json"
    load: Callable[[str], Any] | None = None
    begins: str = ""


CASES = {
    "Plan": Case(make=plan, begins="sampled"),
    "Rule": Case(make=lambda: plan().distil(16), begins="rule of 16 leaves"),
    "Audit": Case(make=audit, file="result.nc", begins="pass: user notion"),
    "MixedAudit": Case(make=mixed, file="result.nc", begins="fail: would at least"),
    "LogCheck": Case(make=log_check, begins="nothing speaks against the plan"),
    "Checks": Case(
        make=lambda: rcb.check_assumptions(market(), n_per_arm=8, n_worlds=200), begins="pass: the paper's assumptions"
    ),
    "RegretBound": Case(make=lambda: rcb.regret_bound(market(), plan(), horizon=10**7), begins="Theorem 2"),
    "Report": Case(
        make=small_report,
        file="result.zip",
        load=lambda path: rcb.Report.load(path, market_of()),
        begins="pass: Yes",
    ),
    "Outcome": Case(make=outcome, file="result.nc", begins="made up"),
    "ActgResult": Case(make=made_up_trial_result, begins="made up"),
    "WarfarinResult": Case(make=lambda: made_up_result(told=True), file="result.nc", begins="made up"),
}


@cache
def result_of(name: str) -> Any:
    return CASES[name].make()


def loaded(name: str, path: Path) -> Any:
    return (CASES[name].load or type(result_of(name)).load)(str(path))


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same; of results, whatever they hold."""
    if isinstance(one, rcb.Market):
        return isinstance(other, rcb.Market) and one.describe() == other.describe()
    if isinstance(one, rcb.Plan):
        return isinstance(other, rcb.Plan) and one.to_json() == other.to_json()
    if isinstance(one, xr.Dataset):
        return one.identical(other)
    if isinstance(one, pd.DataFrame):
        return one.equals(other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if type(one) is not type(other):
        return False
    if hasattr(one, "__dataclass_fields__"):
        names = [name for name in one.__dataclass_fields__ if name != "files"]
        return all(alike(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(alike, one.values(), other.values()))
    return one == other or (one != one and other != other)


def test_every_result_is_in_the_table() -> None:
    wanted = {"save", "load", "summary", "to_dict", "plot"}
    have = {
        name
        for place in (rcb, rcb.studies)
        for name in place.__all__
        if isinstance(thing := getattr(place, name), type) and {"summary", "to_dict"} & set(dir(thing))
    }
    assert have - {"Check"} == set(CASES)  # one check has its place among the others
    for name in CASES:
        assert wanted <= set(dir(type(result_of(name)))), name


@pytest.mark.parametrize("name", CASES)
def test_a_result_is_told_drawn_and_read_back(name: str, tmp_path: Path) -> None:
    result = result_of(name)
    text = result.summary()
    assert isinstance(text, str)
    assert text.startswith(CASES[name].begins)
    plain = result.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert isinstance(result.plot(), Axes)
    path = tmp_path / CASES[name].file
    result.save(path)
    assert alike(loaded(name, path), result)


@pytest.mark.parametrize("name", CASES)
def test_a_changed_digit_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / CASES[name].file
    result_of(name).save(path)
    content = bytearray(path.read_bytes())
    if path.suffix == ".json":
        place = next(k for k in range(len(content) // 2, len(content)) if chr(content[k]).isdigit())
        content[place] = ord("1") if content[place] != ord("1") else ord("2")
    else:
        content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(rcb.RcbError, match="Cannot read"):
        loaded(name, path)
    with pytest.raises(rcb.RcbError, match="Cannot read"):
        loaded(name, tmp_path / "nowhere")


def test_a_result_of_another_kind_is_refused(tmp_path: Path) -> None:
    result_of("Checks").save(tmp_path / "checks.json")
    with pytest.raises(rcb.RcbError, match="its format is 'rcb_bayes checks', expected 'rcb_bayes regret bound'"):
        rcb.RegretBound.load(tmp_path / "checks.json")
    with pytest.raises(rcb.RcbError, match="it is no archive of a report"):
        rcb.Report.load(tmp_path / "checks.json", market_of())


def test_a_report_is_for_its_market(tmp_path: Path) -> None:
    small_report().save(tmp_path / "report.zip")
    with pytest.raises(rcb.RcbError, match="plan"):
        rcb.Report.load(tmp_path / "report.zip", market())


def test_a_figure_that_there_is_not_is_told() -> None:
    report = small_report()
    for figure in ("margins", "regret"):
        assert isinstance(report.plot(figure=figure), Axes)
    with pytest.raises(rcb.RcbError, match="Did you mean 'margins'"):
        report.plot(figure="margin")
    with pytest.raises(rcb.RcbError, match="There is no regret to draw"):
        replace(report, runs=None).plot(figure="regret")
    with pytest.raises(rcb.RcbError, match="Did you mean 'regret'"):
        made_up_result().plot(figure="regrets")
