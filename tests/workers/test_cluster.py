"""A Dask cluster of two worker processes over loopback: the same answers, workers that die, a scheduler that does."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.auditing import plan_judging
from rcb_bayes.errors import WorkersError
from rcb_bayes.workers import run_tasks, sum_blocks
from tests.workers import jobs

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Dask's own, when processes go away
]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster() -> Iterator[Any]:
    made: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**made, host="127.0.0.1", silence_logs=50) as found:
        yield found


def market() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


def test_an_address_and_a_client_give_the_same_answers(cluster: Any, tmp_path: Path) -> None:
    plan = rcb.fixed_plan(market(), epsilon=0.1, n_per_arm=5, exploration_rate=0.3)
    run = partial(rcb.simulate, market(), plan, horizon=60, n_worlds=8, seed=3)
    here = run()
    with distributed.Client(cluster, set_as_default=False) as client:
        xr.testing.assert_identical(here, run(workers=client))
        stored = run(workers=client, store=tmp_path / "runs.zarr")
        xr.testing.assert_identical(here, stored.compute(scheduler="synchronous"))
        assert client.status == "running"  # it is its owner's
    xr.testing.assert_identical(here, run(workers=cluster.scheduler_address))
    gaps = partial(rcb.estimate_gaps, market(), saturated=["old"], n_per_arm=5, n_worlds=1100)
    xr.testing.assert_identical(gaps(), gaps(workers=cluster.scheduler_address))
    sums = [sum_blocks(jobs.block, 40, make=jobs.three, workers=one) for one in (None, cluster.scheduler_address)]
    assert sums[0]["sums"][0].tolist() == sums[1]["sums"][0].tolist()


def test_a_student_t_belief_on_a_cluster(cluster: Any) -> None:
    prior = rcb.load_prior("student_t", n_arms=2, n_features=2)
    own = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    gaps = partial(rcb.estimate_gaps, own, saturated=["arm_0"], n_per_arm=5, n_worlds=600)
    xr.testing.assert_identical(gaps(), gaps(workers=cluster.scheduler_address))


def small() -> "tuple[rcb.Market, rcb.Plan]":
    prior = rcb.Prior.gaussian([[0.3, 0.1], [0.1, 0.1], [0.0, 0.0]], 0.2)
    own = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    return own, rcb.calibrate(own, epsilon=0.1, n_per_arm=5, n_worlds=300, audit_worlds=300)


@pytest.mark.parametrize("in_parts", [False, True])
def test_an_audit_and_a_plan_on_a_cluster(cluster: Any, in_parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if in_parts:  # scenes in pieces, with worlds that travel to whoever looks at them
        monkeypatch.setattr(plan_judging, "_WHOLE", 0)
        monkeypatch.setattr(plan_judging, "_PIECE", 3 * 5 * 300)
    own, plan = small()
    audit = partial(rcb.audit, own, plan, horizon=120, n_worlds=1100, n_users=12, seed=3)
    here = audit()
    for workers in (cluster.scheduler_address, 2):
        there = audit(workers=workers)
        assert here.to_dict() == there.to_dict()
        xr.testing.assert_identical(here.margins, there.margins)
    if not in_parts:
        again = rcb.calibrate(
            own, epsilon=0.1, n_per_arm=5, n_worlds=300, audit_worlds=300, workers=cluster.scheduler_address
        )
        assert again.to_dict() == plan.to_dict()


def test_a_scheduler_that_goes_away_in_an_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, plan = small()
    audit = partial(rcb.audit, own, plan, horizon=120, n_worlds=1100, n_users=12, seed=3)
    here, folder = audit(), tmp_path / "out"
    save = plan_judging._save
    made: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    found = distributed.LocalCluster(**made, host="127.0.0.1", silence_logs=50)

    def third(*arguments: Any) -> None:
        save(*arguments)
        if len(list((folder / "cells").glob("*.nc"))) == 3:
            found.close()

    with monkeypatch.context() as patched:
        patched.setattr(plan_judging, "_save", third)
        said = r"to the Dask scheduler at tcp://.* was lost.*What was finished is kept in .*out"
        with pytest.raises(WorkersError, match=said) as told:
            audit(workers=found.scheduler_address, folder=folder)
    assert "\n" not in str(told.value)
    kept = {path: path.stat().st_mtime_ns for path in (folder / "cells").glob("*.nc")}
    assert len(kept) >= 3
    there = audit(folder=folder)
    assert here.to_dict() == there.to_dict()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # not computed again


def test_a_killed_worker_costs_its_task(cluster: Any, tmp_path: Path) -> None:
    make = partial(jobs.counted, str(tmp_path))
    found = dict(run_tasks(jobs.killed_once, range(30), make=make, workers=cluster.scheduler_address))
    assert {task for _, task in found.values()} == set(range(30))
    runs = jobs.runs_of(tmp_path)
    assert set(runs) == set(range(30))
    # What a worker had finished and not handed over when it died is run again, too.
    assert sum(runs.values()) <= 30 + 1 + 4


def test_a_task_that_kills_every_worker_is_given_up(cluster: Any) -> None:
    with pytest.raises(WorkersError, match=r"A batch ended every worker of tcp://.* that it was given to"):
        list(run_tasks(jobs.always_killed, [0], make=jobs.three, workers=cluster.scheduler_address))


def test_a_worker_of_another_version_is_refused_by_name(cluster: Any) -> None:
    with distributed.Client(cluster, set_as_default=False) as client:
        client.run(jobs.other_versions)
        with pytest.raises(WorkersError, match=r"The worker .*, process \d+ has rcb_bayes 0\.0\.1 \(here"):
            list(run_tasks(jobs.times, range(3), make=jobs.three, workers=client))


def started(*words: str) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "distributed.cli." + words[0], *words[1:]], env=environment, **pipes)


def test_a_scheduler_that_goes_away_is_told(tmp_path: Path) -> None:
    scheduler = started("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    worker = None
    try:
        assert scheduler.stderr is not None
        address = next(re.findall(r"tcp://[\d.:]+", line)[0] for line in scheduler.stderr if "tcp://" in line)
        words = ("--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--no-nanny", "--death-timeout", "5")
        worker = started("dask_worker", address, *words)
        kept: list[int] = []

        def take() -> None:
            for number, _ in run_tasks(jobs.slowly, range(200), make=jobs.three, workers=address):
                kept.append(number)
                if len(kept) == 3:
                    scheduler.kill()

        with pytest.raises(WorkersError, match=r"to the Dask scheduler at tcp://.* was lost.*finished") as told:
            take()
        assert len(kept) >= 3
        assert "\n" not in str(told.value)
        with pytest.raises(WorkersError, match="There is no Dask scheduler at"):
            list(run_tasks(jobs.slowly, range(2), make=jobs.three, workers=address))
    finally:
        for one in (scheduler, worker):
            if one is not None:
                one.kill()
                one.communicate()
        time.sleep(0.1)


def test_a_closed_client_is_refused(cluster: Any) -> None:
    client = distributed.Client(cluster, set_as_default=False)
    client.close()
    with pytest.raises(WorkersError, match=r"The Dask client for .* is closed"):
        list(run_tasks(jobs.times, range(3), make=jobs.three, workers=client))
