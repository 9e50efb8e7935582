"""The guard: the largest cut, by search; what it keeps; and margins that hold under it."""

from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.mechanism import guard
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.guard import crowd_guard, users_guard
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.mechanism.notions import DEFINITION, USER, as_notion
from rcb_bayes.mechanism.outlook import LinearOutlook

pytestmark = pytest.mark.usefixtures("small_panels")
EPSILON = 0.05


def states(n_worlds: int = 400, n_users: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Expectations (K, U, W) in worlds where the first arm is mostly the best, and spreads (W,)."""
    rng = np.random.default_rng(1)
    centre = np.array([0.5, 0.2, 0.1])[:, None, None] + 0.1 * rng.normal(size=(3, n_users, 1))
    return centre + 0.25 * rng.normal(size=(3, n_users, n_worlds)), rng.uniform(5, 20, size=n_worlds)


def by_search(
    rewards: np.ndarray, gamma: np.ndarray, user: int, arm: int, *, notion: str, slack: float, epsilon: float
) -> float:
    """The largest cut of a fine grid at which every bound holds, from 0 up."""
    k, _, w = rewards.shape
    own = rewards[:, user]
    chances = np.stack([ipgs_probabilities(own[:, [v]], gamma[v])[:, 0] for v in range(w)], axis=1)
    best = own.argmax(axis=0) == arm
    largest = 1.0
    for rival in range(k):
        if rival == arm:
            continue
        lead = own[arm] - own[rival] + (0.0 if notion == "proof" else epsilon)
        fixed = epsilon if notion == "proof" else 0.0
        terms = chances[arm] * lead

        def holds(c: float, terms: np.ndarray = terms, fixed: float = fixed) -> bool:
            values = fixed + np.where(best, terms, c * terms)
            return bool(values.mean() - slack * values.std(ddof=1) >= 0)

        if holds(1.0) or (terms[~best] >= 0).all():
            continue
        grid = np.linspace(0, 1, 2001)
        good = [c for c in grid if holds(c)] if holds(0.0) else [0.0]
        largest = min(largest, max(good))
    return largest


@pytest.mark.parametrize(("notion", "epsilon"), [("user", EPSILON), ("proof", 0.002)])
@pytest.mark.parametrize("slack", [0.0, 0.1])
def test_cuts_are_the_largest_that_hold(notion: str, epsilon: float, slack: float):
    rewards, gamma = states()
    outlook, users = as_outlook(rewards)
    found = users_guard(outlook, gamma, users, epsilon=epsilon, notion=as_notion(notion), slack=slack)
    assert found.shape == (6, 3)
    for user in range(6):
        for arm in range(3):
            twin = by_search(rewards, gamma, user, arm, notion=notion, slack=slack, epsilon=epsilon)
            assert found[user, arm] == pytest.approx(twin, abs=1e-3)
    assert (found < 1).any()
    assert (found > 0).any()


def crowd_by_search(rewards: np.ndarray, gamma: np.ndarray, weights: np.ndarray, arm: int, *, slack: float) -> float:
    """The largest cut for all users together, with every term written down."""
    k, u, w = rewards.shape
    chances = ipgs_probabilities(rewards.reshape(k, u * w), np.tile(gamma, u)).reshape(k, u, w)
    best = rewards.argmax(axis=0) == arm
    largest = 1.0
    for rival in range(k):
        if rival == arm:
            continue
        terms = chances[arm] * (rewards[arm] - rewards[rival] + EPSILON)
        gained, lost = weights @ np.where(best, terms, 0.0), weights @ np.where(best, 0.0, terms)
        holds = [c for c in np.linspace(0, 1, 2001) if _bound(gained + c * lost, slack) >= 0]
        largest = min(largest, max(holds, default=0.0))
    return largest


def _bound(values: np.ndarray, slack: float) -> float:
    return float(values.mean() - slack * values.std(ddof=1))


@pytest.mark.parametrize("weights", [np.full(6, 1 / 6), np.array([0.5, 0.3, 0.1, 0.05, 0.04, 0.01])])
@pytest.mark.parametrize("slack", [0.0, 0.05])
def test_under_definition_one_cut_serves_all_users_with_their_weights(weights: np.ndarray, slack: float):
    rewards, gamma = states()
    outlook, users = as_outlook(rewards)
    found = crowd_guard(outlook, gamma, users, weights, epsilon=EPSILON, notion=DEFINITION, slack=slack)
    twins = [crowd_by_search(rewards, gamma, weights, arm, slack=slack) for arm in range(3)]
    assert found == pytest.approx(twins, abs=1e-3)


def test_a_crowd_s_cut_does_not_depend_on_how_users_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch):
    rewards, gamma = states()
    outlook, users = as_outlook(rewards)
    weights = np.array([0.5, 0.3, 0.1, 0.05, 0.04, 0.01])
    at_once = crowd_guard(
        outlook, gamma, users, weights, epsilon=EPSILON, notion=DEFINITION, slack=0.05, user_scale=3.0
    )
    monkeypatch.setattr(guard, "_CHUNK_VALUES", 1)
    one_by_one = crowd_guard(
        outlook, gamma, users, weights, epsilon=EPSILON, notion=DEFINITION, slack=0.05, user_scale=3.0
    )
    assert one_by_one == pytest.approx(at_once, abs=1e-12)


def test_users_cuts_do_not_depend_on_who_is_taken_with_them(monkeypatch: pytest.MonkeyPatch):
    rewards, gamma = states()
    outlook, users = as_outlook(rewards)
    at_once = users_guard(outlook, gamma, users, epsilon=EPSILON, notion=USER, slack=0.05)
    monkeypatch.setattr(guard, "_CHUNK_CELLS", 1)
    one_by_one = users_guard(outlook, gamma, users, epsilon=EPSILON, notion=USER, slack=0.05)
    np.testing.assert_array_equal(one_by_one, at_once)


def test_a_larger_slack_only_cuts_more():
    rewards, gamma = states()
    outlook, users = as_outlook(rewards)
    little, much = (
        users_guard(outlook, gamma, users, epsilon=EPSILON, notion=USER, slack=slack) for slack in (0.0, 0.2)
    )
    assert (much <= little + 1e-12).all()


def as_outlook(rewards: np.ndarray) -> tuple[LinearOutlook, np.ndarray]:
    """States (K, U, W) as those of users who are the unit vectors."""
    return LinearOutlook(np.ascontiguousarray(rewards.transpose(2, 0, 1))), np.eye(rewards.shape[1])


@cache
def strong_prior() -> Market:
    prior = Prior.gaussian([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 0.1)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.05))


@cache
def plan(guard: bool = True) -> Plan:
    return rcb.calibrate(strong_prior(), n_per_arm=20, n_worlds=600, guard=guard, seed=1)


def margins_in_the_first_epoch(guarded: bool) -> np.ndarray:
    """Lowest conditional margin of each user over arms and rivals, over fresh worlds of the belief."""
    rng = np.random.default_rng(9)
    n_worlds, users = 3000, rcb.Sphere(2).sample(40, seed=5)
    beta = strong_prior().prior.draw_arrays(n_worlds, rng=rng)[0]
    x = rcb.Sphere(2).sample(n_worlds * 3 * 20, seed=6).reshape(n_worlds, 3, 20, 2)
    y = (x @ beta[..., None])[..., 0] + 0.05 * rng.standard_normal((n_worlds, 3, 20))
    data = rcb.posterior.Statistics(
        xtx=x.swapaxes(2, 3) @ x,
        xty=(x.swapaxes(2, 3) @ y[..., None])[..., 0],
        yty=(y**2).sum(axis=2),
        n=np.full((n_worlds, 3), 20.0),
    )
    batch = rcb.posterior.make_engine(strong_prior().prior, strong_prior().noise).fit(data, covariance=True)
    assert batch.covariance is not None
    error = np.trace(batch.covariance, axis1=1, axis2=2) / 6
    gamma = 4 * np.sqrt(3 / error)
    rewards = np.einsum("ud,wkd->kuw", users, batch.mean)
    guard = plan().guard(users, 0).T[:, :, None] * np.ones(n_worlds) if guarded else None
    chances = ipgs_probabilities(
        rewards.reshape(3, -1), np.tile(gamma, 40), guard=None if guard is None else guard.reshape(3, -1)
    ).reshape(rewards.shape)
    lowest = np.full(40, np.inf)
    for i in range(3):
        for j in range(3):
            mass = chances[i].sum(axis=1)
            margin = (chances[i] * (rewards[i] - rewards[j])).sum(axis=1) / np.maximum(mass, 1e-12)
            lowest = np.minimum(lowest, np.where(mass > 1e-9, margin, np.inf))
    return lowest


def test_the_plain_kernel_breaks_the_constraint_and_the_guarded_one_does_not():
    assert margins_in_the_first_epoch(guarded=False).min() < -0.5
    assert margins_in_the_first_epoch(guarded=True).min() > -EPSILON


def test_what_the_guard_keeps_is_reported():
    rules = plan().guards
    assert len(rules) == 4
    assert all(0.3 < rule.kept <= 1 for rule in rules)
    assert all(0 <= rule.closed <= 1 for rule in rules)
    assert "guard" in plan().summary()
    assert not plan(guard=False).has_guard


def test_guards_of_users_alone_and_together():
    users = rcb.Sphere(2).sample(30, seed=2)
    together = plan().guard(users, 1)
    assert together.shape == (30, 3)
    assert ((together >= 0) & (together <= 1)).all()
    for k in (0, 7, 29):
        np.testing.assert_allclose(plan().guard(users[k], 1), together[k], atol=1e-9)
    np.testing.assert_array_equal(plan().guard(users, 99), plan().guard(users, 3))
    assert (plan(guard=False).guard(users, 0) == 1).all()


def test_guards_survive_json():
    users = rcb.Sphere(2).sample(30, seed=2)
    again = Plan.from_json(plan().to_json())
    for epoch in range(5):
        np.testing.assert_array_equal(again.guard(users, epoch), plan().guard(users, epoch))


def test_runs_obey_the_guard():
    """Where an arm is closed to a user it is recommended only if it is the best."""
    runs = rcb.simulate(strong_prior(), plan(), horizon=600, n_worlds=3, seed=1)
    free = rcb.simulate(strong_prior(), plan(), horizon=600, n_worlds=3, options=Exploiting(guard=False), seed=1)
    exploited = runs["stage"].values == 3
    off_best = [float(((data["gain"].values < 0) & exploited).sum()) for data in (runs, free)]
    assert off_best[0] < off_best[1]
    other = rcb.simulate(strong_prior(), plan(guard=False), horizon=600, n_worlds=3, seed=1)
    np.testing.assert_array_equal(free["recommended"], other["recommended"])


def test_with_bernoulli_rewards_exploitation_keeps_to_the_best_arm_and_says_so():
    """Their epochs are not simulated when a plan is made: the paper's kernel would lose two users who differ .6."""
    users = rcb.Empirical(np.eye(2))
    prior = Prior.gaussian([[2.0, -2.0], [-2.0, 2.0]], 0.5)
    market = Market(prior=prior, covariates=users, noise=rcb.BernoulliLogit())
    made = rcb.calibrate(market, n_per_arm=3, n_worlds=60, seed=1)
    assert made.has_guard
    assert made.guard([1.0, 0.0], epoch=3).tolist() == [0.0, 0.0]
    assert any("best arm only" in note for note in made.notes)
    lowest = {
        guard: rcb.audit(market, made, horizon=24, n_worlds=50, options=Exploiting(guard=guard), seed=2)
        .margins["estimate"]
        .sel(stage="epoch 0")
        .min()
        .item()
        for guard in (True, False)
    }
    assert lowest[True] >= -1e-9
    assert lowest[False] < -0.3


# --- the tuned spread ------------------------------------------------------------------------------------------------


def test_a_tuned_spread_costs_less():
    prior = Prior.gaussian(np.zeros((3, 2)), 0.3)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.1))
    made = {
        spread: rcb.calibrate(market, n_per_arm=10, n_worlds=300, spread=spread, guard=False, horizon=1000, seed=1)
        for spread in ("posterior", "tuned")
    }
    assert made["posterior"].spread_multiple == 1.0
    assert made["tuned"].spread_multiple > 1.0
    oracle = rcb.PosteriorOracle(prior, market.noise, read="engine")
    regret = {
        spread: rcb.simulate(market, plan, horizon=1000, n_worlds=30, oracle=oracle, seed=2)["regret"].sum("t").values
        for spread, plan in made.items()
    }
    gain = regret["posterior"] - regret["tuned"]
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert Plan.from_json(made["tuned"].to_json()).spread_multiple == made["tuned"].spread_multiple


def test_a_misspelt_spread_is_refused():
    with pytest.raises(rcb.RcbError, match="Did you mean 'tuned'"):
        rcb.calibrate(strong_prior(), spread="tund", n_worlds=50)
