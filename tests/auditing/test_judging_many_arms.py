"""Audits of very many arms keep the lowest margin of each user and arm, from the bands of all cells."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.auditing import judging
from rcb_bayes.auditing.condensing import LowestCells
from rcb_bayes.mechanism.deciding import ANY_RIVAL, pair_cells, verdict_of
from rcb_bayes.mechanism.knowledge import MOST_SETS
from rcb_bayes.mechanism.notions import PROOF, USER
from tests.auditing.test_condensing import asked, random_view

BOUNDS = ("estimate", "lower", "upper")


def market(n_arms: int = 4) -> rcb.Market:
    prior = rcb.Prior.gaussian(np.zeros((n_arms, 2)), 0.2)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


def both(monkeypatch: pytest.MonkeyPatch, kind: str, notion: str) -> tuple[xr.Dataset, xr.Dataset]:
    """Margins rival by rival, and against any rival, at the same level for a stage."""
    views = [random_view(seed, n_users=5, kind=kind) for seed in (1, 2)]
    n_stages = MOST_SETS + judging._MOST_EPOCHS
    wider = replace(asked(), level=asked().level * len(views) / n_stages)
    full = judging.margins_under(market(), views, wider, notions=(USER, PROOF))[notion]
    monkeypatch.setattr(judging, "MOST_RIVALS", 3)
    return full, judging.margins_under(market(), views, asked(), notions=(USER, PROOF))[notion]


@pytest.mark.parametrize("notion", ["user", "proof"])
@pytest.mark.parametrize("kind", ["kernel", "organic", "own sets"])
def test_the_lowest_margins_are_those_of_all_cells(monkeypatch: pytest.MonkeyPatch, kind: str, notion: str) -> None:
    full, found = both(monkeypatch, kind, notion)
    assert found["rival"].values.tolist() == [ANY_RIVAL]
    assert found["estimate"].dims == full["estimate"].dims
    for name in BOUNDS:
        np.testing.assert_array_equal(found[name].isel(rival=0), full[name].min("rival"))
    np.testing.assert_array_equal(found["verdict"].isel(rival=0), full["verdict"].max("rival"))
    assert verdict_of(found) == verdict_of(full)
    lowest = full["mcse"].where(full["estimate"] == full["estimate"].min("rival")).min("rival")
    np.testing.assert_array_equal(found["mcse"].isel(rival=0), lowest)


def test_the_first_rival_in_place_of_the_lowest_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    full, found = both(monkeypatch, "kernel", "user")
    assert not np.array_equal(found["lower"].isel(rival=0), full["lower"].isel(rival=1), equal_nan=True)


def test_nothing_as_large_as_all_cells_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_RIVALS", 3)
    seen = judging.seen_view(random_view(1), asked(), notions=(USER,))
    cells = seen.cells["user"]
    assert isinstance(cells, LowestCells)
    assert cells.estimate.shape == (3, 4)


@pytest.mark.usefixtures("small_panel")
def test_such_an_audit_is_summed_up_drawn_and_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = rcb.calibrate(market(), n_per_arm=5, n_worlds=100, guard=False, seed=1)
    monkeypatch.setattr(judging, "MOST_RIVALS", 3)
    found = rcb.audit(market(), plan, horizon=100, n_worlds=100, n_users=5, seed=2)
    assert found.margins.sizes["rival"] == 1
    assert found.by_notion["definition"].sizes["rival"] == 4
    assert "against any rival" in found.summary()
    assert [len(row) for row in pair_cells(found.margins)] == [1] * 4
    assert [label.get_text() for label in found.plot(figure="matrix").get_xticklabels()] == [ANY_RIVAL]
    found.save(tmp_path / "audit.nc")
    assert rcb.Audit.load(tmp_path / "audit.nc").margins.equals(found.margins)
