"""Users of several beliefs, with epsilons of their own."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import uniform

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior, UserType, audit_types
from rcb_bayes.errors import RcbError

OPTIONS: dict[str, Any] = {"horizon": 40, "n_worlds": 400, "n_users": 100, "seed": 3}


@cache
def market() -> Market:
    prior = Prior.gaussian([[0.3, 0.3], [0.0, 0.0]], 0.2)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


@cache
def plan() -> Plan:
    return rcb.calibrate(market(), n_per_arm=10, n_worlds=500, seed=1)


def doubters() -> Prior:
    """They expect far less of the second arm, and are sure of it."""
    return Prior.gaussian([[0.9, 0.9], [-0.6, -0.6]], 0.02)


def test_one_type_is_an_audit():
    alike = audit_types(market(), plan(), [UserType(name="alike", share=1.0)], **OPTIONS)
    assert alike.verdict == "pass"
    assert alike.shares["share"].sel(type="all").item() == pytest.approx(1.0, abs=0.02)
    assert alike.audits["alike"].epsilon == plan().epsilon
    assert "would at least 90 % of users follow?" in alike.summary()


def test_each_type_reckons_with_its_own_belief():
    """The platform goes on as planned; those who are sure of the first arm lose by it."""
    types = [UserType(name="alike", share=0.5), UserType(name="doubters", share=0.5, prior=doubters())]
    mixed = audit_types(market(), plan(), types, **OPTIONS)
    share = mixed.shares["share"]
    assert share.sel(type="doubters").item() < 0.7 < share.sel(type="alike").item()
    assert share.sel(type="all").item() == pytest.approx(
        0.5 * (share.sel(type="doubters").item() + share.sel(type="alike").item())
    )
    assert mixed.verdict == "fail"
    assert (mixed.shares["share_lower"] <= share + 1e-12).all()
    assert (share <= mixed.shares["share_upper"] + 1e-12).all()


def test_an_epsilon_of_each_user_s_own():
    """The share is that of the compliance curve, averaged over epsilons."""
    kind = UserType(name="doubters", share=1.0, prior=doubters(), epsilon=uniform(0.0, 3.0))
    mixed = audit_types(market(), plan(), [kind], **{**OPTIONS, "n_users": 300})
    curve = mixed.audits["doubters"].compliance
    grid = curve["epsilon"].values
    inside = np.minimum(np.linspace(0, 3, 3001), grid[-1])
    expected = float(np.interp(inside, grid, curve["share"].values).mean())
    share = mixed.shares.sel(type="all")
    assert abs(share["share"].item() - expected) < 4 * share["share_mcse"].item()
    patient = UserType(name="doubters", share=1.0, prior=doubters(), epsilon=np.array([10.0, 20.0]))
    assert audit_types(market(), plan(), [patient], **OPTIONS).verdict == "pass"


@pytest.mark.parametrize(
    ("types", "options", "message"),
    [
        ([], {}, "sequence of UserType"),
        ([UserType(name="a", share=0.5)], {}, "sum to 1"),
        ([UserType(name="a", share=0.5), UserType(name="a", share=0.5)], {}, "names of their own"),
        ([UserType(name="a", share=-1.0), UserType(name="b", share=2.0)], {}, "positive number"),
        ([UserType(name="a", share=1.0, epsilon=-1.0)], {}, "at least 0"),
        ([UserType(name="a", share=1.0)], {"least_share": 2.0}, "least_share"),
        ([UserType(name="a", share=1.0)], {"notion": "definition"}, "user by user"),
    ],
)
def test_bad_input_is_refused(types: Any, options: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        audit_types(market(), plan(), types, **{**OPTIONS, **options})
