"""Repeated hidden exploration: rates in closed form, tight against an inner policy that does its worst."""

from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes import Market
from rcb_bayes.baselines.learner import Learner
from rcb_bayes.baselines.repeated_hidden_exploration import estimate_repeated_rate, repeated_rate
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.running.history import History
from rcb_bayes.running.simulation import simulate
from rcb_bayes.schema import FloatArray
from tests.baselines.runs import alike, drive, market

N, GAP, VARIANCE, SIGMA = 7, 0.3, 0.09, 0.2


def gain() -> float:
    sd = VARIANCE / sqrt(VARIANCE + SIGMA**2 / N)
    return float(sd * norm.pdf(GAP / sd) - GAP * norm.sf(GAP / sd))


def sharp() -> float:
    return gain() / (2 * gain() + GAP)


def ucb(market: Market, seed: int) -> rcb.baselines.LinUcb:
    return rcb.baselines.LinUcb(market, seed=seed)


def test_the_formulas():
    assert repeated_rate(0.02, prior_gap=0.3) == pytest.approx(0.02 / 0.34)
    assert repeated_rate(0.02, 0.32) == pytest.approx(0.02 / 0.34)
    assert repeated_rate(0.02, prior_gap=0.3, rule="third") == pytest.approx(0.02 / 3)
    assert repeated_rate(0.0) == 0.0


@pytest.mark.parametrize("rule", ["sharp", "third"])
def test_rates_are_those_of_the_closed_form_on_the_safe_side(rule: Any):
    wanted = sharp() if rule == "sharp" else gain() / 3
    sizes = [4000, 64_000]
    found = [
        estimate_repeated_rate(alike(), n_per_arm=N, warm_up="preferred", rule=rule, n_worlds=n, seed=1) for n in sizes
    ]
    assert found[0] < wanted
    assert found[1] < wanted
    assert found[1] > 0.94 * wanted  # three errors shrink fourfold
    assert found[1] > found[0]
    assert rcb.baselines.RepeatedHiddenExploration(alike(), ucb, n_per_arm=N, rule=rule).exploration_rate > 0.7 * wanted


class Contrary(Learner):
    """The arm with the smaller posterior mean given the warm-up, which it has watched."""

    def probabilities(self, features: FloatArray, scores: FloatArray, *, now: bool = False) -> FloatArray:
        return best_shares(-scores, axis=0)


class Watched(rcb.baselines.RepeatedHiddenExploration):
    """Its inner policy sees the warm-up: the worst that an inner policy can do."""

    def begin(self) -> None:
        if self.predictor is None:
            seen = History(2, 1)
            seen.join(self.history)
            assert isinstance(self.inner, Contrary)
            self.inner.begin_with(seen)
        super().begin()


def margin_by_hand(rate: float) -> float:
    """E[mu_2 - mu_1 | arm 2 is recommended] where the inner policy takes the worse arm."""
    leads = float(norm.sf(GAP / (VARIANCE / sqrt(VARIANCE + SIGMA**2 / N))))
    return ((1 - rate) * gain() - rate * (gain() + GAP)) / ((1 - rate) * leads + rate * (1 - leads))


def worst_margin(rate: float) -> tuple[float, float]:
    audit = rcb.audit(
        alike(),
        lambda m, seed: Watched(m, lambda m, s: Contrary(m), n_per_arm=N, rate=rate, seed=seed),
        horizon=8,
        n_worlds=300,
        n_users=1,
        epsilon=0.0,
    )
    cell = audit.margins.isel(user=0).sel(stage="round 8", arm="arm_1", rival="arm_0")
    return cell["estimate"].item(), cell["mcse"].item()


def test_the_sharp_rate_is_tight_for_the_worst_inner_policy():
    assert margin_by_hand(sharp()) == pytest.approx(0.0, abs=1e-12)
    assert margin_by_hand(gain() / 3) > 0.1
    for rate in (sharp(), gain() / 3, 4 * sharp()):
        estimate, error = worst_margin(rate)
        assert abs(estimate - margin_by_hand(rate)) < 4 * error
    assert estimate < -4 * error  # planted: four times too often


