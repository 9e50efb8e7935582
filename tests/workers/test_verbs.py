"""Whoever works, the answer is the same to the last bit: every verb with one, two and more workers."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.gaps.estimation import estimate_separation
from rcb_bayes.mechanism.worlds import BLOCK
from rcb_bayes.running.simulation import _Cast, _prepared, _run
from rcb_bayes.workers import Tally, run_blocks
from rcb_bayes.workers.crews import dismiss
from tests.workers import jobs

ALL = [2, pytest.param(8, marks=pytest.mark.slow)]


@pytest.fixture(scope="module", autouse=True)
def _no_workers_are_left() -> Iterator[None]:
    yield
    dismiss()


def gaussian() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


def quick() -> rcb.PosteriorOracle:
    """Round the summaries, which take most of the time."""
    return rcb.PosteriorOracle(gaussian().prior, gaussian().noise, read="engine")


def of_gallery(name: str) -> rcb.Market:
    prior = rcb.load_prior(name, n_arms=2, n_features=2)
    noise: Any = None if prior.has_sigma else rcb.GaussianNoise(0.3)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=noise)


@pytest.fixture(scope="module")
def plan() -> rcb.Plan:
    return rcb.fixed_plan(gaussian(), epsilon=0.1, n_per_arm=5, exploration_rate=0.3)


@pytest.mark.parametrize("workers", ALL)
def test_simulate(plan: rcb.Plan, workers: int, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"horizon": 60, "n_worlds": 9, "oracle": quick(), "seed": 3}
    here = rcb.simulate(gaussian(), plan, **sizes)
    xr.testing.assert_identical(here, rcb.simulate(gaussian(), plan, **sizes, workers=workers))
    stored = rcb.simulate(gaussian(), plan, **sizes, workers=workers, store=tmp_path / "runs.zarr")
    xr.testing.assert_identical(here, stored.compute())


@pytest.mark.parametrize("batch", [1, 4, 9])
def test_worlds_do_not_depend_on_their_batches(plan: rcb.Plan, batch: int) -> None:
    cast = _Cast(gaussian(), plan, horizon=60, every=1, oracle=quick(), options=None, behaviour=None, seed=3)
    here, there = (
        run_blocks(_run, 9, make=partial(_prepared, cast), workers=workers, batch=batch) for workers in (None, 2)
    )
    alone = _run(cast, 8)
    for found in (here, there):
        assert all((found[8][name] == alone[name]).all() or name == "gamma" for name in alone)


@pytest.mark.parametrize("workers", ALL)
def test_gaps_and_assumptions(workers: int) -> None:
    sizes: dict[str, Any] = {"n_per_arm": 6, "n_worlds": 2 * BLOCK + 30, "seed": 2}
    gaps = partial(rcb.estimate_gaps, gaussian(), saturated=["old"], **sizes)
    xr.testing.assert_identical(gaps(), gaps(workers=workers))
    users = np.array([[0.2, 0.9], [1.0, 0.0]])
    xr.testing.assert_identical(gaps(users=users), gaps(users=users, workers=workers))
    separation = partial(estimate_separation, gaussian(), **sizes)
    xr.testing.assert_identical(separation(), separation(workers=workers))
    here, there = (rcb.check_assumptions(gaussian(), **sizes, workers=one) for one in (None, workers))
    assert [check for check in here] == [check for check in there]
    curve = partial(rcb.gap_curve, gaussian(), n_grid=[2, 5], tau=0.1, floor=0.1, saturated=["old"], n_worlds=600)
    xr.testing.assert_identical(curve(), curve(workers=workers))


@pytest.mark.usefixtures("small_panel")  # which workers know nothing of
def test_tradeoff_goes_on_in_its_folder(tmp_path: Path) -> None:
    tradeoff = partial(rcb.tradeoff, gaussian(), epsilons=[0.05, 0.2], n_grid=[5], n_worlds=100, seed=1)
    here = tradeoff()
    xr.testing.assert_identical(here, tradeoff(folder=tmp_path / "out"))
    (tmp_path / "out" / "cells" / "epsilon0.2-n5-each.nc").unlink()
    xr.testing.assert_identical(here, tradeoff(folder=tmp_path / "out"))
    with pytest.raises(rcb.RcbError, match="holds another run: seed 1 there, 2 here"):
        tradeoff(folder=tmp_path / "out", seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 8])
def test_plans_over_grids(workers: int, tmp_path: Path) -> None:
    tradeoff = partial(rcb.tradeoff, gaussian(), epsilons=[0.05, 0.2], n_grid=[5, 20], n_worlds=200, seed=1)
    xr.testing.assert_identical(tradeoff(), tradeoff(workers=workers))
    price = partial(rcb.price_of_knowledge, gaussian(), epsilon=0.1, n_per_arm=10, n_worlds=200)
    xr.testing.assert_identical(price(), price(workers=workers))


@pytest.mark.parametrize("workers", ALL)
def test_compare_plans(plan: rcb.Plan, workers: int, tmp_path: Path) -> None:
    plans = {"fixed": plan, "new only": lambda market, seed: rcb.baselines.AlwaysArm(market, "new")}
    sizes: dict[str, Any] = {"horizon": 60, "n_worlds": 3, "audit_worlds": 100, "audit_horizon": 2}
    compare = partial(rcb.compare_plans, gaussian(), plans, **sizes)
    here = compare().drop_vars("seconds")
    xr.testing.assert_identical(here, compare(workers=workers, folder=tmp_path / "out").drop_vars("seconds"))
    xr.testing.assert_identical(here, compare(folder=tmp_path / "out").drop_vars("seconds"))  # read
    with pytest.raises(rcb.RcbError, match="holds another run: horizon 60 there, 61 here"):
        compare(horizon=61, folder=tmp_path / "out")


@pytest.mark.parametrize("workers", ALL)
def test_audit_types(plan: rcb.Plan, workers: int, tmp_path: Path) -> None:
    doubters = rcb.Prior.gaussian([[0.9, 0.2], [0.2, 0.2]], 0.01, arms=["old", "new"])
    types = [rcb.UserType(name="as planned", share=0.7), rcb.UserType(name="doubters", share=0.3, prior=doubters)]
    judge = partial(rcb.audit_types, gaussian(), plan, types, horizon=20, n_worlds=100, n_users=20)
    here, there, read = judge(), judge(workers=workers, folder=tmp_path / "out"), judge(folder=tmp_path / "out")
    assert here.to_dict() == there.to_dict() == read.to_dict()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 8])
def test_calibrate(workers: int) -> None:
    """With N chosen, and with an audit to pass."""
    made = partial(rcb.calibrate, gaussian(), epsilon=0.2, n_worlds=200, audit_worlds=200, horizon=200)
    assert made().to_dict() == made(workers=workers).to_dict()


@pytest.mark.parametrize("workers", ALL)
def test_sensitivity_goes_on_in_its_folder(plan: rcb.Plan, workers: int, tmp_path: Path) -> None:
    amounts = {"scale": [0.5, 1.0], "noise": [2.0]}
    sizes: dict[str, Any] = {"along": list(amounts), "amounts": amounts, "horizon": 20, "n_worlds": 60, "n_users": 10}
    judge = partial(rcb.sensitivity, gaussian(), plan, **sizes, n_runs=2)
    here, folder = judge(), tmp_path / "out"
    assert here.identical(judge(workers=workers, folder=folder))
    kept = sorted(folder.glob("cells/*.json"))
    assert [path.stem for path in kept] == ["as-written", "direction-0", "direction-1"]
    kept[1].unlink()
    times = {path: path.stat().st_mtime_ns for path in (kept[0], kept[2])}
    assert here.identical(judge(folder=folder))
    assert {path: path.stat().st_mtime_ns for path in times} == times
    with pytest.raises(rcb.RcbError, match="holds another run: horizon 20 there, 21 here"):
        judge(folder=folder, horizon=21)
    kept[1].write_text(kept[1].read_text().replace("scale", "scalf", 1))
    with pytest.raises(rcb.RcbError, match=r"direction-0\.json.* Delete the file to have it computed anew"):
        judge(folder=folder)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 8])
def test_report(workers: int) -> None:
    sizes = rcb.ReportSizes(
        plan_worlds=200, audit_worlds=200, run_worlds=2, knowledge_worlds=100, radius_worlds=0, epsilons=(0.2, 0.3)
    )
    made: dict[str, Any] = {"epsilon": 0.1, "n_per_arm": 10, "horizon": 100, "sizes": sizes}
    here, there = (rcb.report(gaussian(), **made, workers=one) for one in (None, workers))
    assert here.to_dict() == there.to_dict()
    assert here.to_html() == there.to_html()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 8])
def test_reproduce(workers: int) -> None:
    def parts(one: int | None) -> "tuple[xr.Dataset, ...]":
        return rcb.studies.reproduce("setting-4", rcb.studies.Request(fast=True, n_worlds=2, workers=one))[0].parts

    for here, there in zip(parts(None), parts(workers), strict=True):
        timed = [name for name in here.data_vars if "seconds" in str(name)]
        xr.testing.assert_identical(here.drop_vars(timed), there.drop_vars(timed))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 8])
def test_warfarin(workers: int, tmp_path: Path) -> None:
    cohort = rcb.studies.synthetic_cohort(200, seed=1)
    sizes: dict[str, Any] = {"epsilons": [0.1], "variances": [0.8], "n_permutations": 2, "n_plans": 1, "n_worlds": 50}
    run = partial(rcb.studies.run_warfarin, cohort, **sizes, audit=True, audit_worlds=50, baselines=False)
    here, there, read = run(), run(workers=workers, folder=tmp_path / "out"), run(folder=tmp_path / "out")
    for name in ("runs", "figures", "groups", "grid", "plans", "audits"):
        xr.testing.assert_identical(getattr(here, name), getattr(there, name))
        xr.testing.assert_identical(getattr(here, name), getattr(read, name))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 8])
@pytest.mark.parametrize(("name", "engine"), [("student_t", "auto"), ("hierarchical", "auto"), ("student_t", "nuts")])
def test_beliefs_of_all_kinds(name: str, engine: str, workers: int) -> None:
    market = of_gallery(name)
    n_worlds = 6 if engine == "nuts" else BLOCK + 20
    gaps = partial(rcb.estimate_gaps, market, saturated=["arm_0"], n_per_arm=5, n_worlds=n_worlds, engine=engine)
    xr.testing.assert_identical(gaps(), gaps(workers=workers))
    plan = rcb.fixed_plan(market, epsilon=0.1, n_per_arm=4, exploration_rate=0.3)
    oracle = rcb.PosteriorOracle(market.prior, market.noise, engine=engine, read="engine")
    run = partial(rcb.simulate, market, plan, horizon=40, n_worlds=4, oracle=oracle)
    xr.testing.assert_identical(run(), run(workers=workers))


def test_a_worker_killed_in_the_middle_of_a_simulation(plan: rcb.Plan, tmp_path: Path) -> None:
    cast = _Cast(gaussian(), plan, horizon=60, every=1, oracle=quick(), options=None, behaviour=None, seed=3)
    tally = Tally()
    function = partial(killed_world, str(tmp_path))
    found = run_blocks(function, 12, make=partial(_prepared, cast), workers=2, batch=2, tally=tally)
    assert tally.n_repeated == 1
    assert (tmp_path / "killed").exists()
    for number, world in enumerate(found):
        alone = _run(cast, number)
        for name, values in alone.items():
            np.testing.assert_array_equal(world[name], values)


def killed_world(folder: str, cast: Any, number: int) -> Any:
    """The worker of world 5 is killed the first time, in the middle of its batch."""
    if number == 5 and not (Path(folder) / "killed").exists():
        (Path(folder) / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _run(cast, number)


def test_a_worker_killed_from_outside_while_a_store_is_written(plan: rcb.Plan, tmp_path: Path) -> None:
    """Killed at some moment, as the system does it when memory is short."""
    psutil = pytest.importorskip("psutil")
    assert dict(_started())  # before the clock is

    def kill() -> None:
        time.sleep(0.3)
        for one in psutil.Process().children(recursive=True):
            if "popen_loky" in " ".join(one.cmdline()):  # not the process that tracks their semaphores
                one.kill()
                return

    killer = threading.Thread(target=kill)
    killer.start()
    sizes: dict[str, Any] = {"horizon": 400, "n_worlds": 64, "oracle": quick(), "seed": 3}
    stored = rcb.simulate(gaussian(), plan, **sizes, workers=2, store=tmp_path / "runs.zarr")
    killer.join()
    xr.testing.assert_identical(stored.compute(), rcb.simulate(gaussian(), plan, **sizes))


def _started() -> Any:
    from rcb_bayes.workers import run_tasks

    return run_tasks(jobs.slowly, range(2), make=jobs.three, workers=2)
