"""What the charts of a page are drawn from, as JSON has it: a few digits, null for what is endless or unknown."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.mechanism.deciding import FIGURES, pair_cells, stage_cells
from rcb_bayes.mechanism.run_curves import cold_start_end, mean_over_worlds, windowed_gain
from rcb_bayes.running.need import mean_of
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import figure, percent
from rcb_bayes.users.directions import principal_places

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.auditing import Audit
    from rcb_bayes.reporting.result import Report

_WORLDS = 6  # drawn one by one
_POINTS = 120  # of a curve over rounds, evenly spaced; half as many again in proportion
_LONG = 44  # letters of a row's label
_HARDLY = 0.005  # a rate below this is none on the map
_SWEPT = ("exploration_rate", "expected_cold_start", "expected_regret")


def chart_data(report: "Report") -> dict[str, Any]:
    """The data of every chart; those without any are left out."""
    data: dict[str, Any] = {
        "arms": list(report.market.arms),
        "epsilon": report.plan.epsilon,
        "frontier": _frontier(report.gaps, report.market.arms, alike=report.plan.alike),
        "sweep": _sweep(report),
    }
    if report.plan.personalised:
        data["map"] = _map(report)
    if report.audit is not None:
        data |= {"margins": margin_rows(report.audit), "compliance": _compliance(report.audit)}
        data["matrix"] = _matrix(report.audit)
    if report.knowledge is not None:
        data["knowledge"] = _knowledge(report.knowledge)
    if report.by_size is not None:
        data["sizes"] = _sizes(report.by_size)
    if report.runs is not None:
        data |= {"regret": _regret(report.runs), "gain": _gain(report.runs), "samples": _samples(report.runs)}
        if report.yardsticks is not None:
            data["yardsticks"] = _yardsticks(report.yardsticks)
    return data


def short(value: Any, digits: int = 4) -> Any:
    """A number to a few digits, an array as a list of them; None for what is not finite."""
    if isinstance(value, list | tuple | np.ndarray):
        return [short(part, digits) for part in value]
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


def _pair(mean: FloatArray, error: FloatArray) -> dict[str, Any]:
    """Figures with their errors, to fewer digits."""
    return {"mean": short(mean), "error": short(error, 2)}


def run_regret(runs: "xr.Dataset") -> tuple[float, float]:
    """The regret of a whole run, the mean over worlds, and its error; NaN for the error of one world."""
    return mean_of(runs["regret"].sum("t").values)


def _frontier(gaps: "xr.Dataset", arms: tuple[str, ...], *, alike: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """A curve for each arm; arms that are alike in the belief share one, since theirs differ by chance alone."""
    rows = []
    shown = {str(arm) for arm in gaps["arm"].values}
    groups = [[arm for arm in group if arm in shown] for group in alike] if alike else [[arm] for arm in shown]
    first = {group[0]: group for group in groups if group}
    for arm in gaps["arm"].values:
        if str(arm) not in first:
            continue
        row, others = gaps.sel(arm=arm), len(first[str(arm)]) - 1
        best = [row["best_tau"].item(), row["best_rho"].item()]
        rows.append(
            {
                "arm": arms.index(str(arm)),
                "name": f"{arm} and {others} like it" if others else str(arm),
                "rho": short(row["rho"].values),
                "error": short(row["rho_mcse"].values, 2),
                "best": short(best) if best[0] > 0 else None,
            }
        )
    return {"tau": short(gaps["tau"].values), "arms": rows, "log": bool(gaps["tau"].min() > 0)}


def _sweep(report: "Report") -> dict[str, Any]:
    plans = report.sweep
    found: dict[str, Any] = {
        "epsilon": [plan.epsilon for plan in plans],
        "at": next(k for k, plan in enumerate(plans) if plan.epsilon == report.plan.epsilon),
        "feasible": [plan.feasible for plan in plans],
        "explored": short([plan.share_explored for plan in plans]),
        "free": short([plan.share_free for plan in plans]),
        "personalised": report.plan.personalised,
    }
    for name in _SWEPT:
        known = [getattr(plan, name) if plan.feasible or name == "exploration_rate" else math.inf for plan in plans]
        found[name] = short(known)
        found[f"{name}_mcse"] = short([getattr(plan, f"{name}_mcse") for plan in plans], 2)
        found[f"{name}_words"] = [figure(getattr(plan, name), getattr(plan, f"{name}_mcse")) for plan in plans]
    # In words as everywhere else on the page: rounding what is rounded already gives other digits.
    found["explored_words"] = [percent(plan.share_explored) for plan in plans]
    if report.audit is not None:
        shares = report.audit.compliance["share"]
        found["followers_words"] = [_followers(shares, plan.epsilon) for plan in plans]
    return found


def _followers(shares: "xr.DataArray", epsilon: float) -> str:
    """The share at the largest epsilon of the grid that is not above this one."""
    grid = shares["epsilon"].values
    k = int(np.searchsorted(grid, epsilon * (1 + 1e-12), side="right")) - 1
    return percent(float(shares.values[max(k, 0)]))


def _knowledge(prices: "xr.Dataset") -> dict[str, Any]:
    """Lengths of the cold start; None of a plan that is not feasible."""
    lengths = prices["expected_cold_start"].where(prices["feasible"]).values
    return {
        "names": [str(name) for name in prices["knows"].values],
        **_pair(lengths, prices["expected_cold_start_mcse"].values),
    }


def _sizes(found: "xr.Dataset") -> dict[str, Any]:
    """A curve for each N; None of a plan that is not feasible."""
    lengths = found["expected_cold_start"].where(found["feasible"]).transpose("n", "epsilon").values
    errors = found["expected_cold_start_mcse"].where(found["feasible"]).transpose("n", "epsilon").values
    curves = zip(found["n"].values, lengths, errors, strict=True)
    return {
        "epsilon": [float(epsilon) for epsilon in found["epsilon"].values],
        "curves": [{"n": int(n), **_pair(*pair)} for n, *pair in curves],
    }


def _map(report: "Report") -> dict[str, Any]:
    """Where the users of the map stand, and their rates in thousandths under every plan of the sweep."""
    own = report.plan.rate(report.users)
    places, labels = principal_places(report.users, own, features=report.plan.inputs)
    rates = [_thousandths(plan.rate(report.users)) for plan in report.sweep]
    return {
        "x": short(places[:, 0], 3),
        "y": short(places[:, 1], 3) if places.shape[1] > 1 else None,
        "labels": labels,
        "rates": rates,
    }


def _thousandths(rates: FloatArray) -> list[int]:
    """Rates as whole numbers; those below one in 200, as rare stages leave them, as 0."""
    return np.where(rates < _HARDLY, 0, np.round(1000 * rates)).astype(int).tolist()


def margin_rows(audit: "Audit") -> list[dict[str, Any]]:
    """The deciding cell of each stage."""
    rows = []
    for stage, cell in stage_cells(audit.margins).items():
        if cell is not None:
            numbers = {name: short(getattr(cell, name)) for name in FIGURES}
            rows.append({"stage": stage, "verdict": cell.verdict, "arm": cell.arm, "rival": cell.rival} | numbers)
    for row, label in zip(rows, row_labels([row["stage"] for row in rows]), strict=True):
        row["label"] = label
    return rows


def row_labels(stages: list[str]) -> list[str]:
    """Stages for the rows of a chart: in full where that is short, else by numbers of arms; no two the same."""
    labels: list[str] = []
    for stage in stages:
        label = stage if len(stage) <= _LONG else " and ".join(_counted(part) for part in stage.split(" and "))
        seen = sum(one == label or one.startswith(f"{label} (") for one in labels)
        labels.append(f"{label} ({seen + 1})" if seen else label)
    return labels


def _counted(part: str) -> str:
    """``2 of 29 alike`` for ``2 of arm_1, ..., arm_29``; of a list of arms the first and how many more."""
    n, of, names = part.partition(" of ")
    if of and n.isdigit():
        return f"{n} of {names.count(', ') + 1} alike"
    first, *more = part.split(", ")
    short = first if len(first) <= _LONG // 2 else f"{first[: _LONG // 2]}\u2026"
    return f"{short} and {len(more)} more" if more else short


def _yardsticks(found: "xr.Dataset") -> dict[str, Any]:
    """The plan's regret, and what it is measured by."""
    return {
        "names": [str(name) for name in found["policy"].values],
        **_pair(found["regret"].values, np.nan_to_num(found["regret_mcse"].values)),
    }


