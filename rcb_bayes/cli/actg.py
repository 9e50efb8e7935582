"""``rcb reproduce actg``: a randomised trial, replayed without bias."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rcb_bayes.cli.options import is_stdout, write_file, write_json, write_result
from rcb_bayes.cli.stopping import keep_parts

if TYPE_CHECKING:
    from rcb_bayes.studies.actg import ActgResult, Sizes, Trial

_MOST_WORKERS = 4
_PAGE_BELIEF = "elicited"
_PAGE_EPSILON = 0.1
_PAGE_HORIZON = 500


def reproduce_actg(
    data: Path | None,
    *,
    orders: int | None,
    fast: bool,
    resume: bool,
    workers: str | None,
    seed: int,
    json_file: Path | None,
    out: Path | None,
) -> None:
    """Check beliefs of 1991, plan for them, replay policies on the trial, and tell what came of it.

    Raises
    ------
    RcbError
        A folder that holds another run; no data, or whatever is wrong with the file.
    """
    from rcb_bayes.files.store import open_store
    from rcb_bayes.studies.actg import FAST, ActgResult, Sizes, load_actg, run_actg

    trial = load_actg(None if data is None else os.path.expanduser(data))
    sizes = FAST if fast else Sizes()
    if orders is not None:
        sizes = replace(sizes, n_orders=orders)
    crew = workers or min(os.cpu_count() or 1, _MOST_WORKERS)
    asked = {"experiment": "actg", "seed": seed, "n_orders": sizes.n_orders, "fast": fast, "trial": trial.describe()}
    store = open_store(out, asked, resume=resume)
    if out is not None:
        keep_parts(f"Finished parts are kept in {out}: go on with --resume.")
    found = store.result(
        "actg.json",
        lambda: run_actg(trial, sizes=sizes, workers=crew, folder=None if out is None else out / "parts", seed=seed),
        save=lambda result, path: write_result(path, result.save),
        load=ActgResult.load,
    )
    if out is not None:
        _write(found, trial, sizes, out, seed=seed)
    write_json(found.to_dict(), json_file)
    if not is_stdout(json_file):
        typer.echo(found.summary())
        if out is not None:
            typer.echo(f"\nWritten to {out}: actg.json, summary.txt, values.csv, report.html")


def _write(found: "ActgResult", trial: "Trial", sizes: "Sizes", out: Path, *, seed: int) -> None:
    """The summary, the table of values, and a page on the belief that was elicited."""
    write_file(found.summary() + "\n", out / "summary.txt")
    write_file(found.values.to_csv(index=False), out / "values.csv")
    if (out / "report.html").exists():  # --resume: the page is of the same run
        return
    from rcb_bayes.reporting import ReportSizes, report
    from rcb_bayes.studies.actg import designer_market

    page = report(
        designer_market(trial, _PAGE_BELIEF),
        epsilon=_PAGE_EPSILON,
        n_per_arm=sizes.n_per_arm,
        horizon=_PAGE_HORIZON,
        sizes=ReportSizes(
            plan_worlds=sizes.n_worlds,
            audit_worlds=sizes.audit_worlds,
            run_worlds=5,
            knowledge_worlds=0,
            radius_worlds=0,
            payment_worlds=0,
            n_multiples=(),
            epsilons=(_PAGE_EPSILON, 2 * _PAGE_EPSILON),
        ),
        seed=seed,
    )
    page.save(out / "report.html")
