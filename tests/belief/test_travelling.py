"""Beliefs that travel: pickled with plain pickle, they draw, weigh and answer as before."""

import pickle
from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief import Prior, gallery, load_prior
from rcb_bayes.belief.travelling import _arrived
from rcb_bayes.errors import BeliefError
from rcb_bayes.market import Market
from rcb_bayes.market.fingerprint import of_belief
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.worlds import draw_worlds, simulate_data
from rcb_bayes.posterior import make_engine
from rcb_bayes.users import Sphere

SLOW = ("correlated", "horseshoe", "mixture", "warfarin_physician", "unknown_noise", "hierarchical")
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in sorted(gallery())]
FEW = [name for name in sorted(gallery()) if name not in ("setting_2", "setting_3")]  # as setting_1


def sent(prior: Prior) -> Prior:
    """What arrives in a process that has never seen it."""
    _arrived.clear()
    return pickle.loads(pickle.dumps(prior))


@pytest.mark.parametrize("name", NAMES)
def test_a_belief_of_the_gallery_arrives_as_it_was(name: str) -> None:
    prior = load_prior(name)
    before = of_belief(prior)  # draws, and compiles what it takes, which must not travel
    found = sent(prior)
    assert found is not prior
    assert (found.name, found.arms, found.features, found.groups) == (
        prior.name,
        prior.arms,
        prior.features,
        prior.groups,
    )
    assert of_belief(found) == before
    for one, other in zip(_draws(prior), _draws(found), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(prior.mean.values, found.mean.values)
    assert found.has_density == prior.has_density
    if prior.has_density:
        values = prior.draw_arrays(5, rng=np.random.default_rng(3))[0]
        np.testing.assert_array_equal(prior.log_density(values), found.log_density(values))


def _draws(prior: Prior) -> list[Any]:
    return [part for part in prior.draw_arrays(7, rng=np.random.default_rng(1)) if part is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FEW if name != "warfarin_physician"])
def test_the_engine_of_a_belief_that_arrived_gives_the_same_posteriors(name: str) -> None:
    prior = load_prior(name)
    noise = None if prior.has_sigma else GaussianNoise(0.3)
    n_covariates = prior.n_features if prior.feature_map is None else prior.feature_map.n_inputs
    market = Market(prior=prior, covariates=Sphere(n_covariates), noise=noise)  # pyright: ignore[reportArgumentType]
    other = pickle.loads(pickle.dumps(market))
    assert other.fingerprint() == market.fingerprint()
    rng = np.random.default_rng(2)
    worlds = draw_worlds(prior, 20, rng=rng)
    data = simulate_data(worlds, market, n_per_arm=np.full(prior.n_arms, 8.0), rng=rng)
    fits = [make_engine(one.prior, one.noise).fit(data) for one in (market, other)]
    np.testing.assert_array_equal(fits[0].mean, fits[1].mean)
    np.testing.assert_array_equal(fits[0].vouched, fits[1].vouched)


def test_a_closed_form_travels_without_pymc() -> None:
    prior = Prior.gaussian(np.eye(2), [0.1, 0.3], arms=["a", "b"], name="mine")
    data = pickle.dumps(prior)
    assert len(data) < 2000
    found = pickle.loads(data)
    assert (found.name, found.arms) == ("mine", ("a", "b"))
    np.testing.assert_array_equal(found.covariance.values, prior.covariance.values)


def test_a_belief_that_came_before_is_the_same_object() -> None:
    data = pickle.dumps(load_prior("laplace", n_arms=2, n_features=2))
    assert pickle.loads(data) is pickle.loads(data)  # what was compiled for it serves again


def test_a_market_keeps_who_believes_the_same() -> None:
    users, platform = (load_prior("student_t", n_arms=2, n_features=2), Prior.gaussian(np.zeros((2, 2)), 1.0))
    market = Market(prior=users, platform_prior=platform, covariates=Sphere(2), noise=GaussianNoise(0.3))
    found = pickle.loads(pickle.dumps(market))
    assert found.nature is found.prior
    assert found.platform_prior is not found.prior
    assert found.fingerprint() == market.fingerprint()


def test_another_belief_has_another_fingerprint_after_its_journey() -> None:
    """The planted error: degrees of freedom off by one."""
    one, other = (sent(load_prior("student_t", n_arms=2, n_features=2, nu=nu)) for nu in (4.0, 5.0))
    assert of_belief(one) != of_belief(other)


def test_a_model_that_cannot_travel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    prior = load_prior("laplace", n_arms=2, n_features=2)
    monkeypatch.setattr(prior.model, "held", threading.Lock(), raising=False)
    with pytest.raises(BeliefError, match=r"The belief 'laplace' cannot be sent to another process: .*lock"):
        pickle.dumps(prior)