def _matrix(audit: "Audit") -> list[list[dict[str, Any] | None]]:
    return [
        [None if cell is None else {"estimate": short(cell.estimate), "verdict": cell.verdict} for cell in row]
        for row in pair_cells(audit.margins)
    ]


def _compliance(audit: "Audit") -> dict[str, Any]:
    found = audit.compliance
    return {
        "epsilon": short(found["epsilon"].values),
        "share": short(found["share"].values),
        "error": short(found["share_mcse"].values, 2),
    }


def _regret(runs: "xr.Dataset") -> dict[str, Any]:
    t = runs["t"].values
    total = np.cumsum(runs["regret"].transpose("world", "t").values, axis=1)
    n = len(t)
    even, growing = np.linspace(0, n - 1, min(_POINTS, n)), np.geomspace(1, n, min(_POINTS // 2, n)) - 1
    kept = np.unique(np.concatenate([even, growing]).round().astype(int))
    end = cold_start_end(runs)
    return {
        "t": [int(k) for k in t[kept]],
        **_pair(*mean_over_worlds(total[:, kept])),
        "worlds": short(total[:_WORLDS, kept], 3) if len(total) > 1 else [],
        "n": len(total),
        "end": None if end is None else short(end),
    }


def _gain(runs: "xr.Dataset") -> dict[str, Any]:
    rounds, gains = windowed_gain(runs)
    return {"t": short(rounds, 3), **_pair(*mean_over_worlds(gains))}


def _samples(runs: "xr.Dataset") -> dict[str, Any]:
    return _pair(*mean_over_worlds(runs["n_samples"].transpose("world", "arm").values))
