"""Arms that come and go, live: probabilities, counts, stages and files stay right."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import MovesWarning
from rcb_bayes.mechanism.decisions import EXPLOIT, ORGANIC, PROMOTED, Decisions
from rcb_bayes.running.presence import confined

ROWS = np.array([[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]])
BETA = np.array([[0.3, 0.1], [0.2, 0.3], [0.1, 0.2]])


def market() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.30, 0.0], [0.15, 0.25], [0.10, 0.30]], [0.3, 0.5, 0.4], arms=["a", "b", "c"])
    return rcb.Market(prior=prior, covariates=rcb.Empirical(ROWS), noise=rcb.GaussianNoise(0.5))


def plan_of(own: rcb.Market) -> rcb.Plan:
    return rcb.calibrate(own, n_per_arm=6, epsilon=0.05, horizon=2000, n_worlds=500, seed=1)


def serve(agent: rcb.Recommender, n: int, rng: np.random.Generator) -> None:
    for _ in range(n):
        x = ROWS[rng.integers(3)]
        told = agent.recommend(x)
        arm = agent.market.arms.index(told.arm)
        agent.observe(float(x @ BETA[arm] + 0.5 * rng.standard_normal()), ticket=told.ticket)


def test_what_is_not_there_goes_to_the_best_that_is_and_margins_do_not_fall() -> None:
    """H' >= H among arms that are there, in every world: mass moves to the best of them only."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(4, 500))
    chances = rng.dirichlet(np.ones(4), size=500).T
    arm = np.array([rng.choice(4, p=own) for own in chances.T])
    before = Decisions(
        arm=arm,
        stage=np.full(500, EXPLOIT, dtype=np.int8),
        counted=np.ones(500, dtype=bool),
        probabilities=chances,
        scores=scores,
    )
    present = np.array([True, False, True, True])
    after = confined(before, present, present)
    assert (after.probabilities[1] == 0.0).all()
    np.testing.assert_allclose(after.probabilities.sum(axis=0), 1.0)
    assert (after.arm != 1).all()
    assert ((after.arm == arm) | (arm == 1)).all()
    for i in (0, 2, 3):
        for j in (0, 2, 3):
            lead = scores[i] - scores[j]
            assert (after.probabilities[i] * lead - before.probabilities[i] * lead >= -1e-12).all()
    worst = np.where(present[:, None], -scores, -np.inf).argmax(axis=0)  # the planted error: mass to the worst
    lead = scores[worst, np.arange(500)] - np.where(present[:, None], scores, -np.inf).max(axis=0)
    assert (chances[1] * lead < -0.01).any()


def test_an_explored_round_whose_arm_is_not_there_is_organic_and_does_not_count() -> None:
    one = Decisions(
        arm=np.array([1]),
        stage=np.array([PROMOTED], dtype=np.int8),
        counted=np.array([True]),
        probabilities=np.array([[0.4], [0.6]]),
        scores=np.array([[0.2], [0.1]]),
    )
    here = np.array([True, False])
    found = confined(one, here, here)
    assert (found.arm[0], found.stage[0], found.counted[0]) == (0, ORGANIC, False)
    assert found.probabilities[:, 0].tolist() == [1.0, 0.0]


def test_a_user_gets_what_is_available_to_her_and_propensities_are_frequencies() -> None:
    own = market()
    plan = plan_of(own)
    counts, expected = np.zeros(3), np.zeros(3)
    for seed in range(80):
        agent = rcb.Recommender(own, plan, availability_varies=True, seed=seed)
        rng = np.random.default_rng(seed)
        serve(agent, 12, rng)
        told = agent.recommend(ROWS[1], available=["a", "c"])
        assert told.arm in ("a", "c")
        assert told.probabilities["b"] == 0.0
        counts[own.arms.index(told.arm)] += 1
        expected += [told.probabilities[arm] for arm in own.arms]
    spread = np.sqrt(np.maximum(expected * (1 - expected / 80), 1.0))
    assert (np.abs(counts - expected) < 4 * spread).all()


