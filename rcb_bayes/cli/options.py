"""Options that several commands share, and the files they write."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.cli.stopping import keep, keep_parts
from rcb_bayes.errors import RcbError
from rcb_bayes.files.envelope import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def check_workers(workers: str | None) -> str | None:
    """Refuse what cannot be workers, before any work is done.

    Raises
    ------
    WorkersError
        A number below 1, or far above that of the cores; an empty address.
    """
    if workers is None:
        return None
    from rcb_bayes.workers import check_workers as checked

    return str(checked(workers))


def check_run_folder(folder: Path | None) -> Path | None:
    """Where a long run is kept; whoever stops it is told.

    Raises
    ------
    RcbError
        When it cannot be a folder, or be made where it should be.
    """
    folder = check_folder(folder)
    if folder is not None:
        keep_parts(f"What is finished is kept in {folder}: ask for the same with --folder {folder} to go on.")
    return folder


def is_stdout(target: Path | None) -> bool:
    """Whether the JSON goes to standard output, so that nothing else may."""
    return target is not None and str(target) == "-"


def check_target(target: Path | None) -> Path | None:
    """Refuse a file that cannot be written, before any work is done for it.

    Raises
    ------
    RcbError
        When the target is a folder, or cannot be made where it should be.
    """
    if target is None or is_stdout(target):
        return target
    target = Path(os.path.expanduser(target))  # the shell leaves the tilde of --json=~/result.json alone
    _check_name(target)
    if target.is_dir():
        raise RcbError(f"Cannot write {target}: it is a folder. Give the name of a file in it.")
    _check_place(target, target.parents)
    if target.exists() and not os.access(target, os.W_OK):
        raise RcbError(f"Cannot write {target}: permission denied. Choose another place.")
    return target


def check_folder(folder: Path | None) -> Path | None:
    """Refuse a folder that cannot be made or written to, before any work is done for it.

    Raises
    ------
    RcbError
        When it is a file, or lies in one, or the system does not allow it.
    """
    if folder is None:
        return None
    folder = Path(os.path.expanduser(folder))
    _check_name(folder)
    _check_place(folder, (folder, *folder.parents))
    return folder


def _check_name(target: Path) -> None:
    """Refuse a name that the system cannot have, such as one that is too long."""
    try:
        os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RcbError(f"Cannot write {str(target)[:100]}: {reason}. Choose another place.") from None


def _check_place(target: Path, candidates: Iterable[Path]) -> None:
    """Refuse a target unless the nearest of the candidate folders that exists is one, and can be written to."""
    nearest = next(folder for folder in candidates if folder.exists())
    if not nearest.is_dir():
        raise RcbError(f"Cannot write {target}: {nearest} is a file, not a folder. Choose another place.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise RcbError(f"Cannot write {target}: permission denied. Choose another place.")


WorkersOption = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="N",
        callback=check_workers,
        help="Processes on this machine, or the address of a Dask scheduler; the answer is the same.",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of every random number; the same seed, the same answer.")
]
JsonOption = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=check_target,
        help="Also write the result as JSON; '-' prints it, and nothing else.",
    ),
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        callback=check_run_folder,
        help="Keep what is finished here; asked for the same once more, go on from it.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", callback=check_folder, help="Folder for figures and tables."),
]


_ARGUMENT = re.compile(r"\b([a-z_]+)=((?:'\w+'(?:, | or )?)+|[\w.]+(?:\([^()]*\))?)?")
_AS_VALUES = {
    "Empirical(rows)": " users.csv",
    "market.covariates": " users.csv",
    "GaussianNoise(sigma)": " 0.3",
    "BernoulliLogit()": " logit",
    "True": "",
}


def as_options(text: str, command: Any = None) -> str:
    """What a message says in Python's words, in those of the command line; of a command also its arguments."""
    known = {name: one for one in getattr(command, "params", ()) for name in (*one.opts, *one.secondary_opts)}

    def option(found: re.Match[str]) -> str:
        name, value = found[1].replace("_", "-"), found[2] or ""
        if f"--{name}" not in known:
            return found[0]
        bare = value.rstrip(",. ")
        if bare == "False":
            return known[f"--{name}"].secondary_opts[0] + value[len(bare) :]
        return f"--{name}{_AS_VALUES.get(bare, f' {bare}' if bare else '')}{value[len(bare) :]}".replace("'", "")

    text = _ARGUMENT.sub(option, text)
    text = re.sub(r"check_need\(market, n_worlds=(\d+)\)", r"--check-worlds \1", text)
    return text.replace("(n_worlds, audit_worlds)", "(--plan-worlds, --audit-worlds)")


def write_json(result: Any, target: Path | None) -> None:
    """Write a result as JSON to a file, if one is wanted, or to standard output for '-'."""
    if target is None:
        return
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    if is_stdout(target):
        sys.stdout.write(text)
    else:
        write_file(text, target)


def write_file(text: str, target: Path) -> None:
    """Write a text file, and the folders it needs.

    Raises
    ------
    RcbError
        When the system does not allow it.
    """
    write_result(target, text.encode("utf-8"))


def write_result(target: Path, write: bytes | Callable[[Path], None]) -> None:
    """Write a file, and the folders it needs, at once or not at all; see ``write_atomically``.

    Raises
    ------
    RcbError
        When the system does not allow it.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RcbError(f"Cannot write {target}: {error.strerror or error}. Choose another place.") from None
    write_atomically(target, write)
    keep(target)


def write_figure(axes: "Axes", target: Path) -> None:
    """Write the figure that axes belong to, and the folders it needs; pyplot forgets it.

    Raises
    ------
    RcbError
        When the system does not allow it.
    """
    from rcb_bayes.plots.style import forget_figure

    try:
        form = target.suffix.removeprefix(".") or "png"
        save = partial(axes.figure.savefig, format=form, dpi=150, bbox_inches="tight")  # type: ignore[union-attr]
        write_result(target, save)
    finally:
        forget_figure(axes.figure)
