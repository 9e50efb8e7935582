"""Audits: against exact integrals, on plans that hold and plans that do not, and on other policies."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes import Audit, Market, Plan, Prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.mechanism.decisions import EXPLOIT, Decisions
from rcb_bayes.mechanism.exploiting import Clock
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from tests.twins.gap_twins import normal_truth

EPSILON, SIGMA, N, VARIANCE = 0.05, 0.3, 8, 0.2
MEAN = np.array([0.3, 0.1])


@cache
def two_arms() -> Market:
    prior = Prior.gaussian(MEAN[:, None], VARIANCE)
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan(notion: str = "user") -> Plan:
    return rcb.calibrate(two_arms(), notion=notion, personalised=notion == "user", n_per_arm=N, n_worlds=2000, seed=1)


@cache
def found() -> Audit:
    """Under ``user``, and under all notions at once."""
    options = rcb.Exploiting(guard=False)
    return rcb.audit(two_arms(), plan("proof"), horizon=30, n_worlds=8000, n_users=1, notion="user", options=options)


# --- against exact integrals -----------------------------------------------------------------------------------------


def spread() -> float:
    """Standard deviation of a posterior mean."""
    return VARIANCE / np.sqrt(VARIANCE + SIGMA**2 / N)


def value(joint: float, mass: float, notion: str) -> float:
    return joint if notion == "proof" else joint / mass


def stage_truth(notion: str) -> float:
    """The second arm against the first once that is saturated."""
    truth, q = normal_truth(MEAN[1] - MEAN[0], spread(), []), plan("proof").exploration_rate
    joint = q * (MEAN[1] - MEAN[0]) + (1 - q) * truth.gain
    return value(joint, q + (1 - q) * truth.positive, notion)


def epoch_truth(arm: int, notion: str) -> float:
    """Posterior means are independent normals, and the spread is the same in every world."""
    nodes = np.linspace(-7, 7, 1201)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    one, two = (grid.ravel() for grid in np.meshgrid(MEAN[0] + spread() * nodes, MEAN[1] + spread() * nodes))
    scores = np.stack([one, two])
    left = 1 / (1 / VARIANCE + N / SIGMA**2)
    chances = ipgs_probabilities(scores, 4 * np.sqrt(2 / left))[arm]
    mass = np.outer(weights, weights).ravel() * chances
    return value(float(mass @ (scores[arm] - scores[1 - arm])), float(mass.sum()), notion)


@pytest.mark.parametrize("notion", ["user", "proof", "definition"])
def test_margins_are_the_exact_integrals(notion: str):
    cells = found().by_notion[notion]
    cells = cells if notion == "definition" else cells.isel(user=0)
    stage = cells.sel(stage="arm_0", arm="arm_1", rival="arm_0")
    assert abs(stage["estimate"].item() - stage_truth(notion)) < 4 * stage["mcse"].item() + 1e-12
    assert stage["mcse"].item() == 0.0 or notion != "user"  # in closed form, where worlds leave it open
    for arm in range(2):
        epoch = cells.sel(stage="epoch 0", arm=f"arm_{arm}", rival=f"arm_{1 - arm}")
        # The quadrature's kernel has a kink where arms tie: a little is left for that.
        assert abs(epoch["estimate"].item() - epoch_truth(arm, notion)) < 4 * epoch["mcse"].item() + 1e-4
        assert abs(epoch["estimate"].item() - epoch_truth(arm, notion) - 0.06) > 4 * epoch["mcse"].item()
    first = cells.sel(stage="most popular", arm="arm_0", rival="arm_1")
    assert first["estimate"].item() == pytest.approx(MEAN[0] - MEAN[1])


def test_bands_hold_the_estimate():
    cells = found().margins
    there = cells["verdict"] >= 0
    assert (cells["lower"].where(there, 0) <= cells["estimate"].where(there, 0)).all()
    assert (cells["estimate"].where(there, 0) <= cells["upper"].where(there, 0)).all()


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_the_plan_for_one_notion_may_fail_another():
    """Reading 1: a plan that just meets ``proof`` stands far below -epsilon under ``definition``."""
    prior = Prior.gaussian([[0.3], [0.0]], [0.1, 0.1])
    market = Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.5))
    made = rcb.calibrate(
        market, notion="proof", personalised=False, n_per_arm=3, n_worlds=4000, audit_worlds=4000, seed=1
    )
    held = rcb.audit(market, made, horizon=5, n_worlds=4000, n_users=1, seed=5)
    broken = rcb.audit(market, made, horizon=5, n_worlds=4000, n_users=1, notion="definition", seed=5)
    assert held.verdict == "pass"
    assert broken.verdict == "fail"
    assert broken.margins["estimate"].min() < -0.1


@cache
def strong_prior() -> Market:
    prior = Prior.gaussian([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 0.1)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.05))


@cache
def strong_plan() -> Plan:
    return rcb.calibrate(strong_prior(), n_per_arm=20, n_worlds=1000, seed=1)


@cache
def without_guard() -> Audit:
    options = rcb.Exploiting(guard=False)
    return rcb.audit(strong_prior(), strong_plan(), horizon=200, n_worlds=2000, n_users=60, options=options, seed=7)


@pytest.mark.usefixtures("small_panel")
def test_the_guard_makes_the_difference():
    guarded = rcb.audit(strong_prior(), strong_plan(), horizon=200, n_worlds=1000, n_users=40, seed=7)
    free = without_guard()
    assert guarded.verdict != "fail"
    assert int((guarded.margins["verdict"] == 1).sum()) <= 5
    assert free.verdict == "fail"
    assert free.margins["estimate"].min() < -0.8
    share = free.compliance["share"]
    assert float(share.sel(epsilon=EPSILON)) < 0.9
    assert (np.diff(share) >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gaussian", {}),
        ("student_t", {"mean": [0.3, 0.1, 0.0]}),
        ("laplace", {"mean": [0.3, 0.1, 0.0]}),
        ("skewed", {"mean": [0.6, 0.5, 0.4]}),
        ("hierarchical", {"mean": [0.3, 0.1, 0.0]}),
        ("mixture", {}),
    ],
)
def test_sampled_plans_pass_an_audit_with_another_seed(name: str, options: dict[str, Any]):
    prior = rcb.load_prior(name, n_arms=3, n_features=2, **options)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    made = rcb.calibrate(market, n_per_arm=15, n_worlds=1500, seed=1)
    assert made.feasible
    assert rcb.audit(market, made, horizon=400, n_users=60, seed=99).verdict == "pass"


# --- policies --------------------------------------------------------------------------------------------------------


class Stubborn:
    """Always the same arm."""

    def __init__(self, arm: int, n_arms: int, scale: float = 1.0) -> None:
        self.chances = scale * np.eye(n_arms)[arm]
        self.arm = arm

    def recommend_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(self.chances, (len(x), 1))

    def decide(self, x: np.ndarray, features: np.ndarray, uniforms: np.ndarray) -> Decisions:
        n = len(x)
        return Decisions(
            arm=np.full(n, self.arm),
            stage=np.full(n, EXPLOIT, dtype=np.int8),
            counted=np.ones(n, dtype=bool),
            probabilities=np.tile(self.chances, (n, 1)).T,
            scores=np.zeros((len(self.chances), n)),
        )

    def update(self, x: np.ndarray, decisions: Decisions, reward: np.ndarray) -> None:
        pass


def test_exploring_an_arm_that_users_dislike_fails():
    audit = rcb.audit(two_arms(), lambda market, seed: Stubborn(1, 2), horizon=8, n_worlds=200, n_users=1)
    assert audit.verdict == "fail"
    margin = audit.margins["estimate"].sel(stage="round 1", arm="arm_1", rival="arm_0").isel(user=0).item()
    assert margin == pytest.approx(MEAN[1] - MEAN[0])
    liked = rcb.audit(two_arms(), lambda market, seed: Stubborn(0, 2), horizon=8, n_worlds=200, n_users=1)
    assert liked.verdict == "pass"


@pytest.mark.parametrize("maker", [rcb.baselines.LinThompson, rcb.baselines.Greedy])
def test_exchangeable_beliefs_need_no_cold_start(maker: Any):
    prior = Prior.gaussian(np.zeros((3, 2)), 0.5)
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.5))

    def make(own: Market, seed: int) -> Any:
        return maker(own, seed=seed, n_draws=50) if maker is rcb.baselines.LinThompson else maker(own, seed=seed)

    audit = rcb.audit(market, make, horizon=4, n_worlds=200, n_users=4)
    assert audit.verdict == "pass"
    assert audit.margins["stage"].values.tolist() == [f"round {k}" for k in (1, 2, 4)]


@pytest.mark.parametrize("batch", [1, 6])
def test_greedy_is_followed_however_seldom_it_learns(batch: int):
    """In every world users would do the same with what it has learnt; samples that wait tell nobody anything."""
    audit = rcb.audit(
        two_arms(),
        lambda market, seed: rcb.baselines.Greedy(market, batch=batch, seed=seed),
        horizon=16,
        n_worlds=200,
        n_users=1,
    )
    assert audit.verdict == "pass"
    assert float(audit.margins["estimate"].min()) >= 0.0


def test_margins_of_a_policy_that_learns_late_are_those_of_all_its_data(monkeypatch: pytest.MonkeyPatch):
    """Both are unbiased; with the samples that wait there is more noise."""

    def judged() -> tuple[np.ndarray, np.ndarray]:
        found = rcb.audit(
            two_arms(),
            lambda market, seed: rcb.baselines.EpsilonGreedy(market, rate=0.3, batch=6, seed=seed),
            horizon=8,
            n_worlds=500,
            n_users=1,
        ).margins.sel(stage="round 8")
        return found["estimate"].values.ravel(), found["mcse"].values.ravel()

    learnt, error = judged()
    monkeypatch.setattr(rcb.baselines.EpsilonGreedy, "n_acted_on", None)  # all of them
    everything, more = judged()
    seen = np.isfinite(learnt) & (error > 0)
    assert seen.any()
    assert (np.abs(learnt - everything)[seen] < 4.5 * np.hypot(error, more)[seen]).all()
    assert (error[seen] <= more[seen] * 1.02).all()


def test_a_plan_for_other_users_is_told_so():
    other = replace(two_arms(), noise=rcb.GaussianNoise(2.0))
    found = rcb.audit(other, plan(), horizon=20, n_worlds=50, n_users=1)
    assert any("the plan was made for another market: rewards" in note for note in found.notes)
    own = rcb.audit(two_arms(), plan(), horizon=20, n_worlds=50, n_users=1)
    assert not any("another market" in note for note in own.notes)


def test_probabilities_that_are_none_are_refused():
    with pytest.raises(DataError, match="sum to one"):
        rcb.audit(two_arms(), lambda market, seed: Stubborn(0, 2, scale=0.5), horizon=2, n_worlds=50, n_users=1)


# --- the result ------------------------------------------------------------------------------------------------------


def test_an_audit_is_told_drawn_and_kept(tmp_path: Path):
    audit = found()
    text = audit.summary()
    assert text.startswith(audit.verdict)
    assert "epoch 0" in text
    assert "against" in text
    assert audit.plot().get_ylabel().startswith("lowest margin")
    audit.to_netcdf(tmp_path / "audit.nc")
    again = Audit.load(tmp_path / "audit.nc")
    assert again.summary() == text
    for notion, part in audit.by_notion.items():
        xr.testing.assert_identical(again.by_notion[notion], part)
    xr.testing.assert_identical(again.compliance, audit.compliance)
    np.testing.assert_array_equal(again.users, audit.users)


def test_the_same_seed_gives_the_same_audit():
    one, two, three = (
        rcb.audit(two_arms(), plan(), horizon=30, n_worlds=100, n_users=1, seed=seed) for seed in (3, 3, 4)
    )
    xr.testing.assert_identical(one.margins, two.margins)
    assert not one.margins["estimate"].equals(three.margins["estimate"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_worlds": 0}, "n_worlds must be an integer of at least 50"),
        ({"n_users": 0}, "n_users"),
        ({"horizon": 0}, "horizon"),
        ({"notion": "usr"}, "Did you mean 'user'"),
        ({"until": "done"}, "until is 'decided'"),
        ({"until": "decided", "max_worlds": 20}, "max_worlds must be an integer of at least 50"),
        ({"users": [[1.0, 2.0]]}, "users must have"),
        ({"options": rcb.Exploiting(inflation="log"), "oracle": rcb.RidgeOracle()}, "posterior means"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"level": 0.0}, "level"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        rcb.audit(two_arms(), plan(), **{"n_worlds": 50, "n_users": 1, **change})


def test_plans_of_other_markets_are_refused():
    with pytest.raises(RcbError, match="Calibrate a plan for this market"):
        rcb.audit(strong_prior(), plan(), n_worlds=50)


# --- more than plans with Gaussian rewards ---------------------------------------------------------------------------


def test_a_recommender_is_audited_as_its_plan():
    options = rcb.Exploiting(guard=False)
    agent = rcb.Recommender(two_arms(), plan("proof"), options=options)
    asked: dict[str, Any] = {"horizon": 30, "n_worlds": 200, "n_users": 1, "seed": 3}
    one, two = rcb.audit(two_arms(), agent, **asked), rcb.audit(two_arms(), plan("proof"), options=options, **asked)
    xr.testing.assert_identical(one.margins, two.margins)


@pytest.mark.parametrize("clock", [pytest.param("relative", marks=pytest.mark.slow), "global"])
def test_world_by_world_is_the_same_as_side_by_side(clock: Clock):
    """An oracle of one's own is audited as a policy; the usual one, given so, has the same margins within errors."""
    options = rcb.Exploiting(guard=False, clock=clock)
    asked = {"horizon": 150, "n_users": 1, "options": options, "notion": "user"}
    own = rcb.PosteriorOracle(two_arms().prior, two_arms().noise, read="engine")
    slow = rcb.audit(two_arms(), plan("proof"), n_worlds=600, oracle=own, **asked)
    fast = rcb.audit(two_arms(), plan("proof"), n_worlds=4000, **asked)
    stages = [str(name) for name in fast.margins["stage"].values if name in slow.margins["stage"].values]
    assert {"most popular", "arm_0", "epoch 0", "epoch 1"} <= set(stages)
    for name in stages:
        for arm in range(2):
            one, two = (
                audit.margins.isel(user=0).sel(stage=name, arm=f"arm_{arm}", rival=f"arm_{1 - arm}")
                for audit in (slow, fast)
            )
            if np.isnan(two["estimate"].item()):
                assert np.isnan(one["estimate"].item())
                continue
            error = np.hypot(one["mcse"].item(), two["mcse"].item())
            assert abs(one["estimate"].item() - two["estimate"].item()) < 4 * error + 1e-9


