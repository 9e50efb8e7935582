"""Beliefs of 1991: what their models say, and a belief fitted to a part of the trial."""

import numpy as np
import pytest

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.planning.theorem import noise_sd
from rcb_bayes.studies.actg import BELIEFS, Trial, designer_market, designer_prior, elicited_answers, learned_market
from rcb_bayes.studies.actg.trial import ARMS, FEATURES


@pytest.mark.parametrize("belief", list(BELIEFS))
def test_every_belief_is_a_market_of_the_trial(made_up: Trial, belief: str) -> None:
    market = designer_market(made_up, belief)
    assert tuple(market.arms) == ARMS
    assert tuple(market.features) == made_up.names
    assert market.prior.is_gaussian
    assert market.prior.arms_independent == (belief != "hierarchical")


def test_means_are_those_told() -> None:
    assert designer_prior("sceptical").mean.values[:, 0] == pytest.approx([0.2, 0.05, 0.05, 0.05])
    assert designer_prior("enthusiastic").mean.values[:, 0] == pytest.approx([0.1, 0.4, 0.3, 0.25])
    assert designer_prior("hierarchical").mean.values[:, 0] == pytest.approx([0.2, 0.05, 0.05, 0.05])


def test_the_new_arms_tell_of_one_another() -> None:
    draws = designer_prior("hierarchical").draw_arrays(4000, rng=np.random.default_rng(1))[0][:, :, 0]
    among = np.asarray(np.corrcoef(draws.T), dtype=float).reshape(4, 4)
    new = among[1:, 1:][np.triu_indices(3, 1)]
    expected = 0.3**2 / (0.3**2 + 0.2**2)
    assert abs(new.mean() - expected) < 4 * (1 - expected**2) / np.sqrt(4000)
    assert abs(among[0, 1:]).max() < 4.5 / np.sqrt(4000)


def test_the_elicited_belief_has_the_quantiles_told() -> None:
    prior = designer_prior("elicited")
    answers = elicited_answers()
    for arm in ARMS:
        own = answers[answers["arm"] == arm]
        x = np.column_stack([np.ones(len(own)), own[list(FEATURES)]])
        np.testing.assert_allclose(x @ prior.mean.sel(arm=arm).values, own["q50"], atol=1e-6)


def test_what_is_no_belief_is_refused(made_up: Trial) -> None:
    with pytest.raises(RcbError, match=r"no belief 'scpetical'.*sceptical"):
        designer_market(made_up, "scpetical")
    with pytest.raises(RcbError, match="was asked about cd40"):
        designer_prior("elicited", names=("intercept", "age"))


def test_a_learned_belief_is_ridge_regression(made_up: Trial) -> None:
    past, coming = made_up.halves(seed=1)
    market = learned_market(past, coming, discount=1.0)
    sigma = noise_sd(market)
    for k in range(len(ARMS)):
        x, y = past.features[past.arm == k], past.reward[past.arm == k]
        ridge = np.linalg.solve(x.T @ x + sigma**2 * np.eye(x.shape[1]), x.T @ y)
        np.testing.assert_allclose(market.prior.mean.values[k], ridge, atol=1e-10)
    assert not set(map(tuple, past.features)) & set(map(tuple, coming.features))
    with pytest.raises(RcbError, match="discount"):
        learned_market(past, coming, discount=0.0)
    with pytest.raises(DataError, match="Take a larger part"):
        learned_market(past.part(np.arange(8)), coming)
