"""Kremer's thresholds beside cases solved by hand, and the constraint they make tight."""

from math import inf, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy import stats

import rcb_bayes as rcb
from rcb_bayes import Market, Prior
from rcb_bayes.baselines.kremer import kremer_thresholds, worth_exploring
from rcb_bayes.baselines.reward_laws import ContinuousLaw, NormalLaw, SampledLaw
from rcb_bayes.errors import RcbError
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import alike, clicks, market

# --- by hand ---------------------------------------------------------------------------------------------------------


def uniform_by_hand() -> list[float]:
    """R_1 uniform on [-1, 5], R_2 on [-5, 5].

    mu_2 = 0, so exploring up to i costs (i^2 - 1)/12, nothing at i_2 = 1. An explored reward r brings (5 - r)^2/20, in
    all (216 - (5 - i)^3)/360 up to i, so that i_t^2 = i_{t-1}^2 + (216 - (5 - i_{t-1})^3)/30, and above 25 nothing is
    left.
    """
    found = [1.0]
    while (square := found[-1] ** 2 + (216 - (5 - found[-1]) ** 3) / 30) < 25:
        found.append(sqrt(square))
    return [*found, inf]


def polynomial_by_hand(density: Polynomial, mean: float, excess: Polynomial) -> list[float]:
    """Densities and excesses that are polynomials on [0, 1]: costs and gains are, too, and i_t is a root."""
    cost = ((Polynomial([0.0, 1.0]) - mean) * density).integ()
    gain = (excess * density).integ()
    found: list[float] = []
    total = 0.0
    while total < cost(1.0):
        roots = (cost - total).roots()
        real = roots[np.abs(roots.imag) < 1e-9].real
        last = found[-1] if found else mean
        found.append(float(real[(real > last + 1e-12) & (real <= 1.0)].min()))
        total = cost(found[-1]) + gain(found[-1])
    return [*found, inf]


R = Polynomial([0.0, 1.0])
BY_HAND: list[Any] = [
    (stats.uniform(-1, 6), stats.uniform(-5, 10), uniform_by_hand()),
    (stats.uniform(0, 1), stats.uniform(0, 0.8), None),
    (stats.beta(2, 1), stats.uniform(0, 1), polynomial_by_hand(2 * R, 1 / 2, (1 - R) ** 2 / 2)),
    (stats.beta(2, 2), stats.beta(1, 2), polynomial_by_hand(6 * R * (1 - R), 1 / 3, (1 - R) ** 3 / 3)),
    (stats.beta(3, 1), stats.beta(1, 1), polynomial_by_hand(3 * R**2, 1 / 2, (1 - R) ** 2 / 2)),
]


def test_the_first_thresholds_are_known_numbers():
    assert uniform_by_hand()[:2] == [1.0, pytest.approx(sqrt(1 + 152 / 30))]
    assert polynomial_by_hand(2 * R, 1 / 2, (1 - R) ** 2 / 2)[0] == pytest.approx(3 / 4)


@pytest.mark.parametrize(("first", "second", "wanted"), BY_HAND)
def test_thresholds_are_those_solved_by_hand(first: Any, second: Any, wanted: list[float] | None):
    if wanted is None:  # uniform on [0, 1] and [0, h]: i_2 = h, as E[R_1 | R_1 <= i] = i/2
        found = kremer_thresholds(ContinuousLaw(first), ContinuousLaw(second))
        assert found[0] == pytest.approx(0.8, abs=1e-8)
        return
    found = kremer_thresholds(ContinuousLaw(first), ContinuousLaw(second))
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    planted = kremer_thresholds(ContinuousLaw(first), ContinuousLaw(stats.uniform(second.mean() - 0.01, 0.02)))
    assert abs(planted[1] - wanted[1]) > 1e-3  # the spread of R_2 matters from the third user on


def test_normal_laws_have_the_thresholds_of_their_densities():
    closed = kremer_thresholds(NormalLaw(mean=0.3, sd=0.3), NormalLaw(mean=0.0, sd=0.4))
    general = kremer_thresholds(ContinuousLaw(stats.norm(0.3, 0.3)), ContinuousLaw(stats.norm(0.0, 0.4)))
    np.testing.assert_allclose(closed, general, atol=1e-8)


