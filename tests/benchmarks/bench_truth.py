"""The package against ``tests/twins/plain_mechanism.py``: the paper's mechanism, simulated anew with true rewards.

A Markdown table for each scenario: what the plain simulation finds, what the package says, and how many Monte Carlo
errors they are apart. ``python tests/benchmarks/bench_truth.py [NAME ...]`` runs some of them; ``--fast`` takes fewer
worlds and seeds.

coverage    every stage that runs are in before the horizon is audited (two types, each with a favourite)
one_rate    one rate for all on a continuous population, and plans for all notions, pass their own audit
guard       the guard under ``definition``, on a table with shares
panel       ``definition`` with a rare type: audits scatter as much as they say
order       the same users in another order: the same plan
grid        other markets, notions and options, cell by cell
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, the folder of ``tests`` is not there

import rcb_bayes as rcb
from rcb_bayes.mechanism.exploiting import Exploiting
from tests.twins import plain_mechanism as plain
from tests.twins import truth_cases as cases
from tests.twins.truth import Case, Row, both_sides, compared, scenario_of, stage_key

EPSILON = 0.05


# --- coverage --------------------------------------------------------------------------------------------------------


def coverage(*, fast: bool) -> Iterator[str]:
    """A fixed plan whose cold start is much shorter than N (1 + (K - 1) L)."""
    case, horizon = cases.two_favourites(), 20_000
    plan = rcb.fixed_plan(case.market(), n_per_arm=50, exploration_rate=0.002, epsilon=0.005, notion="proof")
    found, out = both_sides(case, plan, horizon=horizon, n_worlds=4_000 if fast else 40_000, audit_worlds=2000)
    rows, missing = compared(case, plan, found, out)
    ended = np.where(np.isfinite(out.cold_start), out.cold_start, horizon)
    yield Row(
        scenario=case.name,
        quantity="rounds of cold start",
        plain=float(ended.mean()),
        plain_error=float(ended.std() / np.sqrt(len(ended))),
        package=plan.expected_cold_start,
        package_error=plan.expected_cold_start_mcse,
    ).line()
    yield from _worst_by_stage(case, plan, found, out, "proof")
    yield from _verdict_lines(case, found, rows, missing)


def _worst_by_stage(case: Case, plan: rcb.Plan, found: rcb.Audit, out: plain.Outcome, notion: str) -> Iterator[str]:
    """The lowest margin of each stage by the plain mechanism, with what the audit says of that cell."""
    audited = {stage_key(plan, str(name)): str(name) for name in found.margins["stage"].values}
    for key, stage in out.stages.items():
        value = plain.expected(stage, notion)
        low = np.where((value.mass < 1e-3) | np.eye(len(plan.arms), dtype=bool), np.inf, value.value)
        at = np.unravel_index(np.argmin(low), low.shape)
        quantity = f"{notion}, lowest margin of {key}, in {out.share(key):.1%} of runs"
        if key not in audited:
            yield f"| {case.name} | {quantity} | {value.value[at]:.4f} ± {value.error[at]:.4f} | not audited | |"
            continue
        part = found.by_notion[notion].sel(stage=audited[key])
        dims = ("arm", "rival") if notion == "definition" else ("user", "arm", "rival")
        cell = part.isel(dict(zip(dims, (int(k) for k in at), strict=True)))
        yield Row(
            scenario=case.name,
            quantity=quantity,
            plain=float(value.value[at]),
            plain_error=float(value.error[at]),
            package=float(cell["estimate"]),
            package_error=float(cell["mcse"]),
        ).line()


def _verdict_lines(case: Case, found: rcb.Audit, rows: list[Row], missing: list[str]) -> Iterator[str]:
    z = np.array([row.z for row in rows])
    yield f"| {case.name} | verdict | | {found.verdict} ({found.notion}) | |"
    if len(z):
        spread = f"mean {z.mean():+.2f}, sd {z.std():.2f}, largest {np.abs(z).max():.1f}"
        yield f"| {case.name} | {len(z)} cells | | {spread} | {int((np.abs(z) > 4).sum())} above 4 |"
    for row in rows:
        if abs(row.z) > 4.0:
            yield row.line()
    yield from (f"| {case.name} | missing | | {what} | |" for what in missing)


# --- one rate, and plans for every notion ----------------------------------------------------------------------------


def one_rate(*, fast: bool) -> Iterator[str]:
    """README's plan for Setting 4 (5 arms, N = 5, one rate, ``proof``), and sampled plans over seeds."""
    case = cases.setting_4(5)
    market, seeds = case.market(), range(1, 3 if fast else 7)
    worst = np.ones((1, 5)) / np.sqrt(5.0)  # who loses most by another arm: sqrt(5) of the first one's mean
    plan = rcb.calibrate(market, epsilon=EPSILON, notion="proof", personalised=False, n_per_arm=5, seed=1)
    scenario = scenario_of(case, plan, horizon=10**6, n_epochs=0)
    out = plain.run_worlds(scenario, 4_000 if fast else 20_000, seed=1, watched=worst, batch=500)
    value = plain.expected(out.stages[(0, 1, 2, 3)], "proof")  # one arm is left: nobody shares its promotion
    low = np.unravel_index(np.argmin(np.where(value.mass > 0, value.value, 0)), value.value.shape)
    audits = [rcb.audit(market, plan, horizon=1000, n_worlds=1000, seed=seed) for seed in seeds]
    lowest = [float(found.worst("proof")["estimate"].min()) for found in audits]
    yield Row(
        scenario=case.name,
        quantity="proof, one rate: lowest margin with one arm left (x = 1/sqrt 5; the audits' worst)",
        plain=float(value.value[low]),
        plain_error=float(value.error[low]),
        package=float(np.mean(lowest)),
        package_error=float(np.std(lowest, ddof=1) / np.sqrt(len(lowest))),
    ).line()
    # Nobody is ever better off with another arm here but by luck of 1e-6: q sqrt(5) <= epsilon.
    yield f"| {case.name} | largest rate | {EPSILON / np.sqrt(5.0):.5f} | {plan.exploration_rate:.5f} | |"
    yield f"| {case.name} | verdicts of {len(audits)} audits | | {_count(f.verdict for f in audits)} | |"
    for other in (cases.setting_4(3), cases.coupled()):
        for notion in ("user", "proof", "definition"):
            yield _own_audits(other, notion, seeds)


