"""``rcb reproduce warfarin``: the case study, on made-up patients or on the real file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rcb_bayes.cli.options import is_stdout, write_figure, write_file, write_json, write_result
from rcb_bayes.cli.stopping import keep_parts

if TYPE_CHECKING:
    from rcb_bayes.studies.warfarin import WarfarinResult

_PERMUTATIONS, _FAST_PERMUTATIONS = 10, 2
_PLANS = 8  # of each sampled kind: they differ more than orders of patients do
_FAST: dict[str, Any] = {"epsilons": (0.025,), "variances": (0.8,), "n_plans": 2, "n_worlds": 200, "audit_worlds": 100}
_MOST_WORKERS = 4


def reproduce_warfarin(
    data: Path | None,
    *,
    permutations: int | None,
    fast: bool,
    resume: bool,
    workers: str | None,
    seed: int,
    json_file: Path | None,
    out: Path | None,
) -> None:
    """Replay plans, oracles and baselines over the patients, and tell what came of it.

    Raises
    ------
    RcbError
        A folder that holds another run; whatever is wrong with the file.
    """
    from rcb_bayes.files.store import open_store
    from rcb_bayes.studies.warfarin import WarfarinResult, load_warfarin, run_warfarin, synthetic_cohort

    cohort = synthetic_cohort() if data is None else load_warfarin(os.path.expanduser(data))
    n = permutations or (_FAST_PERMUTATIONS if fast else _PERMUTATIONS)
    sizes: dict[str, Any] = _FAST if fast else {"n_plans": _PLANS}
    crew = workers or min(os.cpu_count() or 1, _MOST_WORKERS)
    parts = None if out is None else out / "parts"
    asked = {"experiment": "warfarin", "seed": seed, "n_permutations": n, "fast": fast, "cohort": cohort.describe()}
    store = open_store(out, asked, resume=resume)
    if out is not None:
        keep_parts(f"Finished parts are kept in {out}: go on with --resume.")
    found = store.result(
        "warfarin.nc",
        lambda: run_warfarin(cohort, n_permutations=n, workers=crew, folder=parts, seed=seed, **sizes),
        save=lambda result, path: write_result(path, result.save),
        load=WarfarinResult.load,
    )
    if out is not None:
        _write_figures(found, out)
    write_json(found.to_dict(), json_file)
    if not is_stdout(json_file):
        typer.echo(found.summary())
        typer.echo("\n" + found.confusion(_best(found)))
        if out is not None:
            typer.echo(f"\nWritten to {out}: warfarin.nc, summary.txt, incorrect.png, regret.png, gain.png")


def _write_figures(found: "WarfarinResult", out: Path) -> None:
    for name in ("incorrect", "regret", "gain"):
        write_figure(found.plot(figure=name), out / f"{name}.png")
    write_file(found.summary() + "\n", out / "summary.txt")


def _best(found: "WarfarinResult") -> str:
    """RCB with the least error, of those whose exploitation heeds the plan's notion if there are any."""
    own = found.figures["error"].where(found.figures["kind"] == "rcb", drop=True)
    names = [str(name) for name in own["policy"].values]
    heeding = [name for name in names if "heeding" in name] or names
    return min(heeding, key=lambda name: float(own.sel(policy=name)))
