"""Several beliefs as one: moments of mixtures, posteriors that learn who was right, and what is refused."""
# pyright: reportOptionalMemberAccess=false

import numpy as np
import pytest
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes.errors import BeliefError
from rcb_bayes.posterior import Statistics, make_engine

ANN = rcb.Prior.gaussian([[0.5, 0.1], [0.2, 0.0]], [0.04, 0.09], name="ann")
BOB = rcb.Prior.gaussian([[0.5, 0.0], [0.8, 0.2]], 0.02, name="bob")


def test_moments_of_a_mixture() -> None:
    both = rcb.Prior.pool([ANN, BOB], weights=[3, 1])
    one, other = ANN.mean.values, BOB.mean.values
    np.testing.assert_allclose(both.mean, 0.75 * one + 0.25 * other, atol=1e-14)
    gap = (one - other).reshape(-1)
    within = 0.75 * ANN.law.covariance() + 0.25 * BOB.law.covariance()
    np.testing.assert_allclose(both.law.covariance(), within + 0.75 * 0.25 * np.outer(gap, gap), atol=1e-14)
    assert both.is_mixture
    assert not both.arms_independent


def test_data_tell_who_was_right() -> None:
    """One feature, one sample of the second arm: weights by Bayes' rule, and the first arm moves with them."""
    ann, bob = (rcb.Prior.gaussian([[first], [second]], 0.04) for first, second in ((0.5, 0.2), (0.3, 0.8)))
    both = rcb.Prior.pool([ann, bob])
    data = Statistics.from_rows([[1.0]], arm=[1], reward=[0.7], n_arms=2)
    found = make_engine(both, rcb.GaussianNoise(0.3)).fit(data).mean[0]
    weights = norm.pdf(0.7, [0.2, 0.8], np.sqrt(0.04 + 0.09))
    weights /= weights.sum()
    gain = 0.04 / 0.13
    np.testing.assert_allclose(found[0, 0], weights @ [0.5, 0.3], atol=1e-12)
    np.testing.assert_allclose(found[1, 0], weights @ [0.2 + gain * 0.5, 0.8 - gain * 0.1], atol=1e-12)
    planted = np.array([0.5, 0.5]) @ [0.5, 0.3]
    assert abs(found[0, 0] - planted) > 0.01


def test_written_out_as_a_model_it_is_the_same() -> None:
    both = rcb.Prior.pool([ANN, BOB], weights=[3, 1])
    again = rcb.Prior.from_pymc(both.model)
    np.testing.assert_allclose(again.law.mean(), both.law.mean(), atol=1e-14)
    np.testing.assert_allclose(again.law.covariance(), both.law.covariance(), atol=1e-14)
    assert again.is_mixture


def test_beliefs_without_a_closed_form_are_drawn_from() -> None:
    heavy = rcb.load_prior("student_t", n_arms=2, n_features=2)
    both = rcb.Prior.pool([heavy, BOB], weights=[1, 1])
    assert both.fit is not None
    assert both.fit.n_draws == 20_000
    error = both.moments["mean_mcse"].values
    expected = 0.5 * (heavy.mean.values + BOB.mean.values)
    assert (np.abs(both.mean.values - expected) < 4.5 * error).all()
    assert not (np.abs(both.mean.values - 0.9 * expected) < 4.5 * error).all()


OTHER = rcb.Prior.gaussian([[0.5, 0.1], [0.2, 0.0]], 0.04, arms=["x", "y"])


@pytest.mark.parametrize(
    ("priors", "weights", "message"),
    [
        ([ANN], None, "at least two beliefs, got 1"),
        ([ANN, OTHER], None, "other arms or features"),
        ([ANN, 3], None, r"takes beliefs \(Prior\), got int"),
        ([ANN, BOB], [1.0], "2 numbers of at least 0"),
        ([ANN, BOB], [0.0, 0.0], "not all 0"),
        ([ANN, BOB], [-1.0, 2.0], "at least 0"),
        ([ANN, rcb.load_prior("unknown_noise", n_arms=2, n_features=2)], None, "unknown sigma, which is not pooled"),
    ],
)
def test_what_cannot_be_pooled(priors, weights, message) -> None:
    with pytest.raises(BeliefError, match=message):
        rcb.Prior.pool(priors, weights=weights)
