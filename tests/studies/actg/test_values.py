"""Intervals: for patients to come, and about the trial itself, with the finite-population correction."""

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.errors import RcbError
from rcb_bayes.planning.theorem import noise_sd
from rcb_bayes.studies.actg import Trial, about_trial, designer_market, load_actg, trial_values
from rcb_bayes.studies.actg.covering import fixed_coverage, learning_coverage
from rcb_bayes.studies.actg.trial import ARMS


def test_values_are_plain_means(made_up: Trial) -> None:
    market = designer_market(made_up, "sceptical")
    for k, arm in enumerate(ARMS):
        found = trial_values(made_up, arm, market)
        own = made_up.reward[made_up.arm == k]
        weighted = 4 * made_up.reward * (made_up.arm == k)
        assert found["value"].sel(estimator="snips").item() == pytest.approx(own.mean(), abs=1e-10)
        assert found["value"].sel(estimator="ips").item() == pytest.approx(weighted.mean(), abs=1e-10)
        assert found["mcse"].sel(estimator="ips").item() == pytest.approx(stats.sem(weighted), abs=1e-10)


def test_the_correction_is_that_of_sampling_without_return(made_up: Trial) -> None:
    """Halves of a finite list: the mean square error is (1 - n/N) S^2/n, and S^2/n is twice too large."""
    market = designer_market(made_up, "sceptical")
    n = len(made_up) // 2
    found = trial_values(made_up.part(np.arange(n)), ARMS[0], market)
    own = about_trial(found, n=n, n_all=len(made_up))
    np.testing.assert_allclose(own["mcse"], found["mcse"] * np.sqrt(0.5))
    np.testing.assert_allclose((own["lower"] + own["upper"]) / 2, own["value"])
    z = 4 * made_up.reward * (made_up.arm == 0)
    rng = np.random.default_rng(3)
    errors = np.array([z[rng.permutation(len(z))[:n]].mean() - z.mean() for _ in range(4000)])
    predicted = 0.5 * z.var(ddof=1) / n
    assert abs((errors**2).mean() / predicted - 1.0) < 4 * np.sqrt(2 / 4000)
    assert abs((errors**2).mean() / (2 * predicted) - 1.0) > 4 * np.sqrt(2 / 4000)  # without it
    with pytest.raises(RcbError, match="A part has 1 to"):
        about_trial(found, n=len(made_up) + 1, n_all=len(made_up))


def test_halves_of_a_made_up_trial_are_covered(made_up: Trial) -> None:
    rows = fixed_coverage(made_up, 0, 12, seed=1)["coverage"]
    assert {row["policy"] for row in rows} == {*(f"always {arm}" for arm in ARMS), "uniform", "belief alone"}
    held = sum(row["held"] for row in rows)
    assert stats.binomtest(held, 12 * len(rows), 0.8, alternative="less").pvalue > 1e-3
    assert all(row["held"] <= row["held_uncorrected"] <= row["n"] for row in rows)


@pytest.mark.slow
def test_intervals_cover_the_full_sample_in_random_halves(real: Trial) -> None:
    """500 halves of the trial: 93 to 97 % with the correction; without it nearly all, which is the planted error."""
    rows = fixed_coverage(real, 0, 500, seed=1)["coverage"]
    for row in rows:
        print(row)
        assert 0.93 <= row["held"] / 500 <= 0.97, row
        assert row["held_uncorrected"] / 500 > 0.98, row


@pytest.mark.slow
def test_intervals_of_learning_policies_in_random_halves(real: Trial) -> None:
    for row in learning_coverage(real, 0, 200, seed=1)["coverage"]:
        print(row)
        assert stats.binomtest(row["held"], 200, 0.95, alternative="less").pvalue > 1e-3, row


def test_the_event_is_an_outcome_with_beliefs_of_its_own(made_up: Trial, tmp_path) -> None:
    from tests.studies.actg.files import write_table

    trial = load_actg(write_table(tmp_path / "t.csv"), outcome="event")
    for belief in ("sceptical", "hierarchical", "elicited"):
        market = designer_market(trial, belief)
        assert 0.6 < float(market.prior.mean.sel(arm="zdv", feature="intercept")) < 0.8
        assert noise_sd(market) == pytest.approx(0.45)
