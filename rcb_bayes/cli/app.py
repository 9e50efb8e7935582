"""The application: its commands, and one place where errors become exit codes."""

import atexit
import codecs
import errno
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from rcb_bayes._version import __version__
from rcb_bayes.cli import (
    audit,
    calibrate,
    check,
    demo,
    distil,
    doctor,
    elicit,
    evaluate,
    models,
    report,
    reproduce,
    sensitivity,
    simulate,
    stopping,
    validate,
    words,
)
from rcb_bayes.cli.options import as_options
from rcb_bayes.errors import RcbError, is_interrupt
from rcb_bayes.schema import seen

PASS, FAIL, BAD_INPUT, INCONCLUSIVE, INTERNAL_ERROR = 0, 1, 2, 3, 70
_MANY = 10  # options, from which on they have headings
_LONGEST = 2000  # letters of a message; a name of a thousand and more says nothing
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_PIPE_CLOSED = 141  # as shells have it: 128 plus the signal

app = typer.Typer(
    name="rcb",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Incentivized exploration you can trust: check a belief, plan, run and audit.",
)


def _help(command: Callable[..., object]) -> str:
    """A docstring whose lines are as long as the terminal, and not as the source's."""
    parts = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


_COMMANDS = (models, elicit, check, calibrate, distil, simulate, audit, evaluate)
_COMMANDS += (sensitivity, report, reproduce, doctor, validate, words, demo)
for _module in _COMMANDS:
    app.command(_module.__name__.rpartition(".")[2], help=_help(_module.command))(_module.command)


_PANELS = {
    "The belief, its users, rewards": "settings covariates missing dummies standardise intercept noise",
    "Many arms, and the past": "top eliminate contextual clusters warm_start private",
    "Workers, seed, files": "workers folder seed json_file out",
}
"""Headings of options that most commands share; what is a command's own stands under the last."""
_OWN = "What is asked"


def _command() -> Any:
    """The command line, its options under headings where there are many: short lists have wide columns."""
    group: Any = get_command(app)
    headings = {name: heading for heading, names in _PANELS.items() for name in names.split()}
    for command in getattr(group, "commands", {}).values():
        options = [one for one in command.params if one.param_type_name == "option"]
        for option in options:
            if option.is_flag:
                option.metavar = " "  # it takes nothing
            if len(options) >= _MANY:
                option.rich_help_panel = headings.get(str(option.name), _OWN)
    return group


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
    _prepare()
    with stopping.watched():
        try:
            code = run(sys.argv[1:] if arguments is None else list(arguments))
        except KeyboardInterrupt:
            code = _complain(stopping.words(), code=stopping.STOPPED)
    if code == stopping.STOPPED:
        stopping.leave()
    atexit.register(stopping.ignore)  # not sooner: whoever called this in Python goes on to hear it
    sys.exit(code)


def _prepare() -> None:
    """Have terminals that lack a letter get another one, and a belief that ends the process not pass."""
    codecs.register_error("rcb", lambda error: ("+-" if error.object[error.start] == "±" else "?", error.start + 1))  # pyright: ignore[reportAttributeAccessIssue]
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # closed, or somebody's own
            stream.reconfigure(errors="rcb")  # pyright: ignore[reportAttributeAccessIssue]
    own, here = os._exit, os.getpid()

    def end(status: int) -> NoReturn:
        if os.getpid() == here:  # not a process that was forked
            status = _complain("the process was ended from inside, by code of the belief.", code=BAD_INPUT)
        own(status)

    os._exit = end


def run(arguments: Sequence[str]) -> int:
    """Run the command line; errors become one line on standard error and an exit code."""
    group = _command()
    known = getattr(group, "commands", {})
    command = next((known[word] for word in arguments if word in known), None)
    stopping.forget_kept()
    try:
        code = group.main(args=list(arguments), prog_name="rcb", standalone_mode=False)
        with suppress(AttributeError):  # closed
            sys.stdout.flush()
    except typer.Abort:
        code = stopping.STOPPED
    except SystemExit:  # Typer and Rich leave so, with 1, when a pipe is closed: no failed check
        return PASS if "_RCB_COMPLETE" in os.environ else _PIPE_CLOSED
    except BaseException as error:  # a Rust panic is no Exception
        if is_interrupt(error):
            return _complain(stopping.words(), code=stopping.STOPPED)
        if isinstance(error, RcbError):
            return _complain(as_options(str(error), command), code=BAD_INPUT)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            told = f"Cannot write what was found: {error.strerror}. Make room, and run it again."
            return _complain(told, code=BAD_INPUT)
        usage = _usage_message(error)
        if usage is not None:
            return _complain(usage, code=BAD_INPUT)
        if os.environ.get("RCB_DEBUG"):
            raise
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return _complain(
            f"internal error, {text}\nSet RCB_DEBUG=1 for the traceback, and report it.", code=INTERNAL_ERROR
        )
    if code == stopping.STOPPED:  # what Typer makes of Ctrl-C
        return _complain(stopping.words(), code=code)
    return code if isinstance(code, int) else PASS


def _complain(message: str, *, code: int) -> int:
    if message:
        shown = message if len(message) <= _LONGEST else f"{message[: _LONGEST - 3]}..."
        with suppress(OSError):  # nowhere is left to say it
            typer.echo(f"rcb: {seen(shown, but='\n')}", err=True)
    return code


def _usage_message(error: BaseException) -> str | None:
    """What is wrong with the command line itself; None for any other error, empty where help was shown instead."""
    format_message = getattr(error, "format_message", None)
    if not callable(format_message):
        return None
    message = str(format_message()).strip()
    if not message:
        return ""
    context = getattr(error, "ctx", None)
    where = "rcb" if context is None else context.command_path
    return f"{message}{'' if message[-1] in '.?!' else '.'} See `{where} --help`."
