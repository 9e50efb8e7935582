"""Laws of a reward: each figure beside SciPy's expectation, and the laws beside each other."""

from math import inf
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.baselines.reward_laws import ContinuousLaw, NormalLaw, SampledLaw

LAWS: list[Any] = [
    (ContinuousLaw(stats.uniform(-1, 6)), stats.uniform(-1, 6)),
    (ContinuousLaw(stats.beta(2, 3)), stats.beta(2, 3)),
    (ContinuousLaw(stats.beta(0.7, 1.4)), stats.beta(0.7, 1.4)),
    (ContinuousLaw(stats.norm(0.3, 0.5)), stats.norm(0.3, 0.5)),
    (NormalLaw(mean=0.3, sd=0.5), stats.norm(0.3, 0.5)),
]


@pytest.mark.parametrize(("law", "known"), LAWS)
@pytest.mark.parametrize("share", [0.02, 0.4, 0.9])
def test_figures_are_expectations(law: Any, known: Any, share: float):
    at, level = known.ppf(share), known.ppf(0.35)
    assert law.mean == pytest.approx(known.mean(), abs=1e-12)
    below = known.expect(lambda r: r - level, ub=at)
    assert law.partial(at, level=level) == pytest.approx(below, abs=1e-7)
    above = known.expect(lambda r: r - at, lb=at)
    assert float(law.excess(np.array(at))) == pytest.approx(above, abs=1e-7)
    between = known.expect(np.cos, lb=known.ppf(0.01), ub=at)
    assert law.integral(np.cos, known.ppf(0.01), at) == pytest.approx(between, abs=1e-7)


@pytest.mark.parametrize(("law", "known"), LAWS)
def test_reach_inverts_the_partial_mean(law: Any, known: Any):
    level = known.ppf(0.3)
    for share in (0.4, 0.8, 0.97):
        at = known.ppf(share)
        assert law.reach(law.partial(at, level=level), level=level) == pytest.approx(at, abs=1e-8)
    assert law.reach(known.mean() - level + 0.01, level=level) == inf
    assert law.reach(law.partial(level, level=level) - 0.01, level=level) == -inf


def test_draws_are_the_law_they_come_from():
    rng = np.random.default_rng(1)
    draws = rng.normal(0.3, 0.5, size=20_000)
    law, known = SampledLaw(draws), NormalLaw(mean=0.3, sd=0.5)
    for at in (-0.2, 0.3, 1.0):
        terms = (draws - 0.1) * (draws <= at)
        assert law.partial(at, level=0.1) == pytest.approx(terms.mean())
        assert abs(law.partial(at, level=0.1) - known.partial(at, level=0.1)) < 4 * terms.std() / np.sqrt(20_000)
        assert float(law.excess(np.array(at))) == pytest.approx(np.maximum(draws - at, 0).mean())
        assert law.integral(np.cos, -0.5, at) == pytest.approx(
            (np.cos(draws) * ((draws > -0.5) & (draws <= at))).mean()
        )


def test_atoms_are_taken_whole_or_not_at_all():
    law = SampledLaw(np.array([0.0, 0.0, 0.5, 1.0]))  # level .4: partial means -.2, -.175, -.025
    assert law.reach(-0.1, level=0.4) == 0.5
    assert law.reach(-0.19, level=0.4) == 0.0
    assert law.reach(-0.025, level=0.4) == inf
    assert law.reach(-0.3, level=0.4) == -inf
