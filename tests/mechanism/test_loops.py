"""Compiled loops against the same in plain NumPy, term by term."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.mechanism.choice import is_best
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.mechanism.loops import kernel_sums, kernel_table, lowest_forms, visit_sums

K, U, W, D = 4, 6, 300, 3


def tied_scores(kind: type, rng: np.random.Generator) -> np.ndarray:
    """Scores (K, U, W) some of which tie at the top."""
    scores = rng.standard_normal((K, U, W)).astype(kind)
    scores[2, :, ::7] = scores[1, :, ::7]
    return scores


def plain_table(scores: np.ndarray, gamma: np.ndarray, guard: np.ndarray | None) -> np.ndarray:
    """The kernel of ``kernel``, all columns laid flat."""
    factors = None if guard is None else np.repeat(guard.T.astype(scores.dtype), W, axis=1)
    flat = ipgs_probabilities(scores.reshape(K, -1), np.tile(gamma, U), guard=factors)
    return flat.reshape(scores.shape)


def single(values: Any) -> Any:
    return values.astype(np.float32)


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_table_is_the_kernel(kind: type, guarded: bool):
    """To the last bit in double precision; with spreads from none to infinite, ties and guards."""
    rng = np.random.default_rng(1)
    gamma = np.concatenate([[0.0, np.inf], 40.0 * rng.random(W - 2)])
    guard = rng.random((U, K)) if guarded else None
    scores = tied_scores(kind, rng)
    found, plain = kernel_table(scores, gamma, guard), plain_table(scores, gamma, guard)
    assert found.dtype == kind
    if kind is np.float64:
        np.testing.assert_array_equal(found, plain)
    else:
        assert np.abs(found - plain).max() < 5e-7
    assert (np.abs(found.sum(axis=0) - 1.0) < 1e-5).all()


@pytest.mark.parametrize("acts_on_others", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_sums_of_gains_and_losses(kind: type, acts_on_others: bool):
    """Terms written out; some ties, and a platform that goes by other means. A planted weight is seen."""
    rng = np.random.default_rng(2)
    means = 0.4 * rng.standard_normal((W, K, D))
    means[::5, 2] = means[::5, 1]
    other = means + 0.2 * rng.standard_normal(means.shape) if acts_on_others else None
    users = rng.standard_normal((U, D)).astype(kind)
    gamma, extra = 30.0 * rng.random(W), 0.05
    rewards = np.einsum("ud,wkd->kuw", users.astype(float), means)
    scores = rewards if other is None else np.einsum("ud,wkd->kuw", users.astype(float), other)
    chances, best = plain_table(scores, gamma, None), is_best(scores, axis=0)
    lead = rewards[:, None] - rewards[None] + extra  # (K, K, U, W)
    gained, lost = (chances * best)[:, None] * lead, (chances * ~best)[:, None] * lead
    sums, never = kernel_sums(users, means, other, gamma, extra=extra)
    off = ~np.eye(K, dtype=bool)
    tolerance = 1e-10 if kind is np.float64 else 2e-3
    expected = [gained.sum(axis=3), (gained**2).sum(axis=3), lost.sum(axis=3), (lost**2).sum(axis=3)]
    for got, terms in zip(sums, expected, strict=True):
        np.testing.assert_allclose(got[:, off], terms.transpose(2, 0, 1)[:, off], rtol=tolerance, atol=tolerance)
    wrong = expected[0].transpose(2, 0, 1)[:, off] * (1.0 + 1.0 / W)  # a world counted twice, about
    assert not np.allclose(sums[0][:, off], wrong, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(never[:, off], (lost >= 0.0).all(axis=3).transpose(2, 0, 1)[:, off])


def test_an_arm_that_never_loses_is_known():
    """Two arms all but alike: whatever is lost is less than epsilon."""
    rng = np.random.default_rng(3)
    means = np.zeros((W, 2, 1))
    means[:, 0, 0], means[:, 1, 0] = 0.01 * rng.random(W), 0.0
    for extra, expected in ((0.05, True), (0.001, False)):
        _, never = kernel_sums(np.ones((1, 1)), means, None, np.full(W, 10.0), extra=extra)
        assert never[0, 1, 0] == expected


@pytest.mark.parametrize("kind", ["kernel", "the best and one more", "the best"])
@pytest.mark.parametrize("fixed", [0.0, 0.01])
@pytest.mark.parametrize("weighted", [False, True])
def test_lowest_forms(weighted: bool, fixed: float, kind: str):
    """The lowest form in errors, from terms written out; a user for whom nothing varies is judged by its sign.

    Where it is the best arms that are recommended, some have no chance, and others lose in no world.
    """
    rng = np.random.default_rng(4)
    scores = rng.standard_normal((K, U, W))
    if kind == "the best and one more":
        scores[0] -= 20.0  # never the best
    chances = plain_table(scores, np.full(W, 5.0), None)
    if kind != "kernel":
        chances = (scores == scores.max(axis=0)).astype(float)
        chances[1, U // 2 :] = 0.7 * chances[1, U // 2 :] + 0.3 * (kind != "the best")
    rewards, prior = 0.3 * scores, 0.1 * rng.standard_normal((U, K))
    weights = 2.0 * rng.random(W) if weighted else None
    chances[:, 0], rewards[:, 0] = 1.0 / K, prior[0][:, None]
    extra, unseen = 0.05, 4.0
    always = chances.min(axis=2)
    moving = (chances - always[:, :, None]) * (1.0 if weights is None else weights)
    lead = rewards[:, None] - rewards[None]
    terms = moving[:, None] * (lead + extra)
    gap = prior.T[:, None] - prior.T[None]
    form = always[:, None] * (gap + extra) + fixed + terms.mean(axis=3)
    error = np.sqrt(terms.var(axis=3, ddof=1) / W + (unseen / W) ** 2 * lead.var(axis=3))
    z = np.where(error > 1e-12, form / np.maximum(error, 1e-12), np.where(form < 0.0, -np.inf, np.inf))
    z[range(K), range(K)] = np.inf
    found = lowest_forms(chances, rewards, prior, weights, fixed=fixed, extra=extra, unseen=unseen)
    np.testing.assert_allclose(found, z.min(axis=(0, 1)), rtol=1e-9)
    p, m = (single(part) for part in (chances, rewards))
    short = lowest_forms(p, m, prior, weights, fixed=fixed, extra=extra, unseen=unseen)
    np.testing.assert_allclose(short[1:], found[1:], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("guarded", [False, True])
def test_visits_of_an_epoch(guarded: bool):
    """X'X and counts, from visits written out one by one; they add to what is there."""
    rng = np.random.default_rng(5)
    panel, who = rng.standard_normal((20, D)), rng.integers(20, size=(8, 30))
    means, gamma = rng.standard_normal((8, K, D)), 20.0 * rng.random(8)
    guard = rng.random((20, K)) if guarded else None
    visits, uniforms = np.where(np.arange(30) < 4, 8.0, 7.0), rng.random((8, 30))
    xtx, n = np.ones((8, K, D, D)), np.zeros((8, K))
    visit_sums(panel, who, means, gamma, guard, visits=visits, uniforms=uniforms, xtx=xtx, n=n)
    expected, counts = np.ones((8, K, D, D)), np.zeros((8, K))
    for w in range(8):
        for m in range(30):
            x = panel[who[w, m]]
            factors = None if guard is None else guard[who[w, m]][:, None]
            chance = ipgs_probabilities((means[w] @ x)[:, None], gamma[w], guard=factors)[:, 0]
            edges = np.floor(np.append(0.0, np.cumsum(chance)) * visits[m] + uniforms[w, m])
            edges[-1] = visits[m]
            for arm in range(K):
                counts[w, arm] += edges[arm + 1] - edges[arm]
                expected[w, arm] += (edges[arm + 1] - edges[arm]) * np.outer(x, x)
    np.testing.assert_array_equal(n, counts)
    np.testing.assert_allclose(xtx, expected, rtol=1e-12)
    assert (n.sum(axis=1) == visits.sum()).all()


def test_visits_are_as_frequent_as_their_chances():
    """Each arm has its share of the visits, within errors; a share off by 2 % would be seen."""
    rng = np.random.default_rng(6)
    panel, who = np.ones((1, 1)), np.zeros((2000, 40), dtype=np.int64)
    means = np.broadcast_to(np.array([[0.3], [0.1], [0.0]]), (2000, 3, 1)).copy()
    xtx, n = np.zeros((2000, 3, 1, 1)), np.zeros((2000, 3))
    uniforms, visits = rng.random((2000, 40)), np.full(40, 3.0)
    visit_sums(panel, who, means, np.full(2000, 9.0), None, visits=visits, uniforms=uniforms, xtx=xtx, n=n)
    chances = ipgs_probabilities(means[0], 9.0)[:, 0]
    mean, error = n.mean(axis=0), n.std(axis=0, ddof=1) / np.sqrt(2000)
    assert (np.abs(mean - 120 * chances) < 4.5 * error).all()
    assert (np.abs(1.02 * mean - 120 * chances) > 4.5 * error).all()
