"""Normal scores: rising maps with the slope they claim, under which a belief is about standard normal."""

from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from rcb_bayes.posterior.coordinates import NormalScores
from tests.posterior import twins

stats: Any = scipy_stats  # its annotations do not fit its own use
NAMES = ("student_t", "no_variance", "gamma", "lognormal", "laplace", "spiky")


def scores_of(name: str, n: int = 20_000) -> NormalScores:
    return NormalScores.of(twins.cached_prior(name, 2).draw_arrays(n, rng=np.random.default_rng(0))[0][:, 0])


@pytest.mark.parametrize("name", NAMES)
def test_maps_rise_with_the_slope_they_claim(name: str):
    scores = scores_of(name)
    u = np.linspace(-12.0, 12.0, 4001)[:, None] + 1e-3  # off the points where the slope changes
    values, slopes = scores.values_and_slopes(np.repeat(u, 2, axis=1))
    assert (np.diff(values, axis=0) > 0).all()
    step = 1e-6
    numeric = (scores.values(u + step) - scores.values(u - step)) / (2.0 * step)
    np.testing.assert_allclose(slopes, numeric, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "spiky"])  # whose gap is narrower than the knots
def test_a_belief_is_about_normal_in_its_scores(name: str):
    """Normal variables, mapped, have the law of fresh draws of the belief; those of another belief have not."""
    fresh = twins.cached_prior(name, 2).draw_arrays(4000, rng=np.random.default_rng(1))[0][:, 0, 0]
    mapped = scores_of(name).values(np.random.default_rng(2).standard_normal((4000, 2)))[:, 0]
    assert stats.ks_2samp(fresh, mapped).pvalue > 1e-4
    assert stats.ks_2samp(fresh + 0.2 * fresh.std(), mapped).pvalue < 1e-4


def test_correlations_are_those_of_the_scores():
    rng = np.random.default_rng(3)
    normal = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]], 20_000)
    found = NormalScores.of(np.exp(normal)).correlation
    assert found[0, 1] == pytest.approx(0.6, abs=4.5 * 0.64 / np.sqrt(20_000))


def test_far_out_there_are_numbers():
    values, slopes = scores_of("no_variance").values_and_slopes(np.array([[-1e6, 1e6]]))
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()
