"""Users by name: any kind of labelled values in any order is the same user; other labels are refused."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import DataError
from rcb_bayes.users.labelled import as_users

FEATURES = ("age", "weight", "smoker")
USER = np.array([0.9, 0.1, 0.4])
OTHER = [2, 0, 1]


def kinds() -> list[Any]:
    """One user, in other orders."""
    labels, values = [FEATURES[k] for k in OTHER], USER[OTHER]
    return [
        dict(zip(labels, values, strict=True)),
        pd.Series(values, index=labels),
        xr.DataArray(values, dims="feature", coords={"feature": labels}),
        pd.Series(USER),  # 0, 1, 2 are no names
        USER.tolist(),
        tuple(USER),
        xr.DataArray(USER, dims="anything"),
        xr.DataArray(USER, dims="feature"),
    ]


@pytest.mark.parametrize("kind", range(len(kinds())))
def test_one_user_by_name(kind: int):
    np.testing.assert_array_equal(as_users(kinds()[kind], features=FEATURES, name="x"), USER)


def test_several_users_by_name():
    rows = np.random.default_rng(1).random((5, 3))
    table = pd.DataFrame(rows, columns=list(FEATURES))
    some: list[Any] = [
        table[[FEATURES[k] for k in OTHER]],
        pd.DataFrame(rows),
        table.to_dict("records"),
        table.to_dict("list"),
        xr.DataArray(rows.T, dims=("feature", "user"), coords={"feature": list(FEATURES)}),
    ]
    for users in some:
        np.testing.assert_array_equal(as_users(users, features=FEATURES, name="x"), rows)


def test_the_populations_own_labels_will_do():
    users = pd.Series(USER[OTHER], index=["c", "a", "b"])
    np.testing.assert_array_equal(as_users(users, features=FEATURES, name="x", also=["a", "b", "c"]), USER)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"age": 1.0, "weight": 2.0}, "x lacks smoker. The features are age, weight, smoker"),
        (dict.fromkeys((*FEATURES, "pets"), 1.0), "has pets, which the belief does not know"),
        ({"age": 1.0, "weight": 2.0, "Smoker": 0.0}, "lacks smoker and has Smoker"),
        (pd.Series([1.0, 2.0, 3.0], index=["age", "age", "weight"]), "lacks smoker"),
        (pd.Series([1.0, 2.0, 3.0, 4.0], index=["age", "age", "weight", "smoker"]), "names a feature twice"),
        (pd.Series([1.0, 2.0, 3.0], index=[2, 1, 0]), "lacks age, weight, smoker and has 2, 1, 0"),
        (pd.DataFrame({"age": [1.0]}), "lacks weight, smoker"),
        ({"age": "x", "weight": 2.0, "smoker": 0.0}, "must be numeric"),
        ([1.0, 2.0], "x must have 3 features, got 2"),
    ],
)
def test_other_labels_are_refused(x: Any, message: str):
    with pytest.raises(DataError, match=message):
        as_users(x, features=FEATURES, name="x")


# --- wherever users come in ------------------------------------------------------------------------------------------


@cache
def market() -> Market:
    mean = np.array([[0.5, 0.1, 0.0], [0.1, 0.0, 0.2]])
    prior = Prior.gaussian(mean, 0.25, arms=["old", "new"], features=FEATURES)
    return Market(prior=prior, covariates=rcb.Uniform([0, 0, 0], [1, 1, 1]), noise=rcb.GaussianNoise(0.3))


@cache
def plan() -> Plan:
    return rcb.calibrate(market(), epsilon=0.1, n_per_arm=10, n_worlds=300, seed=1)


def turned() -> pd.Series:
    return pd.Series(USER, index=list(FEATURES)).iloc[OTHER]


def test_a_plan_takes_users_by_name():
    rate = plan().rate(USER, saturated=["old"])
    assert rate != plan().rate(USER[OTHER], saturated=["old"])  # what ignoring labels would give
    assert plan().rate(turned(), saturated=["old"]) == rate
    assert plan().rate(turned().to_frame().T, saturated=["old"])[0] == rate
    np.testing.assert_array_equal(plan().guard(turned(), 0), plan().guard(USER, 0))
    assert plan().explain(turned().to_dict()) == plan().explain(USER)
    with pytest.raises(DataError, match="lacks smoker"):
        plan().rate(turned().drop("smoker"))


def test_a_recommender_takes_users_by_name():
    agents = [rcb.Recommender(market(), plan(), seed=3) for _ in range(3)]
    for _ in range(40):
        told = [agents[0].recommend(USER), agents[1].recommend(turned()), agents[2].recommend(turned().to_dict())]
        assert told[0] == told[1] == told[2]
        for agent in agents:
            agent.observe(0.3)
    table = turned().to_frame().T
    np.testing.assert_array_equal(agents[0].recommend_proba(table), agents[0].recommend_proba(USER[None]))
    assert agents[0].recommend_many(table).arm == agents[1].recommend_many(USER[None]).arm
    with pytest.raises(DataError, match="lacks smoker"):
        agents[0].recommend(turned().drop("smoker"))


def test_audits_gaps_and_figures_take_users_by_name():
    table = turned().to_frame().T
    for seen in (
        lambda users: rcb.audit(market(), plan(), horizon=30, n_worlds=60, users=users).margins["estimate"].values,
        lambda users: rcb.estimate_gaps(market(), saturated=["old"], n_per_arm=5, n_worlds=50, users=users)["rho"],
        lambda users: rcb.plots.plot_rates(plan(), users).collections[0].get_array(),
    ):
        np.testing.assert_array_equal(seen(table), seen(USER[None]))
    data = rcb.posterior.Statistics.from_rows([USER], arm=[0], reward=[1.0], n_arms=2)
    tree = rcb.posterior.fit_posterior(market().prior, market().noise, data)
    by_name, plain = (
        np.asarray(rcb.plots.plot_prior_posterior(tree, market().prior, x=x).lines[0].get_ydata())
        for x in (turned(), USER)
    )
    np.testing.assert_array_equal(by_name, plain)
