"""Users of a live loop are those of a simulation; trust, as a balance; plans for users who do not all follow."""

from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import behaviour as b
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.panel import panel_of
from rcb_bayes.mechanism.simulator import Simulator
from rcb_bayes.running.conduct import Behaviour, Offers, responding
from rcb_bayes.running.worlds import SimulatedWorld
from tests.behaviour.markets import market, oracle, plan, plan_of_three, three


def world_seed(seed: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(0,))


@pytest.mark.parametrize(
    "users",
    [
        b.as_behaviour("obedient .6, stubborn .2, random .2"),
        b.Trust(epsilon=0.1, rate=0.2),
        b.Refusal(share=0.3, known=0.7),
        b.Rational(epsilon=0.0, n_worlds=100),
    ],
    ids=repr,
)
def test_a_live_loop_is_the_block_run(users: Behaviour) -> None:
    n = 120
    runs = rcb.simulate(three(), plan_of_three(), horizon=n, n_worlds=1, behaviour=users, seed=6)
    agent = rcb.Recommender(three(), plan_of_three(), seed=world_seed(6))
    crowd, world, arms = b.LiveUsers(agent, users, horizon=n), SimulatedWorld(three(), world_seed(6)), three().arms

    for t in range(n):
        x = world.page(0).x[t]
        told = agent.recommend(x)

        def would_get(arm: str, t: int = t) -> float:
            return float(world.rewards(t, np.array([arms.index(arm)]))[0])

        taken = crowd.takes(x, told, rewards=would_get, noise=float(world.noise(t, t + 1)[0]))
        agent.observe(would_get(taken), ticket=told.ticket, taken=taken)
        assert arms.index(told.arm) == runs["recommended"].values[0, t]
        assert arms.index(taken) == runs["chosen"].values[0, t]
    assert list(agent.n_samples.values()) == runs["n_samples"].values[0].tolist()


def test_users_who_go_by_what_they_get_have_to_be_told() -> None:
    agent = rcb.Recommender(market(), plan(), seed=1)
    told = agent.recommend([0.5, 0.5])
    with pytest.raises(RcbError, match="rewards="):
        b.LiveUsers(agent, b.Trust()).takes([0.5, 0.5], told)
    with pytest.raises(RcbError, match="noise="):
        b.LiveUsers(agent, b.Refusal()).takes([0.5, 0.5], told)


# --- trust -----------------------------------------------------------------------------------------------------------


def test_trust_is_spent_and_earned() -> None:
    """By hand: the old arm is expected to give .5, the new one .2."""
    trust = b.Trust(epsilon=0.31, rate=0.5, least=0.0, most=0.4)
    here = rcb.Market(
        prior=rcb.Prior.gaussian([[0.5], [0.2]], 0.25, arms=["old", "new"]),
        covariates=rcb.Empirical([[1.0]]),
        noise=rcb.GaussianNoise(0.3),
    )
    users: Any = trust.prepared(_scene(here))()
    gets = np.array([0.4, 0.5, 0.7, 5.0, 0.2])  # of the arm recommended
    offers = Offers(
        features=np.ones((5, 1)),
        arm=np.array([1, 1, 0, 1, 1]),
        moment=None,
        whims=np.full((5, 3), 0.5),
        noise=None,
        rewards=lambda arm: gets,
    )
    # .31 >= .3: follows, -.05: .26 < .3: refuses; old: follows, +.1: .36; follows, up to .4; follows, -.15: .25.
    assert users.take(offers).tolist() == [1, 0, 0, 1, 1]
    assert users.balance == pytest.approx(0.25)


def _scene(here: rcb.Market) -> Any:
    from rcb_bayes.running.conduct import Scene

    return Scene(market=here, plan=None, horizon=10, options=rcb.Exploiting(), seed=1)


def test_more_trust_is_more_followed() -> None:
    followed = [
        float(
            rcb.simulate(market(), plan(), horizon=150, n_worlds=10, behaviour=b.Trust(epsilon=e, rate=0.01), seed=1)[
                "followed"
            ].mean()
        )
        for e in (0.01, 0.1, 1.0)
    ]
    assert followed[0] < followed[1] < followed[2] == 1.0


# --- plans -----------------------------------------------------------------------------------------------------------

MIXED = b.Mix(b.Obedient(), b.Stubborn(), shares=[0.5, 0.5])


