"""Audits and plans through workers: the same to the last bit, whoever works and whatever is killed; gone on from."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.auditing import plan_judging
from rcb_bayes.auditing.drawing import Drawn, Source
from rcb_bayes.auditing.plan_judging import seen_plan
from rcb_bayes.auditing.plan_run import PlanRun
from rcb_bayes.auditing.view import Asked
from rcb_bayes.errors import WorkersError
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import as_knowledge
from rcb_bayes.mechanism.notions import USER
from rcb_bayes.workers import Tally, crews
from rcb_bayes.workers.crews import dismiss


@pytest.fixture(scope="module", autouse=True)
def _processes() -> Iterator[None]:
    yield
    dismiss()


@cache
def market() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.3, 0.1], [0.1, 0.1], [0.0, 0.0]], 0.2)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


@cache
def plan() -> rcb.Plan:
    return rcb.calibrate(market(), epsilon=0.1, n_per_arm=5, n_worlds=300, audit_worlds=300)


def audit(**how: Any) -> rcb.Audit:
    own: dict[str, Any] = {"horizon": 120, "n_worlds": 300, "n_users": 12, "seed": 3}
    return rcb.audit(market(), plan(), **(own | how))


def assert_same(one: rcb.Audit, other: rcb.Audit) -> None:
    assert one.verdicts == other.verdicts
    assert one.to_dict() == other.to_dict()
    xr.testing.assert_identical(one.margins, other.margins)
    xr.testing.assert_identical(one.compliance, other.compliance)


# --- the same answer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knows", ["stage", "mechanism"])
def test_two_workers_give_the_same_audit(knows: str) -> None:
    assert_same(audit(knows=knows), audit(knows=knows, workers=2))


def test_so_they_do_some_users_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_judging, "_WHOLE", 0)
    monkeypatch.setattr(plan_judging, "_PIECE", 3 * 5 * 300)
    assert_same(audit(), audit(workers=2))


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["stage", "level", "phase", "mechanism"])
@pytest.mark.parametrize("in_parts", [False, True])
def test_eight_workers_and_an_executor(knows: str, in_parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if in_parts:
        monkeypatch.setattr(plan_judging, "_WHOLE", 0)
        monkeypatch.setattr(plan_judging, "_PIECE", 3 * 5 * 300)
    here = audit(knows=knows, n_worlds=1100)
    assert_same(here, audit(knows=knows, n_worlds=1100, workers=1))
    assert_same(here, audit(knows=knows, n_worlds=1100, workers=8))
    with ThreadPoolExecutor(3) as threads:
        assert_same(here, audit(knows=knows, n_worlds=1100, workers=threads))


def test_any_size_of_batches_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    here = audit(n_worlds=1300)
    monkeypatch.setattr(plan_judging, "_MANY_BLOCKS", 1)
    for unit in (2, 3):
        monkeypatch.setattr(plan_judging, "_UNIT", unit)
        assert_same(here, audit(n_worlds=1300))


def test_a_policy_and_a_plan_with_an_oracle_of_its_own(tmp_path: Path) -> None:
    oracle = rcb.RidgeOracle()
    sizes: dict[str, Any] = {"horizon": 30, "n_worlds": 60, "n_users": 6, "seed": 3}
    for what, how in ((_always, {}), (plan(), {"oracle": oracle})):
        run = partial(rcb.audit, market(), what, **how, **sizes)
        folder = tmp_path / type(what).__name__
        here = run()
        assert_same(here, run(workers=2, folder=folder))
        (folder / "audit.nc").unlink()
        assert_same(here, run(folder=folder))  # from the worlds that were kept


def _always(own: rcb.Market, seed: int) -> Any:
    return rcb.baselines.AlwaysArm(own, own.arms[1])


def test_until_decided(tmp_path: Path) -> None:
    how: dict[str, Any] = {"until": "decided", "n_worlds": 60, "max_worlds": 120, "epsilon": 0.05}
    here = audit(**how)
    assert_same(here, audit(**how, workers=2, folder=tmp_path / "out"))
    assert_same(here, audit(**how, folder=tmp_path / "out"))


def test_rewards_of_zero_and_one() -> None:
    rows = np.array([[1.0, 0.2], [1.0, -0.5], [1.0, 0.9]])
    prior = rcb.Prior.gaussian([[0.3, 0.0], [0.0, 0.0]], 0.5)
    own = rcb.Market(prior=prior, covariates=rcb.Empirical(rows), noise=rcb.BernoulliLogit())
    made = rcb.fixed_plan(own, epsilon=0.1, n_per_arm=4, exploration_rate=0.2)
    run = partial(rcb.audit, own, made, horizon=30, n_worlds=60, seed=3, options=rcb.Exploiting(guard=False))
    assert_same(run(), run(workers=2))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), [("student_t", "auto"), ("hierarchical", "auto")])
def test_beliefs_of_other_kinds(name: str, engine: str) -> None:
    own = rcb.Market(
        prior=rcb.load_prior(name, n_arms=2, n_features=2), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3)
    )
    calibrate = partial(rcb.calibrate, own, epsilon=0.2, n_per_arm=4, n_worlds=520, audit_worlds=200, engine=engine)
    here = calibrate()
    assert here.to_dict() == calibrate(workers=2).to_dict()
    run = partial(rcb.audit, own, here, horizon=40, n_worlds=300, n_users=8, seed=3)
    assert_same(run(), run(workers=2))


@pytest.mark.slow
def test_a_plan_by_nuts_is_handed_out_and_gone_on_from(tmp_path: Path) -> None:
    own = rcb.Market(
        prior=rcb.load_prior("student_t", n_arms=2, n_features=1),
        covariates=rcb.Sphere(1),
        noise=rcb.GaussianNoise(0.3),
    )
    sizes: dict[str, Any] = {"n_per_arm": 3, "n_worlds": 130, "audit_worlds": 100, "guard": False, "engine": "nuts"}
    calibrate = partial(rcb.calibrate, own, epsilon=0.2, **sizes)
    here = calibrate()
    assert here.to_dict() == calibrate(workers=2, folder=tmp_path / "out").to_dict()
    kept = sorted((tmp_path / "out" / "cells").glob("posteriors-*"))
    assert kept
    (tmp_path / "out" / "plan.json").unlink()
    kept[0].unlink()
    assert here.to_dict() == calibrate(folder=tmp_path / "out").to_dict()


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_whose_n_is_chosen_is_the_same_and_is_gone_on_from(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"epsilon": 0.2, "n_worlds": 200, "audit_worlds": 200, "horizon": 200}
    calibrate = partial(rcb.calibrate, market(), **sizes)
    here, folder = calibrate(), tmp_path / "out"
    assert here.to_dict() == calibrate(workers=2, folder=folder).to_dict()
    assert here.to_dict() == calibrate(folder=folder).to_dict()  # read
    (folder / "plan.json").unlink()
    assert list((folder / "cells").glob("samples-*.nc"))
    assert here.to_dict() == calibrate(folder=folder).to_dict()  # from its parts
    with pytest.raises(rcb.RcbError, match=r"holds another run: seed 1 there, 2 here"):
        calibrate(folder=folder, seed=2)


# --- nothing lost ----------------------------------------------------------------------------------------------------


def killed_draw(folder: str, run: PlanRun, task: tuple[Source, range]) -> Drawn:
    """The worker of the second block is killed the first time."""
    (Path(folder) / f"ran-{task[0].name}-{task[1].start}-{len(list(Path(folder).glob('ran-*')))}-{os.getpid()}").touch()
    if task[1].start == 1 and not (Path(folder) / "killed").exists():
        (Path(folder) / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _draw(run, task)


_draw = plan_judging._draw


def test_a_worker_killed_in_the_middle_of_an_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Asked(
        notion=USER, epsilon=0.1, n_worlds=900, n_users=12, level=0.05, seed=3, knows=as_knowledge("stage")
    )
    look = partial(seen_plan, market(), plan(), question, horizon=120, options=Exploiting())
    here, tally = look(), Tally()
    monkeypatch.setattr(plan_judging, "_draw", partial(killed_draw, str(tmp_path)))
    there = look(workers=2, tally=tally)
    assert (tmp_path / "killed").exists()
    assert tally.n_repeated == 1
    blocks = [path.name.rsplit("-", 2)[0] for path in tmp_path.glob("ran-*")]
    assert len(blocks) - len(set(blocks)) == 1  # one batch was run again, and no other
    for one, other in zip(here.views, there.views, strict=True):
        np.testing.assert_array_equal(one.cells["user"].estimate, other.cells["user"].estimate)
        np.testing.assert_array_equal(one.cells["user"].reach.largest, other.cells["user"].reach.largest)


class Stopped(Exception):
    pass


def test_an_audit_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, folder = audit(n_worlds=900), tmp_path / "out"
    done: list[int] = []

    def stopping(run: PlanRun, task: Any) -> Drawn:
        if len(done) == 4:
            raise Stopped
        done.append(task[1].start)
        return _draw(run, task)

    with monkeypatch.context() as patched:
        patched.setattr(plan_judging, "_draw", stopping)
        with pytest.raises(Stopped):
            audit(n_worlds=900, folder=folder)
    kept = {path: path.stat().st_mtime_ns for path in (folder / "cells").glob("*.nc")}
    assert len(kept) == 4
    assert_same(here, audit(n_worlds=900, folder=folder, workers=2))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # not computed again
    monkeypatch.setattr(plan_judging, "_draw", None)
    assert_same(here, audit(n_worlds=900, folder=folder))  # read


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (0, "workers must be 1 to"),
        (-1, "workers must be 1 to"),
        (2.5, "got float"),
        ("", "an empty text"),
        ("tcp://127.0.0.1:9", "There is no Dask scheduler at 'tcp://127.0.0.1:9'"),
    ],
)
def test_workers_that_are_none(workers: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crews, "_CONNECT_SECONDS", 1)
    if isinstance(workers, str) and workers:
        pytest.importorskip("distributed")
    with pytest.raises(WorkersError, match=said):
        audit(workers=workers)
    with pytest.raises(WorkersError, match=said):
        rcb.calibrate(market(), n_per_arm=5, workers=workers)


def test_an_executor_that_is_shut_down() -> None:
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with pytest.raises(WorkersError, match=r"is shut down\. Pass one that is open"):
        audit(workers=threads)


def test_a_folder_of_another_audit_a_file_and_other_files(tmp_path: Path) -> None:
    audit(n_worlds=60, folder=tmp_path / "out")
    with pytest.raises(rcb.RcbError, match=r"holds another run: n_worlds 60 there, 61 here"):
        audit(n_worlds=61, folder=tmp_path / "out")
    with pytest.raises(rcb.RcbError, match="holds another run"):
        rcb.calibrate(market(), n_per_arm=5, folder=tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(rcb.RcbError, match="is a file, expected a folder"):
        audit(folder=tmp_path / "file")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "notes.txt").write_text("")
    with pytest.raises(rcb.RcbError, match="holds other files, and no run"):
        audit(folder=tmp_path / "others")


def test_a_full_disk_and_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    for number in (errno.ENOSPC, errno.EROFS):

        def fails(*_: Any, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(plan_judging, "write_part", fails)
            said = rf"{os.strerror(number)}\. What was finished before is kept in .*: make room, or make it writable"
            with pytest.raises(rcb.RcbError, match=said) as told:
                audit(n_worlds=60, folder=tmp_path / str(number))
        assert "\n" not in str(told.value)
    audit(n_worlds=60, folder=tmp_path / str(errno.ENOSPC))  # goes on once there is room