def _own_audits(case: Case, notion: str, seeds: range) -> str:
    """What ``calibrate`` hands out, audited in worlds of its own."""
    market, verdicts = case.market(), []
    for seed in seeds:
        plan = rcb.calibrate(
            market, epsilon=EPSILON, notion=notion, personalised=notion != "definition", n_per_arm=10, seed=seed
        )
        horizon = round(plan.expected_cold_start) + 500 if plan.feasible else 0
        verdicts.append(
            rcb.audit(market, plan, horizon=horizon, n_worlds=1000, seed=100 + seed).verdict
            if horizon
            else "infeasible"
        )
    return f"| {case.name} | verdicts on sampled plans for {notion} | | {_count(verdicts)} | |"


def _count(words) -> str:
    return ", ".join(f"{n} {word}" for word, n in Counter(words).most_common())


# --- the guard under definition --------------------------------------------------------------------------------------


def guard(*, fast: bool) -> Iterator[str]:
    """A table with shares .95 and .05: whether epoch 0 holds under the guard that the plan has, and without one."""
    for case in (cases.rare_type(), cases.rare_type(by="type")):
        market = case.market()
        for seed in range(1, 3 if fast else 7):
            plan = rcb.calibrate(
                market, epsilon=EPSILON, notion="definition", personalised=False, n_per_arm=10, seed=seed
            )
            yield from _guarded(case, market, plan, seed, n_worlds=10_000 if fast else 100_000)
    case = cases.setting_4(3)
    plan = rcb.calibrate(case.market(), epsilon=EPSILON, notion="definition", personalised=False, n_per_arm=20, seed=1)
    scenario = scenario_of(case, plan, horizon=10**7, options=Exploiting(guard=False), n_epochs=1)
    out = plain.run_worlds(scenario, 4_000, seed=1, batch=500, watched=np.ones((1, 5)))
    value = plain.expected(out.stages["epoch 0"], "definition")
    low = np.where(np.eye(3, dtype=bool), np.inf, value.value).min(axis=1)
    kept = plan.guard(np.ones((1, 5)), 0)[0]
    for arm in range(3):
        yield f"| {case.name} | arm_{arm}, epoch 0: lowest open margin; factor | {low[arm]:.3f} | {kept[arm]:.3f} | |"


