"""The package against the paper's mechanism simulated anew, with true rewards (``plain_mechanism``).

Tolerances are in Monte Carlo errors of both sides; beside each stands an error that must be found.
"""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.exploiting import Exploiting
from tests.twins import plain_mechanism as plain
from tests.twins import truth_cases as cases
from tests.twins.truth import Case, both_sides, compared, scenario_of, stage_key

pytestmark = pytest.mark.slow

EPSILON = 0.05
MANY = 4.6  # errors, for hundreds of cells: all of them within it 99 times out of 100


# --- the plain mechanism itself --------------------------------------------------------------------------------------


def small_scenario() -> plain.Scenario:
    """Three types, three arms, rates and guards that differ."""

    def rate(users, saturated):
        return np.where(users[:, 0] > 0.8, 0.3, 0.6) * (1.0 if len(saturated) == 1 else 0.7)

    return plain.Scenario(
        belief=plain.Belief.of([[0.3, 0.0], [0.0, 0.3], [0.1, 0.1]], [0.1, 0.2, 0.3]),
        users=plain.Users.table([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]], [0.5, 0.3, 0.2]),
        sigma=0.4,
        n_per_arm=4,
        rate=rate,
        n_epochs=2,
        guard=lambda users, epoch: np.tile([0.3, 0.7, 1.0], (len(users), 1)),
    )


def drawn(scenario: plain.Scenario, n_worlds: int, seed: int) -> tuple[dict, np.ndarray]:
    """Per stage and world: how often type u got arm i, and the sums of mu_i - mu_j, (W, U, K, 1 + K); lengths."""
    rng = np.random.default_rng(seed)
    k = scenario.n_arms
    by_stage, lengths = defaultdict(list), []
    for _ in range(n_worlds):
        rounds = plain.run_one_world(scenario, rng)
        lengths.append(sum(not str(stage).startswith("epoch") for stage, *_ in rounds))
        sums: dict = defaultdict(lambda: np.zeros((3, k, 1 + k)))
        for stage, user, arm, mu in rounds:
            sums[stage][user, arm, 0] += 1
            sums[stage][user, arm, 1:] += mu[arm] - mu
        for stage, values in sums.items():
            by_stage[stage].append(values)
    return {stage: np.stack(values) for stage, values in by_stage.items()}, np.array(lengths)


def largest_z(sums: dict, out: plain.Outcome) -> float:
    """Over all stages, types, arms and rivals with enough rounds."""
    worst = 0.0
    for stage, values in sums.items():
        count, gaps = values[..., :1], values[..., 1:]
        total = count.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = gaps.sum(axis=0) / total
            error = np.sqrt(np.square(gaps - mean * count).sum(axis=0)) / total
            value = plain.expected(out.stages[stage], "user", by_rounds=True)
            z = (mean - value.value) / np.hypot(error, value.error)
        enough = ((count > 0).sum(axis=0) > 100) & (error > 0)
        worst = max(worst, float(np.abs(z[enough]).max(initial=0.0)))
    return worst


@pytest.fixture(scope="module")
def rounds() -> tuple[dict, np.ndarray]:
    return drawn(small_scenario(), 1200, seed=5)


def test_worlds_side_by_side_are_worlds_round_by_round(rounds) -> None:
    sums, lengths = rounds
    out = plain.run_worlds(small_scenario(), 20_000, seed=1)
    error = np.hypot(lengths.std() / np.sqrt(len(lengths)), out.cold_start.std() / np.sqrt(20_000))
    assert abs(lengths.mean() - out.cold_start.mean()) < 4 * error
    assert largest_z(sums, out) < 4.3


@pytest.mark.parametrize(
    "planted",
    [{"guard": None}, {"multiple": 0.1}, {"rate": plain.constant_rate(0.6)}, {"sigma": 1.0}],
    ids=["no guard", "another spread", "another rate", "another noise"],
)
def test_a_planted_difference_between_them_is_found(rounds, planted: dict) -> None:
    sums, lengths = rounds
    out = plain.run_worlds(replace(small_scenario(), **planted), 20_000, seed=1)
    error = np.hypot(lengths.std() / np.sqrt(len(lengths)), out.cold_start.std() / np.sqrt(20_000))
    lengths_differ = abs(lengths.mean() - out.cold_start.mean()) > 4 * error
    assert lengths_differ or largest_z(sums, out) > 4.3


# --- audits, cell by cell --------------------------------------------------------------------------------------------

PLANS = {"fixed": None, "user": ("user", True), "proof": ("proof", False), "definition": ("definition", False)}
CELLS = [
    ("3 arms, rare", "user"),
    ("3 arms, rare last", "definition"),
    ("3 arms, signed", "proof"),
    ("3 arms, platform otherwise", "fixed"),
    ("3 arms, coupled", "user"),
    ("4 arms, even", "fixed"),
    ("2 arms, sphere", "user"),
]


