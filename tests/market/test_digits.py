"""Features of any size: margins of plain simulation where numbers can tell them, and a refusal where they cannot."""

from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import MarketError

ROWS = np.array([[1.0, 0.5], [0.8, -0.2], [0.9, 0.9]])
MEAN = np.array([[0.4, 0.1], [0.1, 0.0]])
VARIANCE, SIGMA, SAMPLES, RATE = 0.1, 0.3, 10, 0.3


def scaled(size: float, *, coefficients_too: bool) -> rcb.Market:
    """The second feature in another unit; with its coefficients, so that nothing changes, or without."""
    units = np.array([1.0, size])
    own = units if coefficients_too else np.ones(2)
    prior = rcb.Prior.gaussian(MEAN / own, np.diag(VARIANCE / own**2))
    return rcb.Market(prior=prior, covariates=rcb.Empirical(ROWS * units), noise=rcb.GaussianNoise(SIGMA))


def plain_margins(rate: float, n_worlds: int) -> tuple[np.ndarray, np.ndarray]:
    """Margins of the second arm for every user once the first has its samples, and their errors."""
    rng = np.random.default_rng(11)
    beta = MEAN[0] + np.sqrt(VARIANCE) * rng.standard_normal((n_worlds, 2))
    x = ROWS[rng.integers(len(ROWS), size=(n_worlds, SAMPLES))]
    y = (x * beta[:, None]).sum(axis=2) + SIGMA * rng.standard_normal((n_worlds, SAMPLES))
    precision = x.swapaxes(1, 2) @ x / SIGMA**2 + np.eye(2) / VARIANCE
    towards = (x * y[:, :, None]).sum(axis=1) / SIGMA**2 + MEAN[0] / VARIANCE
    told, known = np.linalg.solve(precision, towards[:, :, None])[:, :, 0] @ ROWS.T, ROWS @ MEAN[1]
    mass = rate + (1.0 - rate) * (known > told)
    term = mass * (known - told)
    margin = term.mean(axis=0) / mass.mean(axis=0)
    return margin, (term - margin * mass).std(axis=0) / mass.mean(axis=0) / np.sqrt(n_worlds)


@pytest.mark.parametrize("size", [1.0, 1e12, 1e-12])
def test_margins_are_those_of_plain_simulation_whatever_the_unit_of_a_feature(size: float) -> None:
    market = scaled(size, coefficients_too=True)
    plan = rcb.fixed_plan(market, epsilon=0.1, n_per_arm=SAMPLES, exploration_rate=RATE)
    found = rcb.audit(market, plan, horizon=60, n_worlds=2000, users=market.covariates.rows, seed=2)  # pyright: ignore[reportAttributeAccessIssue]
    cells = found.margins.sel(stage="arm_0", arm="arm_1", rival="arm_0")
    truth, error = plain_margins(RATE, 100_000)
    apart = np.abs(cells["estimate"].values[: len(ROWS)] - truth)
    off = np.hypot(cells["mcse"].values[: len(ROWS)], error)
    assert (apart < 4 * off).all()
    wrong, _ = plain_margins(0.9 * RATE, 100_000)  # planted: a rate that is off by a tenth
    assert (np.abs(cells["estimate"].values[: len(ROWS)] - wrong) > 4 * off).any()


@pytest.mark.parametrize(
    ("size", "call", "message"),
    [
        (1e12, "calibrate", "x'b is about 2.9e[+]11, mostly by 'feature_1', and epsilon is 0.1"),
        (1e12, "audit", "x'b is about 2.9e[+]11, mostly by 'feature_1', and epsilon is 0.1"),
        (1e12, "need", "and sigma 0.3: too far apart for numbers of sixteen digits"),
        (1e10, "gaps", "and sigma 0.3: too far apart for numbers of sixteen digits"),
    ],
)
def test_rewards_beside_which_epsilon_is_rounding_are_refused(size: float, call: str, message: str) -> None:
    """A tolerance of 1e-12 of rewards, for ties and verdicts, is more than epsilon: margins of -.16 passed for .1."""
    market = scaled(size, coefficients_too=False)
    calls: dict[str, Any] = {
        "calibrate": lambda: rcb.calibrate(market, epsilon=0.1, n_per_arm=10, n_worlds=500),
        "audit": lambda: rcb.audit(market, rcb.fixed_plan(market, epsilon=0.1, n_per_arm=10, exploration_rate=0.7)),
        "need": lambda: rcb.check_need(market, horizon=100),
        "gaps": lambda: rcb.estimate_gaps(market, saturated=["arm_0"], n_per_arm=5),
    }
    with pytest.raises(MarketError, match=message):
        calls[call]()


def test_an_epsilon_below_the_tolerance_of_ties_is_refused() -> None:
    with pytest.raises(MarketError, match="epsilon is 1e-10"):
        rcb.calibrate(scaled(1.0, coefficients_too=True), epsilon=1e-10, n_per_arm=10)
    tiny = rcb.Market(
        prior=rcb.Prior.gaussian(1e-9 * MEAN, 1e-20), covariates=rcb.Empirical(ROWS), noise=rcb.GaussianNoise(1e-9)
    )
    with pytest.raises(MarketError, match="measure rewards in another unit"):
        rcb.calibrate(tiny, epsilon=0.0, n_per_arm=10)