def _guarded(case: Case, market: rcb.Market, plan: rcb.Plan, seed: int, *, n_worlds: int) -> Iterator[str]:
    horizon = round(3 * plan.expected_cold_start)
    name = f"{case.name}, plan {seed}"
    audited = rcb.audit(market, plan, horizon=horizon, n_worlds=1000, seed=200 + seed)
    part = audited.by_notion["definition"].sel(stage="epoch 0", arm="arm_1", rival="arm_0")
    for options in (Exploiting(guard=False), Exploiting()):
        scenario = scenario_of(case, plan, horizon=10**9, options=options, n_epochs=1)
        out = plain.run_worlds(scenario, n_worlds, seed=seed)
        value = plain.expected(out.stages["epoch 0"], "definition")
        if not options.guard:
            yield f"| {name} | epoch 0, guard open | {value.value[1, 0]:.4f} ± {value.error[1, 0]:.4f} | | |"
            continue
        yield Row(
            scenario=name,
            quantity=f"epoch 0, guard {plan.guard(np.eye(2), 0).min(axis=0).round(3).tolist()}",
            plain=float(value.value[1, 0]),
            plain_error=float(value.error[1, 0]),
            package=float(part["estimate"]),
            package_error=float(part["mcse"]),
        ).line()
    yield f"| {name} | verdict | | {audited.verdict} | |"


# --- the users that the spread comes from ----------------------------------------------------------------------------


def panel(*, fast: bool) -> Iterator[str]:
    """Audits with different seeds: how far they are apart, and how far they say they may be."""
    seeds = range(1, 7 if fast else 21)
    for share, n, multiple in ((0.05, 10, 1.0), (0.05, 10, 2.45), (0.01, 100, 1.0), (0.01, 100, 3.6)):
        case = cases.rare_type(share, by="type")
        plan = rcb.fixed_plan(case.market(), n_per_arm=n, exploration_rate=0.02, epsilon=EPSILON, notion="definition")
        options = Exploiting(spread_multiple=multiple)
        scenario = scenario_of(case, plan, horizon=10**9, options=options, n_epochs=1)
        value = plain.expected(
            plain.run_worlds(scenario, 20_000 if fast else 200_000, seed=1).stages["epoch 0"], "definition"
        )
        horizon = n + round(n / 0.02 * 1.5)
        cells = []
        for seed in seeds:
            found = rcb.audit(case.market(), plan, horizon=horizon, n_worlds=4000, seed=seed, options=options)
            cells.append(found.margins.sel(stage="epoch 0", arm="arm_1", rival="arm_0"))
        said = np.array([float(cell["estimate"]) for cell in cells])
        errors = np.array([float(cell["mcse"]) for cell in cells])
        z = (said - float(value.value[1, 0])) / np.hypot(errors, float(value.error[1, 0]))
        passed = np.mean([int(cell["verdict"]) == 0 for cell in cells])
        name = f"{case.name}, N {n}, spread times {multiple:g}"
        yield Row(
            scenario=name,
            quantity=f"epoch 0, mean of {len(cells)} audits",
            plain=float(value.value[1, 0]),
            plain_error=float(value.error[1, 0]),
            package=float(said.mean()),
            package_error=float(said.std(ddof=1) / np.sqrt(len(said))),
        ).line()
        yield f"| {name} | scatter over stated error | 1 | {said.std(ddof=1) / errors.mean():.2f} | |"
        yield f"| {name} | largest z of one audit; share that passes epoch 0 | | {passed:.0%} | {np.abs(z).max():.1f} |"


