"""Formulas as beliefs: against the same belief written by hand, Bambi's own predictor, and what is refused."""
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportArgumentType=false

import pickle

import bambi as bmb
import numpy as np
import pandas as pd
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import BeliefError, BeliefWarning, DataError

RNG = np.random.default_rng(0)
DATA = pd.DataFrame(
    {
        "arm": RNG.choice(["old", "new"], 60),
        "age": RNG.uniform(0.0, 1.0, 60),
        "segment": RNG.choice(["north", "south", "west"], 60),
        "y": RNG.normal(size=60),
    }
)


def normal(mu: float, sigma: float):
    return bmb.Prior("Normal", mu=mu, sigma=sigma)


def test_a_line_for_each_arm_is_the_belief_written_by_hand() -> None:
    model = bmb.Model("y ~ 0 + arm + arm:age", DATA, priors={"arm": normal(0.3, 0.5), "arm:age": normal(0.0, 0.2)})
    prior = rcb.Prior.from_bambi(model, sigma=False)
    assert (prior.arms, prior.features, prior.inputs) == (("new", "old"), ("intercept", "age"), ("age",))
    twin = rcb.Prior.gaussian([[0.3, 0.0]] * 2, np.diag([0.25, 0.04]), arms=prior.arms, features=prior.features)
    np.testing.assert_allclose(prior.mean, twin.mean, atol=1e-12)
    np.testing.assert_allclose(prior.covariance, twin.covariance, atol=1e-12)
    assert prior.arms_independent
    market = rcb.Market(prior=prior, covariates=rcb.users.Uniform([0.0], [1.0]), noise=rcb.GaussianNoise(0.3))
    assert market.features == ("age",)


def test_treatment_coding_is_undone_and_centring_too() -> None:
    """Bambi's intercept belongs to centred columns: an arm's level at age 0 hangs on the slopes' priors."""
    priors = {
        "Intercept": normal(0.3, 0.5),
        "age": normal(1.0, 0.2),
        "arm": normal(0.1, 0.1),
        "age:arm": normal(0, 0.3),
    }
    prior = rcb.Prior.from_bambi(bmb.Model("y ~ age*arm", DATA, priors=priors), sigma=False)
    old = (DATA["arm"] == "old").to_numpy(float)
    middle = np.array([DATA["age"].mean(), old.mean(), (DATA["age"] * old).mean()])
    # new: I - middle'b + age b1; old: that + b2 + age b3, b = (age, arm, age:arm)
    rows = {
        "new": (np.array([1.0, *-middle]), np.array([0.0, 1.0, 0.0, 0.0])),
        "old": (np.add([1.0, *-middle], [0.0, 0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0, 1.0])),
    }
    mean, variance = np.array([0.3, 1.0, 0.1, 0.0]), np.diag([0.5, 0.2, 0.1, 0.3]) ** 2
    for arm, parts in rows.items():
        matrix = np.stack(parts)
        np.testing.assert_allclose(prior.mean.sel(arm=arm), matrix @ mean, atol=1e-10)
        found = prior.covariance.sel(arm=arm, arm_2=arm)
        np.testing.assert_allclose(found, matrix @ variance @ matrix.T, atol=1e-10)
    assert not prior.arms_independent


