"""An audit looks at the rounds that runs are in, whatever a plan says of its length."""

from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Audit, Market, Plan, Prior
from tests.planning.revising import revised

N, RATE, EPSILON, SIGMA, VARIANCE, MEAN = 20, 0.01, 0.005, 0.3, 0.02, 0.3
ARMS = ("arm_0", "arm_1")


@cache
def two_types() -> Market:
    """Two types of users, each of whom likes an arm of her own: both arms fill up at once in the first phase."""
    prior = Prior.gaussian([[MEAN, 0.0], [0.0, MEAN]], VARIANCE)
    return Market(prior=prior, covariates=rcb.Empirical(np.eye(2)), noise=rcb.GaussianNoise(SIGMA))


@cache
def fixed() -> Plan:
    return rcb.fixed_plan(two_types(), n_per_arm=N, exploration_rate=RATE, epsilon=EPSILON, notion="proof")


@cache
def found(horizon: int) -> Audit:
    return rcb.audit(two_types(), fixed(), horizon=horizon, n_worlds=2000, seed=3)


@cache
def plain_lengths(n_runs: int = 4000) -> np.ndarray:
    """Rounds of cold starts, simulated one by one with nothing of the package."""
    rng = np.random.default_rng(11)
    lengths = np.empty(n_runs)
    for run in range(n_runs):
        counts, rounds = [0, 0], 0
        while max(counts) < N:  # everybody is sampled for the arm she likes
            counts[rng.integers(2)] += 1
            rounds += 1
        missing = N - min(counts)
        lengths[run] = rounds + missing + rng.negative_binomial(missing, RATE) if missing else rounds
    return lengths


def plain_first_epoch(n_worlds: int = 400_000) -> tuple[float, float]:
    """E[p_i mu_i - p_i mu_j] of the arm a user does not like, as the first epoch begins, by true rewards."""
    rng = np.random.default_rng(12)
    counts = np.zeros((n_worlds, 2, 2), dtype=int)  # world, arm, type
    running = np.arange(n_worlds)
    while len(running):
        kind = rng.integers(2, size=len(running))
        counts[running, kind, kind] += 1
        running = running[counts[running, kind, kind] < N]
    for arm in range(2):
        missing = N - counts[:, arm].sum(axis=1)
        other = rng.binomial(missing, 0.5)  # both types are explored alike
        counts[:, arm, 1 - arm] += other
        counts[:, arm, arm] += missing - other
    mean = MEAN * np.eye(2)
    truth = mean + np.sqrt(VARIANCE) * rng.standard_normal(counts.shape)
    sums = counts * truth + SIGMA * np.sqrt(counts) * rng.standard_normal(counts.shape)
    variance = 1 / (1 / VARIANCE + counts / SIGMA**2)
    scores = variance * (mean / VARIANCE + sums / SIGMA**2)
    gamma = 4 * np.sqrt(2 / variance.mean(axis=(1, 2)))
    lead = scores[:, 0, 1] - scores[:, 1, 1]  # of arm 0, for the type that likes arm 1
    off = 1 / (2 + gamma * np.abs(lead))
    gain = np.where(lead > 0, 1 - off, off) * (truth[:, 0, 1] - truth[:, 1, 1])
    return float(gain.mean()), float(gain.std() / np.sqrt(n_worlds))


def test_epochs_that_runs_get_to_are_judged_however_long_the_plan_says_its_cold_start_is():
    late = revised(fixed(), expected_cold_start=1e6)
    audit = rcb.audit(two_types(), late, horizon=20_000, n_worlds=500, seed=3)
    assert audit.verdict == "fail"
    assert "epoch 0" in audit.margins["stage"].values
    assert audit.worst().sel(stage="epoch 0")["verdict"].item() == 2


def test_the_first_epoch_s_margin_is_that_of_a_plain_run():
    cell = found(3000).margins.sel(stage="epoch 0", arm="arm_0", rival="arm_1").isel(user=0)  # users in their order
    assert found(3000).users[0].tolist() == [0.0, 1.0]
    mean, error = plain_first_epoch()
    assert abs(cell["estimate"].item() - mean) < 4 * np.hypot(cell["mcse"].item(), error)
    # A margin of -epsilon, which the plan is meant for, is not what it is.
    assert abs(cell["estimate"].item() + EPSILON) > 4 * np.hypot(cell["mcse"].item(), error)


@pytest.mark.parametrize("horizon", [300, 700, 3000])
def test_shares_are_those_of_runs_that_are_there_before_the_horizon(horizon: int):
    shares = found(horizon).margins["share"]
    lengths = plain_lengths()
    n = np.sqrt(len(lengths))
    for epoch in range(3):
        begins = lengths + 2 * N * (2**epoch - 1)
        truth = float((begins < horizon).mean())
        error = np.sqrt(max(truth * (1 - truth), 1e-4)) / n + 0.004  # the audit's own 20,000 paths
        name = f"epoch {epoch}"
        if name in shares["stage"].values:
            assert abs(shares.sel(stage=name).item() - truth) < 4 * error
            # Lengths by N (1 + (K - 1) L) would put every run on the same side of the horizon.
            assert truth < 0.02 or truth > 0.98 or abs(truth - round(truth)) > 4 * error
        else:
            assert truth < 0.01 + 4 * error


def test_a_horizon_within_the_cold_start_is_noted_and_leaves_exploitation_out():
    audit = found(N)
    assert not [name for name in audit.margins["stage"].values if name.startswith("epoch")]
    assert any("still in the cold start" in note for note in audit.notes)


def test_an_audit_world_by_world_sees_the_same_epochs():
    options = rcb.Exploiting(clock="global")  # which is not looked at side by side
    audit = rcb.audit(two_types(), fixed(), horizon=3000, n_worlds=60, n_users=2, options=options, seed=3)
    assert "epoch 0" in audit.margins["stage"].values
    assert audit.margins["share"].sel(stage="most popular").item() == 1.0
