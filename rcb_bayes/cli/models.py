"""``rcb models``: the gallery of beliefs, and one of them in full."""

import inspect
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rcb_bayes.cli.options import JsonOption, is_stdout, write_json
from rcb_bayes.errors import RcbError
from rcb_bayes.prior.files import GalleryEntry, find_model, gallery, parameters_of


def command(
    name: Annotated[str | None, typer.Argument(help="Show one belief in full: its formula, use and parameters.")] = None,
    copy_to: Annotated[
        Path | None, typer.Option("--copy-to", metavar="FILE", help="Copy the belief's file, to edit as your own.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """List the gallery of beliefs, or show one in full."""
    if name is None:
        if copy_to is not None:
            raise RcbError("--copy-to needs the name of a belief: rcb models student_t --copy-to my_belief.py")
        _list(json_file)
    else:
        _show(find_model(name), copy_to=copy_to, json_file=json_file)


def _list(json_file: Path | None) -> None:
    entries = list(gallery().values())
    if json_file is not None:
        write_json([{"name": entry.name, "summary": entry.summary} for entry in entries], json_file)
    if not is_stdout(json_file):
        Console().print(_table(entries))
        typer.echo("rcb models NAME shows one in full; --copy-to FILE makes it yours to edit.")


def _table(entries: list[GalleryEntry]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("belief")
    for entry in entries:
        table.add_row(entry.name, entry.summary)
    return table


def _show(path: Path, *, copy_to: Path | None, json_file: Path | None) -> None:
    source = path.read_text(encoding="utf-8")
    parameters = {
        parameter.name: None if parameter.default is inspect.Parameter.empty else repr(parameter.default)
        for parameter in parameters_of(path).values()
    }
    if json_file is not None:
        write_json({"name": path.stem, "parameters": parameters}, json_file)
    if not is_stdout(json_file):
        typer.echo(inspect.cleandoc(source.split('"""')[1]))
        typer.echo("\nParameters of build_model:")
        for parameter, default in parameters.items():
            typer.echo(f"  {parameter} = {default}" if default is not None else f"  {parameter}")
    if copy_to is not None:
        if copy_to.exists():
            raise RcbError(f"{copy_to} exists already. Choose another file, or remove it first.")
        shutil.copyfile(path, copy_to)
        typer.echo(f"Copied to {copy_to}.", err=True)