def test_the_inner_policy_gets_its_rounds_and_no_others():
    policy = rcb.baselines.RepeatedHiddenExploration(alike(), ucb, n_per_arm=N, rate=0.3, seed=1)
    drive(policy, 500, where=alike())
    assert isinstance(policy.inner, rcb.baselines.LinUcb)
    inside = policy.inner.history.n_samples
    assert policy.history.n_samples == N + inside
    expected = 0.3 * (500 - N)
    assert abs(inside - expected) < 4 * sqrt(expected * 0.7)
    assert policy.cold_start_length == N


def test_coins_within_coins_are_fair():
    """An inner policy that tosses coins of its own gets fresh ones."""

    class Recorder:
        seen: list[np.ndarray] = []  # noqa: RUF012

        def recommend_proba(self, x: FloatArray) -> FloatArray:
            return np.tile([0.5, 0.5], (len(x), 1))

        def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
            self.seen.append(uniforms.copy())
            n = len(x)
            return Decisions(
                arm=np.zeros(n, dtype=int),
                stage=np.zeros(n, dtype=np.int8),
                counted=np.ones(n, dtype=bool),
                probabilities=np.full((2, n), 0.5),
                scores=np.zeros((2, n)),
            )

        def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None: ...

    policy = rcb.baselines.RepeatedHiddenExploration(alike(), lambda m, s: Recorder(), n_per_arm=N, rate=0.2)
    drive(policy, 5000, where=alike())
    first = np.concatenate(Recorder.seen)[:, 0]
    assert abs(first.mean() - 0.5) < 4 / sqrt(12 * len(first))
    assert first.max() > 0.9


@pytest.mark.parametrize(
    "inner",
    [
        ucb,
        lambda m, s: rcb.baselines.LinThompson(m, seed=s),
        lambda m, s: rcb.baselines.Falcon(m),
        lambda m, s: rcb.baselines.ExploreThenCommit(m, n_per_arm=5),
        lambda m, s: rcb.baselines.EpsilonGreedy(m, rate=0.5, batch=10, seed=s),
    ],
)
def test_any_policy_serves_inside(inner: Any):
    runs = simulate(
        market(),
        lambda m, s: rcb.baselines.RepeatedHiddenExploration(
            m, inner, n_per_arm=3, rate=0.2, warm_up="all", inverse_rate=2.0, seed=s
        ),
        horizon=600,
        n_worlds=2,
    )
    assert (runs["cold_start_length"] >= 9).all()
    assert set(np.unique(runs["stage"])) <= {0, 1, 2, 3}
    assert (runs["propensity"] > 0).all()


def test_more_arms_have_a_rate():
    three = alike((0.3, 0.2, 0.0), (0.09, 0.09, 0.09))
    found = rcb.baselines.RepeatedHiddenExploration(three, ucb, n_per_arm=N, warm_up="all", inverse_rate=40.0)
    assert 0 < found.exploration_rate < 0.5
    rng = np.random.default_rng(2)
    sd = VARIANCE / sqrt(VARIANCE + SIGMA**2 / N)
    means = np.array([0.3, 0.2, 0.0]) + sd * rng.normal(size=(400_000, 3))
    best = means.argmax(axis=1)
    limit = min(
        (f := ((means[:, i] - means[:, j]) * (best == i)).mean())
        / (f + np.maximum(means[:, j] - means[:, i], 0).mean())
        for i in range(3)
        for j in range(3)
        if i != j
    )
    assert 0.6 * limit < found.exploration_rate < limit


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: rcb.baselines.RepeatedHiddenExploration(alike(), ucb, rate=1.2),
            "rate must be a number between 0 and 1",
        ),
        (lambda: rcb.baselines.RepeatedHiddenExploration(alike(), ucb, rule="sharper"), "Did you mean 'sharp'?"),  # pyright: ignore
        (lambda: rcb.baselines.RepeatedHiddenExploration(alike(), ucb, warm_up="al"), "There is no warm_up 'al'."),  # pyright: ignore
        (lambda: rcb.baselines.RepeatedHiddenExploration(market(), ucb), "users who are all alike"),
        (
            lambda: rcb.baselines.RepeatedHiddenExploration(alike((3.0, 0.0), (0.01, 0.01)), ucb),
            "never come to prefer an arm",
        ),
        (
            lambda: rcb.baselines.RepeatedHiddenExploration(alike((0.3, 0.2, 0.0), (0.09, 0.09, 0.09)), ucb),
            "is for two arms, got 3. Use warm_up='all'",
        ),
    ],
)
def test_where_it_does_not_apply_it_says_so(make: Any, message: str):
    with pytest.raises(RcbError) as caught:
        make()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
