"""The application: its commands, and one place where errors become exit codes."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from rcb_bayes._version import __version__
from rcb_bayes.cli import demo, models
from rcb_bayes.errors import RcbError

PASS, FAIL, BAD_INPUT, INCONCLUSIVE, INTERNAL_ERROR = 0, 1, 2, 3, 70

app = typer.Typer(
    name="rcb",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Incentivized exploration you can trust: check a belief, plan, run and audit.",
)
app.command("models")(models.command)
app.command("demo")(demo.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rcb-bayes {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Incentivized exploration you can trust: check a belief, plan, run and audit."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; errors become one line on standard error and an exit code."""
    command = get_command(app)
    try:
        code = command.main(args=list(arguments), prog_name="rcb", standalone_mode=False)
    except RcbError as error:
        typer.echo(f"rcb: {error}", err=True)
        return BAD_INPUT
    except typer.Abort:
        typer.echo("rcb: stopped", err=True)
        return 130
    except Exception as error:
        shown = _show_usage_error(error)
        if shown is not None:
            return shown
        if os.environ.get("RCB_DEBUG"):
            raise
        typer.echo(
            f"rcb: internal error, {type(error).__name__}: {error}. Set RCB_DEBUG=1 for the traceback and report it.",
            err=True,
        )
        return INTERNAL_ERROR
    return code if isinstance(code, int) else PASS


def _show_usage_error(error: Exception) -> int | None:
    """A mistake on the command line itself, shown as Typer does; None for anything else."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if not callable(show) or not isinstance(code, int):
        return None
    show()
    return BAD_INPUT
