"""Arms that users lack decide who is sampled: what is promised then, by simulations that share nothing with it."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import rcb_bayes as rcb
from rcb_bayes.errors import MovesWarning
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.running import presence
from rcb_bayes.running.history import History

E1, E2 = np.eye(2)
THREE = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
WEIGHTS = [0.5, 0.3, 0.2]
MEANS = {2: np.array([[0.4, 0.4], [0.1, 0.1]]), 3: np.array([[0.3, 0.2], [0.15, 0.25], [0.1, 0.05]])}
SIGMA, VARIANCE, EPSILON = 0.3, 0.25, 0.05


@cache
def made(n_arms: int, **asked: Any) -> tuple[rcb.Market, rcb.Plan]:
    """Two arms and users with opposite tastes, or three arms and three kinds of users."""
    users = rcb.Empirical(np.eye(2)) if n_arms == 2 else rcb.Empirical(THREE, weights=WEIGHTS)
    prior = rcb.Prior.gaussian(MEANS[n_arms], VARIANCE)
    own = rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(SIGMA))
    values: dict[str, Any] = {"epsilon": EPSILON, "n_per_arm": 10 if n_arms == 2 else 6, "horizon": 2000, "seed": 1}
    return own, rcb.calibrate(own, **values, n_worlds=1000, audit_worlds=1000, **asked)


def started(n_arms: int, *, seed: int = 1, told: bool = False, **asked: Any) -> rcb.Recommender:
    own, plan = made(n_arms, **asked)
    oracle = rcb.PosteriorOracle(own.prior, own.noise, read="engine")
    return rcb.Recommender(own, plan, oracle=oracle, availability_varies=told, keep_log=10_000, seed=seed)


def serve(agent: rcb.Recommender, x: np.ndarray, available: list[str] | None = None) -> None:
    """A round whose reward is as users expect: whom samples are of does not depend on rewards."""
    told = agent.recommend(x, available=available)
    agent.observe(float(x @ MEANS[agent.market.n_arms][agent.market.arms.index(told.arm)]), ticket=told.ticket)


def sampled(agent: rcb.Recommender) -> list[np.ndarray]:
    """Users behind the samples of each arm, by the log."""
    log: Any = agent.log[agent.log["counted"] > 0]
    x = log[["feature_0", "feature_1"]].to_numpy()
    return [x[(log["arm"] == arm).to_numpy()] for arm in agent.market.arms]


def told_and_gained(
    rows: list[np.ndarray], x: np.ndarray, rates: list[float], *, saturated: list[int], rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Plain worlds in which these users are sampled: who is told the promoted arm at each rate, (W,), and what the arms
    truly give her beyond it, (W, K). Rates share worlds."""
    means = MEANS[len(rows)]
    truth = means + np.sqrt(VARIANCE) * rng.standard_normal((2000, *means.shape))
    expected = np.tile(means @ x, (len(truth), 1))
    for arm in saturated:
        seen = truth[:, arm] @ rows[arm].T + SIGMA * rng.standard_normal((len(truth), len(rows[arm])))
        gain = np.linalg.solve(rows[arm].T @ rows[arm] + SIGMA**2 / VARIANCE * np.eye(2), rows[arm].T)
        expected[:, arm] = (means[arm] + (seen - rows[arm] @ means[arm]) @ gain.T) @ x
    open_arms = [arm for arm in range(len(rows)) if arm not in saturated]
    promoted = open_arms[int(np.argmax(means[open_arms] @ x))]
    organic, coin = expected.argmax(axis=1) == promoted, rng.random(len(truth))
    gains = (truth[:, promoted, None] - truth) @ x
    return [(organic | (coin < rate), gains) for rate in rates]


