"""A belief from data: empirical Bayes against its definition, and from belief to audit."""

from dataclasses import replace

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.learned import _largest_evidence, learn_belief, run_learned


def spectrum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, int]:
    values, vectors = np.linalg.eigh(x.T @ x)
    return np.maximum(values, 0.0), vectors.T @ (x.T @ y), float(y @ y), len(y)


def test_the_evidence_is_largest_where_it_is_said_to_be() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4))
    y = x @ rng.normal(0, 0.7, 4) + rng.normal(0, 0.5, 40)
    noise, spread = _largest_evidence(*spectrum(x, y))

    def evidence(noise: float, spread: float) -> float:
        covariance = noise * np.eye(40) + spread * x @ x.T
        return float(-0.5 * (np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)))

    best = evidence(noise, spread)
    for factor in (0.9, 1.1):
        assert evidence(factor * noise, spread) < best
        assert evidence(noise, factor * spread) < best


def test_it_finds_what_made_the_data() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(40):
        x = rng.normal(size=(200, 30))
        found.append(_largest_evidence(*spectrum(x, x @ rng.normal(0, 0.5, 30) + rng.normal(0, 0.4, 200))))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(mean - [0.16, 0.25]) < 4 * error).all()
    assert (np.abs(mean - [0.16 * 1.1, 0.25 * 1.5]) > 4 * error).all()


def test_a_discount_widens_the_belief(few: Cohort) -> None:
    wide, narrow = (learn_belief(few, discount=share).prior for share in (0.1, 1.0))
    x = few.features[:50]

    def spread(prior: object) -> np.ndarray:
        beta, _ = prior.draw_arrays(500, rng=np.random.default_rng(0))  # pyright: ignore[reportAttributeAccessIssue]
        return (x @ beta[:, 1].T).std(axis=1)

    assert (spread(wide) > spread(narrow)).all()
    with pytest.raises(RcbError, match="discount"):
        learn_belief(few, discount=0.0)


@pytest.mark.slow
def test_from_a_belief_to_its_audit(made_up: Cohort) -> None:
    cohort = made_up.part(np.arange(1000))
    found = run_learned(cohort, n_permutations=2, n_worlds=400, n_per_arm=10)
    assert found.plan.feasible
    assert found.audit is not None
    assert found.audit.verdict == "pass"
    assert found.audit.epsilon == 0.05
    assert {check.name[0] for check in found.checks} == set("1234")
    assert list(found.figures["policy"].values) == ["always medium", "belief alone", "RCB"]
    np.testing.assert_array_equal(found.figures["recall"].sel(policy="always medium"), [0.0, 1.0, 0.0])
    assert "second half" in found.summary()
    assert float(found.figures["error"].sel(policy="belief alone")) > 0.0


def test_half_of_the_patients_tell_about_the_other_half(made_up: Cohort) -> None:
    """Paired with always-medium, patient by patient; a belief about shuffled doses would show no such lead."""
    order = np.random.default_rng(0).permutation(len(made_up))
    past, coming = made_up.part(order[: len(order) // 2]), made_up.part(order[len(order) // 2 :])
    shuffled = replace(past, arm=np.random.default_rng(1).permutation(past.arm))
    leads = []
    for history in (past, shuffled):
        arms = (coming.features @ learn_belief(history).prior.mean.values.T).argmax(axis=1)
        lead = (arms == coming.arm).astype(float) - (coming.arm == 1)
        leads.append(lead.mean() / max(lead.std(ddof=1) / np.sqrt(len(lead)), 1e-12))
    assert leads[0] > 3.0 > leads[1]


def test_one_patient_is_not_halved(few: Cohort) -> None:
    with pytest.raises(RcbError, match="halved"):
        run_learned(few.part(np.array([0])))
