"""The dose oracle: a gradient that is one, probabilities that sum to one, theta found from bandit rewards."""

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.running.history import History
from rcb_bayes.studies.warfarin.cohort import bucket
from rcb_bayes.studies.warfarin.dose_oracle import DoseOracle, _log_likelihood

THETA = np.array([1.0, -2.0, 0.5])


def history_of(n: int, *, seed: int, arms: np.ndarray | None = None) -> tuple[History, np.ndarray]:
    """Users, arms at random and 0/1 rewards of a latent dose."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 3))
    root = 5.2 + x @ THETA + 0.95 * rng.standard_normal(n)
    arm = rng.integers(3, size=n) if arms is None else arms
    history = History(3, 3, keep_rows=True)
    history.add(x, arm, (arm == bucket(np.maximum(root, 0) ** 2)).astype(float))
    return history, x


def test_the_slope_is_the_derivative() -> None:
    rng = np.random.default_rng(1)
    eta, hit = rng.normal(size=6), rng.random(6)
    cuts = DoseOracle().cuts
    arm = np.array([0, 1, 2, 0, 1, 2])
    lower, upper = cuts[arm], cuts[arm + 1]
    found = _log_likelihood(eta, lower, upper, hit)[1]
    step = 1e-6 * np.eye(6)
    ahead, behind = (
        np.array([_log_likelihood(eta + sign * row, lower, upper, hit)[0] for row in step]) for sign in (1, -1)
    )
    expected = (ahead - behind) / 2e-6
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_theta_is_found_from_bandit_rewards() -> None:
    """Mode over many data sets: unbiased up to its error, which the planted value is not."""
    oracle = DoseOracle(variance=1e4)
    found = np.stack([oracle.fit(history_of(3000, seed=seed)[0]).theta * 0.95 for seed in range(30)])
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(30)
    assert (np.abs(mean - THETA) < 4 * error + 0.01).all()  # the mode's own bias at n = 3000 is below .01
    assert (np.abs(mean - 1.1 * THETA) > 4 * error + 0.01)[:2].all()


def test_samples_of_medium_alone_tell_about_the_others() -> None:
    history, x = history_of(4000, seed=2, arms=np.ones(4000, dtype=int))
    scores = DoseOracle().fit(history).scores(x.T)
    np.testing.assert_allclose(scores.sum(axis=0), 1.0)
    assert scores[0].std() + scores[2].std() > 0.05


def test_without_data_everybody_is_usual() -> None:
    scores = DoseOracle().fit(History(3, 3, keep_rows=True)).scores(np.eye(3))
    np.testing.assert_allclose(np.ptp(scores, axis=1), 0.0)
    assert scores[:, 0].argmax() == 1


def test_any_rewards_are_taken() -> None:
    history = History(3, 3, keep_rows=True)
    history.add(np.eye(3), np.arange(3), np.array([-3.0, 0.4, 7.0]))
    assert np.isfinite(DoseOracle().fit(history).theta).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [({"bounds": (49.0, 21.0)}, "rising"), ({"spread": 0.0}, "spread"), ({"variance": -1}, "varia")],
)
def test_bad_settings(values: dict, message: str) -> None:
    with pytest.raises(RcbError, match=message):
        DoseOracle(**values)
