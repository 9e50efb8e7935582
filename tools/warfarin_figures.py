"""Warfarin to the letter and by halves: ``python tools/warfarin_figures.py --data warfarin.csv [--out FOLDER]``.

Rows and splits go to docs/measured/paper, finished ones are kept in FOLDER and not computed again, and
``docs/paper.md`` is written anew. ``--parts`` picks some, ``--only-finished`` computes nothing.
"""

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import paper_page
import xarray as xr

from rcb_bayes.files.store import part_file, part_format, read_part
from rcb_bayes.studies.warfarin import Cohort, load_warfarin
from rcb_bayes.studies.warfarin.cohort import ARMS, MEDIUM, RULES
from rcb_bayes.studies.warfarin.splits import TRIED, run_splits
from rcb_bayes.studies.warfarin.to_the_letter import GRID, ROWS, Choices, Sizes, given_row, run_rows

HOME = paper_page.HOME
PARTS = ("rows", "splits", "audits", "grid")
_FIGURES = ("error", "score", "macro_recall", "extreme", "cold_start", "ended")
_SHOWN = ("key", "plan", "rewards", "sigma", "inflation", "spread", "oracle", "epsilon", "variance")


def main() -> None:
    """Compute what is missing, keep tables, write the page."""
    parser = argparse.ArgumentParser(description="Warfarin to the letter and by halves.")
    parser.add_argument("--data", type=Path, required=True, help="the consortium's table")
    parser.add_argument("--out", type=Path, default=Path("warfarin-figures"), help="where finished parts are kept")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--only-finished", action="store_true", help="take what is there")
    parser.add_argument("--plans", type=int, default=8)
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    cohort = load_warfarin(asked.data)
    sizes = Sizes(n_plans=asked.plans, n_orders=asked.orders)
    if not asked.only_finished:
        for part in asked.parts:
            if part == "splits":
                run_splits(cohort, n_splits=asked.splits, folder=asked.out / part, workers=asked.workers)
            else:
                rows = GRID if part == "grid" else ROWS
                how = {"sizes": sizes, "folder": asked.out / part, "workers": asked.workers}
                run_rows(cohort, rows, audited=part == "audits", **how)
    HOME.mkdir(parents=True, exist_ok=True)
    keep_patients(asked.data)
    _keep_rows(cohort, asked.out)
    _keep_splits(asked.out, asked.splits)
    paper_page.write()


def keep_patients(data: Path) -> None:
    """What the paper says of the patients, counted: who needs which dose by either rule, and how scaled doses vary."""
    rows = []
    for rule in RULES:
        cohort = load_warfarin(data, rule=rule)
        dose = scaled_doses(cohort)
        own = [residual_sd(cohort.features[cohort.arm == arm], dose[cohort.arm == arm]) for arm in range(3)]
        counts = np.array(cohort.counts)
        rows.append(
            {
                "rule": rule,
                "patients": len(cohort),
                "features": cohort.features.shape[1],
                **dict(zip(ARMS, counts / len(cohort), strict=True)),
                "sd_dose": dose.std(),
                "sd_residual": residual_sd(cohort.features, dose),
                "sd_residual_by_group": np.sqrt(np.average(np.square(own), weights=counts)),
            }
        )
    pd.DataFrame(rows).to_csv(HOME / "patients.csv", index=False, float_format="%.5g")


def scaled_doses(cohort: Cohort) -> np.ndarray:
    """Doses with the least as 0 and the largest as 1."""
    dose = cohort.table["dose"].to_numpy(dtype=float)
    return (dose - dose.min()) / (dose.max() - dose.min())


def residual_sd(x: np.ndarray, y: np.ndarray) -> float:
    """What least squares with an intercept leaves."""
    design = np.column_stack([np.ones(len(x)), x])
    return float(np.std(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]))


def _keep_rows(cohort: Cohort, folder: Path) -> None:
    rows = [_physician(cohort)]
    for part, choices in (("rows", ROWS), ("grid", GRID)):
        rows += [_row(found) for found in _finished(folder / part, choices)]
    table = pd.DataFrame(rows)
    audits = [{"key": found.attrs["key"]} | _plain(found) for found in _finished(folder / "audits", ROWS)]
    if audits:
        table = table.merge(pd.DataFrame(audits), on="key", how="left")
    table["date"] = datetime.date.today().isoformat()
    table.to_csv(HOME / "warfarin.csv", index=False, float_format="%.5g")


def _physician(cohort: Cohort) -> dict:
    given = given_row(cohort, np.full(len(cohort), MEDIUM))
    attrs = dict.fromkeys(_SHOWN, "") | {"plan": "physician", "key": "physician"}
    return _row(given.assign(n_orders=2).assign_attrs(attrs))


def _finished(folder: Path, choices: Sequence[Choices]) -> list[xr.Dataset]:
    return _kept(folder, [one.key for one in choices])


def _plain(found: xr.Dataset) -> dict[str, float]:
    return {str(name): found[name].item() for name in found}


def _kept(folder: Path, keys: list[str]) -> list[xr.Dataset]:
    return [read_part(part_format(key), folder / part_file(key)) for key in keys if (folder / part_file(key)).exists()]


def _row(found: xr.Dataset) -> dict:
    row = {name: found.attrs[name] for name in _SHOWN} | _figures(found)
    names = ("error_least", "error_most", "n_plans", "n_orders", "n_made")
    row |= {name: found[name].item() for name in names if name in found}
    return row


def _figures(found: xr.Dataset) -> dict[str, float]:
    row: dict[str, float] = {}
    for name in _FIGURES:
        row |= {name: found[name].item(), f"{name}_mcse": found[f"{name}_mcse"].item()}
    for arm in ("low", "medium", "high"):
        for suffix in ("", "_mcse"):
            row[f"recall_{arm}{suffix}"] = found[f"recall{suffix}"].sel(arm=arm).item()
    confusion = found["confusion"]
    arms = ("low", "medium", "high")
    given = {f"given_{one}_{other}": confusion.sel(right=one, assigned=other).item() for one in arms for other in arms}
    ends = [given["given_low_high"], given["given_high_low"]]
    return row | given | {"extreme_of_ends": max(ends), "extreme_of_ends_mcse": found["extreme_mcse"].item()}


def _keep_splits(folder: Path, n_splits: int) -> None:
    rows = []
    for found in _kept(folder / "splits", [f"split-{number}" for number in range(n_splits)]):
        about = {"split": int(found.attrs["split"]), "error_first": float(found.attrs["error_first"])}
        about |= {f"chosen_{name}": found.attrs[name] for name in TRIED}
        rows += [{"policy": str(name), **_figures(found.sel(policy=name)), **about} for name in found["policy"].values]
    if rows:
        pd.DataFrame(rows).to_csv(HOME / "splits.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