def test_other_oracles_are_audited():
    """Ridge regression knows nothing of the prior: in the first epoch users lose by it."""
    own = plan("proof")
    audit = rcb.audit(
        two_arms(), own, horizon=40, n_worlds=100, n_users=1, oracle=rcb.RidgeOracle(penalty=1e4), notion="user"
    )
    cell = audit.margins.isel(user=0).sel(stage="epoch 0", arm="arm_1", rival="arm_0")
    exact = found().margins.isel(user=0).sel(stage="epoch 0", arm="arm_1", rival="arm_0")
    assert cell["estimate"].item() < exact["estimate"].item() - 4 * cell["mcse"].item()


def test_bernoulli_rewards_are_audited_world_by_world():
    prior = Prior.gaussian([[0.4], [0.0]], 0.5)
    own = Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.BernoulliLogit())
    made = rcb.calibrate(own, n_per_arm=6, n_worlds=100, seed=1)
    audit = rcb.audit(own, made, horizon=20, n_worlds=60, n_users=1)
    assert {"most popular", "arm_0"} <= set(audit.margins["stage"].values.tolist())
    assert audit.verdict != "fail"
    first = audit.margins.isel(user=0).sel(stage="most popular", arm="arm_0", rival="arm_1")["estimate"].item()
    assert 0 < first < 0.4  # in probabilities, not in logits


