"""The cell that decides: one rule for audits, figures, pages and comparisons, with and without users."""

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes import Audit, Market, Prior
from rcb_bayes.auditing.comparison import _judged
from rcb_bayes.auditing.result import FIGURES
from rcb_bayes.cli.app import run
from rcb_bayes.mechanism.deciding import (
    deciding_cell,
    deciding_of,
    deciding_place,
    lowest_by_user,
    lowest_margin,
    pair_cells,
    stage_cells,
    verdict_of,
)
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.studies.paper.measures import worst_margins
from tests.plots.drawing import dots_of, save
from tests.plots.test_audits import margins_of

pytestmark = pytest.mark.usefixtures("small_panels")

BELIEF = ("setting_4", "--set", "n_arms=2", "--set", "n_features=2")
SMALL = ("--n-per-arm", "10", "--horizon", "60", "--worlds", "100", "--users", "5")


@pytest.mark.parametrize("with_verdict", [True, False])
def test_it_is_the_lowest_of_the_worst_verdict(with_verdict: bool) -> None:
    margins = margins_of(with_verdict=with_verdict)
    worst = deciding_cell(margins, epsilon=0.05)
    assert worst is not None
    assert worst[:5] == ("fail", "second", 2, "new", "old")
    assert (worst.estimate, worst.lower) == (-0.3, pytest.approx(-0.32))
    thin = deciding_cell(margins.sel(user=[0, 1]), epsilon=0.05)
    assert thin is not None
    assert (thin.verdict, thin.estimate) == ("inconclusive", -0.9)
    assert deciding_cell(margins.sel(arm=["old"], rival=["old"]), epsilon=0.05) is None
    cells = pair_cells(margins, epsilon=0.05)
    assert (cells[0][0], cells[1][1]) == (None, None)


def test_averages_over_users_have_a_cell_without_one() -> None:
    margins = margins_of().isel(user=2, drop=True)
    worst = deciding_cell(margins)
    assert worst is not None
    assert (worst.stage, worst.user, worst.arm, worst.estimate) == ("second", None, "new", -0.3)
    assert deciding_place(margins) == {"stage": 1, "arm": 1, "rival": 0}


def test_of_several_cells_that_decide_one_does() -> None:
    """The worst verdict first: a lower margin that is only inconclusive does not decide over one that fails."""
    margins = margins_of()
    worst = deciding_cell(margins)
    assert worst is not None
    assert lowest_margin(margins) == -0.9 < worst.estimate
    assert deciding_of(stage_cells(margins).values()) == worst
    assert deciding_of([None, *(cell for row in pair_cells(margins) for cell in row)]) == worst
    assert verdict_of(margins) == worst.verdict == "fail"
    nothing = margins.sel(arm=["old"], rival=["old"])
    assert (deciding_of([None]), lowest_margin(nothing), verdict_of(nothing)) == (None, None, "pass")


def test_the_lowest_of_each_user_is_over_stages_and_pairs() -> None:
    margins = margins_of()
    lows = lowest_by_user(margins["estimate"], 2)
    assert lows.tolist() == [float(margins["estimate"].sel(user=user).min()) for user in range(2)]
    assert np.isinf(lowest_by_user(margins["estimate"].sel(arm=["old"], rival=["old"]), 2)).all()


def audit_of(margins: xr.Dataset) -> Audit:
    share = xr.Dataset(
        {name: ("epsilon", [0.5]) for name in ("share", "share_mcse", "share_lower", "share_upper")},
        coords={"epsilon": [0.05]},
    )
    given: dict[str, Any] = dict.fromkeys(NOTIONS, margins)
    settings: dict[str, Any] = {"n_worlds": 100, "n_random": 3, "level": 0.05, "seed": 1}
    return Audit(
        verdict="fail", notion="user", epsilon=0.05, by_notion=given, compliance=share, users=np.eye(3), **settings
    )


def test_a_stage_without_any_cell_does_not_decide() -> None:
    margins = margins_of()
    margins["estimate"][0], margins["verdict"][0] = np.nan, -1
    assert stage_cells(margins)["first"] is None
    worst = audit_of(margins).worst()
    assert np.isnan(worst["estimate"].values[0])
    assert worst["estimate"].values[1] == -0.3


def test_everyone_names_the_same_cell() -> None:
    """The lowest margin of all, -.9, is thin and not decided; -.3 fails."""
    found = audit_of(margins_of())
    assert found.worst().isel(stage=1)["estimate"].item() == -0.3
    assert _judged(found)["worst_margin user"] == -0.3
    assert worst_margins(found)["margin_user"] == -0.3
    assert [np.ravel(dot.get_ydata())[0] for dot in dots_of(found.plot())] == [0.1, -0.3]


# --- every notion, every figure --------------------------------------------------------------------------------------


def market() -> Market:
    prior = Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    return Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


@cache
def log() -> pd.DataFrame:
    users = market().covariates.sample(200, seed=1)
    arm = np.random.default_rng(2).integers(2, size=200)
    reward = users @ np.array([0.5, 0.2])
    return pd.DataFrame(users, columns=list(market().features)).assign(arm=np.array(["old", "new"])[arm], reward=reward)


@cache
def found_of(notion: str, kind: str) -> Audit:
    if kind == "realised":
        return rcb.audit_log(market(), log(), notion=notion)
    plan = rcb.fixed_plan(market(), epsilon=0.1, n_per_arm=10, exploration_rate=0.05, notion=notion)
    return rcb.audit(market(), plan, horizon=60, n_worlds=100, n_users=8)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(
    ("notion", "kind"),
    [*((notion, "ex ante") for notion in NOTIONS), ("proof", "realised"), ("definition", "realised")],
)
def test_every_figure_is_drawn_under_every_notion(figure: str, notion: str, kind: str, tmp_path: Path) -> None:
    found = found_of(notion, kind)
    assert (found.notion, found.kind) == (notion, kind)
    save(found.plot(figure=figure), tmp_path)
    assert stage_cells(found.margins).keys() == set(found.worst()["stage"].values.tolist())
    for stage, cell in stage_cells(found.margins).items():
        assert cell is not None
        assert cell.estimate == found.worst().sel(stage=stage)["estimate"].item()
        assert (cell.user is None) == (notion == "definition" or kind == "realised")


@pytest.mark.parametrize("notion", NOTIONS)
def test_the_command_line_writes_figures_under_every_notion(
    notion: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rcb_bayes.auditing.calibration.calibrate", partial(rcb.calibrate, n_worlds=100))
    words = ["audit", *BELIEF, *SMALL, "--notion", notion, "--json", str(tmp_path / "a.json"), "--out", str(tmp_path)]
    assert run(words) in (0, 1, 3), capsys.readouterr().err
    assert {path.name for path in tmp_path.glob("*.png")} == {"margins.png", "matrix.png", "compliance.png"}
    for row in json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["stages"]:
        assert (row["decides"]["user"] is None) == (notion == "definition")


def test_the_command_line_draws_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = log().assign(arm=np.where(log()["arm"] == "old", "arm_0", "arm_1"))
    table.to_csv(tmp_path / "log.csv", index=False)
    assert run(["audit", *BELIEF, "--log", str(tmp_path / "log.csv"), "--out", str(tmp_path)]) in (0, 1, 3), (
        capsys.readouterr().err
    )
    assert (tmp_path / "matrix.png").exists()
