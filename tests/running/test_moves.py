"""Arms that the market lacked: they come with a belief, live, and what the plan promises holds on."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.running.moves import Move, Moving
from tests.running.test_presence import ROWS
from tests.running.test_presence import market as made
from tests.twins.coarse_plans import coarse_plan

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
    agent.recommend(ROWS[0], available=["a", "d"])  # a warning would be an error: heeding holds whatever is there


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
    checked = rcb.check_log(wider, log, planned, moves=agent.moves, level=0.001)  # as often a faithful log is accused
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


def test_in_an_audit_arms_that_are_not_there_are_nobodys_rivals() -> None:
    """Neither one that has left, nor one that has not come: no figure stands against their names."""
    own = market()
    wider = own.with_arm("d", BELIEF)
    gone = own.arms[1]
    moving = Moving(plan(), [Move(round=150, arm="d", comes=True), Move(round=170, arm=gone, comes=False)])
    margins = rcb.audit(
        wider, moving, horizon=200, notion="user", epsilon=0.05, n_worlds=60, users=ROWS, seed=3
    ).margins
    names = [str(name) for name in margins["stage"].values]
    before = [name for name in names if "with d" not in name]
    after = [name for name in names if f"without {gone}" in name]
    assert before
    assert after
    for stages, absent, there in ((before, "d", gone), (after, gone, "d")):
        seen = margins.sel(stage=stages)
        assert seen["estimate"].sel(rival=absent).isnull().all()
        assert (seen["verdict"].sel(rival=absent) == -1).all()
        assert seen["estimate"].sel(rival=there).notnull().any()


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


# --- arms of the plan that come in exploitation ----------------------------------------------------------------------

BOTH = np.array([[1.0], [-1.0]])


@cache
def two() -> tuple[rcb.Market, rcb.Plan]:
    """Half of the users expect .8 of a and nothing of b, the others the opposite."""
    prior = rcb.Prior.gaussian([[0.8], [0.0]], 0.25, arms=["a", "b"])
    own = rcb.Market(prior=prior, covariates=rcb.Empirical(BOTH), noise=rcb.GaussianNoise(0.5))
    asked: dict[str, Any] = {"epsilon": 0.05, "horizon": 2000, "n_worlds": 2000, "audit_worlds": 2000, "seed": 1}
    return own, rcb.calibrate(own, n_per_arm=20, knows="stage", **asked)


def served_without_a(n: int) -> rcb.Recommender:
    own, planned = two()
    agent, rng = rcb.Recommender(own, planned, absent=["a"], keep_log=1000, seed=1), np.random.default_rng(2)
    for x in BOTH[rng.integers(2, size=n)]:
        told = agent.recommend(x)
        agent.observe(float(0.2 * x[0] + 0.5 * rng.standard_normal()), ticket=told.ticket)
    return agent


def test_an_arm_of_the_plan_that_comes_in_exploitation_is_a_rival_without_samples() -> None:
    """A plan's guard reckons with a rival that has its samples; against one at its prior mean it promises too much."""
    own, planned = two()
    assert rcb.audit(own, planned, horizon=200, n_worlds=1000, users=BOTH, seed=4).verdict == "pass"
    moves = [Move(round=0, arm="a", comes=False), Move(round=50, arm="a", comes=True)]
    asked: dict[str, Any] = {"notion": "user", "epsilon": 0.05, "users": BOTH, "n_worlds": 200, "seed": 3}
    margins = rcb.audit(own, Moving(planned, moves), horizon=60, **asked).margins
    gone = margins.sel(stage="most popular", arm="b", rival="a")["estimate"]
    assert gone.isnull().all()  # an arm that is not there is nobody's rival
    late = [str(name) for name in margins["stage"].values if "with a" in str(name)]
    assert late
    assert not (margins.sel(stage=late)["estimate"] < -0.05 - 1e-9).any()

    # The planted error: the plan's guard stays in force. Worlds with true coefficients, in plain algebra.
    agent = served_without_a(50)
    epoch = agent._rcb.exploitation
    assert epoch is not None
    kept = float(agent.plan.guard([1.0], epoch.epoch)[1])
    assert 0.0 < kept < 1.0
    n = float(epoch.fed.n[1])
    rng = np.random.default_rng(5)
    truth = np.array([0.8, 0.0]) + 0.5 * rng.standard_normal((400_000, 2))
    seen = truth[:, 1] + 0.5 / np.sqrt(n) * rng.standard_normal(len(truth))
    lead = 0.25 / (0.25 + 0.25 / n) * seen - 0.8  # of b over a, by what is expected for the first kind of users
    off_best = 1.0 / (2.0 + epoch.gamma * np.abs(lead))
    told_b = np.where(lead > 0.0, 1.0 - off_best, kept * off_best)
    gain = truth[:, 1] - truth[:, 0]
    margin = (told_b * gain).mean() / told_b.mean()
    error = (told_b * (gain - margin)).std() / np.sqrt(len(truth)) / told_b.mean()
    assert margin < -0.05 - 4 * error


