"""``rcb models``: the gallery of beliefs, and one of them in full."""

import inspect
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from rcb_bayes.belief.files import description_of, find_model, gallery, parameters_of
from rcb_bayes.cli.options import JsonOption, check_target, is_stdout, write_json, write_result
from rcb_bayes.errors import RcbError

NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Show one belief, of the gallery or a .py file: formula, use, parameters."),
]
CopyOption = Annotated[
    Path | None,
    typer.Option(
        "--copy-to", metavar="FILE", callback=check_target, help="Copy the belief's file, to edit as your own."
    ),
]


def command(name: NameArgument = None, copy_to: CopyOption = None, json_file: JsonOption = None) -> None:
    """List the gallery of beliefs, or show one in full."""
    if name is not None:
        _show(find_model(name), copy_to=copy_to, json_file=json_file)
    elif copy_to is not None:
        raise RcbError("--copy-to needs the name of a belief: rcb models student_t --copy-to my_belief.py")
    else:
        _list(json_file)


def _list(json_file: Path | None) -> None:
    entries = list(gallery().values())
    write_json([{"name": entry.name, "summary": entry.summary} for entry in entries], json_file)
    if not is_stdout(json_file):
        width = max(len(entry.name) for entry in entries)
        for entry in entries:
            typer.echo(f"{typer.style(entry.name.ljust(width), bold=True)}  {entry.summary}")
        typer.echo("\n`rcb models NAME` shows one in full; with --copy-to FILE it is yours to edit.")


def _show(path: Path, *, copy_to: Path | None, json_file: Path | None) -> None:
    description = description_of(path)
    parameters = parameters_of(path)
    defaults = {name: p.default for name, p in parameters.items() if p.default is not inspect.Parameter.empty}
    if copy_to is not None:
        _copy(path, copy_to)
    if json_file is not None:
        result = {
            "name": path.stem,
            "summary": description.partition("\n")[0],
            "parameters": {name: _as_json(defaults.get(name)) for name in parameters},
            "required": [name for name in parameters if name not in defaults],
        }
        write_json(result, json_file)
    if not is_stdout(json_file):
        typer.echo(description)
        typer.echo("\nParameters of build_model:" if parameters else "\nbuild_model takes no parameters.")
        for name in parameters:
            typer.echo(f"  {name} = {defaults[name]!r}" if name in defaults else f"  {name} (required)")


def _as_json(value: Any) -> Any:
    """The value itself where JSON has it, else as Python writes it."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return value


def _copy(source: Path, target: Path) -> None:
    """Copy a model file, never over another file."""
    if target.suffix != ".py":
        raise RcbError(f"A belief's file must end in .py, got {target}. Give a name such as my_belief.py.")
    if os.path.lexists(target):
        raise RcbError(f"{target} exists already. Choose another file, or remove it first.")
    write_result(target, source.read_bytes())
    typer.echo(f"Copied to {target}.", err=True)
