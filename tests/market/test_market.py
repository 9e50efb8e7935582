"""A market holds together parts that fit, and says which do not."""

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import MarketError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.users import Ball, Empirical, Gaussian, Sphere

NOISE = GaussianNoise(0.05)


def belief(n_arms: int = 3, n_features: int = 2, **labels: Any) -> Prior:
    return Prior.gaussian(np.zeros((n_arms, n_features)), 0.2, **labels)


@pytest.fixture(scope="module")
def noisy() -> Prior:
    """A belief with its own sigma, 3 arms and 2 features."""
    return load_prior("unknown_noise", n_arms=3, n_features=2)


def refused(message: str, **parts: Any) -> None:
    with pytest.raises(MarketError) as caught:
        Market(**parts)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, RcbError)


# --- what a market is ------------------------------------------------------------------------------------------------


def test_a_market_has_the_labels_and_sizes_of_its_belief() -> None:
    prior = belief(3, 2, arms=["low", "medium", "high"], features=["age", "weight"])
    market = Market(prior=prior, covariates=Sphere(2), noise=NOISE)
    assert market.arms == ("low", "medium", "high")
    assert market.features == ("age", "weight")
    assert (market.n_arms, market.n_features) == (3, 2)


def test_platform_and_nature_follow_the_users_unless_given() -> None:
    prior, other = belief(), belief()
    market = Market(prior=prior, covariates=Sphere(2), noise=NOISE)
    assert market.platform_prior is prior
    assert market.nature is prior
    assert not market.is_misspecified
    for role in ("platform_prior", "nature"):
        own: dict[str, Any] = {role: other}
        market = Market(prior=prior, covariates=Sphere(2), noise=NOISE, **own)
        assert getattr(market, role) is other
        assert market.is_misspecified


def test_a_market_does_not_change() -> None:
    market = Market(prior=belief(), covariates=Sphere(2), noise=NOISE)
    with pytest.raises(FrozenInstanceError):
        market.noise = BernoulliLogit()  # pyright: ignore[reportAttributeAccessIssue]


def test_description_names_every_belief_that_differs() -> None:
    prior = Prior.gaussian(np.zeros((2, 2)), 1.0, name="users")
    nature = Prior.gaussian(np.ones((2, 2)), 1.0, name="truth")
    plain = Market(prior=prior, covariates=Ball(2), noise=NOISE).describe()
    assert [line.split()[0] for line in plain.splitlines()] == ["users", "users", "rewards"]
    assert "unit ball" in plain
    assert "sigma = 0.05" in plain
    both = Market(prior=prior, covariates=Ball(2), noise=NOISE, nature=nature, platform_prior=nature).describe()
    assert both.splitlines()[3:] == [
        f"platform uses   {nature.describe()}",
        f"nature follows  {nature.describe()}",
    ]


# --- features --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (None, None),
        (["age", "sex"], None),
        (None, ["age", "sex"]),
        (["age", "sex"], ["age", "sex"]),
    ],
)
def test_features_agree_by_name_or_by_place(ours: list[str] | None, theirs: list[str] | None) -> None:
    market = Market(prior=belief(features=ours), covariates=Sphere(2, features=theirs), noise=NOISE)
    assert market.features == tuple(ours or ["feature_0", "feature_1"])


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (["a", "b"], ["a", "b", "c"], "The belief has 2 features, the covariates have 3. Build the belief with"),
        (["a", "b"], ["a"], "n_features=1, or select columns."),
        (["a", "b"], ["b", "a"], "the same features in another order. Reorder the columns"),
        (["a", "b"], ["a", "B"], "name different features (b against B). Rename the columns"),
        (["a", "b"], ["feature_1", "feature_0"], "different features (a, b against feature_1, feature_0)"),
        (list("abcde"), list("vwxyz"), "(a, b, c, ... against v, w, x, ...)"),
        (["x" * 9, "y"], ["x" * 9, "z"], "(y against z)"),
    ],
)
def test_features_that_disagree_are_refused(ours: list[str], theirs: list[str], message: str) -> None:
    refused(
        message,
        prior=belief(n_features=len(ours), features=ours),
        covariates=Sphere(len(theirs), features=theirs),
        noise=NOISE,
    )


def test_the_remedy_for_another_order_works() -> None:
    prior = belief(features=["age", "sex"])
    rows = pd.DataFrame({"sex": [0.0, 1.0, 1.0], "age": [0.3, 0.5, 0.7]})
    refused("another order", prior=prior, covariates=Empirical(rows), noise=NOISE)
    assert Market(prior=prior, covariates=Empirical(rows[list(prior.features)]), noise=NOISE).n_features == 2


