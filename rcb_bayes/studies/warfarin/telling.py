"""What the study's audits and figures say, in words."""

import math
from typing import TYPE_CHECKING

from rcb_bayes.mechanism.deciding import VERDICTS
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.studies.warfarin.judging import COLD_START, EXPLOITATION
from rcb_bayes.telling.wording import brief

if TYPE_CHECKING:
    import xarray as xr

RESTS_ON = (
    "what the figures rest on",
    "  RCB's errors need choices that are not the paper's: sigma 0.3, no inflation of the prior, 30 times the spread.",
    "  With the paper's own (sigma 0.054, linear inflation, the plain spread) they are those of the rows so named.",
    "  Picked with the consortium's patients in view: N, sigma, the spread's multiple, the dose oracle's three scales.",
    "  Errors are for these patients in another order, and with other plans; not for patients yet to come.",
)

_BY_CONSTRUCTION = "by construction"
_WIDTH = 42  # of a column


def audit_lines(audits: "xr.Dataset") -> list[str]:
    """Verdicts under each notion, plan by plan for the cold start and policy by policy for exploitation."""
    lines = [
        "audits under the physician's belief: verdicts under each notion, at the plan's epsilon; margins that decide"
    ]
    for part in (COLD_START, EXPLOITATION):
        own = audits.isel(audit=audits["part"].values == part)
        if own.sizes["audit"]:
            lines += ["", *_part_lines(own, part)]
    return lines


def _part_lines(own: "xr.Dataset", part: str) -> list[str]:
    worlds, users = int(own["n_worlds"][0]), int(own["n_users"][0])
    if part == COLD_START:
        title = (
            f"cold start, the same with either oracle: {worlds:,} worlds a stage, {users} patients at random and the"
        )
        title += f" worst found, up to {int(own['n_plans'].max())} plans each"
    else:
        title = f"exploitation, by the first plan: {worlds:,} worlds, {users} patients at random, as each epoch begins"
    lines = [title, f"  {'':<44}" + "".join(f"{notion:<{_WIDTH}}" for notion in NOTIONS).rstrip()]
    subjects = list(dict.fromkeys(str(name) for name in own["subject"].values))
    for name in subjects:
        rows = own.isel(audit=own["subject"].values == name)
        cells = [_cell(rows.isel(audit=rows["notion"].values == notion).squeeze("audit")) for notion in NOTIONS]
        lines.append(f"  {name:<44}" + "".join(f"{cell:<{_WIDTH}}" for cell in cells).rstrip())
    if part == EXPLOITATION and bool(own["by_construction"].any()):
        lines.append(
            f"  {_BY_CONSTRUCTION}: the cut leaves nothing that breaks this notion in any world, so that no audit could"
            " fail; in brackets the smallest margin of a single world"
        )
    return lines


def _cell(row: "xr.Dataset") -> str:
    if bool(row["by_construction"]):
        return f"{_BY_CONSTRUCTION} ({brief(float(row['smallest']))})"
    worst, error = float(row["worst"]), float(row["worst_mcse"])
    if not math.isfinite(worst):
        return "not reached"
    margin = brief(worst) + (f" ± {error:.1g}" if error > 1e-6 else "")
    n = int(row["n_plans"])
    counts = [(word, int(row[f"n_{word}"])) for word in VERDICTS]
    told = [word if n == 1 else f"{word} {count}" for word, count in counts if count]
    return f"{', '.join(told)} ({margin})"
