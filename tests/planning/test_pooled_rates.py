"""Plans by what users know: followed at what they claim, no longer the less users know, kept in files, run live."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.kernel import linear_scores
from rcb_bayes.running.worlds import SimulatedWorld
from tests.twins.coarse_plans import coarse_plan

KNOWS = ("stage", "level", "phase", "mechanism")
HORIZON = 2000
SIGMA = 0.5


@cache
def market(name: str = "mixed") -> rcb.Market:
    """Users who differ; or one favoured arm and non-negative users, in a table or not."""
    if name == "mixed":
        mean, variance = [[0.30, 0.0], [0.15, 0.25], [0.10, 0.05], [0.0, 0.12]], [0.3, 0.5, 0.4, 0.6]
        users: rcb.Covariates = rcb.Empirical([[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]], weights=[0.5, 0.3, 0.2])
    else:
        mean, variance = [[0.4, 0.4], [0.15, 0.1], [0.1, 0.15], [0.05, 0.0]], [0.2, 0.4, 0.5, 0.6]
        table = rcb.Empirical([[0.2, 0.9], [0.5, 0.5], [0.9, 0.3]])
        users = table if name == "favoured table" else rcb.Uniform([0.0, 0.0], [1.0, 1.0])
    return rcb.Market(
        prior=rcb.Prior.gaussian(np.array(mean), variance), covariates=users, noise=rcb.GaussianNoise(SIGMA)
    )


@cache
def plan(knows: str, name: str = "mixed", *, handed_out: bool = False) -> rcb.Plan:
    """As coarse as what users know, or the one that they are given: by stage, where that is shorter."""
    return (rcb.calibrate if handed_out else coarse_plan)(
        market(name),
        epsilon=0.05 if name == "mixed" else 0.1,
        knows=knows,
        n_per_arm=10,
        horizon=HORIZON,
        n_worlds=1000,
        audit_worlds=1000,
        seed=1,
    )


def verdict(made_for: str, asked: str, name: str = "mixed") -> str:
    return rcb.audit(market(name), plan(made_for, name), horizon=HORIZON, knows=asked, n_worlds=1000, seed=99).verdict


# --- followed --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knows", ["level", "mechanism"])
def test_a_plan_passes_at_what_it_claims(knows: str) -> None:
    assert plan(knows).knows == knows
    assert verdict(knows, knows) == "pass"


@pytest.mark.parametrize("past", [0, 5])
def test_many_arms_in_few_worlds_of_which_no_arm_is_open_in_many(past: int) -> None:
    """Of a late level nothing is told of gaps; arms that samples from before have filled take no rounds."""
    mean = np.linspace(0.201, 0.2, 9)[:, None]
    many = rcb.Market(
        prior=rcb.Prior.gaussian(mean, 0.5), covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(SIGMA)
    )
    arms = ["arm_0"] * past + ["arm_4"] * past
    history = {"x": np.ones((2 * past, 1)), "arm": arms, "reward": np.zeros(2 * past)}
    asked = many.with_history(history, public=False) if past else many
    found = rcb.calibrate(asked, epsilon=0.3, n_per_arm=5, n_worlds=100, audit_worlds=100, knows="level", seed=1)
    assert found.feasible
    assert np.isfinite([found.tau, found.rho]).all()
    assert found.expected_cold_start >= 5 * (9 - (2 if past else 0))


def test_a_plan_for_users_who_know_nothing_fails_for_those_who_know_the_level() -> None:
    assert verdict("mechanism", "level") == "fail"
    assert verdict("level", "stage") != "pass"


@pytest.mark.slow
@pytest.mark.parametrize("asked", KNOWS)
@pytest.mark.parametrize("made_for", KNOWS)
def test_plans_pass_at_what_they_claim_and_less_and_fail_at_more(made_for: str, asked: str) -> None:
    found = verdict(made_for, asked, "favoured")
    if KNOWS.index(asked) >= KNOWS.index(made_for):
        assert found == "pass"
    elif asked in ("stage", "level") or made_for == "mechanism":
        assert found == "fail"


@pytest.mark.slow
@pytest.mark.parametrize("knows", KNOWS)
def test_plans_of_mixed_users_pass_at_what_they_claim(knows: str) -> None:
    assert verdict(knows, knows) == "pass"


# --- how long --------------------------------------------------------------------------------------------------------


def lengths(name: str) -> tuple[np.ndarray, np.ndarray]:
    plans = [plan(knows, name, handed_out=True) for knows in KNOWS]
    return np.array([p.expected_cold_start for p in plans]), np.array([p.expected_cold_start_mcse for p in plans])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed", "favoured"])
def test_the_less_users_know_the_shorter_the_cold_start(name: str) -> None:
    length, error = lengths(name)
    assert (np.diff(length) <= 3.0 * np.hypot(error[1:], error[:-1])).all()
    assert length[3] < 0.7 * length[0]


@pytest.mark.slow
def test_no_plan_by_phase_is_longer_than_by_level() -> None:
    """Rates raised at one level change who is sampled at the next: raised all the way, this one took twice as long."""
    assert plan("phase").expected_cold_start <= plan("level").expected_cold_start
    assert plan("mechanism").expected_cold_start < 0.5 * plan("level").expected_cold_start


@pytest.mark.slow
def test_what_no_level_pays_for_exploitation_may() -> None:
    assert not plan("level", "favoured table").feasible
    assert not plan("phase", "favoured table").feasible
    assert plan("mechanism", "favoured table").feasible
    assert verdict("mechanism", "mechanism", "favoured table") == "pass"
    assert verdict("mechanism", "phase", "favoured table") == "fail"


# --- from several starts, and never worse than a finer plan ----------------------------------------------------------


@cache
def reluctant(*, platform: float | None = None) -> rcb.Market:
    """One user, who likes the first arm by .5, of which she is nearly sure; a platform that may believe otherwise."""
    mean, variance = [[0.6], [0.1]], [0.02, 0.3]
    prior = rcb.Prior.gaussian(mean, variance)
    return rcb.Market(
        prior=prior,
        platform_prior=prior if platform is None else rcb.Prior.gaussian([[0.6], [platform]], variance),
        covariates=rcb.Empirical(np.ones((1, 1))),
        noise=rcb.GaussianNoise(0.3),
    )


def margins_of_plain_runs(*, horizon: int, n_cold: int = 10, n_runs: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """What the user of ``reluctant`` gains by following arm 1, and arm 0, in any round, with errors: (2,) each.

    Ten rounds of arm 0, ``n_cold`` of arm 1, then epochs that double, with the paper's kernel. All margins are of drawn
    coefficients: nothing of the package is called.
    """
    rng = np.random.default_rng(8)
    mean, variance, noise = np.array([0.6, 0.1]), np.array([0.02, 0.3]), 0.3
    beta = mean + np.sqrt(variance) * rng.standard_normal((n_runs, 2))
    count = np.tile([10.0, 10.0], (n_runs, 1))
    total = beta * count + noise * np.sqrt(count) * rng.standard_normal((n_runs, 2))
    told = np.tile([10.0, float(n_cold)], (n_runs, 1))
    begins, length = 10 + n_cold, 20
    while begins < horizon:
        spread = 1.0 / (1.0 / variance + count / noise**2)
        posterior = spread * (mean / variance + total / noise**2)
        gamma = 4.0 * np.sqrt(2.0 / spread.mean(axis=1))
        best = posterior.argmax(axis=1)
        other = 1.0 / (2.0 + gamma * np.abs(posterior[:, 0] - posterior[:, 1]))
        rounds = min(length, horizon - begins)
        off_best = rng.binomial(rounds, other)
        more = np.stack([np.where(best == arm, rounds - off_best, off_best) for arm in range(2)], axis=1)
        total += beta * more + noise * np.sqrt(more) * rng.standard_normal((n_runs, 2))
        count += more
        told += more
        begins, length = begins + length, 2 * length
    lead = (beta[:, 0] - beta[:, 1])[:, None] * [1.0, -1.0]
    margin = (told * lead).mean(axis=0) / told.mean(axis=0)
    error = ((lead - margin) * told).std(axis=0) / np.sqrt(n_runs) / told.mean(axis=0)
    return margin[::-1], error[::-1]


@pytest.mark.parametrize("horizon", [*(pytest.param(each, marks=pytest.mark.slow) for each in (200, 600)), 300])
def test_who_follows_fast_rates_is_not_refused_for_what_slow_ones_leave(horizon: int) -> None:
    """From slow rates 210 rounds of 300 are cold start, and the rest pays for nothing."""
    asked = {"epsilon": 0.05, "n_per_arm": 10, "knows": "mechanism", "horizon": horizon, "seed": 1}
    found = rcb.calibrate(reluctant(), **asked)
    assert found.feasible
    assert found.expected_cold_start == 20.0
    margin, error = margins_of_plain_runs(horizon=horizon)
    assert (margin - 4.0 * error > -0.05).all()


def test_plain_runs_tell_a_cold_start_that_is_too_long() -> None:
    margin, error = margins_of_plain_runs(horizon=200, n_cold=100)
    assert margin[0] + 4.0 * error[0] < -0.05


@pytest.mark.slow
@pytest.mark.parametrize("first", [[0.6, 0.3], [0.3, 0.3]])
def test_no_plan_is_longer_than_one_for_users_who_know_more(first: list[float]) -> None:
    types = rcb.Market(
        prior=rcb.Prior.gaussian([first, [0.1, 0.2]], [0.02, 0.3]),
        covariates=rcb.Empirical(np.eye(2)),
        noise=rcb.GaussianNoise(0.3),
    )
    asked = {"epsilon": 0.05, "n_per_arm": 10, "horizon": 300, "n_worlds": 1000, "seed": 1}
    plans = [rcb.calibrate(types, knows=knows, **asked) for knows in KNOWS]
    assert all(plan.feasible for plan in plans)
    length = [plan.expected_cold_start for plan in plans]
    assert (np.diff(length) <= 1e-9).all()
    assert all(KNOWS.index(plan.knows) <= KNOWS.index(knows) for plan, knows in zip(plans, KNOWS, strict=True))


def test_a_finer_plan_that_is_shorter_is_handed_out_under_its_own_name() -> None:
    """By stage two types take 123 rounds; by level two arms are one set as well, with more room for audits."""
    types = rcb.Market(
        prior=rcb.Prior.gaussian([[0.6, 0.3], [0.1, 0.2]], [0.02, 0.3]),
        covariates=rcb.Empirical(np.eye(2)),
        noise=rcb.GaussianNoise(0.3),
    )
    found = rcb.calibrate(types, epsilon=0.05, n_per_arm=10, knows="phase", seed=1)
    assert found.knows == "stage"
    assert any("know which arms are saturated" in note for note in found.notes)


@pytest.mark.parametrize("knows", ["phase", pytest.param("mechanism", marks=pytest.mark.slow)])
def test_a_platform_that_believes_the_same_in_so_many_words_is_no_other_platform(knows: str) -> None:
    """Rounds that users cannot tell apart pay for one another, whoever's belief the platform goes by."""

    def made(*, copy: bool) -> rcb.Plan:
        belief = [rcb.Prior.gaussian([[0.4], [0.2]], 0.1) for _ in range(2)]
        one = rcb.Market(
            prior=belief[0],
            platform_prior=belief[1] if copy else belief[0],
            covariates=rcb.Empirical(np.ones((1, 1))),
            noise=rcb.GaussianNoise(0.3),
        )
        return coarse_plan(one, epsilon=0.05, n_per_arm=10, knows=knows, horizon=300, seed=1)

    copied, plain = made(copy=True), made(copy=False)
    assert copied.feasible
    assert copied.expected_cold_start == plain.expected_cold_start
    np.testing.assert_allclose(copied.rate([[1.0]], saturated=["arm_0"]), plain.rate([[1.0]], saturated=["arm_0"]))


