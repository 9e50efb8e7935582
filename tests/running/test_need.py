"""Does exploration have to be incentivised? Where users are alike yes, where they differ no; bad input."""

from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.baselines.always import AlwaysArm
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.worlds import draw_worlds
from rcb_bayes.running.need import need_and_greedy


def alike(gap: float = 0.3) -> Market:
    prior = rcb.Prior.gaussian([[gap], [0.0]], 0.05, arms=["old", "new"])
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))


def test_users_who_are_alike_starve_the_arm_that_looks_worse() -> None:
    need = rcb.check_need(alike(), horizon=500, seed=1)
    assert need.verdict == "fail"
    assert need.estimate - 4 * need.mcse > need.threshold
    assert "has to be incentivised" in need.meaning
    assert "calibrate" in need.remedy


def test_users_who_differ_do_not() -> None:
    market = Market(
        prior=rcb.load_prior("setting_4", n_arms=3), covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05)
    )
    need = rcb.check_need(market, horizon=2000, seed=1)
    assert (need.verdict, need.estimate, need.remedy) == ("pass", 0.0, "")
    assert "Covariate diversity is 0.1" in need.meaning


def test_no_event_in_few_worlds_decides_nothing() -> None:
    market = Market(
        prior=rcb.load_prior("setting_4", n_arms=3), covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05)
    )
    assert rcb.check_need(market, horizon=200, n_worlds=50, seed=1).verdict == "inconclusive"


def test_regret_of_a_plan_beside_it() -> None:
    market = alike(gap=0.1)
    plan = rcb.calibrate(market, epsilon=0.05, n_per_arm=10, n_worlds=500, seed=1)
    need = rcb.check_need(market, plan=plan, horizon=300, n_worlds=400, seed=1)
    assert "The plan's is" in need.meaning
    assert "in the same 400 worlds: greedy costs" in need.meaning
    runs = rcb.simulate(market, plan, horizon=300, n_worlds=5, every=300, seed=1)
    again = rcb.check_need(market, plan=plan, runs=runs, horizon=300, n_worlds=400, seed=1)
    assert (again.estimate, again.mcse) == (need.estimate, need.mcse)
    with pytest.raises(RcbError, match="The runs have 300 rounds, greedy 200"):
        rcb.check_need(market, runs=runs, horizon=200)


def test_a_plan_and_greedy_are_run_in_the_same_worlds() -> None:
    """What a plan that goes on with the favourite loses in a world is known: greedy's worlds are those, one by one."""
    market = alike(gap=0.1)

    def stay(own: Market, seed: int) -> AlwaysArm:
        return AlwaysArm(own, "old", seed=seed)

    stays = rcb.simulate(market, stay, horizon=200, n_worlds=60, every=200, seed=3)
    found = need_and_greedy(market, runs=stays, horizon=200, n_worlds=50, seed=1)[1]
    assert found is not None
    lead = found.worlds.beta[:, 1, 0] - found.worlds.beta[:, 0, 0]
    np.testing.assert_allclose(found.plan, 200 * np.maximum(lead, 0.0), atol=1e-9)
    others = draw_worlds(market.prior, 60, rng=np.random.default_rng(1)).beta[:, :, 0]  # planted: worlds of its own
    assert np.abs(found.plan - 200 * np.maximum(others[:, 1] - others[:, 0], 0.0)).max() > 1
    # Greedy goes on with the same arm where it never tries the other: it loses the same there, to the last digit.
    assert (np.isclose(found.greedy, found.plan) & (lead > 0)).any()
    assert (found.n_late, found.is_late) == (0, False)


def test_no_difference_is_told_while_cold_starts_have_not_ended() -> None:
    market = alike(gap=0.1)
    plan = rcb.calibrate(market, epsilon=0.05, n_per_arm=100, n_worlds=500, seed=1)
    runs = rcb.simulate(market, plan, horizon=120, n_worlds=10, every=120, seed=1)
    need = rcb.check_need(market, plan=plan, runs=runs, horizon=120, n_worlds=50, seed=1)
    assert "in 10 of 10 worlds its cold start has not ended by then, and no difference is told" in need.meaning
    assert "greedy costs" not in need.meaning


def test_arms_that_no_mechanism_could_have_tried() -> None:
    """Nobody expects more of the new arm than the old one ever gives: what is left is to pay."""
    need = rcb.check_need(alike(gap=3.0), horizon=50, n_worlds=50, epsilon=0.1, seed=1)
    assert "No mechanism can have new tried" in need.meaning
    assert "epsilon = 0.1: 2.9 a try" in need.meaning
    assert "No mechanism" not in rcb.check_need(alike(gap=0.3), horizon=50, n_worlds=50, seed=1).meaning
    free = rcb.check_need(alike(gap=3.0), horizon=50, n_worlds=50, epsilon=3.5, seed=1)
    assert "No mechanism" not in free.meaning  # they put up with it