def made(market: rcb.Market, kind: str) -> rcb.Plan:
    """A fixed plan, or a sampled one for a notion."""
    if PLANS[kind] is None:
        return rcb.fixed_plan(market, n_per_arm=6, exploration_rate=0.2, epsilon=0.1)
    notion, own = PLANS[kind]
    return rcb.calibrate(market, epsilon=0.1, notion=notion, personalised=own, n_per_arm=6, n_worlds=400, seed=3)


@pytest.mark.parametrize(("name", "kind"), CELLS)
def test_every_cell_of_an_audit_is_what_users_would_meet(name: str, kind: str) -> None:
    case = cases.grid()[name]
    plan = made(case.market(), kind)
    horizon = round(2 * plan.expected_cold_start) + 150
    n_worlds, batch = (16_000, 2000) if case.rows is not None else (4000, 250)
    # Rare worlds carry thin cells: of 1,000 worlds an error is too small there at times.
    sizes: dict[str, int] = {"n_worlds": n_worlds, "audit_worlds": 4000, "n_users": 8}
    found, out = both_sides(case, plan, horizon=horizon, batch=batch, n_epochs=3, **sizes)  # pyright: ignore
    rows, _ = compared(case, plan, found, out)
    assert len(rows) > 40
    assert not [row.line() for row in rows if abs(row.z) > MANY]
    # Planted: a platform with a third of the spread, and rewards with twice the noise.
    wrong = replace(scenario_of(case, plan, horizon=horizon, n_epochs=3), multiple=0.3, sigma=2.0 * case.sigma)
    off = plain.run_worlds(wrong, n_worlds, seed=7, watched=found.users, batch=batch)
    assert [row for row in compared(case, plan, found, off)[0] if abs(row.z) > MANY]


# --- every stage that runs are in ------------------------------------------------------------------------------------


def test_every_stage_before_the_horizon_is_audited() -> None:
    case = cases.two_favourites()
    plan = rcb.fixed_plan(case.market(), n_per_arm=50, exploration_rate=0.002, epsilon=0.005, notion="proof")
    found, out = both_sides(case, plan, horizon=20_000, n_worlds=8000, audit_worlds=2000)
    audited = {stage_key(plan, str(name)) for name in found.margins["stage"].values}
    assert not [key for key in out.stages if out.share(key) > 0.05 and key not in audited]
    margin = plain.expected(out.stages["epoch 0"], "proof")
    assert (margin.value + 4 * margin.error).min() < -0.005  # in every run, long before the horizon
    assert found.verdict == "fail"
    assert not [row.line() for row in compared(case, plan, found, out)[0] if abs(row.z) > MANY]


def test_a_fixed_plan_says_how_long_its_cold_start_takes() -> None:
    case = cases.two_favourites()
    plan = rcb.fixed_plan(case.market(), n_per_arm=50, exploration_rate=0.002, epsilon=0.005, notion="proof")
    out = plain.run_worlds(scenario_of(case, plan, horizon=10**7, n_epochs=0), 8000, seed=1)
    error = np.hypot(out.cold_start.std() / np.sqrt(8000), plan.expected_cold_start_mcse)
    assert abs(plan.expected_cold_start - out.cold_start.mean()) < 4 * error
    # Planted: N (1 + (K - 1) L), as if arms did not fill side by side.
    assert abs(50 * (1 + 500) - out.cold_start.mean()) > 4 * error


# --- one rate for all, and plans for every notion --------------------------------------------------------------------


def lowest_margin(case, plan: rcb.Plan, user: np.ndarray) -> tuple[float, float]:
    """Of one user in the cold start, under ``proof``, by the plain mechanism."""
    scenario = scenario_of(case, plan, horizon=10**7, n_epochs=0)
    out = plain.run_worlds(scenario, 4000, seed=1, watched=user, batch=500)
    found = []
    for name, stage in out.stages.items():
        if isinstance(name, tuple) and stage.n_worlds > 300:
            value = plain.expected(stage, "proof")
            cells = value.mass > 0
            at = np.argmin(value.value[np.broadcast_to(cells, value.value.shape)])
            broad = np.broadcast_to(cells, value.value.shape)
            found.append((float(value.value[broad][at]), float(value.error[broad][at])))
    return min(found)


def test_one_rate_for_all_is_one_that_the_worst_user_follows() -> None:
    case = cases.setting_4(3)
    market = case.market()
    plan = rcb.calibrate(market, epsilon=EPSILON, notion="proof", personalised=False, n_per_arm=5, seed=1)
    worst = np.ones((1, 5)) / np.sqrt(5.0)  # loses sqrt(5) by any arm but the first, and never learns otherwise
    value, error = lowest_margin(case, plan, worst)
    assert value > -EPSILON - 4 * error
    assert plan.exploration_rate <= EPSILON / np.sqrt(5.0) + 1e-9
    assert plan.exploration_rate > 0.8 * EPSILON / np.sqrt(5.0)
    greedy = rcb.fixed_plan(market, n_per_arm=5, exploration_rate=0.0232, epsilon=EPSILON, notion="proof")  # planted
    value, error = lowest_margin(case, greedy, worst)
    assert value < -EPSILON - 4 * error


