"""Tables: a line for each run of each cell, with Monte Carlo errors beside the estimates."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.baselines.payments import ratio
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.telling.wording import figure

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_PLANNED = ("n_per_arm", "exploration_rate", "expected_cold_start", "share_free", "share_explored", "guard_keeps")
_CONSTANTS = ("tau", "rho", "guarantee_probability")  # of a theorem's plan
_HEADINGS = ("run", "regret", "cold start", "N", "keeps", "user", "margin", "proof", "definition", "comply", "CPU s")
_PARAMETERS = ("n_arms", "n_features", "variance", "epsilon", "horizon")


def as_table(parts: "list[xr.Dataset]", *, keys: tuple[str, ...] = _PARAMETERS) -> "pd.DataFrame":
    """A row for each run; ``keys`` are attributes of the parts that go in front."""
    import pandas as pd

    return pd.DataFrame([row for part in parts for row in _rows(part, keys)])


def _rows(part: "xr.Dataset", keys: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = []
    for name in part["run"].values:
        one = part.sel(run=name)
        lengths = one["cold_start"].values
        row: dict[str, Any] = {key: part.attrs[key] for key in keys if key in part.attrs}
        row |= {"run": str(name), "kind": one["kind"].item(), "inflation": one["inflation"].item()}
        row |= estimate("regret", one["regret"].isel(t=-1).values)
        row |= estimate("cold_start", lengths[lengths >= 0])
        row["n_ended"] = int((lengths >= 0).sum())
        row |= estimate("gain", one["gain"].isel(t=-1).values)
        if "bill" in one:  # not of parts from before
            row |= estimate("bill", one["bill"].values)
            row["bill_per_exploration"], row["bill_per_exploration_mcse"] = _per_exploration(one)
        for item in _PLANNED:
            row[item] = one[item].item()
        row |= {item: one[item].item() if item in one else np.nan for item in _CONSTANTS}  # not of older parts
        for notion in NOTIONS:
            row[f"verdict_{notion}"] = one[f"verdict_{notion}"].item()
            for item in ("margin", "margin_mcse", "margin_lower", "margin_upper"):
                row[f"{item}_{notion}"] = one[f"{item}_{notion}"].item()
        for item in ("compliance", "compliance_mcse", "audit_rounds", "spread_multiple", "seconds", "notion", "note"):
            row[item] = one[item].item()
        row["audit_seconds"] = one["audit_seconds"].item() if "audit_seconds" in one else np.nan  # not of older parts
        rows.append(row)
    return rows


def _per_exploration(one: "xr.Dataset") -> tuple[float, float]:
    value, count = one["bill"].values, one["explored"].values
    return ratio(value, count) if np.isfinite(value).all() else (np.nan, np.nan)


def reasons(part: "xr.Dataset") -> list[str]:
    """A line for each run that there was none of, with the reason."""
    runs = [part.isel(run=k) for k in range(part.sizes["run"])]
    return [
        f"{part.attrs['setting']}, {one['run'].item()}: {one['note'].item()}"
        for one in runs
        if not np.isfinite(one["regret"].values).any()
    ]


def estimate(name: str, values: np.ndarray) -> dict[str, float]:
    """A mean over worlds and its error; NaN where there is none."""
    values = values[np.isfinite(values)]
    n = len(values)
    return {
        name: float(values.mean()) if n else np.nan,
        f"{name}_mcse": float(values.std(ddof=1) / n**0.5) if n > 1 else np.nan,
    }


def as_lines(table: "pd.DataFrame", *, keys: tuple[str, ...]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table as it is printed."""
    has_bill = "bill" in table.columns
    headings = [*keys, *_HEADINGS, *(("bill", "a try") if has_bill else ())]
    rows = []
    for row in table.to_dict(orient="records"):
        ended = "" if not row["n_ended"] else with_error(row["cold_start"], row["cold_start_mcse"])
        rows.append(
            [
                *(f"{row[key]:.3g}" if isinstance(row[key], float) else str(row[key]) for key in keys),
                row["run"],
                with_error(row["regret"], row["regret_mcse"]),
                ended or ("not ended" if np.isfinite(row["regret"]) else ""),
                "" if np.isnan(row["n_per_arm"]) else f"{row['n_per_arm']:,.0f}",
                "" if np.isnan(row["guard_keeps"]) else f"{100 * row['guard_keeps']:.0f} %",
                row["verdict_user"],
                with_error(row["margin_user"], row["margin_mcse_user"]),
                row["verdict_proof"],
                row["verdict_definition"],
                "" if np.isnan(row["compliance"]) else f"{100 * row['compliance']:.0f} %",
                "" if np.isnan(row["seconds"]) else f"{row['seconds']:.1f}",
                *(_bill_cells(row) if has_bill else ()),
            ]
        )
    return headings, rows


def _bill_cells(row: dict[str, Any]) -> tuple[str, str]:
    names = ("bill", "bill_per_exploration")
    first, second = (with_error(row[name], row[f"{name}_mcse"]) for name in names)
    return first, second


def with_error(value: float, error: float) -> str:
    """A figure and its error, the latter with two digits; empty for none."""
    return figure(value, error) if np.isfinite(value) else ""
