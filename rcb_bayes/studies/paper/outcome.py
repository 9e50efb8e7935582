"""What an experiment hands back, and the files it leaves: a table, figures, and a text with the claims."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes.files import write_atomically
from rcb_bayes.files.store import Store
from rcb_bayes.plots.style import forget_figure
from rcb_bayes.schema import DEFAULT_SEED, as_count, plain
from rcb_bayes.studies.paper.claims import Claim
from rcb_bayes.workers import Workers, check_workers

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of an experiment.

    Parameters
    ----------
    folder : path-like, optional
        Where results go; nothing is kept without one.
    n_worlds : int, optional
        Worlds that plans are run in; the experiment's own number unless given.
    fast : bool
        A small grid, shorter horizons, fewer worlds.
    resume : bool
        Go on with what the folder holds.
    workers : None, int, str, Client or Executor
        Who works on the cells: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    seed : int
        Of every random number.

    Raises
    ------
    RcbError
        Fewer than two worlds, of which no error could be told; a negative seed.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> rcb.studies.Request(fast=True, n_worlds=5).folder is None  # nothing is kept
    True
    >>> rcb.studies.Request(n_worlds=1)
    Traceback (most recent call last):
        ...
    rcb_bayes.errors.RcbError: n_worlds must be an integer of at least 2, got 1.
    """

    folder: Path | None = None
    n_worlds: int | None = None
    fast: bool = False
    resume: bool = False
    workers: Workers = None
    seed: int = DEFAULT_SEED

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if self.n_worlds is not None:
            as_count(self.n_worlds, name="n_worlds", least=2)
        as_count(self.seed, name="seed")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What an experiment found.

    Parameters
    ----------
    name : str
        The experiment, as ``reproduce`` knows it.
    title : str
        What it is about.
    table : pandas.DataFrame
        A row for each run, with errors.
    keys : tuple of str
        Columns that tell rows apart, beside ``run``.
    claims : tuple of Claim
        The paper's, judged.
    notes : tuple of str
        What else is to be said.
    parts : tuple of xarray.Dataset
        The runs themselves, a Dataset each, dims (run, world, t).
    files : tuple of path-like
        What was written.

    Examples
    --------
    With ``outcome`` as in ``reproduce``:

    >>> outcome.name, outcome.keys
    ('setting-1', ('n_features', 'n_arms'))
    >>> outcome.parts[0]["regret"].dims
    ('run', 'world', 't')
    """

    name: str
    title: str
    table: "pd.DataFrame"
    keys: tuple[str, ...]
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    parts: "tuple[xr.Dataset, ...]" = ()
    files: tuple[Path, ...] = ()

    def summary(self) -> str:
        """The claims, one a line, and the notes.

        Examples
        --------
        With ``outcome`` as in ``reproduce``:

        >>> print(outcome.summary())
        Setting 1: numbers of arms and features
        <BLANKLINE>
        held       gain above -epsilon (realised), theorem plans: ...
        """
        lines = [self.title, ""]
        for claim in self.claims:
            lines.append(f"{claim.verdict:<10} {claim.claim}, {claim.kind} plans: {claim.figure}")
        return "\n".join([*lines, *([""] if self.claims and self.notes else []), *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything but the runs, as plain values; None for what is no number."""
        table = self.table.to_dict(orient="records")
        return plain(
            {"name": self.name, "title": self.title, "claims": self.claims, "notes": self.notes, "table": table}
        )

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """The regret of every run at its end, with two standard errors, a colour for each kind of plan or policy.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        With ``outcome`` as in ``reproduce``:

        >>> outcome.plot().get_xlabel()
        'regret at the end, ± 2 standard errors'
        """
        from rcb_bayes.studies.paper.figures import plot_regrets

        return plot_regrets(self.table, keys=self.keys, title=self.title, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write everything but ``files`` to a netCDF file, with a digest of its content.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        from rcb_bayes.studies.paper.outcome_files import write_outcome_file

        write_outcome_file(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "Outcome":
        """Read what ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        Outcome

        Raises
        ------
        RcbError
            A file that is not there, or is no outcome; a digit that was changed.
        """
        from rcb_bayes.studies.paper.outcome_files import read_outcome_file

        return cls(**read_outcome_file(path))


def write_outcome(outcome: Outcome, store: Store, figures: "dict[str, Figure]") -> tuple[Path, ...]:
    """Write the table, the text and the figures into the folder; returns their paths."""
    if store.folder is None:
        return ()
    table, text = store.folder / "table.csv", store.folder / "claims.txt"
    write_atomically(table, outcome.table.to_csv(index=False).encode("utf-8"))
    write_atomically(text, f"{outcome.summary()}\n".encode())
    written = [table, text]
    for name, figure in figures.items():
        target = store.folder / f"{name}.png"
        write_atomically(target, partial(figure.savefig, format="png", dpi=150))
        forget_figure(figure)
        written.append(target)
    return tuple(written)
