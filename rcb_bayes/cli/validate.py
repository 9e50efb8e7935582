"""``rcb validate``: is this installation right? Engines calibrated by simulation, twins met, planted errors caught."""

from typing import Annotated

import typer

from rcb_bayes.cli.options import JsonOption, OutOption, SeedOption, is_stdout, write_file, write_json
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import DEFAULT_SEED

_PASS, _FAIL = 0, 1
_ENGINES = ("exact", "importance", "conditional", "gibbs", "laplace", "nuts")


def _check_engines(names: list[str] | None) -> list[str] | None:
    for name in names or []:
        if name not in _ENGINES:
            raise RcbError(f"There is no engine '{name}'. Use one of {', '.join(_ENGINES)}.")
    return names


def command(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer beliefs an engine: about two minutes of one core instead of ten.")
    ] = False,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            "--engine",
            callback=_check_engines,
            help="Only this engine, and no gaps, rates or audits; may be repeated.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print every comparison.")] = False,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Validate this installation: exit 0 pass, 1 fail.

    Every posterior engine is calibrated by simulation and compared with exact answers; gaps, rates and audits are
    compared with closed forms. Each run plants errors of its own, such as a bias of .1 posterior sd, and fails where
    one goes unnoticed. With --out a page (validation.html) is written.
    """
    from rcb_bayes.validation import validate

    found = validate(quick=quick, engines=engine or None, seed=seed)
    quiet = is_stdout(json_file)
    write_json(found.to_dict(), json_file)
    if not quiet:
        typer.echo((found.table() + "\n\n" if verbose else "") + found.summary())
    if out is not None:
        write_file(found.to_html(), out / "validation.html")
        if not quiet:
            typer.echo(f"Page: {out / 'validation.html'}")
    raise typer.Exit(_PASS if found.verdict == "pass" else _FAIL)
