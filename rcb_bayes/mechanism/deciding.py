"""The cell of some margins that decides: the lowest among those with the worst verdict.

Audits, figures, pages and comparisons all name the same cell, so the rule is here and nowhere else. A cell is a user,
an arm and a rival; under a notion that averages over users, an arm and a rival.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rcb_bayes.mechanism.margins import VERDICTS, Verdict
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    import xarray as xr

ANY_RIVAL = "any rival"
"""Of margins that are kept against the rival whom they are lowest against, whoever that is."""
FIGURES = ("estimate", "mcse", "lower", "upper")


class DecidingCell(NamedTuple):
    """The lowest margin among the cells with the worst verdict; ``user`` is None where margins are averages."""

    verdict: Verdict
    stage: str | None
    user: int | None
    arm: str
    rival: str
    estimate: float
    mcse: float
    lower: float
    upper: float


def deciding_place(margins: "xr.Dataset", *, epsilon: float | None = None) -> dict[str, int] | None:
    """Where the deciding cell is, a position for each dim of the margins; None of margins without a cell.

    Parameters
    ----------
    margins : of an audit, of one of its stages, or of a pair of arms; with or without the dim ``user``
    epsilon : tells verdicts from bounds, where margins have none of their own
    """
    estimate = margins["estimate"]
    codes = _codes(margins, epsilon=epsilon)
    known = estimate.notnull() & (codes >= 0)
    if not known.any():
        return None
    lowest = estimate.where(known & (codes == codes.where(known, -1).max()))
    place = np.unravel_index(np.nanargmin(lowest.values), lowest.shape)
    return {str(dim): int(k) for dim, k in zip(lowest.dims, place, strict=True)}


def deciding_cell(margins: "xr.Dataset", *, epsilon: float | None = None) -> DecidingCell | None:
    """The deciding cell, with its figures; see ``deciding_place``."""
    place = deciding_place(margins, epsilon=epsilon)
    if place is None:
        return None
    cell = margins.isel(place)
    return DecidingCell(
        verdict=VERDICTS[int(_codes(margins, epsilon=epsilon).isel(place).item())],
        stage=str(cell["stage"].item()) if "stage" in cell.coords else None,
        user=int(cell["user"].item()) if "user" in cell.coords else None,
        arm=str(cell["arm"].item()),
        rival=str(cell["rival"].item()),
        **{name: float(cell[name].item()) for name in FIGURES},
    )


def told_lowest(margins: "xr.Dataset") -> dict[str, float | str | None]:
    """Of a log's margins the lowest, its bounds, and where it is: all cells are undecided, so that it decides."""
    cell = deciding_cell(margins)
    assert cell is not None  # somebody was recommended something
    place = {"stage": cell.stage, "arm": cell.arm, "rival": cell.rival}
    return {"lowest": cell.estimate, "lower": cell.lower, "upper": cell.upper} | place


def deciding_of(cells: Iterable[DecidingCell | None]) -> DecidingCell | None:
    """Of cells that decide, of stages or of audits, the one that decides for all of them."""
    known = [cell for cell in cells if cell is not None]
    return min(known, key=lambda cell: rank(cell.verdict, cell.estimate), default=None)


def rank(verdict: str, estimate: float) -> tuple[int, float]:
    """A key by which what decides comes first: the worst verdict, then the lowest margin."""
    return -VERDICTS.index(verdict), estimate


def stage_cells(margins: "xr.Dataset", *, epsilon: float | None = None) -> dict[str, DecidingCell | None]:
    """The deciding cell of every stage."""
    return {str(stage): deciding_cell(margins.sel(stage=stage), epsilon=epsilon) for stage in margins["stage"].values}


def pair_cells(margins: "xr.Dataset", *, epsilon: float | None = None) -> list[list[DecidingCell | None]]:
    """For each recommended arm and each rival the deciding cell over stages and users."""
    arms, rivals = margins["arm"].values, margins["rival"].values
    return [[deciding_cell(margins.sel(arm=[arm], rival=[rival]), epsilon=epsilon) for rival in rivals] for arm in arms]


def verdict_of(margins: "xr.Dataset") -> Verdict:
    """Fail if some cell does, else inconclusive if some cell is, else pass."""
    return VERDICTS[max(int(margins["verdict"].max()), 0)]


def lowest_margin(margins: "xr.Dataset") -> float | None:
    """The lowest margin whatever its verdict, which need not decide; None of margins without a cell."""
    estimate = margins["estimate"].values
    return float(np.nanmin(estimate)) if np.isfinite(estimate).any() else None


def lowest_by_user(values: "xr.DataArray", n_users: int) -> FloatArray:
    """The lowest of each of the first users, over stages, arms and rivals; infinite where there is no cell."""
    cells = values.isel(user=slice(0, n_users)).transpose("user", ...).values.reshape(n_users, -1)
    return np.where(np.isnan(cells), np.inf, cells).min(axis=1)


def _codes(margins: "xr.Dataset", *, epsilon: float | None) -> "xr.DataArray":
    """The verdict of each cell as a position in ``VERDICTS``: the audit's own, or by its bounds alone."""
    if "verdict" in margins or epsilon is None:
        return margins["verdict"].transpose(*margins["estimate"].dims)
    codes = (margins["lower"] < -epsilon).astype(int) + (margins["upper"] < -epsilon).astype(int)
    return codes.where(margins["estimate"].notnull(), -1)
