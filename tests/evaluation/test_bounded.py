"""Intervals for rewards in [0, 1]: exact with equal weights, of some width without an event, and covered."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import rcb_bayes as rcb
from rcb_bayes.errors import DataError
from rcb_bayes.evaluation.bounded import Terms, lower_end
from tests.evaluation.rare_logs import even_log, heavy_log, learnt_log, uneven_log

WEIGHING = ["ips", "snips", "dr", "adaptive"]
CLICKS, ORDINARY = 0.006, 0.3


def one_arm_log(events: int, n: int) -> dict[str, Any]:
    """Everybody told the first of two arms, as the policy has it."""
    chances = np.tile([1.0, 0.0], (n, 1))
    action = np.zeros(n, dtype=int)
    return {"action": action, "reward": 1.0 * (np.arange(n) < events), "n_actions": 2, "pi_b": chances}


# --- twins -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [0, 1, 3, 20, 59, 60])
def test_with_equal_weights_the_interval_is_that_of_clopper_and_pearson(events: int):
    found = rcb.evaluate(one_arm_log(events, 60), "arm_0", estimators=["ips", "snips"])
    exact = stats.binomtest(events, 60).proportion_ci(0.95)
    for name in ("ips", "snips"):
        own = found.sel(estimator=name)
        assert (own["lower"].item(), own["upper"].item()) == pytest.approx((exact.low, exact.high), abs=1e-5)
        assert (own["n_effective"].item(), own["n_events"].item()) == pytest.approx((60, events))


def test_the_lower_end_is_the_least_value_that_no_bet_refutes():
    """By a search over values and bets; terms with weights, and a reach that binds."""
    rng = np.random.default_rng(1)
    u = rng.gamma(1.0, 0.5, size=40) * (rng.random(40) < 0.3)
    one = np.ones(40)
    for least in (0.0, -2.0):
        terms = Terms(u=u, m=one, least=least * one, most=9 * one, reach=one, weight=one)
        value = lower_end(terms, 2.0)
        for at, refuted in ((value - 0.01, True), (value + 0.01, False)):
            bets = np.linspace(0.0, 1.0, 20_001)[:-1] / (at - least)
            won = np.log1p(bets[:, None] * (u - at)).sum(axis=1).max()
            assert (won > 2.0) == refuted


# --- what was wrong --------------------------------------------------------------------------------------------------


def test_an_item_without_a_click_still_has_an_interval():
    """272 of 10,000 rounds told it: three over 272, and not 0 to 0."""
    log = even_log(1, n=10_000, k=34, rate=CLICKS)
    told = log["action"] == 0
    log["reward"][told] = 0.0
    found = rcb.evaluate(log, "arm_0")
    assert (found["lower"] == 0).all()
    assert ((found["upper"] > 2.9 / told.sum()) & (found["upper"] < 4.2 / told.sum())).all()
    assert (found["mcse"] > 0).all()
    np.testing.assert_allclose(found["n_effective"].sel(estimator=WEIGHING[:3]), told.sum())
    assert (found["n_events"] == 0).all()


def test_intervals_are_within_bounds_and_have_a_width():
    for seed in range(12):
        log = uneven_log(seed, n=200, rate=(0.004, 0.3, 0.99)[seed % 3])
        found = rcb.evaluate(log, "arm_0", estimators=WEIGHING)
        assert ((found["lower"] >= 0) & (found["upper"] <= 1)).all()
        assert (found["upper"] - found["lower"] > 0.01).all()


def test_an_arm_that_was_never_told_has_what_propensities_leave():
    log = even_log(2, n=600, k=2, rate=ORDINARY)
    log["pi_b"] = np.tile([0.02, 0.98], (600, 1))
    log |= {"action": np.ones(600, dtype=int), "pscore": np.full(600, 0.98)}
    found = rcb.evaluate(log, "arm_0", estimators=["ips", "snips", "adaptive"])
    ips = found.sel(estimator="ips")
    assert (ips["n_effective"].item(), ips["lower"].item(), ips["upper"].item()) == (0, 0, 1)


def test_one_tiny_propensity_does_not_undo_the_others():
    """Its round is one of 5,000: it can add 1/5,000, and its weight of a million is of no concern."""
    log = even_log(3, n=5000, k=10, rate=CLICKS)
    plain = rcb.evaluate(log, "arm_0", estimators=WEIGHING)
    rare = int(np.flatnonzero(log["action"] != 0)[0])
    log["pi_b"][rare] = np.where(np.arange(10) == 0, 1e-6, (1 - 1e-6) / 9)
    log["pscore"] = log["pi_b"][np.arange(5000), log["action"]]
    found = rcb.evaluate(log, "arm_0", estimators=WEIGHING)
    np.testing.assert_allclose(found["upper"][:3], plain["upper"][:3], atol=5e-4)


def test_estimates_that_disagree_are_named():
    log = even_log(4, n=2000, k=2, rate=ORDINARY)
    assert rcb.evaluate(log, "arm_0").attrs["disagreement"] == ""
    log["context"] = np.zeros((2000, 1))

    class Wrong:
        """Expects the most of everybody."""

        needs_rows = False

        def fit(self, history: Any) -> "Wrong":
            return self

        def scores(self, features: np.ndarray) -> np.ndarray:
            return np.full((2, features.shape[1]), 0.9)

        def variances(self, features: np.ndarray) -> None:
            return None

    found = rcb.evaluate(log, "arm_0", oracle=Wrong())  # pyright: ignore[reportArgumentType]
    assert "direct (0.9000)" in found.attrs["disagreement"]
    assert rcb.plots.plot_values(found).get_xlabel() == "value"


def test_bounds_that_are_said_are_looked_at():
    log = even_log(5, n=300, k=2, rate=ORDINARY)
    log["reward"] = 0.5 * log["reward"]
    assert rcb.evaluate(log, "arm_0", estimators=["ips"]).attrs["bounded"] == 0
    half, usual = (rcb.evaluate(log, "arm_0", estimators=["ips"], bounded=said) for said in (True, False))
    assert half.attrs["bounded"] == 1
    assert half["value"].item() == usual["value"].item()
    assert half["upper"].item() != usual["upper"].item()
    with pytest.raises(DataError, match=r"from 0 to 1, and the log has one of 1\.5"):
        rcb.evaluate(log | {"reward": 3 * log["reward"]}, "arm_0", bounded=True)


# --- coverage --------------------------------------------------------------------------------------------------------

RARE = {
    "even": lambda seed: even_log(seed, n=10_000, k=34, rate=0.005),
    "uneven": lambda seed: uneven_log(seed, n=3000, rate=0.008),
    "more where rare": lambda seed: uneven_log(seed, n=3000, rate=CLICKS, tilt=1.0),
    "heavy": lambda seed: heavy_log(seed, n=5000, rate=CLICKS),
    "learnt": lambda seed: learnt_log(seed, n=3000, rates=(CLICKS, 0.005, 0.02)),
}
COMMON = {
    "even": lambda seed: even_log(seed, n=300, k=2, rate=ORDINARY),
    "uneven": lambda seed: uneven_log(seed, n=3000, rate=ORDINARY, tilt=0.5),
    "learnt": lambda seed: learnt_log(seed, n=600, rates=(ORDINARY, 0.2, 0.45)),
}
TRUE = {"even": 0.005, "uneven": 0.008, "more where rare": CLICKS, "heavy": CLICKS, "learnt": CLICKS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(RARE))
def test_coverage_at_click_rates(kind: str):
    """300 logs with some one to four clicks that count. The usual intervals are the planted ones."""
    hits, usual = dict.fromkeys(WEIGHING, 0), 0
    for seed in range(300):
        log = RARE[kind](seed)
        found = rcb.evaluate(log, "arm_0", estimators=WEIGHING)
        within = (found["lower"] <= TRUE[kind]) & (TRUE[kind] <= found["upper"])
        for name in hits:
            hits[name] += bool(within.sel(estimator=name))
        plain = rcb.evaluate(log, "arm_0", estimators=["ips"], bounded=False)
        usual += bool(plain["lower"] <= TRUE[kind] <= plain["upper"])
    print(kind, hits, usual)
    for name, count in hits.items():
        assert stats.binomtest(count, 300, 0.95, alternative="less").pvalue > 1e-4, name
    assert stats.binomtest(usual, 300, 0.95, alternative="less").pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(COMMON))
def test_coverage_and_width_at_ordinary_rates(kind: str):
    """300 logs: covered, and on average at most 30 % wider than the usual interval, which in adaptive logs is short."""
    hits, width, usual = dict.fromkeys(WEIGHING, 0), np.zeros(len(WEIGHING)), np.zeros(len(WEIGHING))
    for seed in range(300):
        log = COMMON[kind](seed)
        found, plain = (rcb.evaluate(log, "arm_0", estimators=WEIGHING, bounded=said) for said in (True, False))
        within = (found["lower"] <= ORDINARY) & (found["upper"] >= ORDINARY)
        for name in hits:
            hits[name] += bool(within.sel(estimator=name))
        width += (found["upper"] - found["lower"]).values
        usual += (plain["upper"] - plain["lower"]).values
    print(kind, hits, width / usual)
    for name, count in hits.items():
        assert stats.binomtest(count, 300, 0.95, alternative="less").pvalue > 1e-4, name
    assert (width < 1.3 * usual).all()


@pytest.mark.slow
def test_adaptive_is_low_in_short_logs_by_a_small_part_of_its_error():
    """Beside "dr", which is not: 600 logs of 150 rounds of Thompson sampling."""
    found = []
    for seed in range(600):
        log = learnt_log(seed, n=150, rates=(ORDINARY, 0.2, 0.45))
        found.append(rcb.evaluate(log, "arm_0", estimators=["dr", "adaptive"], bounded=False)["value"].values)
    plain, steady = np.array(found).T
    low, error = (plain - steady).mean(), stats.sem(plain - steady)
    print(f"{low:.4f} ± {error:.4f}, {low / steady.std():.3f} of the error")
    assert low > 2 * error
    assert low - 4 * error < 0.1 * steady.std()
