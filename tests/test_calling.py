# pyright: reportArgumentType=false, reportCallIssue=false
"""What public functions say of arguments of the wrong kind, and what a check leaves as it was."""

import inspect
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.calling import checked
from rcb_bayes.errors import BeliefError, DataError, MarketError
from rcb_bayes.schema import FloatArray, Table

PRIOR = rcb.Prior.gaussian([[0.3], [0.1]], 0.1)
MARKET = rcb.Market(prior=PRIOR, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
PLAN = rcb.fixed_plan(MARKET, n_per_arm=5)
RUNS = rcb.simulate(MARKET, PLAN, horizon=20, n_worlds=2)


def endless() -> Iterator[str]:
    while True:
        yield "a"


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: rcb.calibrate(PRIOR), rcb.RcbError, r"market must be a Market, got Prior. Use rcb.Market\(prior=..., cov"),
    (lambda: rcb.audit(PLAN, MARKET), rcb.RcbError, "market must be a Market, got Plan: market and plan are swapped.$"),
    (lambda: rcb.check_log(MARKET, PLAN, "log.csv"), rcb.RcbError, "log and plan are swapped.$"),
    (
        lambda: rcb.simulate(MARKET, rcb.baselines.Greedy),
        rcb.RcbError,
        r"got the class Greedy. Write lambda market, seed: Greedy\(market, seed=seed\).$",
    ),
    (lambda: rcb.audit(MARKET, PLAN, oracle=rcb.RidgeOracle), rcb.RcbError, r"the class RidgeOracle. Write RidgeOrac"),
    (
        lambda: rcb.audit(MARKET, 3),
        rcb.RcbError,
        r"plan must be a Plan, a Recommender or a function of 2 argument\(s\)",
    ),
    (lambda: rcb.simulate(MARKET, lambda: None), rcb.RcbError, "a function of 2 argument.s., got function"),
    (lambda: rcb.Plan.load(3), rcb.RcbError, "path must be a text or a path, got 3.$"),
    (
        lambda: rcb.Market(prior=PRIOR, covariates=3),
        MarketError,
        "covariates must be a population, got int. Use Sphere",
    ),
    (lambda: rcb.plots.plot_gain(MARKET), rcb.RcbError, "runs must be a Dataset, got Market.$"),
    (
        lambda: rcb.plots.plot_values(RUNS),
        rcb.RcbError,
        "This figure is of what evaluate gives; the table has no estima",
    ),
    (lambda: rcb.Sphere(2).project(np.ones(2)), DataError, r"got ndarray of float64, shape \(2,\).$"),
    (lambda: rcb.Prior.gaussian([[0.1], [0.2]], 0.1, arms=endless()), rcb.RcbError, "Expected 2 arm labels, got 3"),
    (lambda: MARKET.among(endless()), MarketError, "arms must be a list of texts, got generator.$"),
    (lambda: PRIOR.with_arm("x", PLAN), BeliefError, "Expected what users believe about 'x'"),
    (lambda: rcb.Sphere(10**9), rcb.RcbError, "n_features must be an integer of at most 5,000 .*, got 1000000000"),
    (lambda: rcb.Sphere(2).sample(10**15), rcb.RcbError, "More memory is needed than there is"),
    (lambda: rcb.baselines.warm_start_samples(1e-300, 0.5), rcb.RcbError, "more samples than can be counted"),
]


