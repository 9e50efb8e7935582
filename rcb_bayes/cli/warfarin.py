"""``rcb reproduce warfarin``: the case study, on made-up patients or on the real file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rcb_bayes.cli.options import is_stdout, replaced, write_figure, write_file, write_json
from rcb_bayes.errors import RcbError

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
    from rcb_bayes.studies.warfarin import load_warfarin, run_warfarin, synthetic_cohort

    cohort = synthetic_cohort() if data is None else load_warfarin(os.path.expanduser(data))
    n = permutations or (_FAST_PERMUTATIONS if fast else _PERMUTATIONS)
    asked = {"seed": seed, "n_permutations": n, "fast": fast, "cohort": cohort.describe()}
    found = _kept(out, asked, resume=resume)
    if found is None:
        sizes: dict[str, Any] = _FAST if fast else {"n_plans": _PLANS}
        workers = min(os.cpu_count() or 1, _MOST_WORKERS)
        found = run_warfarin(cohort, n_permutations=n, workers=workers, seed=seed, **sizes)
        _keep(found, asked, out)
    if json_file is not None:
        write_json(found.to_dict(), json_file)
    if not is_stdout(json_file):
        typer.echo(found.summary())
        typer.echo("\n" + found.confusion(_best(found)))
        if out is not None:
            typer.echo(f"\nWritten to {out}: warfarin.nc, summary.txt, incorrect.png, regret.png, gain.png")


def _kept(out: Path | None, asked: dict[str, Any], *, resume: bool) -> "WarfarinResult | None":
    """A finished run of the same request; None where there is none yet."""
    import json

    from rcb_bayes.studies.warfarin import WarfarinResult

    if out is None or not (out / "request.json").exists():
        return None
    before = json.loads((out / "request.json").read_text(encoding="utf-8"))
    if not resume or before != asked:
        raise RcbError(f"{out} holds a run already. Name another folder, or repeat its request with --resume.")
    return WarfarinResult.load(out / "warfarin.nc")


def _keep(found: "WarfarinResult", asked: dict[str, Any], out: Path | None) -> None:
    import json

    if out is None:
        return
    for name in ("incorrect", "regret", "gain"):
        write_figure(found.plot(figure=name), out / f"{name}.png")
    write_file(found.summary() + "\n", out / "summary.txt")
    with replaced(out / "warfarin.nc") as path:
        found.save(path)
    write_file(json.dumps(asked, indent=1), out / "request.json")


def _best(found: "WarfarinResult") -> str:
    """RCB with the least error, of those whose exploitation heeds the plan's notion if there are any."""
    own = found.figures["error"].where(found.figures["kind"] == "rcb", drop=True)
    names = [str(name) for name in own["policy"].values]
    heeding = [name for name in names if "heeding" in name] or names
    return min(heeding, key=lambda name: float(own.sel(policy=name)))