def test_worlds_are_no_more_than_asked_for() -> None:
    need = rcb.check_need(alike(), horizon=50, most_worlds=60, seed=1)
    assert need == rcb.check_need(alike(), horizon=50, n_worlds=60, seed=1)


def test_rows_turned_round_and_seeds() -> None:
    rows = np.array([[1.0, 0.2], [-0.5, 1.0], [0.3, -1.0]])
    prior = rcb.Prior.gaussian([[0.3, 0.0], [0.0, 0.1]], 0.2)
    found = [
        rcb.check_need(
            Market(prior=prior, covariates=rcb.Empirical(part), noise=rcb.GaussianNoise(0.3)), horizon=200, seed=2
        )
        for part in (rows, rows[::-1])
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"share": 0.0}, "share is a share above 0 and below 1, got 0.0"),
        ({"tolerated": 2}, "tolerated is a share above 0 and below 1, got 2"),
        ({"horizon": 0}, "horizon"),
        ({"n_worlds": 1}, "n_worlds"),
        ({"most_worlds": 1}, "most_worlds"),
        ({"epsilon": -1.0}, "epsilon must be a finite number"),
        ({"horizon": 10**9, "n_worlds": 10**6}, "fewer worlds, or a shorter horizon"),
    ],
)
def test_bad_input(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(RcbError, match=message):
        rcb.check_need(alike(), **asked)


# --- types whose share is the share that is asked for ----------------------------------------------------------------

THREE = ([[0.5, 0.5, 0.3], [0.0, 0.0, 0.0]], [[1e-4, 1e-4, 0.05], [1e-4, 1e-4, 0.2]])
FOUR = (
    [[0.5, 0.5, 0.3], [0.0, 0.0, 0.1], [0.0, 0.0, 0.05], [0.0, 0.0, 0.0]],
    [[1e-4, 1e-4, 0.05], *[[1e-4, 1e-4, 0.2]] * 3],
)


def starved_by_hand(means: Any, variances: Any, counts: list[int], *, least: int, horizon: int, n_worlds: int) -> float:
    """How often greedy never tries an arm that is best for at least ``least`` users in all: types share nothing."""
    rng = np.random.default_rng(5)
    mean, variance = np.array(means, dtype=float), np.array(variances, dtype=float)
    n_starved = 0
    for _ in range(n_worlds):
        beta = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
        expected, precision = mean.copy(), 1.0 / variance
        tried = set()
        for kind in rng.choice(len(counts), size=horizon, p=np.array(counts) / sum(counts)):
            arm = int(rng.choice(np.flatnonzero(expected[:, kind] == expected[:, kind].max())))
            reward = beta[arm, kind] + 0.3 * rng.standard_normal()
            before = precision[arm, kind]
            precision[arm, kind] += 1.0 / 0.09
            expected[arm, kind] = (before * expected[arm, kind] + reward / 0.09) / precision[arm, kind]
            tried.add(arm)
        users = np.bincount(beta.argmax(axis=0), weights=counts, minlength=len(mean))
        n_starved += any(users[arm] >= least and arm not in tried for arm in range(len(mean)))
    return n_starved / n_worlds


@pytest.mark.parametrize(
    ("belief", "counts", "share"), [(THREE, [80, 19, 1], 0.01), (FOUR, [83, 14, 3], 0.03)], ids=["one", "three"]
)
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_an_arm_matters_whatever_the_last_digit_of_a_weight(
    belief: Any, counts: list[int], share: float, precision: Any
) -> None:
    """Weights of .8, .19 and .01 add up to a little more than 1, so that the last becomes a little less than .01."""
    means, variances = belief
    market = Market(
        prior=rcb.Prior.gaussian(means, np.diag(np.ravel(variances))),
        covariates=rcb.Empirical(np.eye(3), weights=(np.array(counts) / 100).astype(precision)),
        noise=rcb.GaussianNoise(0.3),
    )
    need = rcb.check_need(market, horizon=200, share=share, seed=1)
    n_worlds = 250
    truth = starved_by_hand(means, variances, counts, least=round(100 * share), horizon=200, n_worlds=n_worlds)
    error = np.hypot(need.mcse, np.sqrt(truth * (1 - truth) / n_worlds))
    assert abs(need.estimate - truth) < 4 * error
    without = rcb.check_need(market, horizon=200, share=1.01 * share, seed=1)  # planted: the type does not count
    assert abs(without.estimate - truth) > 4 * error
