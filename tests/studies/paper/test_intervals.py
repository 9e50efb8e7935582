"""Intervals cover as often as they say, and decide only what they exclude."""

import numpy as np
import pytest

from rcb_bayes.studies.paper.intervals import (
    Interval,
    all_of,
    any_of,
    decide,
    exponent_weights,
    log_contrast,
    mean_interval,
)


def interval(lower: float, upper: float) -> Interval:
    return Interval(estimate=(lower + upper) / 2, error=1.0, lower=lower, upper=upper)


@pytest.mark.parametrize(
    ("bounds", "limits", "expected"),
    [
        ((0.1, 0.2), {"low": 0.0}, "held"),
        ((-0.2, -0.1), {"low": 0.0}, "not held"),
        ((-0.1, 0.1), {"low": 0.0}, "undecided"),
        ((2.6, 3.4), {"low": 2.5, "high": 3.5}, "held"),
        ((1.0, 2.0), {"low": 2.5, "high": 3.5}, "not held"),
        ((1.0, 5.0), {"low": 2.5, "high": 3.5}, "undecided"),
        ((0.0, 0.0), {"low": np.nextafter(0.0, 1.0)}, "not held"),
        ((np.nan, np.nan), {"low": 0.0}, "undecided"),
    ],
)
def test_decisions(bounds: tuple[float, float], limits: dict[str, float], expected: str):
    assert decide(interval(*bounds), **limits) == expected


def test_claims_about_all_and_about_some():
    assert all_of(["held", "held"]) == "held"
    assert all_of(["held", "undecided"]) == "undecided"
    assert all_of(["undecided", "not held"]) == "not held"
    assert all_of([]) == "undecided"
    assert any_of(["not held", "held"]) == "held"
    assert any_of(["not held", "not held"]) == "not held"
    assert any_of(["not held", "undecided"]) == "undecided"


def test_means_are_covered_19_times_out_of_20_and_a_planted_bias_is_seen():
    rng = np.random.default_rng(1)
    n = 4000
    samples = rng.normal(2.0, 1.0, (n, 20))
    covered = np.mean([found.lower <= 2.0 <= found.upper for found in map(mean_interval, samples)])
    error = np.sqrt(0.05 * 0.95 / n)
    assert abs(covered - 0.95) < 4 * error
    biased = np.mean([found.lower <= 2.1 <= found.upper for found in map(mean_interval, samples)])
    assert abs(biased - 0.95) > 4 * error


def test_many_tests_widen_the_interval():
    values = np.random.default_rng(2).normal(size=20)
    assert mean_interval(values, n_tests=50).upper > mean_interval(values).upper


def test_one_world_decides_nothing():
    found = mean_interval(np.array([1.0]))
    assert (found.lower, found.upper) == (-np.inf, np.inf)


def test_exponents_of_a_power_law_are_found_where_cells_share_their_worlds():
    rng = np.random.default_rng(3)
    arms, features = np.meshgrid([2.0, 3.0, 5.0, 10.0], [3.0, 5.0], indexing="ij")
    arms, features = arms.ravel(), features.ravel()
    worlds = rng.gamma(20.0, 1 / 20.0, 30)  # good and bad worlds, the same in all cells
    own = rng.gamma(400.0, 1 / 400.0, (len(arms), 30))
    values = list(7.0 * arms[:, None] ** 3 * features[:, None] ** 0.5 * worlds * own)
    cubic = log_contrast(values, exponent_weights(arms, features))
    root = log_contrast(values, exponent_weights(features, arms))
    assert abs(cubic.estimate - 3.0) < 4 * cubic.error < 0.2
    assert abs(root.estimate - 0.5) < 4 * root.error < 0.3
    assert abs(cubic.estimate - 2.8) > 4 * cubic.error  # a planted exponent
    # What cells have in common does not blur a contrast of theirs.
    assert cubic.error < 0.25 * worlds.std() / np.sqrt(30)


def test_a_parameter_that_does_not_vary_has_no_exponent():
    assert not exponent_weights(np.array([5.0, 5.0]), np.array([3.0, 5.0])).any()