def test_a_platform_that_believes_the_opposite_still_breaks_its_word() -> None:
    found = rcb.calibrate(reluctant(platform=0.9), epsilon=0.05, n_per_arm=10, knows="mechanism", horizon=300, seed=1)
    assert not found.feasible
    assert "it believes otherwise than they do" in found.reason


# --- users whom no panel has -----------------------------------------------------------------------------------------

CIRCLE_MEAN, CIRCLE_VARIANCE = np.array([[0.3, 0.1], [0.1, 0.1], [0.0, 0.0]]), np.array([0.05, 0.1, 0.2])


@cache
def on_the_circle() -> tuple[rcb.Market, rcb.Plan]:
    market = rcb.Market(
        prior=rcb.Prior.gaussian(CIRCLE_MEAN, CIRCLE_VARIANCE), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3)
    )
    return market, coarse_plan(market, epsilon=0.05, n_per_arm=8, knows="phase", horizon=200, seed=7)


def unit(degrees: np.ndarray | float) -> np.ndarray:
    angle = np.radians(np.atleast_1d(degrees))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def plain_cold_starts(plan: Any, *, n_runs: int, n_users: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Rounds that each run spends at each set, (R, 8), and posterior means of arms with their 8 samples, (R, 3, 2).

    Round by round, run by run, with users drawn from many on the circle: of the package only the plan's rates.
    """
    rng = np.random.default_rng(5)
    users = unit(rng.uniform(0.0, 360.0, n_users))
    rates = np.stack([np.ones((n_users, 3)), *(plan.rates_by_arm(users, level=level) for level in (1, 2))])
    expected = users @ CIRCLE_MEAN.T
    beta = CIRCLE_MEAN + np.sqrt(CIRCLE_VARIANCE)[:, None] * rng.standard_normal((n_runs, 3, 2))
    count, rounds = np.zeros((n_runs, 3), dtype=int), np.zeros((n_runs, 8))
    precision = np.tile((np.eye(2)[None] / CIRCLE_VARIANCE[:, None, None]), (n_runs, 1, 1, 1))
    weighted = np.tile(CIRCLE_MEAN / CIRCLE_VARIANCE[:, None], (n_runs, 1, 1))
    while len(runs := np.flatnonzero((count < 8).any(axis=1))):
        who, full = rng.integers(n_users, size=len(runs)), count[runs] >= 8
        rounds[runs, full @ [1, 2, 4]] += 1
        arm = np.where(full, -np.inf, expected[who]).argmax(axis=1)
        explored = rng.random(len(runs)) < rates[full.sum(axis=1), who, arm]
        run, arm, x = runs[explored], arm[explored], users[who[explored]]
        reward = (x * beta[run, arm]).sum(axis=1) + 0.3 * rng.standard_normal(len(run))
        count[run, arm] += 1
        precision[run, arm] += x[:, :, None] * x[:, None] / 0.09
        weighted[run, arm] += x * reward[:, None] / 0.09
    return rounds, np.linalg.solve(precision, weighted[..., None])[..., 0]


def plain_margins(plan: Any, x: np.ndarray, rounds: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a user gains by following in any round of a cold start, with errors, by arm and rival, (3, 3) each."""
    before, every = CIRCLE_MEAN @ x, np.arange(3)
    form, mass = np.zeros((len(rounds), 3, 3)), np.zeros((len(rounds), 3))
    for code in range(7):
        full = np.array([code >> arm & 1 for arm in range(3)], dtype=bool)
        worth = np.where(full, means @ x, before)
        arm = np.where(full, -np.inf, before).argmax()
        rate = plan.rates_by_arm(x[None], level=full.sum())[0, arm] if full.any() else 1.0
        often = rounds[:, code, None] * ((1.0 - rate) * (worth.argmax(axis=1)[:, None] == every))
        form += often[:, :, None] * (worth[:, :, None] - worth[:, None])
        form[:, arm] += rate * rounds[:, code, None] * (before[arm] - before)
        mass += often + rate * rounds[:, code, None] * (every == arm)
    margin = form.mean(axis=0) / mass.mean(axis=0)[:, None]
    error = (form - margin * mass[:, :, None]).std(axis=0) / np.sqrt(len(rounds)) / mass.mean(axis=0)[:, None]
    return margin, error


@pytest.mark.slow
def test_users_whom_no_panel_has_follow_by_plain_simulation_too() -> None:
    """At 75.47 degrees a set that one cold start in fifty passes was explored on what another paid, by one panel."""
    _, made = on_the_circle()
    runs = plain_cold_starts(made, n_runs=10_000)
    for degrees in (*np.arange(5.0, 360.0, 10.0), 75.47, 156.5):
        margin, error = plain_margins(made, unit(degrees)[0], *runs)
        assert (margin >= -0.05 - 4.0 * error - 1e-9).all(), degrees


class Always:
    """Everybody is explored in every round."""

    def rates_by_arm(self, users: np.ndarray, *, level: int) -> np.ndarray:
        return np.ones((len(users), 3))


def test_plain_simulation_finds_who_loses_by_being_explored_always() -> None:
    runs = plain_cold_starts(Always(), n_runs=2000)
    margin, error = plain_margins(Always(), unit(45.0)[0], *runs)
    assert margin[2, 0] < -0.05 - 4.0 * error[2, 0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [157, 700, 701])
def test_a_plan_for_users_who_know_the_phase_passes_among_other_users(seed: int) -> None:
    market, made = on_the_circle()
    assert rcb.audit(market, made, horizon=200, knows="phase", seed=seed).verdict == "pass"


# --- files and live loops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knows", ["level", "mechanism"])
def test_a_file_gives_the_same_rates(knows: str) -> None:
    made = plan(knows)
    again = rcb.Plan.from_json(made.to_json())
    assert again.to_json() == made.to_json()
    assert again.knows == knows
    users = np.array([[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]])
    for level in range(5):
        np.testing.assert_array_equal(again.rates_by_arm(users, level=level), made.rates_by_arm(users, level=level))
    for full in (["arm_0"], ["arm_1", "arm_0"], ["arm_0", "arm_1", "arm_2"]):
        np.testing.assert_array_equal(again.rate(users, saturated=full), made.rate(users, saturated=full))


@pytest.mark.parametrize("knows", ["level", "mechanism"])
def test_the_rate_at_a_set_is_that_of_the_arm_promoted_there(knows: str) -> None:
    users = np.array([[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]])
    by_arm = plan(knows).rates_by_arm(users, level=2)
    expected = users @ market().prior.mean.values.T
    for full in ([0, 1], [1, 3], [0, 2]):
        promoted = np.where(np.isin(np.arange(4), full), -np.inf, expected).argmax(axis=1)
        found = plan(knows).rate(users, saturated=[f"arm_{arm}" for arm in full])
        np.testing.assert_array_equal(found, by_arm[np.arange(3), promoted])


def test_a_plan_by_stage_has_no_rates_by_arm() -> None:
    """At a level there would be none that was planned: those of users who need no subsidy alone, 0 for all others."""
    fixed = rcb.fixed_plan(market(), n_per_arm=5, exploration_rate=0.3, epsilon=0.1, knows="stage")
    for made in (plan("stage"), plan("level", handed_out=True), fixed):
        assert made.knows == "stage"
        with pytest.raises(RcbError, match=r"Rates by promoted arm .*got knows='stage'. Use rate\(x, saturated=\)"):
            made.rates_by_arm([[1.0, 0.0]], level=2)


@pytest.mark.parametrize("knows", ["level", "mechanism"])
def test_a_live_loop_is_a_block_run(knows: str) -> None:
    horizon = 400
    block = rcb.simulate(market(), plan(knows), horizon=horizon, n_worlds=1, seed=2).isel(world=0)
    seed = np.random.SeedSequence(2).spawn(1)[0]
    live, world = rcb.Recommender(market(), plan(knows), seed=seed), SimulatedWorld(market(), seed)
    page, arms = world.page(0), []
    for place in range(horizon):
        found = live.recommend(page.x[place])
        arms.append(found.arm)
        eta = linear_scores(world.beta, page.x[place][:, None])[market().arms.index(found.arm), 0]
        live.observe(eta + SIGMA * page.noise[place], ticket=found.ticket)
    assert arms == [market().arms[k] for k in block["recommended"].values]
    assert 0 < block["cold_start_length"].item() < horizon


@pytest.mark.slow
def test_runs_take_as_long_as_the_plan_says() -> None:
    runs = rcb.simulate(market(), plan("mechanism"), horizon=400, n_worlds=60, seed=3)
    length = runs["cold_start_length"].values
    assert abs(length.mean() - plan("mechanism").expected_cold_start) < 4.5 * length.std() / np.sqrt(60) + 1.0


# --- bad input -------------------------------------------------------------------------------------------------------


def test_unknown_knowledge_suggests_the_nearest() -> None:
    for call in (
        lambda: rcb.calibrate(market(), knows="levle", n_per_arm=5),
        lambda: rcb.fixed_plan(market(), knows="levle"),
        lambda: rcb.tradeoff(market(), knows="levle"),
        lambda: rcb.audit(market(), plan("level"), knows="levle"),
    ):
        with pytest.raises(RcbError, match=r"levle.*level"):
            call()


@pytest.mark.parametrize("knows", ["phase", "mechanism"])
def test_one_rate_for_all_is_not_raised(knows: str) -> None:
    with pytest.raises(RcbError, match="personalised=True"):
        rcb.calibrate(market(), knows=knows, n_per_arm=5, personalised=False, horizon=1000)


def test_a_policy_is_judged_at_rounds() -> None:
    with pytest.raises(RcbError, match="knows is for plans"):
        rcb.audit(market(), lambda market, seed: None, horizon=10, knows="level")  # pyright: ignore[reportArgumentType]


def test_too_many_sets_are_not_judged_one_by_one() -> None:
    means = np.linspace(0.0, 1.0, 9)[:, None]
    many = rcb.Market(
        prior=rcb.Prior.gaussian(means, 1.0), covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(1.0)
    )
    by_level = rcb.fixed_plan(many, n_per_arm=2, knows="level")
    with pytest.raises(RcbError, match="knows='level'"):
        rcb.audit(many, by_level, knows="stage")


@pytest.mark.parametrize("knows", ["phase", "mechanism"])
def test_a_horizon_within_the_first_phase_leaves_the_most_popular_arm(knows: str) -> None:
    found = rcb.audit(market(), plan("level"), horizon=5, knows=knows, n_worlds=200, seed=1)
    assert found.verdict == "pass"
    assert found.margins.sizes["stage"] == 1


# --- the horizon ---


def test_a_plan_keeps_its_horizon_and_an_audit_of_another_one_says_so(tmp_path):
    made = plan("mechanism")
    assert made.horizon is not None
    made.save(tmp_path / "plan.json")
    assert rcb.Plan.load(tmp_path / "plan.json").horizon == made.horizon
    market = rcb.Market(
        prior=rcb.Prior.gaussian([[0.3], [0.2]], 0.3),
        covariates=rcb.Empirical([[1.0], [0.9]]),
        noise=rcb.GaussianNoise(0.3),
    )
    small = rcb.calibrate(market, epsilon=0.1, n_per_arm=5, n_worlds=100, knows="mechanism", horizon=300)
    told = "100 rounds in this audit; the plan is for users who know of 300"
    for horizon, is_told in ((100, True), (300, False)):
        found = rcb.audit(market, small, horizon=horizon, n_worlds=100, n_users=5)
        assert (told in found.summary()) is is_told
    with pytest.raises(rcb.RcbError, match="out of how many rounds"):
        rcb.calibrate(market, n_per_arm=5, knows="mechanism")
    with pytest.raises(rcb.RcbError, match="Did you mean 'mechanism'"):
        rcb.calibrate(market, n_per_arm=5, knows="mechanisn", horizon=100)
