"""Options that several commands share, and the JSON they write."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rcb_bayes.errors import RcbError

SeedOption = Annotated[int, typer.Option("--seed", help="Seed of every random number; the same seed, the same answer.")]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the result as JSON ('-' for standard output).")
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for figures and tables.")]


def write_json(result: Any, target: Path) -> None:
    """Write a result as JSON to a file, or to standard output for '-'."""
    text = json.dumps(result, indent=2, allow_nan=False)
    if str(target) == "-":
        sys.stdout.write(text + "\n")
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RcbError(f"Cannot write {target}: {error.strerror}. Choose another file.") from None


def is_stdout(target: Path | None) -> bool:
    """Whether the JSON goes to standard output, so that nothing else may."""
    return target is not None and str(target) == "-"
