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
from rcb_bayes.mechanism.bands import bands_within, bonferroni_bands, clopper_pearson
from rcb_bayes.mechanism.deciding import ANY_RIVAL, lowest_by_user
from rcb_bayes.mechanism.knowledge import MOST_SETS
from rcb_bayes.mechanism.margins import Bands, verdict_codes
from rcb_bayes.mechanism.notions import NOTIONS, Notion
from rcb_bayes.schema import ARM, FloatArray

if TYPE_CHECKING:
    import xarray as xr

MOST_RIVALS = 60  # arms up to which margins are kept rival by rival
_MOST_EPOCHS = 64
_AT_ONCE = 50_000  # cells: a few arrays of them stay in a core's own cache


def margins_under(
    market: Market, views: Sequence[View | Seen], asked: Asked, *, notions: Iterable[Notion] | None = None
) -> "dict[str, xr.Dataset]":
    """The margins under every notion, by name, each as it would be if it alone had been asked for."""
    wanted = tuple(NOTIONS.values() if notions is None else notions)
    seen = [seen_view(view, asked, notions=wanted) if isinstance(view, View) else view for view in views]
    return {notion.name: _margins(market, seen, asked, notion) for notion in wanted}


def seen_view(view: View, asked: Asked, *, notions: Iterable[Notion] | None = None) -> Seen:
    """A view condensed as it comes: all of them together may not fit."""
    return folded(condensed(view, asked, notions=notions), asked)


def folded(found: Seen, asked: Asked) -> Seen:
    """A view that has been looked at; of very many arms, with the lowest margins over rivals only."""
    k = next(part.shape[-1] for part in found.cells.values() if isinstance(part, Cells))
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
    """All cells of a stage judged, and what is lowest of each user and arm that has any."""
    _, n_arms, k = cells.shape
    judged = {name: values.reshape(-1, k - 1) for name, values in _judged(cells, level=level, epsilon=epsilon).items()}
    at = judged["estimate"].argmin(axis=1)[:, None]
    user, arm = np.divmod(cells.at[:: k - 1] // k, n_arms)
    lowest = {name: judged[name].min(axis=1) for name in ("estimate", "lower", "upper")}
    lowest |= {name: np.take_along_axis(judged[name], at, axis=1)[:, 0] for name in ("mcse", "mass")}
    lowest["verdict"] = judged["verdict"].max(axis=1)
    found = empty_cells(cells.shape[:2])
    for name, values in lowest.items():
        found[name][user, arm] = values
    return LowestCells(**found)


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
            if view.absent is not None:
                for name, blank in empty_cells(()).items():
                    here[name][..., view.absent] = blank
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
    out["mass"][:] = cells.chance
    for name, values in _judged(cells, level=level, epsilon=epsilon).items():
        out[name].reshape(-1)[cells.at] = values  # a view: what is entered there is entered


def _judged(cells: Cells, *, level: float, epsilon: float) -> dict[str, FloatArray]:
    """The C cells that there are, (C,) each, some at a time."""
    theirs = LEVEL_SHARE * level if cells.n_sharp else 0.0  # of cells that the worlds need not judge
    n, rows = len(cells.at), cells.at // cells.shape[-1]
    mass, out = cells.mass.reshape(-1)[rows], empty_cells((n,))
    out["mass"][:] = cells.chance.reshape(-1)[rows]
    for start in range(0, n, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        evidence = cells.evidence.at(some)
        bands = bands_within(
            cells.reach,
            cells.estimate[some],
            cells.error[some],
            is_thin=cells.is_thin[some],
            holds=evidence.always_holds,
            level=level - theirs,
            n_cells=n,
        )
        entered(out, some, bands, evidence, mass[some], n_worlds=cells.n_worlds, epsilon=epsilon)
    out["mcse"][:] = cells.margin_error
    sharp = cells.sharp
    if sharp is not None:
        at = sharp.places(cells.at, cells.shape)
        bands = bonferroni_bands(sharp.estimate, sharp.error, n_cells=cells.n_sharp, level=theirs)
        out["mass"][at] = sharp.chance
        entered(out, at, bands, sharp.evidence(), sharp.mass, n_worlds=cells.n_worlds, epsilon=epsilon)
        out["mcse"][at] = sharp.margin_error
    return out


def empty_cells(shape: tuple[int, ...]) -> dict[str, FloatArray]:
    """Cells of which nothing is known: NaN, and -1 for the verdict."""
    names = ("estimate", "mcse", "lower", "upper", "mass")
    return {name: np.full(shape, np.nan) for name in names} | {"verdict": np.full(shape, -1.0)}


def entered(
    out: dict[str, FloatArray],
    at: tuple[np.ndarray, ...] | np.ndarray | slice,
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


def own_margins(view: View, asked: Asked) -> FloatArray:
    """Estimates of the margins of every user of a view under the notion asked for, (U, K, K); NaN for no cell."""
    found = seen_view(view, asked, notions=(asked.notion,)).cells[asked.notion.name]
    if isinstance(found, LowestCells):
        return np.broadcast_to(found.estimate[:, :, None], (*found.estimate.shape, found.estimate.shape[1]))
    out = empty_cells(found.shape)
    _judge(out, found, level=asked.level, epsilon=asked.epsilon)
    return out["estimate"]