def test_a_horizon_stops_what_would_not_pay():
    first, second = NormalLaw(mean=0.3, sd=0.3), NormalLaw(mean=0.0, sd=0.4)
    free, short = kremer_thresholds(first, second), kremer_thresholds(first, second, horizon=10)
    for left in (0, 1, 7):
        r = worth_exploring(second, left)
        assert left * float(second.excess(np.array(r))) == pytest.approx(r - second.mean, abs=1e-10)
    assert short[0] == free[0]
    assert short[1] == pytest.approx(worth_exploring(second, 7))  # user 3 of 10 leaves 7
    assert len(short) == 2


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        (SampledLaw(np.array([0.5, 0.6])), SampledLaw(np.array([0.4])), []),  # never below mu_2: nobody can explore
        (NormalLaw(mean=0.0, sd=1.0), NormalLaw(mean=0.0, sd=1.0), [inf]),  # nobody minds
    ],
)
def test_the_ends_of_what_is_possible(first: Any, second: Any, wanted: list[float]):
    np.testing.assert_array_equal(kremer_thresholds(first, second), wanted)


# --- the constraint --------------------------------------------------------------------------------------------------


def margins(draws: tuple[np.ndarray, np.ndarray], thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[(R_2 - R_1) 1{arm 2 is recommended}] of users 2, 3, ... and its errors, by following the rule."""
    first, second = draws
    out, errors = [], []
    for t in range(len(thresholds)):
        last = thresholds[t - 1] if t else -inf
        explored = (first > last) & (first <= thresholds[t])
        known = (first <= last) & (second > first)
        terms = (second - first) * (explored | known)
        out.append(terms.mean())
        errors.append(terms.std(ddof=1) / np.sqrt(len(terms)))
    return np.array(out), np.array(errors)


@pytest.mark.parametrize(("first", "second", "wanted"), [case for case in BY_HAND if case[2] is not None])
def test_every_user_who_explores_is_just_willing_to(first: Any, second: Any, wanted: list[float]):
    rng = np.random.default_rng(3)
    draws = first.rvs(size=400_000, random_state=rng), second.rvs(size=400_000, random_state=rng)
    thresholds = np.array(wanted)
    finite = np.isfinite(thresholds)
    found, error = margins(draws, thresholds)
    assert (np.abs(found[finite]) < 4 * error[finite]).all()
    assert (found[~finite] > -4 * error[~finite]).all()
    scale = np.where(finite, 1.03, 1.0)
    planted, error = margins(draws, thresholds * scale)
    assert (planted[finite] < -4 * error[finite]).any()
    planted, error = margins(draws, thresholds * np.where(finite, 0.9, 1.0))
    assert planted[0] > 4 * error[0]


# --- the policy ------------------------------------------------------------------------------------------------------


def test_thresholds_of_a_market_are_those_of_posterior_means():
    policy = rcb.baselines.Kremer(alike(), n_samples=3)
    sds = [v / sqrt(v + 0.04 / 3) for v in (0.09, 0.16)]
    wanted = kremer_thresholds(NormalLaw(mean=0.3, sd=sds[0]), NormalLaw(mean=0.0, sd=sds[1]))
    np.testing.assert_allclose(policy.thresholds, wanted)
    swapped = rcb.baselines.Kremer(alike((0.0, 0.3), (0.16, 0.09)), n_samples=3)
    np.testing.assert_allclose(swapped.thresholds, wanted)
    assert (policy.first, swapped.first) == (0, 1)


def test_users_of_a_run_are_just_willing_to_explore():
    audit = rcb.audit(
        alike(), lambda m, seed: rcb.baselines.Kremer(m, learn=False), horizon=4, n_worlds=500, n_users=1, epsilon=0.0
    )
    cells = audit.margins.isel(user=0)
    for look in (2, 4):
        cell = cells.sel(stage=f"round {look}", arm="arm_1", rival="arm_0")
        assert abs(cell["estimate"].item()) < 4 * cell["mcse"].item()
        assert cell["mass"].item() > 0.1
        other = cells.sel(stage=f"round {look}", arm="arm_0", rival="arm_1")
        assert other["estimate"].item() > 4 * other["mcse"].item()


class Eager(rcb.baselines.Kremer):
    """Planted: thresholds that ask too much of users."""

    def __init__(self, market: Market, **words: Any) -> None:
        super().__init__(market, **words)
        self.thresholds = self.thresholds + 0.2


def test_thresholds_too_high_are_found_out():
    audit = rcb.audit(alike(), lambda m, seed: Eager(m, learn=False), horizon=2, n_worlds=300, n_users=1, epsilon=0.0)
    cell = audit.margins.isel(user=0).sel(stage="round 2", arm="arm_1", rival="arm_0")
    assert cell["estimate"].item() < -4 * cell["mcse"].item()


@pytest.mark.slow
def test_learning_on_makes_regret_smaller():
    noisy = alike(sigma=0.6)
    runs = {
        learn: simulate(
            noisy, lambda m, seed, on=learn: rcb.baselines.Kremer(m, learn=on), horizon=300, n_worlds=500, seed=4
        )
        for learn in (False, True)
    }
    saved = (runs[False]["regret"] - runs[True]["regret"]).sum("t").values
    assert saved.mean() > 4 * saved.std(ddof=1) / np.sqrt(len(saved))
    np.testing.assert_array_equal(runs[False]["cold_start_length"], runs[True]["cold_start_length"])


def test_learning_on_changes_what_comes_after_the_cold_start():
    noisy = alike(sigma=0.6)
    runs = {
        learn: simulate(
            noisy, lambda m, seed, on=learn: rcb.baselines.Kremer(m, learn=on), horizon=100, n_worlds=40, seed=4
        )
        for learn in (False, True)
    }
    np.testing.assert_array_equal(runs[False]["cold_start_length"], runs[True]["cold_start_length"])
    for world in range(40):
        fixed, learning = (runs[learn]["recommended"].values[world] for learn in (False, True))
        length = runs[True]["cold_start_length"].values[world]
        np.testing.assert_array_equal(fixed[:length], learning[:length])
        assert len(set(fixed[length:])) == 1
    assert (runs[False]["recommended"] != runs[True]["recommended"]).any()


def test_a_run_follows_the_phases():
    policy = rcb.baselines.Kremer(alike(), n_samples=5)
    found = simulate(alike(), lambda m, seed: rcb.baselines.Kremer(m, n_samples=5), horizon=100, n_worlds=30, seed=2)
    for world in range(30):
        run = found.isel(world=world)
        stage, arm, length = run["stage"].values, run["recommended"].values, run["cold_start_length"].item()
        assert (stage[:5] == 0).all()
        assert (arm[:5] == 0).all()
        assert length == -1 or length % 5 == 0
        if length > 0:
            assert (arm[length - 5 : length] == 1).all()
            assert (stage[length - 5 : length] == 1).all()
            assert (arm[: length - 5] == 0).all()
            assert length <= 5 * (1 + len(policy.thresholds))


def test_other_beliefs_have_the_thresholds_of_simulated_means():
    exact = rcb.baselines.Kremer(alike(), n_samples=2).thresholds
    model = rcb.load_prior("mixture", n_arms=2, n_features=1)  # both arms alike
    where = Market(prior=model, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.2))
    assert rcb.baselines.Kremer(where, n_samples=2).thresholds.tolist() == [inf]
    rng = np.random.default_rng(1)
    sds = [v / sqrt(v + 0.02) for v in (0.09, 0.16)]
    parts = [
        kremer_thresholds(SampledLaw(rng.normal(0.3, sds[0], 20_000)), SampledLaw(rng.normal(0.0, sds[1], 20_000)))[:2]
        for _ in range(12)
    ]
    mean, sd = np.mean(parts, axis=0), np.std(parts, axis=0, ddof=1)
    assert (np.abs(mean - exact[:2]) < 4 * sd / np.sqrt(12) + 1e-4).all()
    assert (sd < 0.02).all()


@pytest.mark.slow
def test_clicks_have_thresholds():
    prior = Prior.gaussian([[0.8], [0.2]], 1.0)
    where = Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.BernoulliLogit())
    policy = rcb.baselines.Kremer(where, n_samples=5)
    assert (np.diff(policy.thresholds) > 0).all()
    assert 0 < policy.thresholds[0] < 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rcb.baselines.Kremer(alike((0.3, 0.1, 0.0), (0.1, 0.1, 0.1))), "is for two arms, got 3"),
        (lambda: rcb.baselines.Kremer(clicks()), "users who are all alike"),
        (lambda: rcb.baselines.Kremer(alike(), n_samples=0), "n_samples must be an integer of at least 1"),
        (lambda: rcb.baselines.Kremer(alike(), horizon=1), "horizon must be an integer of at least 2"),
        (lambda: rcb.baselines.Kremer(market()), "is for two arms, got 3"),
        (lambda: rcb.baselines.Kremer(correlated()), "is for independent arms"),
        (lambda: kremer_thresholds(NormalLaw(mean=0.0, sd=1.0), NormalLaw(mean=0.1, sd=1.0)), "Exchange them"),
    ],
)
def test_where_it_does_not_apply_it_says_so(make: Any, message: str):
    with pytest.raises(RcbError) as caught:
        make()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def correlated() -> Market:
    prior = Prior.gaussian([[0.3], [0.0]], np.array([[0.1, 0.05], [0.05, 0.1]]))
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.2))
