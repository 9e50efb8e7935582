"""Plans as data: rates for any user, explanations, JSON both ways."""

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.mechanism.protocol import Mechanism
from rcb_bayes.mechanism.rates import user_rates
from rcb_bayes.planning import stages
from rcb_bayes.plots.style import forget_figure
from tests.fuzz.subjects import plans as fuzzed

USERS = rcb.Sphere(2).sample(50, seed=1)


@cache
def market() -> Market:
    prior = Prior.gaussian([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]], [0.3, 0.2, 0.2], arms=["usual", "new", "odd"])
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


@cache
def plan(personalised: bool = True, epsilon: float = 0.05) -> Plan:
    return rcb.calibrate(market(), personalised=personalised, epsilon=epsilon, n_per_arm=8, n_worlds=300, seed=3)


def test_rates_are_probabilities_of_each_user():
    rates = plan().rate(USERS)
    assert rates.shape == (50,)
    assert ((rates >= 0) & (rates <= 1)).all()
    assert len(np.unique(rates)) > 10
    np.testing.assert_allclose(plan().rate(USERS[3]), rates[3], rtol=1e-12)
    assert np.ndim(plan().rate(USERS[3])) == 0


def test_users_who_come_again_get_what_they_got(monkeypatch: pytest.MonkeyPatch):
    again = np.random.default_rng(1).integers(0, 50, 300)
    alone, guarded = plan().rate(USERS), plan().guard(USERS, 0)
    computed = []

    def counted(outlook: Any, users: np.ndarray, **others: Any) -> Any:
        computed.append(len(users))
        return user_rates(outlook, users, **others)

    monkeypatch.setattr(stages, "user_rates", counted)
    np.testing.assert_allclose(plan().rate(USERS[again]), alone[again], rtol=1e-12)
    np.testing.assert_allclose(plan().guard(USERS[again], 0), guarded[again], atol=1e-9)
    assert max(computed) <= 50  # each of them once


def test_the_exploration_rate_is_the_mean_over_users():
    rates = plan().rate(rcb.Sphere(2).sample(4000, seed=2))
    error = np.hypot(rates.std() / np.sqrt(4000), plan().exploration_rate_mcse)
    assert abs(rates.mean() - plan().exploration_rate) < 4 * error


def test_stages_are_told_apart_and_averaged():
    found = plan()
    shares = np.array([stage.share for stage in found.stages])
    each = np.array([found.rate(USERS, saturated=stage.saturated) for stage in found.stages])
    np.testing.assert_allclose(found.rate(USERS), shares @ each / shares.sum())
    assert (each[0] != each[1]).any()
    assert (found.rate(USERS, saturated=[]) == 1).all()
    assert (found.rate(USERS, saturated=["usual", "new", "odd"]) == 1).all()


def test_the_order_of_saturated_arms_does_not_matter():
    np.testing.assert_array_equal(
        plan().rate(USERS, saturated=["new", "usual"]), plan().rate(USERS, saturated=("usual", "new"))
    )


def test_a_stage_that_was_never_met_explores_free_users_only():
    prior = Prior.gaussian([[0.4], [0.1], [0.0]], 0.3)
    small = Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    found = rcb.calibrate(small, n_per_arm=8, n_worlds=300, seed=3)
    assert ("arm_2",) not in [stage.saturated for stage in found.stages]
    assert found.rate([1.0], saturated=["arm_2"]) == 1.0  # arm_0 is promoted, the best she knows
    assert found.rate([1.0], saturated=["arm_0", "arm_2"]) == 0.0  # arm_1 is, and costs her .3


def test_one_rate_for_all_is_everybody_s():
    found = plan(personalised=False)
    assert (found.rate(USERS) == found.exploration_rate).all()
    assert (found.rate(USERS, saturated=["usual"]) == found.exploration_rate).all()


@pytest.mark.parametrize("personalised", [True, False])
def test_json_both_ways_loses_nothing(personalised: bool, tmp_path: Path):
    found = plan(personalised)
    found.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    np.testing.assert_array_equal(loaded.rate(USERS), found.rate(USERS))
    for stage in found.stages:
        np.testing.assert_array_equal(
            loaded.rate(USERS, saturated=stage.saturated), found.rate(USERS, saturated=stage.saturated)
        )
    assert loaded.to_json() == found.to_json()
    assert loaded.summary() == found.summary()
    assert loaded.explain(USERS[0]) == found.explain(USERS[0])
    assert json.loads(found.to_json())["goal"]["notion"] == "user"