def test_a_log_tells_what_was_available_and_is_that_of_the_plan() -> None:
    own = market()
    plan = rcb.fixed_plan(own, n_per_arm=6, exploration_rate=0.3)
    agent = rcb.Recommender(own, plan, keep_log=1000, seed=3)
    rng = np.random.default_rng(0)
    masks = []
    for _ in range(400):
        x = ROWS[rng.integers(3)]
        some = None if rng.random() < 0.6 else list(rng.choice(["a", "b", "c"], size=2, replace=False))
        masks.append(some)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MovesWarning)  # nothing is promised, which is told once
            told = agent.recommend(x, available=some)
        agent.observe(float(x @ BETA["abc".index(told.arm)] + 0.5 * rng.standard_normal()), ticket=told.ticket)
    log = agent.log
    empty = log[["p_a", "p_b", "p_c"]].isna().to_numpy()
    np.testing.assert_array_equal(empty, [[some is not None and arm not in some for arm in "abc"] for some in masks])
    for arm in own.arms:
        chance, drawn = log[f"p_{arm}"].fillna(0.0).to_numpy(), (log["arm"] == arm).to_numpy()
        assert abs(drawn.sum() - chance.sum()) < 4 * np.sqrt((chance * (1 - chance)).sum())
    checked = rcb.check_log(own, log, plan)
    assert checked.followed, checked.summary()
    silent = log.fillna({"p_a": 0.0, "p_b": 0.0, "p_c": 0.0})  # planted: who could have what is not told
    assert not rcb.check_log(own, silent, plan).followed
    assert rcb.audit_log(own, log, seed=1).verdict == "realised"


def run_with_arms_that_move(tmp_path: Path, *, comes: int, leaves: int, n: int) -> None:
    """c comes, later b leaves; the run is saved and loaded on the way."""
    own = market()
    agent = rcb.Recommender(own, plan_of(own), absent=["c"], keep_log=n, seed=2)
    rng = np.random.default_rng(5)
    serve(agent, comes, rng)
    assert agent.stage == "exploit"  # the cold start did not wait for it
    assert agent.n_samples["c"] == 0
    agent.add_arm("c")
    serve(agent, leaves - comes, rng)
    agent.retire("b")
    serve(agent, 100, rng)
    agent.save(tmp_path / "agent.json")
    resumed = rcb.Recommender.load(tmp_path / "agent.json", own)
    assert resumed.absent == ("b",)
    for one in (agent, resumed):
        serve(one, n - leaves - 100, np.random.default_rng(6))
    assert resumed.n_samples == agent.n_samples
    np.testing.assert_array_equal(resumed.recommend_proba(ROWS), agent.recommend_proba(ROWS))
    log = resumed.log
    assert len(log) == n
    assert not log["p_c"].to_numpy()[:comes].any()
    assert not log["p_b"].to_numpy()[leaves:].any()
    assert "b" not in log["arm"].tolist()[leaves:]
    found_out = False
    for arm in own.arms:
        chance, drawn = log[f"p_{arm}"].to_numpy(), (log["arm"] == arm).to_numpy()
        error = np.sqrt(np.maximum((chance * (1 - chance)).sum(), 1.0))
        assert abs(drawn.sum() - chance.sum()) < 4 * error
        less = np.where(chance < 0.5, chance, 0.9 * chance)  # the planted error: a tenth less of what is likely
        found_out |= abs(drawn.sum() - less.sum()) > 4 * error
    assert found_out
    assert rcb.audit_log(own, log, seed=1).verdict == "realised"


def test_an_arm_added_and_one_retired_in_a_live_run_that_is_killed_and_resumed(tmp_path: Path) -> None:
    run_with_arms_that_move(tmp_path, comes=500, leaves=800, n=2000)


@pytest.mark.slow
def test_the_same_over_twenty_thousand_rounds(tmp_path: Path) -> None:
    run_with_arms_that_move(tmp_path, comes=5000, leaves=8000, n=20_000)


def test_stages_go_on_without_an_arm_that_leaves_and_come_back_with_it() -> None:
    own = market()
    plan = plan_of(own)
    agent = rcb.Recommender(own, plan, seed=1)
    rng = np.random.default_rng(3)
    agent.retire("a")
    serve(agent, 6, rng)
    assert agent.n_samples["a"] == 0
    agent.add_arm("a")
    serve(agent, 400, rng)
    assert agent.stage == "exploit"
    assert agent.n_samples["a"] >= 6


@pytest.mark.parametrize(
    ("done", "part"),
    [
        (lambda agent: agent.retire("d"), "no arm 'd'"),
        (lambda agent: [agent.retire("c"), agent.retire("c")], "not there already"),
        (lambda agent: [agent.retire(arm) for arm in "abc"], "nothing would be left"),
        (lambda agent: agent.add_arm("a"), "is there"),
        (lambda agent: agent.add_arm("d"), "no arm 'd'"),
        (lambda agent: agent.recommend(ROWS[0], available=[]), "No arm is left"),
        (lambda agent: agent.recommend(ROWS[0], available=["z"]), "no arm 'z'"),
        (lambda agent: [agent.retire("a"), agent.recommend(ROWS[0], available=["a"])], "No arm is left"),
    ],
)
def test_what_cannot_come_or_go_is_refused(done: Callable[[rcb.Recommender], object], part: str) -> None:
    own = market()
    agent = rcb.Recommender(own, rcb.fixed_plan(own, n_per_arm=3), seed=1)
    with pytest.raises(rcb.RcbError, match=part):
        done(agent)
    assert agent.rounds == 0
