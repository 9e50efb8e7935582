"""Arms that the market lacked: they come with a belief, live, and what the plan promises holds on."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.running.moves import Move, Moving
from tests.running.test_presence import ROWS
from tests.running.test_presence import market as made

BELIEF = ([0.3, 0.2], 0.4)
BETA = np.array([[0.3, 0.1], [0.2, 0.3], [0.1, 0.2], [0.35, 0.3]])


@cache
def market() -> rcb.Market:
    return made()


@cache
def plan() -> rcb.Plan:
    return rcb.calibrate(market(), n_per_arm=6, epsilon=0.05, horizon=2000, n_worlds=200, audit_worlds=200, seed=1)


def mean_of(agent: rcb.Recommender) -> np.ndarray:
    """Of the posterior that the agent acts on."""
    beta: Any = agent.posterior()["posterior/beta"]
    return beta.mean(("chain", "draw")).values


def serve(agent: rcb.Recommender, n: int, rng: np.random.Generator) -> None:
    for _ in range(n):
        x = ROWS[rng.integers(3)]
        told = agent.recommend(x)
        mean = float(x @ BETA[agent.market.arms.index(told.arm)])
        agent.observe(mean + 0.5 * float(rng.standard_normal()), ticket=told.ticket)


def test_in_a_cold_start_a_new_arm_is_promoted_and_nothing_that_was_learnt_is_lost() -> None:
    own = market()
    agent = rcb.Recommender(own, plan(), seed=2)
    rng = np.random.default_rng(1)
    serve(agent, 14, rng)
    before, saturated = agent.n_samples, agent.saturated
    assert agent.stage == "rest of the arms"
    agent.add_arm("d", BELIEF)
    assert agent.n_samples == before | {"d": 0}
    assert agent.saturated == saturated
    assert agent.plan.agenda.needed == (6, 6, 6, 6)
    asked: dict[str, Any] = {"epsilon": 0.05, "horizon": 2000, "n_worlds": 200, "audit_worlds": 200, "seed": 1}
    fresh = rcb.calibrate(agent.market, n_per_arm=6, **asked)
    for x in ROWS:  # the rates of a plan for the market with the arm
        assert agent.plan.rate(x, saturated=saturated) == fresh.rate(x, saturated=saturated)
    serve(agent, 400, rng)
    assert agent.stage == "exploit"
    assert min(agent.n_samples.values()) >= 6


def test_in_exploitation_nobody_is_told_what_she_holds_to_be_worse_by_more_than_epsilon() -> None:
    own = market()
    agent = rcb.Recommender(own, plan(), seed=2)
    rng = np.random.default_rng(1)
    serve(agent, 300, rng)
    before = mean_of(agent)
    agent.add_arm("d", BELIEF)
    after = mean_of(agent)
    np.testing.assert_allclose(after[:3], before, atol=0.02)  # of the same draws, or others of the same posterior
    for _ in range(6):
        told = agent.recommend_proba(ROWS)
        expected = agent._rcb.exploitation.scores(np.ascontiguousarray(ROWS.T))  # pyright: ignore[reportOptionalMemberAccess]
        gap = expected.max(axis=0) - expected
        assert (gap.T[told > 0] <= 0.05 + 1e-12).all()
        serve(agent, 50, rng)
    assert agent.n_samples["d"] > 0


def run_of(tmp_path: Path, *, comes: int, leaves: int, n: int) -> tuple[rcb.Market, rcb.Plan, rcb.Recommender]:
    """d comes, b leaves; the run is killed between them and after, and goes on from its files."""
    own = market()
    agent = rcb.Recommender(own, plan(), keep_log=tmp_path / "log.csv", seed=2)
    rng = np.random.default_rng(6)
    serve(agent, comes, rng)
    agent.add_arm("d", BELIEF)
    serve(agent, 57, rng)
    wider = own.with_arm("d", BELIEF)
    for rest in (leaves - comes - 57, n - leaves):
        agent.save(tmp_path / "agent.json")
        agent = rcb.Recommender.load(tmp_path / "agent.json", wider)
        serve(agent, rest, rng)
        if rest == leaves - comes - 57:
            agent.retire("b")
    return wider, plan(), agent


def log_is_right(wider: rcb.Market, planned: rcb.Plan, agent: rcb.Recommender, *, comes: int, leaves: int) -> None:
    log = agent.log
    assert [(move.round, move.arm, move.comes) for move in agent.moves] == [(comes, "d", True), (leaves, "b", False)]
    assert not log["p_d"].to_numpy()[:comes].any()
    assert not log["p_b"].to_numpy()[leaves:].any()
    for arm in wider.arms:
        chance, drawn = log[f"p_{arm}"].to_numpy(), (log["arm"] == arm).to_numpy()
        error = np.sqrt(np.maximum((chance * (1 - chance)).sum(), 1.0))
        assert abs(drawn.sum() - chance.sum()) < 4 * error
    checked = rcb.check_log(wider, log, planned, moves=agent.moves)
    assert checked.followed, checked.summary()
    assert not rcb.check_log(wider, log, planned, moves=agent.moves[:1]).followed  # planted: a move that is not told
    assert rcb.audit_log(wider, log, seed=1).verdict == "realised"


def test_a_run_is_resumed_after_kills_and_its_log_is_that_of_the_plan_and_its_moves(tmp_path: Path) -> None:
    log_is_right(*run_of(tmp_path, comes=300, leaves=420, n=700), comes=300, leaves=420)


def test_the_same_where_the_arm_comes_in_the_cold_start(tmp_path: Path) -> None:
    log_is_right(*run_of(tmp_path, comes=9, leaves=200, n=400), comes=9, leaves=200)


@pytest.mark.slow
def test_an_arm_added_at_round_5000_and_one_retired_at_8000_of_20000(tmp_path: Path) -> None:
    wider, planned, agent = run_of(tmp_path, comes=5000, leaves=8000, n=20_000)
    log_is_right(wider, planned, agent, comes=5000, leaves=8000)
    moving = Moving(planned, agent.moves)
    found = rcb.audit(wider, moving, horizon=20_000, notion="user", epsilon=0.05, n_worlds=200, users=ROWS, seed=3)
    margins = found.margins
    late = [str(name) for name in margins["stage"].values if "with d" in str(name)]
    assert late
    assert any("without b" in name for name in late)
    of_late = margins.sel(stage=late)
    assert (of_late["lower"].where(of_late["mass"] > 0.05) > -0.05 - 1e-9).any()
    assert not (of_late["upper"] < -0.05 - 1e-9).any()  # no cell fails
    assert found.verdict != "fail"


def test_in_an_audit_late_arms_are_rivals_from_their_coming_on_and_keep_the_promise() -> None:
    """By construction: in exploitation every world keeps every margin once the arm is there."""
    own = market()
    wider = own.with_arm("d", BELIEF)
    moving = Moving(plan(), [Move(round=150, arm="d", comes=True)])
    found = rcb.audit(wider, moving, horizon=200, notion="user", epsilon=0.05, n_worlds=60, users=ROWS, seed=3)
    late = [str(name) for name in found.margins["stage"].values if "epoch" in str(name) and "with d" in str(name)]
    assert late
    lower = found.margins.sel(stage=late)["estimate"]
    assert not (lower < -0.05 - 1e-9).any()


def test_a_run_that_does_not_reckon_with_the_new_arm_is_found_out() -> None:
    """The new arm is there, everybody likes it best, and the platform goes on as before: margins below -epsilon."""
    own = market()
    best = ([0.9, 0.9], 0.01)
    wider = own.with_arm("d", best)

    class Deaf(rcb.Policy):
        """The plan of before, among people who see the new arm."""

        def __init__(self, there: rcb.Market) -> None:
            from rcb_bayes.running.policies import Rcb

            self.rcb = Rcb(there.among(own.arms), plan())

        def recommend_proba(self, x: np.ndarray) -> np.ndarray:
            return np.pad(self.rcb.recommend_proba(x), ((0, 0), (0, 1)))

        def decide(self, x: np.ndarray, features: np.ndarray, uniforms: np.ndarray) -> Any:
            from dataclasses import replace

            found = self.rcb.decide(x, features, uniforms)
            wide = np.pad(found.probabilities, ((0, 1), (0, 0)))
            return replace(found, probabilities=wide, scores=np.pad(found.scores, ((0, 1), (0, 0))))

        def update(self, x: np.ndarray, decisions: Any, reward: np.ndarray) -> None:
            self.rcb.update(x, decisions, reward)

    found = rcb.audit(wider, lambda there, seed: Deaf(there), horizon=8, n_worlds=50, users=ROWS, seed=3)
    assert found.verdict == "fail"


@pytest.mark.parametrize(
    ("belief", "part"),
    [
        (([0.1], 0.3), "has 1 numbers"),
        (([0.1, 0.2], -0.3), "positive semi-definite"),
        (0.3, "about .d.: \\(mean, cov\\)"),
        (rcb.Prior.gaussian(np.zeros((4, 2)), 0.3, arms=["a", "b", "c", "d"]), "changes what users believed"),
        (rcb.Prior.gaussian(np.zeros((3, 2)), 0.3, arms=["a", "b", "d"]), "expected those there are"),
    ],
)
def test_beliefs_that_do_not_fit_are_refused_and_nothing_changes(belief: Any, part: str) -> None:
    own = market()
    agent = rcb.Recommender(own, rcb.fixed_plan(own, n_per_arm=3), seed=1)
    with pytest.raises(rcb.RcbError, match=part):
        agent.add_arm("d", belief)
    assert agent.market is own
    assert agent.moves == ()


def test_other_plans_oracles_and_arms_that_are_there_are_refused() -> None:
    own = market()
    plan = rcb.fixed_plan(own, n_per_arm=3)
    agent = rcb.Recommender(own, plan, seed=1)
    with pytest.raises(rcb.RcbError, match="has an arm 'a' already"):
        agent.add_arm("a", BELIEF)
    with pytest.raises(rcb.RcbError, match="other samples"):
        agent.add_arm("d", BELIEF, plan=rcb.fixed_plan(own.with_arm("d", BELIEF), n_per_arm=4))
    with pytest.raises(rcb.RcbError, match="Calibrate a plan for this market"):
        agent.add_arm("d", BELIEF, plan=plan)
    with pytest.raises(rcb.RcbError, match="Leave out plan="):
        rcb.Recommender(own, plan, absent=["a"], seed=1).add_arm("a", plan=plan)
    oracle = rcb.PosteriorOracle(own.prior, own.noise)
    with pytest.raises(rcb.RcbError, match="belief of its own"):
        rcb.Recommender(own, plan, oracle=oracle, seed=1).add_arm("d", BELIEF)
    assert agent.market is own
    agent.add_arm("d", BELIEF)  # and a fixed plan goes on with its rate
    assert agent.plan.exploration_rate == plan.exploration_rate


def test_a_coupled_arm_has_learnt_from_the_others_when_it_comes() -> None:
    """A joint belief: what is expected of the new arm is its posterior given the others' samples, by plain algebra."""
    cov = 0.3 * np.kron(np.array([[1, 0.8], [0.8, 1.0]]), np.eye(1))
    joint = np.block([[cov, 0.7 * cov[:, :1]], [0.7 * cov[:1], 0.4 * np.eye(1)]])
    prior = rcb.Prior.gaussian([[0.2], [0.1], [0.1]], joint, arms=["a", "b", "c"])
    own = rcb.Market(prior=prior.among(["a", "b"]), covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.5))
    agent = rcb.Recommender(own, rcb.fixed_plan(own, n_per_arm=3, exploration_rate=1.0), keep_log=100, seed=1)
    rng = np.random.default_rng(3)
    for _ in range(6):
        told = agent.recommend([1.0])
        agent.observe(float(rng.normal(0.6, 0.5)), ticket=told.ticket)
    agent.recommend([1.0])
    agent.add_arm("c", prior)
    log = agent.log.dropna(subset=["reward"])
    arm = np.array([own.arms.index(name) for name in log["arm"]])
    gain = joint[2, arm] @ np.linalg.inv(joint[np.ix_(arm, arm)] + 0.25 * np.eye(len(arm)))
    expected = 0.1 + gain @ (log["reward"].to_numpy() - np.array([0.2, 0.1])[arm])
    scores = agent._rcb.exploitation.scores(np.ones((1, 1)))  # pyright: ignore[reportOptionalMemberAccess]
    assert scores[2, 0] == pytest.approx(expected, abs=1e-9)
    assert abs(expected - 0.1) > 0.01  # it has learnt
