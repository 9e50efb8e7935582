"""What the ACTG 175 study found: tables, a summary in words, a file both ways."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rcb_bayes.files import Format, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.schema import plain
from rcb_bayes.studies.actg.telling import summary_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

TABLES = ("checks", "constants", "plans", "values", "audits", "logs", "coverage")
_FORM = Format(name="actg result", version=1, remedy="`rcb reproduce actg --out DIR` writes one.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActgResult:
    """The study.

    Parameters
    ----------
    checks : pandas.DataFrame
        The paper's assumptions on each belief: ``belief``, ``check``, ``verdict``, ``estimate``, ``mcse``,
        ``threshold``.
    constants : pandas.DataFrame
        What Theorem 1 would ask: ``tau``, ``rho``, ``tau_star``, ``rho_star``, ``phi0``, ``prior_gap``,
        ``inverse_rate`` (L) and ``n_per_arm`` (N), for each ``belief`` and ``epsilon``.
    plans : pandas.DataFrame
        Sampled plans: ``belief``, ``epsilon``, ``feasible``, ``rate``, ``cold_start``, each with ``*_mcse``,
        ``reason``; ``replayed_cold_start`` and the share of orders in which it ``ended``.
    values : pandas.DataFrame
        A row for each policy and ``method`` ("ips", "snips", "dr" of fixed policies, for patients to come; "replay" of
        learning ones, over their first ``n_rounds`` patients): ``value``, ``mcse``, ``lower``, ``upper``.
    audits : pandas.DataFrame
        Verdicts on each feasible plan under each ``notion``, with the margin that decides.
    logs : pandas.DataFrame
        What logs of RCB's own replays say of each arm by ``evaluate``, ``covered``: in which share of logs the interval
        holds what the trial says.
    coverage : pandas.DataFrame
        Over ``n`` random halves: in how many the interval ``held`` the value over all patients, and how many
        ``held_uncorrected`` without the finite-population correction.
    trial : str
        The trial in a line.
    asked : dict
        What was asked for: beliefs, epsilons, sizes, the seed.

    Examples
    --------
    With ``result`` as in ``run_actg``:

    >>> result.values.query("policy == 'always zdv'")["method"].tolist()
    ['ips', 'snips', 'dr']
    """

    checks: "pd.DataFrame"
    constants: "pd.DataFrame"
    plans: "pd.DataFrame"
    values: "pd.DataFrame"
    audits: "pd.DataFrame"
    logs: "pd.DataFrame"
    coverage: "pd.DataFrame"
    trial: str
    asked: dict[str, Any]

    @classmethod
    def of_parts(cls, parts: Sequence[dict[str, list[dict[str, Any]]]], *, trial: str, asked: dict[str, Any]) -> Self:
        """Parts of the study put together; fixed policies first, coverage summed over its halves.

        Parameters
        ----------
        parts : sequence of dict
            Rows of each table.
        trial : str
            The trial in a line.
        asked : dict
            What was asked for.

        Returns
        -------
        ActgResult
        """
        import pandas as pd

        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        for part in parts:
            for name, own in part.items():
                rows[name] += own
        rows["values"].sort(key=lambda row: row["belief"] != "")
        tables = {name: pd.DataFrame(plain(own)) for name, own in rows.items()}
        if len(tables["coverage"]):
            counts = tables["coverage"].groupby(["policy", "method"], sort=False, as_index=False)
            tables["coverage"] = pd.DataFrame(counts[["n", "held", "held_uncorrected"]].sum())
        return cls(**tables, trial=trial, asked=asked)

    def summary(self) -> str:
        """The trial, the beliefs, their plans and audits, a line for each policy, and whether intervals hold."""
        return summary_of(self)

    def to_dict(self) -> dict[str, Any]:
        """All tables as lists of records, and what was asked for."""
        tables = {name: _records(getattr(self, name)) for name in TABLES}
        return {"trial": self.trial, "asked": plain(self.asked), **tables}

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """The value of each policy with its interval, fixed policies by their doubly robust estimate.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from rcb_bayes.studies.actg.plots import plot_policies

        return plot_policies(self.values, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Examples
        --------
        With ``result`` as in ``run_actg``:

        >>> result.save("actg.json")
        >>> rcb.studies.ActgResult.load("actg.json").summary() == result.summary()
        True
        """
        write_atomically(path, as_text(_FORM, self.to_dict()).encode("utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        ActgResult

        Raises
        ------
        RcbError
            Another file, or one that was changed.
        """
        import pandas as pd

        content = content_of(_FORM, read_text(_FORM, path), where=path)
        try:
            tables = {name: pd.DataFrame([dict(row) for row in content[name]]) for name in TABLES}
            asked = dict(content["asked"])
        except (KeyError, TypeError, ValueError) as error:
            raise refused(_FORM, path, error) from None
        return cls(**tables, trial=str(content["trial"]), asked=asked)


def _records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """Rows as plain values, None for what is not there."""
    return plain(table.to_dict("records"))