def forms(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """H of the promoted arm against each arm, E[told (gain + epsilon)], with errors over designs and worlds, (K,)."""
    terms = [told[:, None] * (gains + EPSILON) for told, gains in parts]
    own = np.array([part.mean(axis=0) for part in terms])
    within = np.array([part.var(axis=0) / len(part) for part in terms]).sum(axis=0) / len(parts) ** 2
    return own.mean(axis=0), np.sqrt(within + own.var(axis=0) / len(parts))


# --- the law of the samples ------------------------------------------------------------------------------------------


def until_one_sided(agent: rcb.Recommender, rng: np.random.Generator, *, share: float = 0.5) -> None:
    """Users of the first kind lack arm_0 as long as it is collected."""
    while not agent.saturated:
        if rng.random() < share:
            serve(agent, E1, ["arm_1"])
        else:
            serve(agent, E2)


def test_users_who_were_not_sampled_are_not_told_what_the_plan_would_tell_them() -> None:
    """At the plan's own rate such a user stands at -.3 for a promised -.05: nothing was learnt for her."""
    agent, rng = started(2), np.random.default_rng(1)
    with pytest.warns(MovesWarning, match="does not depend on who the user is"):
        until_one_sided(agent, rng)
    assert agent.by_samples
    assert agent.recommend_proba([E1])[0].tolist() == [1.0, 0.0]
    planned = float(agent.plan.rate(E1, saturated=["arm_0"]))  # the planted error: the plan's rate stays in force
    form, error = forms(told_and_gained(sampled(agent), E1, [planned], saturated=[0], rng=rng))
    assert form[0] < -4 * error[0]
    # Users of the other kind are all that was sampled, and are told so much more than the plan has it.
    own = float(agent.recommend_proba([E2])[0, 1])
    parts = [told_and_gained(sampled(agent), E2, [own], saturated=[0], rng=rng)[0] for _ in range(60)]
    form, error = forms(parts)
    assert -4 * error[0] < form[0] < 8 * error[0]  # and hardly more could be told
    assert own > float(agent.plan.rate(E2, saturated=["arm_0"]))


def test_rates_are_those_of_the_normal_law_of_what_is_expected_given_who_was_sampled() -> None:
    """Two arms: q* = c / (c + D - epsilon), c = V + epsilon v, by hand; a twentieth of it is left."""
    agent, rng = started(2, told=True), np.random.default_rng(3)
    while not agent.saturated:
        serve(agent, THREE[rng.integers(3)])
    rows = sampled(agent)[0]
    left = np.linalg.inv(rows.T @ rows / SIGMA**2 + np.eye(2) / VARIANCE)
    for x in (E1, E2, THREE[2], np.array([0.2, 1.1])):
        sd, lead = np.sqrt(VARIANCE * x @ x - x @ left @ x), float((MEANS[2][0] - MEANS[2][1]) @ x)
        chance = stats.norm.cdf(-lead / sd)
        hidden = sd * stats.norm.pdf(lead / sd) - lead * chance + EPSILON * chance
        rate = hidden / (hidden + lead - EPSILON)
        found = float(agent._rcb.cold.rates(x[None])[0])
        assert found == pytest.approx(0.95 * rate, rel=1e-9)


def test_arms_that_are_missing_at_random_change_the_law_and_the_promise_is_kept() -> None:
    """Three arms, arm_0 there for a tenth of the users whoever they are; at the plan's rates -.2 for -.05."""
    rng, parts, planted = np.random.default_rng(2), [], []
    for seed in range(25):
        agent = started(3, seed=seed)
        planned = float(agent.plan.rate(E1, saturated=["arm_0", "arm_1"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MovesWarning)
            while set(agent.saturated) != {"arm_0", "arm_1"} and agent.rounds < 400:
                serve(agent, THREE[rng.choice(3, p=WEIGHTS)], None if rng.random() < 0.1 else ["arm_1", "arm_2"])
            if set(agent.saturated) != {"arm_0", "arm_1"}:  # arm_2 was before
                continue
            rates = [float(rate) for rate in agent._rcb.cold.rates(THREE)]
        rows = sampled(agent)
        for k in range(3):
            fresh = [rates[k], planned] if k == 0 else [rates[k]]
            found = told_and_gained(rows, THREE[k], fresh, saturated=[0, 1], rng=rng)
            parts.append(found[0])
            planted += found[1:]
    assert len(parts) > 40
    for k in range(3):
        form, error = forms(parts[k::3])
        assert (form[:2] >= -4 * error[:2]).all()
    form, error = forms(planted)
    assert form[0] < -4 * error[0]


# --- other beliefs, other plans --------------------------------------------------------------------------------------


def test_simulated_rates_are_those_in_closed_form_less_what_worlds_leave_open(monkeypatch: pytest.MonkeyPatch) -> None:
    own, plan = made(3)
    rng = np.random.default_rng(4)
    x, arm = THREE[rng.integers(3, size=12)], np.repeat([0, 1], 6)
    history = History(3, 2)
    history.add(x, arm, rng.standard_normal(12))
    asked: dict[str, Any] = {"saturated": (0, 1), "closed": (0, 1), "gone": frozenset()}
    exact = presence.GivenSamples(own, plan, history, **asked).rates(THREE)
    monkeypatch.setattr(presence, "_mean_law", lambda *_: None)
    simulated = presence.GivenSamples(own, plan, history, **asked).rates(THREE)
    assert (simulated <= exact).all()
    np.testing.assert_allclose(simulated, exact, rtol=0.35)
    assert (exact > 0.0).all()


def test_of_0_1_rewards_rates_are_those_by_summing_over_all_outcomes() -> None:
    """One kind of users and two arms: successes of n samples, one by one."""
    prior = rcb.Prior.gaussian([[0.3], [0.0]], 1.0)
    own = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.BernoulliLogit())
    plan = rcb.calibrate(own, epsilon=0.02, n_per_arm=8, horizon=500, n_worlds=500, seed=1)
    agent = rcb.Recommender(own, plan, availability_varies=True, seed=1)
    for _ in range(8):
        agent.observe(1, ticket=agent.recommend([1.0]).ticket)
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    chance = 1.0 / (1.0 + np.exp(-(0.3 + nodes)))
    outcomes = stats.binom.pmf(np.arange(9)[:, None], 8, chance) @ weights
    expected = stats.binom.pmf(np.arange(9)[:, None], 8, chance) @ (weights * chance) / outcomes
    hidden = (outcomes * (expected < 0.5) * (0.5 - expected + 0.02)).sum()
    lead = float(weights @ chance) - 0.5
    rate = hidden / (hidden + lead - 0.02)
    assert 0.75 * rate < float(agent._rcb.cold.rates(np.ones((1, 1)))[0]) < rate < 1.0


def test_one_rate_for_all_stays_one_rate_and_is_never_more_than_the_plan_has_it() -> None:
    agent, rng = started(3, told=True, personalised=False), np.random.default_rng(5)
    while not agent.saturated:
        serve(agent, THREE[rng.integers(3)])
    rates = agent._rcb.cold.rates(THREE)
    assert np.ptp(rates) == 0.0
    assert 0.0 < rates[0] <= agent.plan.exploration_rate


def test_an_arm_that_has_left_is_nobodys_rival() -> None:
    """arm_1 has left, and arm_2 is the organic arm where it beats arm_0 alone, whatever arm_1 would be."""
    own, plan = made(3)
    history = History(3, 2)
    history.add(THREE[[0, 0, 1, 1, 2, 2]], np.zeros(6, dtype=int), np.ones(6))
    asked: dict[str, Any] = {"saturated": (0,), "closed": (0, 1)}
    without = presence.GivenSamples(own, plan, history, gone=frozenset({1}), **asked).rates(THREE)
    with pytest.warns(MovesWarning, match="stands still"):
        other = presence.GivenSamples(own, plan, history, gone=frozenset(), **asked).rates(THREE)
    assert (without > 0.0).all()
    assert (other == 0.0).all()  # arm_1, which nobody has tried, would always be better than arm_2


def test_where_nobody_would_follow_a_cold_start_that_stands_still_says_so() -> None:
    own, plan = made(2)
    history = History(2, 2)
    history.add(np.zeros((10, 2)), np.zeros(10, dtype=int), np.zeros(10))
    with pytest.warns(MovesWarning, match="stands still"):
        presence.GivenSamples(own, plan, history, saturated=(0,), closed=(0,), gone=frozenset())


def test_plans_that_promise_nothing_there_say_so_and_go_on() -> None:
    own, _ = made(2)
    plan = rcb.fixed_plan(own, n_per_arm=3, exploration_rate=0.5)
    agent = rcb.Recommender(own, plan, seed=1)
    with pytest.warns(MovesWarning, match="promises nothing then"):
        serve(agent, E1, ["arm_1"])
    assert not agent.by_samples
    serve(agent, E1, ["arm_1"])  # once is enough: a warning would be an error
    with pytest.warns(MovesWarning, match="a fixed one"):
        rcb.Recommender(own, plan, availability_varies=True, seed=1)


# --- users of a rare kind, and what was told from the start ----------------------------------------------------------


def test_only_who_says_so_from_the_start_is_safe_from_a_choice_among_users() -> None:
    """Users of a rare kind lack arm_0. In runs where none came nothing shows it, and the plan's rate is in force."""
    for told in (False, True):
        agent = started(2, told=told)
        while not agent.saturated:
            serve(agent, E2)
        chance = float(agent.recommend_proba([E1])[0, 1])
        assert chance == (0.0 if told else float(agent.plan.rate(E1, saturated=["arm_0"])))
        serve(agent, E1, ["arm_1"]) if told else None  # told: a warning would be an error


# --- exploitation ----------------------------------------------------------------------------------------------------


def at_exploitation(agent: rcb.Recommender, rng: np.random.Generator) -> None:
    while agent.stage != "exploit":
        serve(agent, THREE[rng.integers(3)])


@pytest.mark.parametrize("told", [True, False])
def test_in_exploitation_nobody_is_told_what_she_would_hold_to_be_worse_by_more_than_epsilon(told: bool) -> None:
    agent, rng = started(3, told=told), np.random.default_rng(6)
    at_exploitation(agent, rng)
    if not told:
        before = agent.recommend_proba(THREE)
        assert (before > 0.0).all()  # by the plan's guard, which a look at the gaps would not let through
        with pytest.warns(MovesWarning, match="heeded"):
            serve(agent, E1, ["arm_1", "arm_2"])
    for _ in range(3):
        exploitation = agent._rcb.exploitation
        assert exploitation is not None
        expected = exploitation.scores(np.ascontiguousarray(THREE.T))
        gap = (expected.max(axis=0) - expected).T
        assert (gap[agent.recommend_proba(THREE) > 0.0] <= EPSILON + 1e-12).all()
        for _ in range(20):
            serve(agent, THREE[rng.integers(3)], [["arm_1", "arm_2"], ["arm_0", "arm_2"]][int(rng.integers(2))])


def test_options_under_which_users_cannot_be_heeded_are_told_of() -> None:
    own, plan = made(3)
    with pytest.warns(MovesWarning, match="Nothing is promised in exploitation"):
        agent = rcb.Recommender(own, plan, availability_varies=True, options=Exploiting(feed="last"), seed=1)
    assert agent.by_samples
    with warnings.catch_warnings():  # where no guard is in force nothing was promised
        warnings.simplefilter("error")
        rcb.Recommender(own, plan, availability_varies=True, options=Exploiting(feed="last", guard=False), seed=1)


# --- files and logs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
def test_a_run_goes_on_from_its_file_and_its_log_is_that_of_the_plan(told: bool, tmp_path: Path) -> None:
    agent, rng = started(3, told=told), np.random.default_rng(8)
    own, plan = made(3)

    def some(agent: rcb.Recommender, n: int) -> None:
        for _ in range(n):
            serve(agent, THREE[rng.integers(3)], None if rng.random() < 0.6 else ["arm_1", "arm_2"])

    while agent.rounds < 25 or not agent.saturated:
        serve(agent, THREE[rng.integers(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not told else "error", MovesWarning)
        some(agent, 10)
    agent.save(tmp_path / "agent.json")
    oracle = rcb.PosteriorOracle(own.prior, own.noise, read="engine")
    again = rcb.Recommender.load(tmp_path / "agent.json", own, oracle=oracle)
    assert again.by_samples
    np.testing.assert_array_equal(again.recommend_proba(THREE), agent.recommend_proba(THREE))
    some(again, 300)
    checked = rcb.check_log(own, again.log, plan, oracle=oracle, availability_varies=told)
    assert checked.followed, checked.summary()
    other = rcb.check_log(own, again.log, plan, oracle=oracle, availability_varies=not told)
    assert other.followed is False  # planted: it is not said, or said wrongly, what was told from the start
    with pytest.raises(rcb.RcbError, match="Audit its log"):
        rcb.audit(own, again, horizon=100, n_worlds=50)


# --- arms that leave for all -----------------------------------------------------------------------------------------


def test_once_an_arm_has_left_or_comes_rates_are_given_the_samples_and_a_saved_run_keeps_them(tmp_path: Path) -> None:
    """Nobody needs to be told of it, so that nothing is warned of: it leaves for all, at a round that is settled."""
    agent, rng = started(3), np.random.default_rng(9)
    for _ in range(4):
        serve(agent, THREE[rng.integers(3)])
    assert not agent.by_samples
    agent.retire("arm_0")
    while agent.n_samples["arm_1"] < 6:
        serve(agent, THREE[rng.integers(3)])
    agent.add_arm("arm_0")
    while set(agent.saturated) != {"arm_0", "arm_1"}:
        serve(agent, THREE[rng.integers(3)])
    rates = agent._rcb.cold.rates(THREE)
    planned = agent.plan.rate(THREE, saturated=agent.saturated)
    assert np.abs(rates - planned).max() > 0.01  # of other samples than the plan reckoned with
    rows = sampled(agent)
    for x, rate in zip(THREE, rates.tolist(), strict=True):
        parts = [told_and_gained(rows, x, [rate], saturated=[0, 1], rng=rng)[0] for _ in range(20)]
        form, error = forms(parts)
        assert (form >= -4 * error).all()
    agent.save(tmp_path / "agent.json")
    oracle = rcb.PosteriorOracle(agent.market.prior, agent.market.noise, read="engine")
    again = rcb.Recommender.load(tmp_path / "agent.json", agent.market, oracle=oracle)
    np.testing.assert_array_equal(again._rcb.cold.rates(THREE), rates)