@pytest.mark.parametrize("name", ["setting 4", "coupled"])
@pytest.mark.parametrize("notion", ["user", "proof", "definition"])
def test_what_calibrate_hands_out_passes(name: str, notion: str) -> None:
    case = cases.setting_4(3) if name == "setting 4" else cases.coupled()
    market = case.market()
    own = notion != "definition"
    plan = rcb.calibrate(market, epsilon=EPSILON, notion=notion, personalised=own, n_per_arm=10, seed=1)
    assert plan.feasible
    found = rcb.audit(market, plan, horizon=round(plan.expected_cold_start) + 100, n_worlds=1000, seed=9)
    assert found.verdict == "pass"


# --- the guard under definition --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["arm", "type"])
def test_the_guard_under_definition_heeds_the_shares(by: str) -> None:
    case = cases.rare_type(by=by)
    market = case.market()
    plan = rcb.calibrate(market, epsilon=EPSILON, notion="definition", personalised=False, n_per_arm=10, seed=1)
    for options, holds in ((Exploiting(), True), (Exploiting(guard=False), False)):  # planted: the guard open
        scenario = scenario_of(case, plan, horizon=10**9, options=options, n_epochs=2)
        out = plain.run_worlds(scenario, 40_000, seed=1)
        margin = plain.expected(out.stages["epoch 0"], "definition")
        low, error = margin.value[1, 0], margin.error[1, 0]
        assert (low > -EPSILON - 4 * error) if holds else (low < -EPSILON - 4 * error)


def test_the_guard_under_definition_leaves_open_what_holds() -> None:
    case = cases.setting_4(3)
    plan = rcb.calibrate(case.market(), epsilon=EPSILON, notion="definition", personalised=False, n_per_arm=10, seed=1)
    scenario = scenario_of(case, plan, horizon=10**9, options=Exploiting(guard=False), n_epochs=1)
    out = plain.run_worlds(scenario, 2000, seed=1, batch=500, watched=np.ones((1, 5)))
    margin = plain.expected(out.stages["epoch 0"], "definition")
    assert (margin.value - 4 * margin.error)[0, 1:].min() > 0.5  # of the first arm: nobody is far from gaining by it
    assert plan.guard(np.ones((1, 5)), 0)[0, 0] > 0.9


# --- the users that the spread comes from ----------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "n"), [(0.05, 10), (0.01, 100)])
def test_audits_under_definition_are_as_far_apart_as_they_say(share: float, n: int) -> None:
    case = cases.rare_type(share, by="type")
    plan = rcb.fixed_plan(case.market(), n_per_arm=n, exploration_rate=0.02, epsilon=EPSILON, notion="definition")
    scenario = scenario_of(case, plan, horizon=10**9, n_epochs=1)
    exact = plain.expected(plain.run_worlds(scenario, 100_000, seed=1).stages["epoch 0"], "definition")
    z, errors = [], []
    for seed in range(1, 7):
        found = rcb.audit(case.market(), plan, horizon=round(80.0 * n), n_worlds=2000, n_users=2, seed=seed)
        cell = found.margins.sel(stage="epoch 0", arm="arm_1", rival="arm_0")
        errors.append(float(cell["mcse"]))
        z.append(float((cell["estimate"] - exact.value[1, 0]) / np.hypot(cell["mcse"], exact.error[1, 0])))
    assert np.abs(z).max() < 4.0
    # Planted: the spread of a panel with half as many again of the rare type.
    rows = replace(scenario, multiple=1.0 / np.sqrt(1.5))
    wrong = plain.expected(plain.run_worlds(rows, 100_000, seed=1).stages["epoch 0"], "definition")
    assert abs(wrong.value[1, 0] - exact.value[1, 0]) > 4 * np.hypot(wrong.error[1, 0], np.mean(errors))


# --- the order of a table --------------------------------------------------------------------------------------------


def test_the_order_of_a_table_changes_nothing() -> None:
    """To the last digit; a table of one end of the users alone, as its first rows are, is another one."""

    def told(case: Case) -> tuple:
        plan = rcb.calibrate(case.market(), epsilon=EPSILON, n_worlds=300, audit_worlds=300, horizon=500, seed=1)
        return plan.n_per_arm, [one.regret for one in plan.choices], [rule.kept for rule in plan.guards]

    up, down, shuffled = (told(cases.in_order(how)) for how in ("up", "down", "shuffled"))
    assert up == down == shuffled
    rows = np.asarray(cases.in_order("up").rows)[:256]
    assert told(replace(cases.in_order("up"), rows=rows)) != up
