r"""From views to margins: estimates, simultaneous bands and a verdict for every cell, under each notion.

A cell is a user, an arm and a rival; under a notion that averages over users, an arm and a rival. Bands hold for all
cells of all stages at once, notion by notion.

Cells grow with the square of the arms. Of more than 60 arms a stage is judged as it is seen, all of its cells, and the
margins that are kept are those of each user and arm against the rival whom they are lowest against. How many stages
come after it is not known then: the level is split over as many as there can be.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing.condensing import Cells, LowestCells, Seen, condensed
from rcb_bayes.auditing.evidence import Evidence
from rcb_bayes.auditing.sharpening import LEVEL_SHARE
from rcb_bayes.auditing.view import Asked, Crowd, View
from rcb_bayes.market import Market
from rcb_bayes.mechanism.bands import bands_within, bonferroni_bands
from rcb_bayes.mechanism.deciding import ANY_RIVAL, lowest_by_user
from rcb_bayes.mechanism.knowledge import MOST_SETS
from rcb_bayes.mechanism.margins import Bands, verdict_codes
from rcb_bayes.mechanism.notions import NOTIONS, Notion
from rcb_bayes.schema import ARM, FloatArray

if TYPE_CHECKING:
    import xarray as xr

MOST_RIVALS = 60  # arms up to which margins are kept rival by rival
_MOST_EPOCHS = 64


def margins_under(
    market: Market, views: Sequence[View | Seen], asked: Asked, *, notions: Iterable[Notion] | None = None
) -> "dict[str, xr.Dataset]":
    """The margins under every notion, by name, each as it would be if it alone had been asked for."""
    wanted = tuple(NOTIONS.values() if notions is None else notions)
    seen = [seen_view(view, asked, notions=wanted) if isinstance(view, View) else view for view in views]
    return {notion.name: _margins(market, seen, asked, notion) for notion in wanted}


def seen_view(view: View, asked: Asked, *, notions: Iterable[Notion] | None = None) -> Seen:
    """A view condensed as it comes: all of them together may not fit."""
    found = condensed(view, asked, notions=notions)
    k = len(view.chances)
    if k <= MOST_RIVALS:
        return found
    level = asked.level / (max(k, MOST_SETS) + _MOST_EPOCHS)
    cells = {
        name: _lowest(part, level=level, epsilon=asked.epsilon)
        if isinstance(part, Cells) and NOTIONS[name].is_per_user
        else part
        for name, part in found.cells.items()
    }
    return replace(found, cells=cells)


def _lowest(cells: Cells, *, level: float, epsilon: float) -> LowestCells:
    """All cells of a stage judged, and what is lowest of each user and arm."""
    out = empty_cells(cells.shape)
    _judge(out, cells, level=level, epsilon=epsilon)
    estimate = np.where(np.isnan(out["estimate"]), np.inf, out["estimate"])
    at = estimate.argmin(axis=2)[:, :, None]
    return LowestCells(
        mcse=np.take_along_axis(out["mcse"], at, axis=2)[:, :, 0],
        mass=np.take_along_axis(out["mass"], at, axis=2)[:, :, 0],
        verdict=out["verdict"].max(axis=2),
        **{name: np.fmin.reduce(out[name], axis=2) for name in ("estimate", "lower", "upper")},
    )


def _margins(market: Market, views: list[Seen], asked: Asked, notion: Notion) -> "xr.Dataset":
    import xarray as xr

    k = market.n_arms
    most = max(view.n_users for view in views)
    folded = any(isinstance(view.cells[notion.name], LowestCells) for view in views)
    shape = (len(views), most, k, 1 if folded else k) if notion.is_per_user else (len(views), k, k)
    out = empty_cells(shape) | {"verdict": np.full(shape, -1, dtype=np.int8)}
    for number, view in enumerate(views):
        some = slice(view.n_users) if notion.is_per_user else slice(None)
        here = {name: values[number][some] for name, values in out.items()}
        cells = view.cells[notion.name]
        if isinstance(cells, LowestCells):
            for name, values in here.items():
                values[:, :, 0] = getattr(cells, name)
        else:
            _judge(here, cells, level=asked.level / len(views), epsilon=asked.epsilon)
    arms = list(market.arms)
    rivals = [ANY_RIVAL] if folded else arms
    coords: dict[str, Any] = {"stage": _distinct([view.name for view in views]), ARM: arms, "rival": rivals}
    if notion.is_per_user:
        coords["user"] = np.arange(most)
    joined = xr.Dataset({name: (("stage", *notion.dims), values) for name, values in out.items()}, coords=coords)
    joined["n_worlds"] = ("stage", [view.n_worlds for view in views])
    joined["share"] = ("stage", [view.share for view in views])
    return joined


def _judge(out: dict[str, FloatArray], cells: Cells, *, level: float, epsilon: float) -> None:
    """Every cell of a stage; NaN, and -1, where there is no cell."""
    theirs = LEVEL_SHARE * level if cells.n_sharp else 0.0  # of cells that the worlds need not judge
    holds, own = cells.evidence.always_holds, level - theirs
    bands = bands_within(cells.reach, cells.estimate, cells.error, is_thin=cells.is_thin, holds=holds, level=own)
    out["mass"][:] = cells.chance
    mass = np.broadcast_to(cells.mass, cells.shape).reshape(-1)[cells.at]
    flat = {name: values.reshape(-1) for name, values in out.items()}  # views: what is entered there is entered
    entered(flat, cells.at, bands, cells.evidence, mass, n_worlds=cells.n_worlds, epsilon=epsilon)
    flat["mcse"][cells.at] = cells.margin_error
    sharp = cells.sharp
    if sharp is not None:
        bands = bonferroni_bands(sharp.estimate, sharp.error, n_cells=cells.n_sharp, level=theirs)
        out["mass"][sharp.at] = sharp.chance
        entered(out, sharp.at, bands, sharp.evidence(), sharp.mass, n_worlds=cells.n_worlds, epsilon=epsilon)
        out["mcse"][sharp.at] = sharp.margin_error


def empty_cells(shape: tuple[int, ...]) -> dict[str, FloatArray]:
    """Cells of which nothing is known: NaN, and -1 for the verdict."""
    names = ("estimate", "mcse", "lower", "upper", "mass")
    return {name: np.full(shape, np.nan) for name in names} | {"verdict": np.full(shape, -1.0)}


def entered(
    out: dict[str, FloatArray],
    at: tuple[np.ndarray, ...] | np.ndarray,
    bands: Bands,
    evidence: Evidence,
    mass: FloatArray,
    *,
    n_worlds: int,
    epsilon: float,
) -> dict[str, FloatArray]:
    """Bands of the linear form, as margins, and verdicts."""
    parts: dict[str, Any] = {item.name: getattr(evidence, item.name) for item in fields(Evidence)}
    least = parts.pop("least")
    verdicts = verdict_codes(bands, n_worlds=n_worlds, **parts)
    for name in ("estimate", "lower", "upper"):
        out[name][at] = getattr(bands, name) / mass - epsilon
    # Where no world breaks the constraint the band of a thin cell says less than the worlds do.
    floor = np.where(evidence.always_holds, np.minimum(least, 0.0), -np.inf)
    out["lower"][at] = np.maximum(out["lower"][at], np.minimum(floor, out["estimate"][at]))
    out["mcse"][at] = bands.mcse / mass
    out["verdict"][at] = verdicts
    return out


def _distinct(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({k})" for k, name in enumerate(names)]


def compliance_of(margins: "xr.Dataset", crowd: Crowd, asked: Asked) -> "xr.Dataset":
    """The share of users whose margins are all at or above -epsilon, at every stage, over a grid of epsilon.

    ``share`` goes by the estimates. ``share_lower`` counts only users all of whose lower bounds are that high and
    allows for the users being a sample (one-sided, at the audit's level); ``share_upper`` likewise from above.
    """
    users = crowd.judged
    lowest = {name: lowest_by_user(margins[name], users.n_users) for name in ("estimate", "lower", "upper")}
    return compliance_curve(lowest, users.weights, epsilon=asked.epsilon, level=asked.level, is_exact=users.is_exact)


def compliance_curve(
    lowest: dict[str, FloatArray], weights: FloatArray, *, epsilon: float, level: float, is_exact: bool = False
) -> "xr.Dataset":
    """The same from the lowest margin of each of n users, and its lower and upper bound, (n,) each."""
    import xarray as xr

    n = len(weights)
    finite = lowest["estimate"][np.isfinite(lowest["estimate"])]
    reach = float(np.max(-finite, initial=epsilon))
    grid = np.unique(np.append(np.linspace(0.0, max(1.2 * reach, 2 * epsilon, 1e-3), 101), epsilon))
    holds = {name: values[:, None] >= -grid - 1e-12 for name, values in lowest.items()}
    shares = {name: np.minimum(weights @ found, 1.0) for name, found in holds.items()}
    lower = shares["lower"] if is_exact else clopper_pearson(holds["lower"].sum(axis=0), n, level)[0]
    upper = shares["upper"] if is_exact else clopper_pearson(holds["upper"].sum(axis=0), n, level)[1]
    share = shares["estimate"]
    error = np.zeros(len(grid)) if is_exact else np.sqrt(np.maximum(share * (1 - share), 1 / n) / n)
    variables = {"share": share, "share_mcse": error, "share_lower": lower, "share_upper": upper}
    return xr.Dataset({name: ("epsilon", values) for name, values in variables.items()}, coords={"epsilon": grid})


def clopper_pearson(count: np.ndarray, n: int, level: float) -> tuple[FloatArray, FloatArray]:
    """One-sided bounds of a share, given how many of n users show it."""
    from scipy.special import betaincinv

    lower = np.where(count > 0, betaincinv(np.maximum(count, 1), n - count + 1.0, level), 0.0)
    upper = np.where(count < n, betaincinv(count + 1.0, np.maximum(n - count, 1), 1.0 - level), 1.0)
    return lower, upper