def test_splines_and_groups_predict_as_bambi_does() -> None:
    formula = "y ~ 0 + arm + arm:bs(age, df=4) + (1|segment)"
    spread = bmb.Prior("Normal", mu=0.0, sigma=bmb.Prior("HalfNormal", sigma=0.3))
    model = bmb.Model(formula, DATA, priors={"common": normal(0.0, 0.3), "1|segment": spread})
    prior = rcb.Prior.from_bambi(model, sigma=False)
    assert prior.inputs == ("age", "segment")
    assert prior.n_features == 1 + 4 + 3
    import xarray as xr

    rng = np.random.default_rng(1)
    b = {"arm": rng.normal(size=2), "arm:bs(age, df=4)": rng.normal(size=8), "1|segment": rng.normal(size=3)}
    dims = {"arm": "arm_dim", "arm:bs(age, df=4)": "arm:bs(age, df=4)_dim", "1|segment": "segment__factor_dim"}
    coords = {dims[name]: list(model.backend.model.coords[dims[name]]) for name in b}
    coords |= {"chain": [0], "draw": [0, 1]}
    variables = {name: (("chain", "draw", dims[name]), np.tile(value, (1, 2, 1))) for name, value in b.items()}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(variables, coords=coords)})
    people = pd.DataFrame({"arm": ["old", "new", "new"], "age": [0.2, 0.5, 0.9], "segment": ["west", "north", "west"]})
    predicted = model.predict(tree, data=people, inplace=False)
    assert predicted is not None
    told = predicted["posterior"]["mu"].values[0, 0]
    wide = np.random.default_rng(2).normal(size=(1, 2000, 13)) * 1e-9
    draws = {
        "arm": b["arm"] + wide[..., :2],
        "arm:bs(age, df=4)": b["arm:bs(age, df=4)"] + wide[..., 2:10],
        "1|segment": b["1|segment"] + wide[..., 10:],
    }
    posterior = xr.Dataset({name: (("chain", "draw", dims[name]), part) for name, part in draws.items()})
    later = rcb.Prior.from_bambi(model, posterior=xr.DataTree.from_dict({"posterior": posterior}))
    phi = later.feature_map(np.array([[0.2, 2.0], [0.5, 0.0], [0.9, 2.0]]))
    arm = [later.arms.index(name) for name in people["arm"]]
    np.testing.assert_allclose((phi * later.mean.values[arm]).sum(axis=1), told, atol=1e-6)
    with pytest.raises(DataError, match="'segment' is a factor: x has the position of its level, 0 to 2"):
        prior.feature_map(np.array([[0.2, 3.0]]))


def test_zeros_and_ones() -> None:
    data = DATA.assign(y=(DATA["y"] > 0).astype(int))
    model = bmb.Model("y ~ 0 + arm + arm:age", data, family="bernoulli", priors={"common": normal(0.0, 0.7)})
    prior = rcb.Prior.from_bambi(model)
    assert prior.is_gaussian
    assert not prior.has_sigma
    rcb.Market(prior=prior, covariates=rcb.users.Uniform([0.0], [1.0]), noise=rcb.BernoulliLogit())


def test_the_formulas_own_noise() -> None:
    noise = bmb.Prior("HalfNormal", sigma=0.3)
    model = bmb.Model("y ~ 0 + arm + arm:age", DATA, priors={"common": normal(0.0, 0.3), "sigma": noise})
    assert rcb.Prior.from_bambi(model).has_sigma
    assert not rcb.Prior.from_bambi(model, sigma=False).has_sigma


def test_it_travels() -> None:
    model = bmb.Model("y ~ 0 + arm + arm:age", DATA, priors={"common": normal(0.0, 0.3)})
    prior = rcb.Prior.from_bambi(model, sigma=False)
    again = pickle.loads(pickle.dumps(prior))
    np.testing.assert_array_equal(again.mean, prior.mean)
    x = np.array([[0.1], [0.7]])
    np.testing.assert_array_equal(again.feature_map(x), prior.feature_map(x))


def test_default_priors_look_at_rewards() -> None:
    with pytest.warns(BeliefWarning, match="scaled by the rewards in its data"):
        rcb.Prior.from_bambi(bmb.Model("y ~ 0 + arm + arm:age", DATA), sigma=False)


COUNTS = DATA.assign(y=1)
OWN = {"common": normal(0.0, 0.3)}


@pytest.mark.parametrize(
    ("model", "asked", "message"),
    [
        ("no model", {}, "Expected a bambi.Model, got str"),
        (lambda: bmb.Model("y ~ age", COUNTS, family="poisson", priors=OWN), {}, "got the family 'poisson'"),
        (lambda: bmb.Model("y ~ 0 + arm + age", DATA, priors=OWN), {"arm": "arms"}, "no column 'arms'.*Did you mean"),
        (lambda: bmb.Model("y ~ age", DATA, priors=OWN), {}, "gives every arm the same: 'arm' is in none of its terms"),
        (lambda: bmb.Model("y ~ 0 + arm", DATA, priors=OWN), {}, "no covariate beside the arms"),
        (lambda: bmb.Model("y ~ 0 + arm + offset(age)", DATA, priors=OWN), {}, "offset.*is not read from a formula"),
        (
            lambda: bmb.Model(bmb.Formula("y ~ 0 + arm + age", "sigma ~ age"), DATA, priors=OWN),
            {},
            "Only the mean may have a formula",
        ),
    ],
)
def test_what_is_no_such_formula(model, asked, message) -> None:
    with pytest.raises(BeliefError, match=message):
        rcb.Prior.from_bambi(model if isinstance(model, str) else model(), **asked)