def test_stages_that_few_worlds_pass_are_named():
    """The cold start of most worlds has not ended by the horizon."""
    options = rcb.Exploiting(clock="global", guard=False)
    audit = rcb.audit(two_arms(), plan("proof"), horizon=12, n_worlds=60, n_users=1, options=options)
    assert any("too few worlds to judge" in note for note in audit.notes) or "arm_0" in audit.margins["stage"].values


# --- worst users, users given, users in doubt ------------------------------------------------------------------------


@pytest.mark.usefixtures("small_panel")
def test_the_worst_users_are_worse_than_those_at_random():
    free = without_guard()
    lowest = free.margins["estimate"].sel(stage="epoch 0").min(("arm", "rival"))
    codes = free.margins["verdict"].sel(stage="epoch 0").max(("arm", "rival"))
    # Found in other worlds than these. They stand in one place, and may all fail there or all be too rare to tell.
    assert (codes.isel(user=slice(60, None)) > 0).mean() > 0.8
    assert (codes.isel(user=slice(0, 60)) < 2).any()
    assert lowest.isel(user=slice(60, None)).mean() < lowest.isel(user=slice(0, 60)).mean()
    assert free.margins.sizes["user"] == 80


@pytest.mark.usefixtures("small_panel")
def test_users_may_be_given():
    users = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]
    audit = rcb.audit(strong_prior(), strong_plan(), horizon=100, n_worlds=200, users=users)
    assert audit.margins.sizes["user"] == 3
    assert audit.n_random == 0
    assert "the 3 users given" in audit.summary()
    with pytest.warns(UserWarning, match="1 of 1 users are outside"):
        rcb.audit(strong_prior(), strong_plan(), horizon=100, n_worlds=50, users=[[3.0, 0.0]])


