"""A setting from plans to files, with very small cells."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.studies.paper import Request, measures, reproduction
from rcb_bayes.studies.paper.cells import run_cell
from rcb_bayes.studies.paper.reproduction import run_cells
from rcb_bayes.studies.paper.settings import KINDS, SETTINGS, Cell, Effort

TINY = Effort(n_worlds=2, plan_worlds=60, audit_worlds=60, audit_users=5, audit_rounds=20, most_rounds=200)
FIRST = Cell(belief="setting_1", n_arms=2, n_features=2, fixed=(5,))
FOURTH = Cell(belief="setting_4", n_arms=2, n_features=2, fixed=(5,), inflations=("linear", "log"), variance=0.1)


def test_a_cell_has_all_plans_in_the_same_worlds():
    found = run_cell(FIRST, effort=TINY, seed=1)
    names = ["theorem", "theorem, measured", "fixed, N = 5", "sampled, uniform", "sampled, personalised"]
    assert found["run"].values.tolist() == names
    assert found["n_per_arm"].sel(run="theorem, measured") < found["n_per_arm"].sel(run="theorem")
    assert (found["tau"].sel(run="theorem").item(), found["rho"].sel(run="theorem").item()) == (0.01, 0.95)
    assert found["t"].values[-1] == 200
    assert (np.diff(found["regret"].values, axis=2) >= 0).all()
    assert "and there are 200" in found["note"].sel(run="theorem").item()
    assert (found["verdict_proof"].values != "").all()


def test_inflated_runs_are_audited_as_they_were_run(monkeypatch: pytest.MonkeyPatch):
    run_with, audited_with = [], []

    def spied(name: str, seen: list):
        original = getattr(measures, name)

        def called(*given, **options):
            seen.append(options["options"].inflation)
            return original(*given, **options)

        monkeypatch.setattr(measures, name, called)

    spied("simulate", run_with)
    spied("audit", audited_with)
    found = run_cell(FOURTH, effort=replace(TINY, plan_worlds=50, audit_worlds=50, most_rounds=100), seed=1)
    kinds = found["kind"].values.tolist()
    assert kinds == ["theorem"] * 2 + ["measured"] * 2 + ["fixed"] * 2 + ["uniform"] * 2 + ["personalised"]
    fixed = found.isel(run=[4, 5])
    assert fixed["inflation"].values.tolist() == ["linear", "log"]
    assert (fixed["verdict_user"].values != "").all()
    assert {"linear", "log"} == set(audited_with)
    assert audited_with == run_with[-len(audited_with) :]  # the theorem's plan may see no arm saturated
    assert not any("without inflation" in note for note in found["note"].values)


def test_runs_without_audits_have_no_verdicts():
    cell = replace(FIRST, kinds=("fixed",), users="orthant")
    found = run_cell(cell, effort=replace(TINY, audit_worlds=0), seed=1)
    assert (found["verdict_user"].values == "").all()
    assert np.isfinite(found["regret"].values).all()


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    setting = replace(SETTINGS["setting-1"], cells=(FIRST, replace(FIRST, n_arms=3)))
    request = Request(folder=tmp_path / "out", seed=3)
    whole = run_cells(setting, Request(seed=3), effort=TINY)
    done = []

    def stops_after_one(cell: Cell, **given):
        if done:
            raise KeyboardInterrupt
        done.append(cell)
        return run_cell(cell, **given)

    monkeypatch.setattr(reproduction, "run_cell", stops_after_one)
    with pytest.raises(KeyboardInterrupt):
        run_cells(setting, request, effort=TINY)
    monkeypatch.undo()

    def counted(cell: Cell, **given):
        done.append(cell)
        return run_cell(cell, **given)

    monkeypatch.setattr(reproduction, "run_cell", counted)
    outcome = run_cells(setting, replace(request, resume=True), effort=TINY)
    assert [cell.n_arms for cell in done] == [3, 2]  # each once, the longer first
    drop = ["seconds", "audit_seconds"]
    pd.testing.assert_frame_equal(outcome.table.drop(columns=drop), whole.table.drop(columns=drop))
    assert [claim.verdict for claim in outcome.claims] == [claim.verdict for claim in whole.claims]
    names = {path.name for path in outcome.files}
    assert {"table.csv", "claims.txt", *(f"{kind}.png" for kind in KINDS)} == names
    assert all(path.stat().st_size > 0 for path in outcome.files)
    assert len(pd.read_csv(tmp_path / "out" / "table.csv")) == 10


def test_plans_that_a_setting_does_not_have_are_not_drawn(tmp_path: Path):
    setting = replace(SETTINGS["setting-2"], cells=(replace(FIRST, belief="setting_2", kinds=("fixed",)),))
    outcome = run_cells(setting, Request(folder=tmp_path / "out", seed=3), effort=TINY)
    assert {path.name for path in outcome.files} == {"table.csv", "claims.txt", "fixed.png"}