def test_it_is_heeded_live_its_log_is_that_of_its_moves_and_its_file_keeps_it(tmp_path: Path) -> None:
    own, planned = two()
    agent = served_without_a(50)
    agent.add_arm("a")
    assert agent.heeds
    agent.save(tmp_path / "agent.json")
    again = rcb.Recommender.load(tmp_path / "agent.json", own)
    np.testing.assert_array_equal(again.recommend_proba(BOTH), agent.recommend_proba(BOTH))
    rng = np.random.default_rng(3)
    for x in BOTH[rng.integers(2, size=150)]:
        told = again.recommend(x)
        again.observe(float(0.2 * x[0] + 0.5 * rng.standard_normal()), ticket=told.ticket)
    assert again.n_samples["a"] > 0
    with pytest.raises(rcb.RcbError, match="Audit the plan of the first round"):
        rcb.audit(own, again, horizon=100, n_worlds=50)
    log = again.log
    assert rcb.check_log(own, log, planned, moves=again.moves).followed
    assert not rcb.check_log(own, log, planned, moves=again.moves[:1]).followed


def test_options_under_which_users_cannot_be_heeded_are_refused_and_nothing_changes() -> None:
    own, planned = two()
    agent = rcb.Recommender(own, planned, absent=["a"], options=Exploiting(feed="last", guard=False), seed=1)
    for _ in range(30):
        agent.observe(0.1, ticket=agent.recommend([1.0]).ticket)
    with pytest.raises(rcb.RcbError, match="feed='all'"):
        agent.add_arm("a")
    assert agent.absent == ("a",)
    assert len(agent.moves) == 1


# --- plans for users who do not know the set -------------------------------------------------------------------------


def told_over_a(rate: float, *, n: int = 5) -> tuple[float, float]:
    """What b truly gives beyond a to those who are told b where a alone has its samples, with its error."""
    rng = np.random.default_rng(1)
    truth = np.array([0.3, 0.0]) + np.sqrt([0.1, 1.0]) * rng.standard_normal((400_000, 2))
    seen = truth[:, 0] + 0.5 / np.sqrt(n) * rng.standard_normal(len(truth))
    expected = 0.3 + 0.1 / (0.1 + 0.25 / n) * (seen - 0.3)
    told = (rng.random(len(truth)) < rate) | (expected < 0.0)
    gain = (truth[:, 1] - truth[:, 0])[told]
    return float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))


def test_a_plan_by_level_warns_where_an_arm_leaves_and_the_plan_for_the_others_is_kept() -> None:
    prior = rcb.Prior.gaussian([[0.3], [0.0], [0.0]], [0.1, 1.0, 1.0], arms=["a", "b", "c"])
    own = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.5))
    asked: dict[str, Any] = {"n_per_arm": 5, "epsilon": 0.05, "horizon": 2000, "n_worlds": 1000, "seed": 1}
    by_level, by_stage = (coarse_plan(own, knows=knows, **asked) for knows in ("level", "stage"))
    with pytest.warns(rcb.errors.MovesWarning, match="know the level"):
        agent = rcb.Recommender(own, by_level, absent=["c"], seed=1)
    # Rightly so: in the one stage that is left before the last, b is told as often as if c's stage paid for it.
    margin, error = told_over_a(float(by_level.rate([1.0], saturated=["a", "c"])))
    assert margin < -0.05 - 4 * error
    margin, error = told_over_a(float(by_stage.rate([1.0], saturated=["a", "c"])))
    assert margin > -0.05 - 4 * error
    rest = coarse_plan(own.among(["a", "b"]), knows="level", **asked)
    margin, error = told_over_a(float(rest.rate([1.0], saturated=["a"])))
    assert margin > -0.05 - 4 * error
    with pytest.warns(rcb.errors.MovesWarning, match="'d' moves"):
        agent.add_arm("d", ([0.0], 1.0), plan=coarse_plan(own.with_arm("d", ([0.0], 1.0)), knows="level", **asked))
    rcb.Recommender(own, by_stage, absent=["c"], seed=1)  # a warning would be an error


def test_once_the_cold_start_is_over_nothing_is_warned_of() -> None:
    prior = rcb.Prior.gaussian([[0.1], [0.0], [0.0]], 0.3, arms=["a", "b", "c"])
    own = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.5))
    asked: dict[str, Any] = {"n_per_arm": 3, "epsilon": 0.2, "horizon": 500, "n_worlds": 200, "seed": 1}
    agent = rcb.Recommender(own, rcb.calibrate(own, knows="level", **asked), seed=1)
    while agent.stage != "exploit":
        agent.observe(0.1, ticket=agent.recommend([1.0]).ticket)
    agent.retire("b")
    agent.add_arm("b")
    assert len(agent.moves) == 2