@pytest.mark.usefixtures("small_panel")
def test_compliance_is_bounded():
    audit = rcb.audit(strong_prior(), strong_plan(), horizon=150, n_worlds=400, n_users=50, seed=3)
    curve = audit.compliance
    assert (curve["share_lower"] <= curve["share"] + 1e-12).all()
    assert (curve["share"] <= curve["share_upper"] + 1e-12).all()
    assert curve["share_lower"].max() < 1  # fifty users do not stand for all


@pytest.mark.usefixtures("small_panel")
def test_one_user_does_not_stand_for_a_population():
    """Under ``definition`` an average over a single user has no known error: nothing is decided."""
    one = rcb.Sphere(strong_prior().n_features).sample(1, seed=3)
    audit = rcb.audit(strong_prior(), strong_plan(), horizon=100, n_worlds=100, users=one, notion="definition")
    codes = audit.margins["verdict"]
    assert audit.verdict == "inconclusive"
    assert not (codes == 2).any()


# --- sequential ------------------------------------------------------------------------------------------------------


def test_worlds_are_added_until_the_verdict_is_decided():
    asked: dict[str, Any] = {"horizon": 12, "n_users": 1, "notion": "user", "n_worlds": 60, "seed": 5}
    decided = rcb.audit(two_arms(), plan("proof"), until="decided", max_worlds=4000, **asked)
    assert decided.verdict == "fail"  # a plan for ``proof`` does not do for ``user``
    assert "looks" in decided.notes[-1]
    assert decided.level == 0.05
    capped = rcb.audit(by_worlds(), plan("proof"), until="decided", epsilon=lies_at(), max_worlds=120, **asked)
    assert capped.verdict == "inconclusive"
    assert capped.n_worlds == 120


