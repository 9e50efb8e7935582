"""Runs in a zarr store: the same as in memory, gone on with after a stop, refused where the store is another's."""

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
import rcb_bayes.running.simulation as simulation
from rcb_bayes import baselines
from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.oracle import PosteriorOracle, RidgeOracle
from rcb_bayes.running.simulation import simulate
from rcb_bayes.users import Uniform

MARKET = Market(
    prior=Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"]),
    covariates=Uniform([0, 0], [1, 1]),
    noise=GaussianNoise(0.3),
)
SIZES: dict[str, Any] = {"horizon": 60, "n_worlds": 7, "seed": 3}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fixed_plan(MARKET, epsilon=0.1, n_per_arm=5, exploration_rate=0.3)


def greedy(market: Market, seed: int) -> baselines.Greedy:
    return baselines.Greedy(market, batch=10, seed=seed)


@pytest.mark.parametrize("every", [1, 7])
def test_a_store_holds_what_memory_would(tmp_path: Path, plan: Plan, every: int) -> None:
    stored = simulate(MARKET, plan, **SIZES, every=every, store=tmp_path / "runs.zarr")
    xr.testing.assert_identical(stored.compute(), simulate(MARKET, plan, **SIZES, every=every))
    assert stored["regret"].chunks is not None or not isinstance(stored["regret"].variable._data, np.ndarray)  # lazy


def test_policies_are_stored_too(tmp_path: Path) -> None:
    stored = simulate(MARKET, greedy, **SIZES, store=tmp_path / "runs.zarr")
    xr.testing.assert_identical(stored.compute(), simulate(MARKET, greedy, **SIZES))


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "runs.zarr"
    run, done = simulation._run, []

    def stopped(cast: Any, number: int) -> Any:
        if number == 4 and 4 not in done:
            done.append(4)
            raise KeyboardInterrupt
        done.append(number)
        return run(cast, number)

    monkeypatch.setattr(simulation, "_run", stopped)
    with pytest.raises(KeyboardInterrupt):
        simulate(MARKET, plan, **SIZES, store=store)
    stored = simulate(MARKET, plan, **SIZES, store=store)
    assert sorted(done) == [0, 1, 2, 3, 4, 4, 5, 6]  # the world that was under way, and those after it
    monkeypatch.setattr(simulation, "_run", run)
    xr.testing.assert_identical(stored.compute(), simulate(MARKET, plan, **SIZES))
    done.clear()
    simulate(MARKET, plan, **SIZES, store=store)
    assert done == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "seed 3 there, 4 here"),
        ({"horizon": 61}, "horizon 60 there, 61 here"),
        ({"n_worlds": 8}, "n_worlds 7 there, 8 here"),
        ({"every": 2}, "every 1 there, 2 here"),
        ({"options": Exploiting(feed="last")}, "options None there"),
        ({"oracle": RidgeOracle(penalty=0.1)}, "oracle None there, 'RidgeOracle penalty=0.1"),
    ],
)
def test_a_store_of_another_run_is_refused(tmp_path: Path, plan: Plan, change: dict[str, Any], message: str) -> None:
    simulate(MARKET, plan, **SIZES, store=tmp_path / "runs.zarr")
    with pytest.raises(RcbError, match=f"holds another run: .*{message}.*Choose another place"):
        simulate(MARKET, plan, **SIZES | change, store=tmp_path / "runs.zarr")


def test_another_market_or_plan_is_another_run(tmp_path: Path, plan: Plan) -> None:
    simulate(MARKET, plan, **SIZES, store=tmp_path / "runs.zarr")
    other = fixed_plan(MARKET, epsilon=0.1, n_per_arm=5, exploration_rate=0.31)
    with pytest.raises(RcbError, match="holds another run: plan"):
        simulate(MARKET, other, **SIZES, store=tmp_path / "runs.zarr")
    with pytest.raises(RcbError, match="holds another run: plan"):
        simulate(MARKET, greedy, **SIZES, store=tmp_path / "runs.zarr")


def test_places_that_are_none_are_refused(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "file").write_text("no store")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "other.txt").write_text("of somebody else")
    for store, message in (
        ("", "store must be the path of a zarr store"),
        (3, "store must be a text or a path, got 3"),
        (tmp_path / "file", "is a file, expected a folder or nothing"),
        (tmp_path / "folder", "holds other files, and no runs"),
        (tmp_path / "file" / "runs.zarr", "Cannot make the store"),
    ):
        with pytest.raises(RcbError, match=message):
            rcb.simulate(MARKET, plan, **SIZES, store=store)  # pyright: ignore[reportArgumentType]
    assert (tmp_path / "folder" / "other.txt").exists()


def test_a_full_disk_is_told_with_what_is_kept(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    import zarr

    write = zarr.Array.__setitem__
    written = []

    def full(array: Any, selection: Any, value: Any) -> None:
        written.append(array.name)
        if len(written) > 30:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(array, selection, value)

    with monkeypatch.context() as patch:
        patch.setattr(zarr.Array, "__setitem__", full)
        with pytest.raises(
            RcbError, match=r"No space left on device\. Worlds that are finished are kept there"
        ) as told:
            simulate(MARKET, plan, **SIZES, store=tmp_path / "runs.zarr")
    assert "\n" not in str(told.value)
    stored = simulate(MARKET, plan, **SIZES, store=tmp_path / "runs.zarr")
    xr.testing.assert_identical(stored.compute(), simulate(MARKET, plan, **SIZES))


def test_oracles_travel_without_what_they_compiled() -> None:
    oracle = PosteriorOracle(MARKET.prior, MARKET.noise, read="engine")
    assert oracle.made.name == "exact"
    found = pickle.loads(pickle.dumps(oracle))
    assert "made" not in vars(found)
    assert (found.read, found.engine, found.seed) == (oracle.read, oracle.engine, oracle.seed)


def test_plans_travel(plan: Plan) -> None:
    found = pickle.loads(pickle.dumps(plan))
    assert found.to_dict() == plan.to_dict()
    users = np.random.default_rng(1).random((5, 2))
    np.testing.assert_array_equal(found.rate(users), plan.rate(users))