def test_numbers_that_json_does_not_have_survive():
    prior = Prior.gaussian([[0.5], [0.0]], [1e-8, 0.2])
    sure = Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    found = rcb.calibrate(sure, n_per_arm=5, n_worlds=100, seed=1)
    loaded = Plan.from_json(found.to_json())
    assert loaded.expected_cold_start == np.inf
    assert loaded.feasible is False
    assert loaded.reason == found.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[1, 2]", "no format"),
        ('{"format": 1, "epsilon": 0.05}', "its format is .*1"),
        ('{"format": "rcb_bayes agent", "format_version": 2}', "its format is 'rcb_bayes agent'"),
        ('{"format": "rcb_bayes plan", "format_version": 5, "epsilon": 0.05}', "no digest"),
        (
            plan().to_json().replace('"format_version": 5', '"format_version": 4'),
            "version 4 of the format, this version of rcb_bayes reads 5. Restore the file, or calibrate again",
        ),
        (plan().to_json().replace('"epsilon": 0.05', '"epsilon": 0.06'), "a digit was changed"),
    ],
    ids=["empty", "a list", "version 1", "an agent", "no digest", "an older version", "another number"],
)
def test_text_that_is_no_plan_is_refused(text: str, message: str):
    with pytest.raises(RcbError, match=message):
        Plan.from_json(text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(RcbError, match="Cannot read a plan"):
        Plan.load(tmp_path / "none.json")


def test_a_plan_is_of_eight_parts_and_shows_what_they_have():
    found = plan()
    parts = [getattr(found, item.name) for item in fields(found) if item.name != "types"]
    assert len(parts) == 8
    names = [item.name for part in parts for item in fields(part)]
    assert len(set(names)) == len(names)
    for part in parts:
        for item in fields(part):
            assert getattr(found, item.name) is getattr(part, item.name)


def test_a_plan_is_a_mechanism():
    mechanism: Mechanism = plan()  # for the type checker
    assert (mechanism.n_per_arm, mechanism.spread_multiple, mechanism.has_guard) == (8, 1.0, False)
    assert mechanism.rate(USERS, saturated=["usual"]).shape == (50,)
    assert mechanism.guard(USERS, 0).shape == (50, 3)


def test_a_plan_as_plain_data_has_every_figure():
    figures = plan().to_dict()
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    assert figures["exploration_rate"] == plan().exploration_rate
    assert figures["guarantee_probability"] is None  # of a theorem's plan only
    assert [stage["saturated"] for stage in figures["stages"]] == [list(stage.saturated) for stage in plan().stages]
    assert {"prior_mean", "known", "rule"} & (set(figures) | set(figures["stages"][0])) == set()


@pytest.mark.parametrize(
    ("made", "users", "title"),
    [
        (plan, None, "Coverage of 8 samples of each arm"),
        (plan, USERS, "Exploration rate of each user"),
        (lambda: fuzzed()["logit"][1], None, "Exploration rate of each user"),
    ],
    ids=["coverage", "given users", "known users"],
)
def test_a_plan_draws_its_users_or_its_coverage(made: Callable[[], Plan], users: Any, title: str):
    axes = made().plot(users)
    assert axes.get_title().startswith(title)
    forget_figure(axes.figure)


def test_a_plan_is_frozen():
    with pytest.raises(FrozenInstanceError):
        plan().epsilon = 1.0  # pyright: ignore[reportAttributeAccessIssue]


def test_the_explanation_tells_what_binds():
    found = plan()
    rates = found.rate(USERS, saturated=["usual"])
    bound = found.explain(USERS[int(rates.argmin())])
    assert "in the place of usual" in bound
    free = found.explain(USERS[int(rates.argmax())])
    assert "loses at most 0.05" in free
    assert "every user is explored" in plan(personalised=False).explain(USERS[0])


def test_the_summary_says_what_it_takes():
    text = plan().summary()
    for part in ("user notion", "samples per arm", "exploration rate", "expected cold start", "users explored"):
        assert part in text


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        ([1.0, 2.0, 3.0], {}, DataError, "2 features, got 3"),
        ([[np.nan, 1.0]], {}, DataError, "finite"),
        ([1.0, 0.0], {"saturated": ["usul"]}, RcbError, "Did you mean 'usual'"),
    ],
)
def test_bad_users_are_refused(x: list, options: dict, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        plan().rate(x, **options)