# --- the order of a table --------------------------------------------------------------------------------------------


def order(*, fast: bool) -> Iterator[str]:
    """The same thousand users sorted up, down and shuffled: N, regret, guard, and what runs come to."""
    for how in ("up", "down", "shuffled"):
        case = cases.in_order(how)
        plan = rcb.calibrate(case.market(), epsilon=EPSILON, n_worlds=500 if fast else 2000, horizon=2000, seed=1)
        chosen = next((one for one in plan.choices if one.n_per_arm == plan.n_per_arm), None)
        out = plain.run_worlds(
            scenario_of(case, plan, horizon=2000), 500 if fast else 2000, seed=1, watched=np.eye(2), batch=250
        )
        regret, error = out.regret()
        if chosen is not None:
            yield Row(
                scenario=case.name,
                quantity=f"regret of 2,000 rounds, N = {plan.n_per_arm}",
                plain=regret,
                plain_error=error,
                package=chosen.regret,
                package_error=chosen.regret_mcse,
            ).line()
        kept = [round(one.kept, 2) for one in plan.guards][:3]
        yield f"| {case.name} | guard keeps, epochs 0 to 2 | | {kept} | |"


# --- other markets ---------------------------------------------------------------------------------------------------


def grid(*, fast: bool) -> Iterator[str]:
    """Every market of ``truth_cases.grid`` with a fixed plan and a sampled one for each notion."""
    kinds = (None, ("user", True), ("proof", False), ("definition", False))
    for case in cases.grid().values():
        market = case.market()
        for kind in kinds[: 2 if fast else 4]:
            plan = plan_for(market, kind)
            label = Case(**{**_fields(case), "name": f"{case.name}, {kind[0] if kind else 'fixed'}"})
            if not plan.feasible:
                yield f"| {label.name} | infeasible | | | |"
                continue
            horizon = round(3 * plan.expected_cold_start) + 150
            found, out = both_sides(
                label,
                plan,
                horizon=horizon,
                n_worlds=4_000 if fast else 20_000,
                audit_worlds=2000,
                n_users=8,
                n_epochs=4,
                batch=2000 if case.rows is not None else 500,
            )
            rows, _ = compared(label, plan, found, out)
            yield from _verdict_lines(label, found, rows, [])


def plan_for(market: rcb.Market, kind: tuple[str, bool] | None, *, n_per_arm: int = 6) -> rcb.Plan:
    """A fixed plan, or a sampled one for a notion, personalised or not."""
    if kind is None:
        return rcb.fixed_plan(market, n_per_arm=n_per_arm, exploration_rate=0.2, epsilon=0.1)
    return rcb.calibrate(
        market, epsilon=0.1, notion=kind[0], personalised=kind[1], n_per_arm=n_per_arm, n_worlds=400, seed=3
    )


def _fields(case: Case) -> dict:
    return {name: getattr(case, name) for name in case.__dataclass_fields__}


SCENARIOS = {f.__name__: f for f in (coverage, one_rate, guard, panel, order, grid)}


def main() -> int:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description="The package against a plain simulation.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(SCENARIOS)}; all unless given")
    parser.add_argument("--fast", action="store_true", help="fewer worlds and seeds")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(SCENARIOS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}: choose from {', '.join(SCENARIOS)}")
    for name in asked.names or SCENARIOS:
        print(f"\n## {name}\n\n| scenario | quantity | plain | package | z |\n|---|---|---|---|---|", flush=True)
        for line in SCENARIOS[name](fast=asked.fast):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