@pytest.mark.parametrize(("call", "kind", "message"), CALLS)
def test_what_was_expected_is_said(call: Callable[[], Any], kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        call()


def test_a_file_of_the_callers_stays_open(tmp_path: Path):
    handle = os.open(tmp_path, os.O_RDONLY)
    for load in (rcb.Plan.load, rcb.Rule.load, rcb.Audit.load, rcb.Checks.load, rcb.load_prior, rcb.load_sensitivity):
        with pytest.raises(rcb.RcbError):
            load(handle)
    os.close(handle)


def test_users_of_other_features_are_refused():
    policy = rcb.baselines.Greedy(MARKET)
    with pytest.raises(DataError, match="Users have 1 features each, got 2"):
        policy.recommend_proba(np.ones((3, 2)))


# --- what a check leaves as it was -----------------------------------------------------------------------------------


def test_a_checked_function_is_the_function():
    signature = inspect.signature(rcb.calibrate)
    assert next(iter(signature.parameters)) == "market"
    assert signature.return_annotation is rcb.Plan
    assert (rcb.calibrate.__name__, rcb.calibrate.__module__) == ("calibrate", "rcb_bayes.auditing.calibration")
    assert "Raises" in str(rcb.calibrate.__doc__)
    assert pickle.loads(pickle.dumps(rcb.calibrate)) is rcb.calibrate
    assert checked(rcb.calibrate) is rcb.calibrate
    with pytest.raises(TypeError, match=r"calibrate\(\) got an unexpected keyword argument 'epsilom'"):
        rcb.calibrate(MARKET, epsilom=0.1)


def test_warnings_are_of_the_line_that_calls(recwarn: pytest.WarningsRecorder):
    rcb.simulate(MARKET, PLAN, horizon=20, n_worlds=1, options=rcb.Exploiting(spread_multiple=2.0))
    assert {Path(found.filename).name for found in recwarn} <= {"test_calling.py"}


# --- kinds -----------------------------------------------------------------------------------------------------------


@lru_cache
def _kept(x: "FloatArray | None" = None) -> int:
    return 0


@checked
def _many(
    number: float = 0.0,
    count: int | None = None,
    words: Sequence[str] = (),
    pair: tuple[int, str] = (1, "a"),
    table: Table | None = None,
    named: "dict[str, float] | None" = None,
    made: "Callable[[int], int] | rcb.Prior | None" = None,
    unknown: "Nowhere | Path | None" = None,  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
) -> None:
    raise KeyError("inside")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"number": "1"}, "number must be a number, got '1'."),
        ({"number": True}, "number must be a number, got True."),
        ({"number": 10**400}, r"number must be a number, got about 10\^400."),
        ({"count": 1.0}, "count must be an integer, got 1.0."),
        ({"count": np.timedelta64(1, "s")}, "count must be an integer, got"),
        ({"words": "ab"}, "words must be a list of texts, got 'ab'."),
        ({"words": ["a", 1]}, r"words must be a list of texts, got \['a', 1\]."),
        ({"pair": (1, "a", 2)}, "pair must be a tuple, got"),
        ({"table": np.ones(3)}, "table must be a NumPy array of numbers in 2 dimensions"),
        ({"table": np.array([["a"]])}, "table must be a NumPy array"),
        ({"named": {"a": "b"}}, "named must be a dict, got {'a': 'b'}."),
        ({"made": lambda: 1}, r"made must be a function of 1 argument\(s\) or a Prior, got function"),
        ({"unknown": 3}, "unknown must be a Nowhere or a path, got 3."),
    ],
)
def test_kinds(argument: dict[str, Any], message: str):
    with pytest.raises(rcb.RcbError, match=message):
        _many(**argument)


@pytest.mark.parametrize(
    "argument",
    [
        *({"number": 1}, {"number": np.float32(1)}, {"count": None}, {"count": np.int8(1)}, {"words": np.array(["a"])}),
        *({"words": ("a",)}, {"pair": (2, "b")}, {"table": np.ones((1, 2), int)}, {"named": {"a": 1}}, {"made": abs}),
        *({"made": int}, {"made": PRIOR}, {"unknown": "x"}, {"unknown": Path("x")}),
    ],
)
def test_what_is_right_reaches_the_function(argument: dict[str, Any]):
    with pytest.raises(KeyError, match="inside"):
        _many(**argument)


def test_what_is_kept_by_its_arguments_is_checked_before_they_are_looked_up():
    with pytest.raises(rcb.RcbError, match="x must be a NumPy array"):
        checked(_kept)([[1.0]])
