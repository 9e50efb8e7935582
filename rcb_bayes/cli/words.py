"""``rcb words``: what the words of messages, summaries and pages mean."""

from textwrap import fill
from typing import Annotated

import typer

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import suggestion
from rcb_bayes.telling.glossary import glossary

WordArgument = Annotated[str | None, typer.Argument(metavar="WORD", help="One word, or the beginning of one.")]


def command(word: WordArgument = None) -> None:
    """Tell what words mean: arm, saturated, promoted, guard, margin and the others of messages and pages."""
    known = glossary()
    found = known if word is None else {name: known[name] for name in known if _is_meant(word, name)}
    if not found:
        close = suggestion(str(word), list(known))
        raise RcbError(f"There is no word '{word}' in the glossary.{close} `rcb words` has all.")
    for name, meaning in found.items():
        typer.echo(typer.style(name, bold=True))
        typer.echo(fill(meaning, width=80, initial_indent="   ", subsequent_indent="   "))


def _is_meant(word: str, name: str) -> bool:
    """Whether a word begins a name of the glossary, or one of its parts: q of "exploration rate, q"."""
    asked = word.strip().lower()
    return bool(asked) and any(part.startswith(asked) for part in [name.lower(), *name.lower().split(", ")])
