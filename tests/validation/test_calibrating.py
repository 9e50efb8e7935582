"""Simulation-based calibration: exact posteriors pass, posteriors that are a little off do not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rcb_bayes.validation.calibrating import BIAS, Fitted, findings_of
from rcb_bayes.validation.result import Validation

VERSIONS = {"rcb-bayes": "0"}


def exact_answers(seed: int, *, m: int = 1200, c: int = 8) -> Fitted:
    """Normal truths, and their normal posteriors with correlated coefficients."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((c, c)) / np.sqrt(c) + np.eye(c)
    prior = factor @ factor.T
    information = np.array([np.diag(rng.uniform(0.5, 4.0, c)) for _ in range(m)])
    truth = rng.standard_normal((m, c)) @ factor.T
    data = np.einsum("mce,me->mc", information, truth) + np.einsum(
        "mce,me->mc", np.sqrt(information), rng.standard_normal((m, c))
    )
    precision = np.linalg.inv(prior) + information
    covariance = np.linalg.inv(precision)
    mean = np.einsum("mce,me->mc", covariance, data)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    draws = mean[:, None] + np.einsum("mce,mne->mnc", np.linalg.cholesky(covariance), rng.standard_normal((m, 63, c)))
    place = ((draws < truth[:, None]).sum(axis=1) + rng.random((m, c))) / 64
    return Fitted(
        truth=truth,
        mean=mean,
        sd=sd,
        precision=precision,
        prior_mean=np.zeros(c),
        hint=data / data.std(axis=0),
        place=place,
        rewards=None,
    )


def judged(fitted: Fitted) -> Validation:
    findings = tuple(findings_of(fitted, part="exact", case="normal"))
    return Validation(findings=findings, quick=True, seed=1, seconds={}, versions=VERSIONS)


@pytest.mark.parametrize("seed", range(10))
def test_exact_posteriors_pass_and_every_planted_error_is_caught(seed: int):
    found = judged(exact_answers(seed))
    assert found.verdict == "pass", found.summary()
    assert sum(len(one.planted) for one in found.findings) == 2


def one_arm_up_another_down(fitted: Fitted) -> Fitted:
    signs = np.where(np.arange(fitted.mean.shape[1]) % 2, 1.0, -1.0)
    return replace(fitted, mean=fitted.mean + 2 * BIAS * signs * fitted.sd)


CROOKED: dict[str, tuple[Callable[[Fitted], Fitted], set[str]]] = {
    "means off by .1 sd": (lambda f: replace(f, mean=f.mean + BIAS * f.sd), {"bias"}),
    "one up, another down": (one_arm_up_another_down, {"bias by coefficient"}),
    "means that move too little": (lambda f: replace(f, mean=0.85 * f.mean), {"slope"}),
    "data overlooked": (lambda f: replace(f, mean=0 * f.mean), {"data"}),
    "sds a tenth too small": (lambda f: replace(f, sd=0.9 * f.sd), {"spread"}),
    "draws too narrow": (lambda f: replace(f, place=0.5 + (f.place - 0.5) * 1.1), {"ranks"}),
    "draws shifted": (lambda f: replace(f, place=np.clip(f.place + 0.03, 0, 1)), {"ranks"}),
}


@pytest.mark.parametrize("name", CROOKED)
def test_what_is_a_little_off_fails_by_the_test_for_it(name: str):
    change, expected = CROOKED[name]
    found = judged(change(exact_answers(3)))
    assert found.verdict == "fail"
    assert expected <= {one.test for one in found.failures}


def test_too_few_data_sets_fail_for_want_of_power_and_say_so():
    found = judged(exact_answers(4, m=60))
    assert found.verdict == "fail"
    assert not found.failures
    assert "not caught: sds times 0.9" in found.summary()