@pytest.mark.parametrize("knows", ["stage", pytest.param("level", marks=pytest.mark.slow)])
def test_a_plan_takes_as_long_as_it_says(knows: str) -> None:
    asked: dict[str, Any] = {"n_per_arm": 8, "n_worlds": 200, "knows": knows, "seed": 3}
    own = rcb.calibrate(three(), **asked, behaviour=MIXED)
    runs = rcb.simulate(
        three(), own, horizon=400, n_worlds=150, behaviour=MIXED, oracle=oracle(three()), every=400, seed=8
    )
    length = runs["cold_start_length"].values
    error = np.hypot(length.std(ddof=1) / np.sqrt(150), own.expected_cold_start_mcse)
    assert abs(length.mean() - own.expected_cold_start) < 4 * error
    if knows == "stage":  # the planted error: a plan for users who follow is shorter
        assert abs(length.mean() - plan_of_three().expected_cold_start) > 4 * error
    assert rcb.audit(three(), own, horizon=300, n_worlds=400, behaviour=MIXED, seed=5).verdict != "fail"


def test_samples_of_a_cold_start_come_from_those_who_follow() -> None:
    """X'X of each arm in the walk is that of runs, arm by arm, within 5 errors; that of followers alone is not."""
    users, own = b.Stubborn(), plan_of_three()
    mixed = b.Mix(b.Obedient(), users, shares=[0.3, 0.7])
    found = {behaves: _grams(own, mixed if behaves else None) for behaves in (True, False)}
    came = _grams_of_runs(own, mixed)
    mean, error = came.mean(axis=0), came.std(axis=0, ddof=1) / np.sqrt(len(came))
    scores = {behaves: np.abs(found[behaves] - mean) / error for behaves in found}
    assert scores[True].max() < 5
    assert scores[False].max() > 8


def _grams(own: rcb.Plan, users: Behaviour | None) -> np.ndarray:
    simulator = Simulator(responding(three(), users), seed=4)
    walked = simulator.walk_under(own, names=True)
    rng, n = np.random.default_rng(1), np.arange(4000)
    x = simulator.panel.users
    return np.stack(
        [
            np.einsum("wnd,wne->de", x[who], x[who]) / who.size
            for who in (walked.design(n, arm, rng=rng) for arm in range(3))
        ]
    )


def _grams_of_runs(own: rcb.Plan, users: Behaviour) -> np.ndarray:
    """X'X / N of the samples of each arm that count in the cold start of 400 runs, (R, K, d, d)."""
    from rcb_bayes.running.conduct import Scene
    from rcb_bayes.running.driving import drive
    from rcb_bayes.running.policies import Rcb

    out = []
    scene = Scene(market=three(), plan=own, horizon=600, options=rcb.Exploiting(), seed=0)
    make = users.prepared(scene)
    for number in range(400):
        policy = Rcb(three(), own, oracle=oracle(three()))
        world = SimulatedWorld(three(), np.random.SeedSequence(12, spawn_key=(number,)))
        for _ in drive(policy, world, horizon=2000, conduct=make()):
            if policy.cold.is_over:
                break
        out.append(policy.cold.history.sums().xtx[0] / 8)
    return np.stack(out)


def test_how_often_arms_are_taken() -> None:
    users = three().population.sample(5, seed=1)
    panel = panel_of(responding(three(), MIXED), users)
    told = np.random.default_rng(1).dirichlet(np.ones(3), size=5).T
    by_hand = 0.5 * told
    favourite = (users @ three().prior.mean.values.T).argmax(axis=1)
    by_hand[favourite, np.arange(5)] += 0.5
    assert np.allclose(panel.taken(told), by_hand)
    assert np.allclose(panel.taken(told[:, [4, 0]], np.array([4, 0])), by_hand[:, [4, 0]])
    assert panel_of(three(), users).taken(told) is told


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (b.Trust(), "depends on what happened"),
        (b.Refusal(), "no belief allows for"),
        (b.Rational(epsilon=0.1), "their own epsilon"),
        (b.Stubborn(arm="newer"), "There is no arm"),
    ],
)
def test_users_nobody_can_plan_for(users: Behaviour, message: str) -> None:
    with pytest.raises(RcbError, match=message):
        rcb.calibrate(market(), behaviour=users)


def test_an_audit_world_by_world_does_not_know_of_them() -> None:
    with pytest.raises(RcbError, match="is for audits of plans"):
        rcb.audit(market(), lambda own, seed: rcb.baselines.Greedy(own), behaviour=MIXED)
