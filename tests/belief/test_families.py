"""Other families have the means and variances they were asked for."""

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.belief.families import MATCHED, matched_belief
from rcb_bayes.errors import BeliefError, RcbError

MEAN = np.array([[1.0, -0.5], [0.0, 0.25]])


@pytest.mark.parametrize("family", MATCHED)
def test_means_and_variances_are_matched(family: str):
    belief = matched_belief(family, MEAN, 0.2)
    np.testing.assert_allclose(belief.mean.values, MEAN, atol=1e-6)
    draws = belief.draw(20_000, seed=1)["beta"].values.reshape(20_000, -1)
    variances = draws.var(axis=0, ddof=1)
    centred = (draws - MEAN.ravel()) ** 2
    error = centred.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(variances - 0.2) < 4.5 * error).all()
    assert (np.abs(variances - 0.24) > 4.5 * error).all()  # a planted variance
    assert belief.is_gaussian == (family == "gaussian")


def test_the_skewed_belief_has_its_long_tail_to_the_right():
    draws = matched_belief("skewed", MEAN, 0.2).draw(20_000, seed=2)["beta"].values.reshape(20_000, -1)
    standard = (draws - draws.mean(axis=0)) / draws.std(axis=0)
    assert ((standard**3).mean(axis=0) > 0.5).all()


def test_unknown_families_are_refused():
    with pytest.raises(RcbError, match="Did you mean 'mixture'"):
        matched_belief("mixtur", MEAN, 0.2)


def test_families_to_compare_are_a_way_to_make_a_belief():
    made = Prior.matched("laplace", MEAN, [[0.1, 0.2], [0.3, 0.4]], arms=["old", "new"], features=["base", "age"])
    assert made.arms == ("old", "new")
    np.testing.assert_allclose(np.einsum("kdkd->kd", made.covariance.values), [[0.1, 0.2], [0.3, 0.4]], rtol=0.05)
    with pytest.raises(BeliefError, match="variance must be above 0, got -1"):
        Prior.matched("gaussian", MEAN, -1.0)
    with pytest.raises(BeliefError, match="two arms"):
        Prior.matched("gaussian", MEAN[:1], 0.1)
    with pytest.raises(RcbError, match=r"no family 'laplac'\. Did you mean 'laplace'"):
        Prior.matched("laplac", MEAN, 0.1)
