"""Hidden exploration: L beside its closed form, and users who follow up to it and not beyond."""

from math import inf, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes.baselines.hidden_exploration import estimate_hidden_rate, hidden_inverse_rate
from rcb_bayes.errors import RcbError
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import alike, market

N, GAP, VARIANCE, SIGMA = 4, 0.3, 0.09, 0.2


def posterior_sd(n: int = N) -> float:
    return VARIANCE / sqrt(VARIANCE + SIGMA**2 / n)


def closed_form(sd: float) -> tuple[float, float]:
    """The tau that maximises tau Pr(G >= tau), G ~ N(-gap, sd^2), and that maximum."""
    best: Any = minimize_scalar(
        lambda t: -t * norm.sf((t + GAP) / sd), bounds=(1e-6, 3 * sd), method="bounded", options={"xatol": 1e-10}
    )
    return float(best.x), float(-best.fun)


def gain(sd: float) -> float:
    return float(sd * norm.pdf(GAP / sd) - GAP * norm.sf(GAP / sd))


def test_the_formula():
    assert hidden_inverse_rate(0.3, tau=0.1, rho=0.2) == pytest.approx(16.0)
    assert hidden_inverse_rate(0.0, tau=0.0, rho=0.0) == 1.0
    assert hidden_inverse_rate(0.3, tau=0.1, rho=0.0) == inf


def test_rho_and_l_are_those_of_the_closed_form():
    found = estimate_hidden_rate(alike(), n_per_arm=N, n_worlds=20_000)
    assert found.spread == pytest.approx(GAP)
    assert found.arm == "arm_1"
    rho = norm.sf((found.tau + GAP) / posterior_sd())
    assert abs(found.rho_hat - rho) < 4 * found.rho_mcse
    assert abs(found.rho_hat - norm.sf((found.tau + GAP) / sqrt(VARIANCE))) > 4 * found.rho_mcse  # planted: N infinite
    assert found.inverse_rate == pytest.approx(1 + GAP / (found.tau * found.rho))
    assert found.rho == pytest.approx(found.rho_hat - 3 * found.rho_mcse)
    _, product = closed_form(posterior_sd())
    exact = 1 + GAP / product
    slack = (found.rho_hat / found.rho) * 1.1  # three errors, and a tau that is not quite the best
    assert exact <= found.inverse_rate < 1 + slack * (exact - 1)


def test_more_samples_hide_more():
    rates = [estimate_hidden_rate(alike(), n_per_arm=n, n_worlds=20_000).inverse_rate for n in (1, 4, 100)]
    assert rates[0] > rates[1] > rates[2]


def test_arms_come_in_the_order_of_their_prior_means():
    """Three arms, the last of which has to lead both others: its gap is the narrower one."""
    three = alike((0.3, 0.2, 0.0), (0.09, 0.09, 0.09))
    found = estimate_hidden_rate(three, n_per_arm=N, n_worlds=20_000)
    assert found.arm == "arm_2"
    rng = np.random.default_rng(1)
    others = np.array([0.3, 0.2]) + posterior_sd() * rng.normal(size=(400_000, 2))
    rho = (-others.max(axis=1) >= found.tau).mean()
    assert abs(found.rho_hat - rho) < 4 * found.rho_mcse


def margin_by_hand(inverse_rate: float) -> float:
    """E[mu_2 - mu_1 | arm 2 is recommended], while it is hidden."""
    q, sd = 1 / inverse_rate, posterior_sd()
    return ((1 - q) * gain(sd) - q * GAP) / (q + (1 - q) * float(norm.sf(GAP / sd)))


def round_margin(inverse_rate: float, look: int = 8) -> tuple[float, float]:
    """The margin of the arm that users dislike while it is hidden, and its error."""
    audit = rcb.audit(
        alike(),
        lambda m, seed: rcb.baselines.HiddenExploration(m, n_per_arm=N, inverse_rate=inverse_rate, seed=seed),
        horizon=look,
        n_worlds=250,
        n_users=1,
        epsilon=0.0,
    )
    cell = audit.margins.isel(user=0).sel(stage=f"round {look}", arm="arm_1", rival="arm_0")
    return cell["estimate"].item(), cell["mcse"].item()


def test_users_follow_at_its_l_and_not_far_below():
    tight = 1 + GAP / gain(posterior_sd())  # tau rho is less than E[G+]
    own = estimate_hidden_rate(alike(), n_per_arm=N).inverse_rate
    assert margin_by_hand(own) > 0.02
    assert margin_by_hand(tight) == pytest.approx(0.0, abs=1e-12)
    for rate in (own, tight, 1 + (tight - 1) / 4):
        estimate, error = round_margin(rate)
        assert abs(estimate - margin_by_hand(rate)) < 4 * error
    assert estimate < -4 * error  # planted: a quarter of it


def test_the_cold_start_takes_as_long_as_it_should():
    length, n_worlds = 6.0, 400
    runs = simulate(
        alike(),
        lambda m, seed: rcb.baselines.HiddenExploration(m, n_per_arm=N, inverse_rate=length, seed=seed),
        horizon=200,
        n_worlds=n_worlds,
        seed=3,
    )
    found = runs["cold_start_length"].values
    assert (found > 0).all()
    error = sqrt(N * (1 - 1 / length)) * length / sqrt(n_worlds)  # negative binomial
    assert abs(found.mean() - (N + N * length)) < 4 * error
    assert abs(found.mean() - (N + N * (length + 1))) > 4 * error  # planted: one round more for each sample
    late = runs["regret"].isel(t=slice(150, None)).mean()
    assert late < runs["regret"].isel(t=slice(0, 20)).mean()


def test_arms_that_are_alike_need_no_hiding():
    assert rcb.baselines.HiddenExploration(alike((0.1, 0.1))).inverse_rate == 1.0
    exchangeable = rcb.Market(
        prior=rcb.Prior.gaussian(np.zeros((3, 2)), 0.2), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3)
    )
    assert rcb.baselines.HiddenExploration(exchangeable).inverse_rate == 1.0


def test_covariates_take_the_user_who_needs_most():
    two = rcb.Market(
        prior=rcb.Prior.gaussian([[0.3], [0.0]], np.array([VARIANCE, 0.16])),
        covariates=rcb.Empirical([[1.0], [0.5]]),
        noise=rcb.GaussianNoise(SIGMA),
    )
    found = estimate_hidden_rate(two, n_per_arm=N, n_worlds=20_000)
    assert found.inverse_rate > 1
    assert rcb.baselines.HiddenExploration(two, n_per_arm=N).inverse_rate > 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rcb.baselines.HiddenExploration(alike((3.0, 0.0), (0.01, 0.01))), "never come to prefer arm_1"),
        (
            lambda: rcb.baselines.HiddenExploration(alike(), inverse_rate=0.5),
            "inverse_rate is L, a number of at least 1",
        ),
        (lambda: rcb.baselines.HiddenExploration(alike(), n_per_arm=0), "n_per_arm must be"),
        (lambda: hidden_inverse_rate(0.1, tau=0.1, rho=1.5), "rho is a probability"),
        (lambda: hidden_inverse_rate(-0.1, tau=0.1, rho=0.5), "numbers of at least 0"),
    ],
)
def test_where_it_does_not_apply_it_says_so(make: Any, message: str):
    with pytest.raises(RcbError) as caught:
        make()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_market_of_the_others_is_served():
    runs = simulate(
        market(), lambda m, s: rcb.baselines.HiddenExploration(m, inverse_rate=2.0), horizon=300, n_worlds=2
    )
    assert (runs["cold_start_length"] > 0).all()
