r"""From views to margins: estimates, simultaneous bands and a verdict for every cell, under each notion.

A cell is a user, an arm and a rival; under a notion that averages over users, an arm and a rival. Bands hold for all
cells of all stages at once, notion by notion.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing.view import Asked, Averages, Crowd, View, cell_terms
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.mechanism.deciding import VERDICTS, lowest_by_user
from rcb_bayes.mechanism.margins import FEW_EVENTS, Bands, judge_bands, simultaneous_bands
from rcb_bayes.mechanism.notions import NOTIONS, Notion
from rcb_bayes.schema import ARM, BoolArray, FloatArray

if TYPE_CHECKING:
    import xarray as xr


def margins_under(
    market: Market, views: list[View], asked: Asked, *, notions: Iterable[Notion] | None = None
) -> "dict[str, xr.Dataset]":
    """The margins under every notion, by name, each as it would be if it alone had been asked for."""
    return {notion.name: _margins(market, views, asked, notion) for notion in notions or NOTIONS.values()}


def _margins(market: Market, views: list[View], asked: Asked, notion: Notion) -> "xr.Dataset":
    import xarray as xr

    judge = _by_user if notion.is_per_user else _averaged
    parts = []
    for number, view in enumerate(views):
        cells = judge(view, asked, notion, level=asked.level / len(views), seed=asked.seed + number)
        parts.append(xr.Dataset({name: (notion.dims, values) for name, values in cells.items()}))
        if notion.is_per_user:
            parts[-1] = parts[-1].assign_coords(user=np.arange(view.n_users))
    joined = xr.concat(parts, dim="stage", join="outer", fill_value={"verdict": -1})
    arms = list(market.arms)
    names = _distinct([view.name for view in views])
    joined = joined.assign_coords({"stage": names, ARM: arms, "rival": arms})
    joined["verdict"] = joined["verdict"].fillna(-1).astype(np.int8)
    joined["n_worlds"] = ("stage", [view.n_worlds for view in views])
    joined["share"] = ("stage", [view.share for view in views])
    return joined


@dataclass(slots=True, kw_only=True, eq=False)
class Evidence:
    """What the verdicts need beside the bands, of C cells; see ``judge_bands``.

    ``least`` is the lowest margin m_i - m_j in any world in which the arm is recommended.
    """

    always_holds: BoolArray
    n_events: np.ndarray
    n_negative: np.ndarray
    gain: FloatArray
    loss: FloatArray
    least: FloatArray


def _by_user(view: View, asked: Asked, notion: Notion, *, level: float, seed: int) -> dict[str, FloatArray]:
    """Every cell of a stage, (U, K, K); NaN, and -1, where there is no cell."""
    k, u, _ = view.chances.shape
    out = empty_cells((u, k, k))
    terms, errors, places, evidence = [], [], [], []
    for arm in range(k):
        of_rivals = cell_terms(view, arm, epsilon=asked.epsilon, notion=notion)  # (K, U, W)
        used = np.flatnonzero(view.chances[arm].max(axis=1) > 0.0)
        masses = notion.mass(view.chances[arm, used])  # (U, W)
        for rival in range(k):
            if rival == arm:
                continue
            terms.append(of_rivals[rival, used])
            errors.append(_ratio_error(terms[-1], masses))
            places.append(np.stack([used, np.full(len(used), arm), np.full(len(used), rival)]))
            evidence.append(_held(_evidence(view, arm, rival, used, asked.epsilon), terms[-1], asked.epsilon))
        out["mass"][:, arm] = view.chances[arm].mean(axis=1)[:, None]
    bands = simultaneous_bands(np.concatenate(terms).T, level=level, seed=seed)
    at = tuple(np.concatenate(places, axis=1))
    mass = notion.mass(out["mass"][at])
    entered(out, at, bands, joined_evidence(evidence), mass, n_worlds=view.n_worlds, epsilon=asked.epsilon)
    out["mcse"][at] = np.concatenate(errors)
    return out


def _held(evidence: Evidence, terms: FloatArray, epsilon: float) -> Evidence:
    """Cells whose linear form (C, W) is not negative in any world hold, as a rate that hides nothing does exactly."""
    holds = terms.min(axis=1) >= -TIE
    return replace(
        evidence,
        always_holds=evidence.always_holds | holds,
        least=np.where(holds, np.maximum(evidence.least, -epsilon), evidence.least),
    )


def _ratio_error(terms: FloatArray, weights: FloatArray) -> FloatArray:
    """Error of mean(terms) / mean(weights), world by world (C, W) each: that of terms - ratio x weights.

    Where hardly any world differs from the rest the ratio's own spread cannot be seen, and the numerator's is taken.
    """
    mass = weights.mean(axis=1)
    ratio = terms.mean(axis=1) / mass
    differing = (weights != weights.min(axis=1, keepdims=True)).sum(axis=1)
    apart = np.where((differing > 0) & (differing < FEW_EVENTS), 0.0, ratio)
    return (terms - apart[:, None] * weights).std(axis=1, ddof=1) / np.sqrt(terms.shape[1]) / mass


def _evidence(view: View, arm: int, rival: int, used: np.ndarray, epsilon: float) -> Evidence:
    chances = view.chances[arm, used]  # (U, W)
    varying = chances - chances.min(axis=1, keepdims=True)
    lead = view.rewards[arm, used] - view.rewards[rival, used] + epsilon
    not_best = view.best[arm, used] == 0.0
    return Evidence(
        always_holds=((lead >= 0.0) | (chances <= 0.0)).all(axis=1),
        n_events=(~not_best).sum(axis=1),
        n_negative=(varying * lead < 0.0).sum(axis=1),
        gain=np.maximum(lead.std(axis=1) + epsilon, np.where(not_best, 0.0, lead).max(axis=1)),
        loss=np.abs(lead).max(axis=1) * np.where(not_best, varying, 0.0).max(axis=1),
        least=np.where(chances > 0.0, lead, np.inf).min(axis=1) - epsilon,
    )


def _averaged(view: View, asked: Asked, notion: Notion, *, level: float, seed: int) -> dict[str, FloatArray]:
    """A cell for each arm and rival, (K, K), averaged over the population."""
    found = view.averages
    assert found is not None  # made for every view that is judged by it
    k = len(view.chances)
    out = empty_cells((k, k))
    out["mass"][:] = found.chances.mean(axis=1)[:, None]
    at = np.nonzero((out["mass"] > 0.0) & ~np.eye(k, dtype=bool))
    arms, rivals = at
    # Averages allow epsilon as often as the arm is recommended, (C, W) and (U, C); a notion may allow it more often.
    chances, user_chances = found.chances[arms], found.user_chances[:, arms]
    masses, user_masses = notion.mass(chances), notion.mass(user_chances)
    values = found.values[at] + asked.epsilon * (masses - chances)
    user_values = found.user_values[:, arms, rivals] + asked.epsilon * (user_masses - user_chances)
    bands = simultaneous_bands(values.T, level=level, seed=seed)
    own_error = _user_errors(found, user_values)
    error = np.sqrt(bands.mcse**2 + own_error**2 + found.fixed_error[at] ** 2)  # users are a sample, too
    reach = bands.critical * error
    bands = replace(bands, mcse=error, lower=bands.estimate - reach, upper=bands.estimate + reach)
    mass = notion.mass(out["mass"][at])
    evidence = _crowd_evidence(found, arms, rivals, asked.epsilon)
    entered(out, at, bands, evidence, mass, n_worlds=view.n_worlds, epsilon=asked.epsilon)
    apart = (user_values - values.mean(axis=1) / mass * user_masses) / mass
    out["mcse"][at] = np.sqrt(
        _ratio_error(values, masses) ** 2 + _user_errors(found, apart) ** 2 + (found.fixed_error[at] / mass) ** 2
    )
    return out


def _user_errors(found: Averages, values: FloatArray) -> FloatArray:
    """Standard errors of averages over users of values (U, C), from how much they differ; unknown of a single one."""
    if found.is_exact:
        return np.zeros(values.shape[1])
    n = len(values)
    return values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(values.shape[1], np.inf)


def _crowd_evidence(found: Averages, arms: np.ndarray, rivals: np.ndarray, epsilon: float) -> Evidence:
    varying = found.varying[arms, rivals]  # (C, W)
    least = found.least[arms, rivals]
    return Evidence(
        always_holds=least >= -epsilon,
        n_events=found.n_events[arms],
        n_negative=(varying < 0.0).sum(axis=1),
        gain=np.maximum(np.maximum(varying.std(axis=1), varying.max(axis=1)), 0.0),
        loss=np.maximum(-varying.min(axis=1), 0.0),
        least=least,
    )


def empty_cells(shape: tuple[int, ...]) -> dict[str, FloatArray]:
    """Cells of which nothing is known: NaN, and -1 for the verdict."""
    names = ("estimate", "mcse", "lower", "upper", "mass")
    return {name: np.full(shape, np.nan) for name in names} | {"verdict": np.full(shape, -1.0)}


def joined_evidence(parts: list[Evidence]) -> Evidence:
    """Of all cells together."""
    return Evidence(
        **{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(Evidence)}
    )


def entered(
    out: dict[str, FloatArray],
    at: tuple[np.ndarray, ...],
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
    verdicts = judge_bands(bands, n_worlds=n_worlds, **parts)
    for name in ("estimate", "lower", "upper"):
        out[name][at] = getattr(bands, name) / mass - epsilon
    # Where no world breaks the constraint the band of a thin cell says less than the worlds do.
    floor = np.where(evidence.always_holds, np.minimum(least, 0.0), -np.inf)
    out["lower"][at] = np.maximum(out["lower"][at], np.minimum(floor, out["estimate"][at]))
    out["mcse"][at] = bands.mcse / mass
    out["verdict"][at] = [VERDICTS.index(verdict) for verdict in verdicts]
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