# --- other beliefs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["platform_prior", "nature"])
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (belief(4, 2), "must have the users' arms: expected 3, got 4."),
        (belief(3, 5), "must have the users' features: expected 2, got 5."),
        (
            belief(arms=["arm_0", "arm_2", "arm_1"]),
            "has the same arms in another order than the users' belief (arm_1, arm_2 against arm_2, arm_1). "
            "Build it with arms=list(prior.arms).",
        ),
        (belief(arms=["arm_0", "arm_1", "placebo"]), "has other arms than the users' belief (arm_2 against placebo)"),
        (
            belief(features=["feature_0", "age"]),
            "other features than the users' belief (feature_1 against age). Build it with features=list(",
        ),
        (np.zeros((3, 2)), "must be a Prior, got ndarray. Use Prior.from_pymc(model), Prior.gaussian(mean, cov)"),
        ("gaussian", "must be a Prior, got str."),
        (Prior, "must be a Prior, got the class Prior."),
    ],
)
def test_a_belief_about_something_else_is_refused(role: str, other: object, message: str) -> None:
    refused(message, prior=belief(), covariates=Sphere(2), noise=NOISE, **{role: other})
    refused(role, prior=belief(), covariates=Sphere(2), noise=NOISE, **{role: other})


def test_a_difference_beyond_the_first_labels_is_shown() -> None:
    arms = [f"arm_{k}" for k in range(8)]
    other = belief(8, arms=[*arms[:7], "last"])
    refused("(arm_7 against last)", prior=belief(8), covariates=Sphere(2), noise=NOISE, nature=other)


# --- noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (None, "The noise is not given: pass noise=GaussianNoise(sigma) or noise=BernoulliLogit()."),
        (GaussianNoise(), "GaussianNoise() leaves sigma to the belief, which has no variable 'sigma': give a number."),
        (0.05, "noise must be a Noise, got float. Use GaussianNoise(sigma) or BernoulliLogit()."),
        ("gaussian", "got str."),
        (GaussianNoise, "got the class GaussianNoise."),
        (BernoulliLogit, "got the class BernoulliLogit."),
    ],
)
def test_noise_that_is_missing_or_unknown_is_refused(noise: object, message: str) -> None:
    refused(message, prior=belief(), covariates=Sphere(2), noise=noise)


@pytest.mark.parametrize("noise", [GaussianNoise(0.05), BernoulliLogit()])
def test_known_noise_is_kept(noise: GaussianNoise | BernoulliLogit) -> None:
    assert Market(prior=belief(), covariates=Sphere(2), noise=noise).noise is noise


@pytest.mark.parametrize("noise", [None, GaussianNoise()])
def test_a_belief_with_sigma_brings_the_noise(noisy: Prior, noise: Any) -> None:
    market = Market(prior=noisy, covariates=Sphere(2), noise=noise)
    assert market.noise == GaussianNoise()
    assert "unknown sigma" in market.describe()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (
            GaussianNoise(0.05),
            "The belief has its own variable 'sigma', which Gaussian rewards, sigma = 0.05 contradicts. Leave",
        ),
        (BernoulliLogit(), "Bernoulli rewards, logit link contradicts. Leave noise out, or drop 'sigma'"),
    ],
)
def test_noise_that_contradicts_the_belief_is_refused(noisy: Prior, noise: object, message: str) -> None:
    refused(message, prior=noisy, covariates=Sphere(2), noise=noise)


@pytest.mark.parametrize("role", ["platform_prior", "nature"])
def test_beliefs_that_disagree_about_sigma_are_refused(noisy: Prior, role: str) -> None:
    plain = belief()
    refused(
        f"The variable 'sigma' is in {role} but not in the users' belief",
        prior=plain,
        covariates=Sphere(2),
        noise=NOISE,
        **{role: noisy},
    )
    refused(
        f"The variable 'sigma' is in the users' belief but not in {role}",
        prior=noisy,
        covariates=Sphere(2),
        **{role: plain},
    )


# --- other types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"prior": np.zeros((3, 2))}, "prior must be a Prior, got ndarray. Use Prior.from_pymc(model)"),
        ({"prior": "student_t"}, "got str. Use Prior.from_pymc(model), Prior.gaussian(mean, cov) or load_prior(name)."),
        ({"prior": Prior}, "got the class Prior."),
        ({"prior": None}, "got NoneType."),
        ({"covariates": np.zeros((9, 2))}, "covariates must be a population, got ndarray. Use Sphere(d)"),
        ({"covariates": pd.DataFrame({"a": [1.0], "b": [2.0]})}, "got DataFrame. Use Sphere(d)"),
        ({"covariates": Sphere}, "got the class Sphere."),
        ({"covariates": 2}, "got int."),
        ({"covariates": NOISE}, "got GaussianNoise."),
    ],
)
def test_other_types_are_refused(parts: dict[str, object], message: str) -> None:
    refused(message, **{"prior": belief(), "covariates": Gaussian([1.0, 1.0]), "noise": NOISE, **parts})


@pytest.mark.parametrize("name", ["arm", "ticket", "stage", "reward", "p_old"])
def test_no_feature_has_the_name_of_a_column_of_logs(name: str):
    prior = Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"], features=["age", name])
    with pytest.raises(MarketError, match=f"cannot be called '{name}': logs have such a column. Rename it."):
        Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.3))
    free = Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["older", "new"], features=["age", "p_old"])
    assert Market(prior=free, covariates=Sphere(2), noise=GaussianNoise(0.3)).features == ("age", "p_old")