def by_worlds() -> Market:
    """The same market, with a platform that has a belief of its own, if the same one: nothing is in closed form."""
    return replace(two_arms(), platform_prior=Prior.gaussian(MEAN[:, None], VARIANCE))


def lies_at() -> float:
    """An epsilon at which the stage is exactly on the line."""
    return -stage_truth("user")


def test_another_look_does_not_raise_the_error():
    """On the line, over many seeds, a decision is no more frequent than the level allows."""
    wrong = 0
    for seed in range(40):
        audit = rcb.audit(
            by_worlds(),
            plan("proof"),
            horizon=5,
            n_users=1,
            notion="user",
            epsilon=lies_at() + 1e-9,
            n_worlds=60,
            max_worlds=480,
            until="decided",
            seed=seed,
        )
        wrong += audit.verdict == "fail"
    assert wrong <= 6  # 40 x .05 = 2; six or more would happen once in 100


def test_more_worlds_are_asked_for_in_numbers():
    audit = rcb.audit(by_worlds(), plan("proof"), horizon=12, n_users=1, notion="user", n_worlds=200)
    assert audit.worlds_needed(0.02) == pytest.approx(4 * audit.worlds_needed(0.04), rel=0.01)
    with pytest.raises(RcbError, match="resolution"):
        audit.worlds_needed(0.0)
    with pytest.raises(RcbError, match="There is no figure 'margin'"):
        audit.plot(figure="margin")


def test_a_file_that_is_no_audit_is_refused(tmp_path: Path):
    (tmp_path / "a.nc").write_text("no", encoding="utf-8")
    for name in ("a.nc", "b.nc"):
        with pytest.raises(RcbError, match="Cannot read an audit"):
            Audit.load(tmp_path / name)
