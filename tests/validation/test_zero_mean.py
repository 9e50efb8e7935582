"""Tests of averages that should be zero: their level, their power, and coefficients that hang together."""

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.validation.zero_mean import holm, joint_test, slope_test


def test_p_values_are_uniform_where_data_sets_are_independent_and_coefficients_are_not():
    rng = np.random.default_rng(1)
    factor = np.linalg.cholesky(0.8 + 0.2 * np.eye(5))
    found = np.array([joint_test(rng.standard_normal((80, 5)) @ factor.T) for _ in range(600)])
    assert stats.kstest(found, "uniform").pvalue > 1e-4
    # Coefficients counted as if independent: far too many small p-values.
    means = np.array([(rng.standard_normal((80, 5)) @ factor.T).mean() for _ in range(600)])
    planted = 2 * stats.norm.sf(np.abs(means) * np.sqrt(400))
    assert stats.kstest(planted, "uniform").pvalue < 1e-4


def test_the_estimate_is_what_was_planted():
    rng = np.random.default_rng(2)
    information = rng.uniform(1.0, 4.0, 4000)
    score = 0.1 * information + np.sqrt(information) * rng.standard_normal(4000)
    estimate, error, p_value = slope_test(score, information, margin=0.01)
    assert abs(estimate - 0.1) < 4 * error
    assert error == pytest.approx(information.sum() ** -0.5, rel=0.05)
    assert p_value < 1e-9
    assert slope_test(score - 0.1 * information, information, margin=0.01)[2] > 1e-4


def test_what_is_allowed_is_no_failure():
    rng = np.random.default_rng(3)
    information = np.ones(100_000)
    score = 0.01 + rng.standard_normal(100_000)
    assert slope_test(score, information, margin=0.01)[2] > 1e-4
    assert slope_test(score, information, margin=0.0)[2] < 0.05
    assert slope_test(np.zeros(5), np.ones(5), margin=0.01) == (0.0, 0.0, 1.0)


def test_holm_is_the_textbook_s():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005]), 0.05).tolist() == [True, False, False, True]
    assert holm(np.array([0.001, 0.001]), 0.05).all()
    assert not holm(np.array([]), 0.05).size
