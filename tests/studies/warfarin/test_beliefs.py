"""The physician's belief as a market."""

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.studies.warfarin.beliefs import physician_market
from rcb_bayes.studies.warfarin.cohort import ARMS, Cohort


def test_it_is_the_papers(few: Cohort) -> None:
    market = physician_market(few, variance=0.6, sigma=0.054)
    assert market.arms == ARMS
    assert market.features == few.names
    mean = market.prior.mean.values
    np.testing.assert_allclose(mean, np.outer([0.0, 0.05, 0.0], np.ones(70)))
    beta, _ = market.prior.draw_arrays(4000, rng=np.random.default_rng(0))
    error = 0.6 * np.sqrt(2 / beta.size)
    assert abs((beta - mean).var() - 0.6) < 4 * error


def test_of_0_and_1_an_average_patient_expects_mostly_medium(few: Cohort) -> None:
    market = physician_market(few, rewards="logit")
    expected = expected_rewards(market.prior, market.noise, few.features).mean(axis=0)
    assert expected[1] > 0.5 > expected[0] == pytest.approx(expected[2])


@pytest.mark.parametrize(
    ("values", "message"),
    [({"variance": 0}, "variance"), ({"sigma": -1.0}, "sigma"), ({"rewards": "logistic"}, "Did you mean 'logit'")],
)
def test_bad_settings(few: Cohort, values: dict, message: str) -> None:
    with pytest.raises(RcbError, match=message):
        physician_market(few, **values)
