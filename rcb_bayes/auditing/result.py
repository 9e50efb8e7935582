"""What an audit found: verdict, margins under each notion, compliance; told, drawn, saved and read back."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.auditing.judging import compliance_of, margins_under
from rcb_bayes.auditing.view import Asked, Looked
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import VERDICTS, deciding_place, lowest_margin, stage_cells, verdict_of
from rcb_bayes.mechanism.knowledge import Knows, as_knowledge
from rcb_bayes.mechanism.margins import Verdict
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.schema import FloatArray, as_positive, no_such, plain
from rcb_bayes.telling.html import as_html
from rcb_bayes.telling.wording import brief, percent

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

Kind = Literal["ex ante", "realised"]
FIGURES = ("margins", "matrix", "compliance")
_POWER = 1.6449  # of 95 %
_MOST_NOT_VOUCHED = 0.01  # of the posteriors that a verdict rests on


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """What was found.

    A statement about the users of the panel: the first ``n_random`` are drawn at random, the others are the worst of
    many, looked for in worlds of their own.

    Parameters
    ----------
    verdict : {"pass", "fail", "inconclusive", "realised"}
        "pass" only if every cell's lower bound holds, "fail" if some upper bound does not; "realised" of a log, which
        is no verdict.
    notion : {"user", "proof", "definition"}
        In which sense users are incentivized.
    epsilon : float
        What users put up with.
    by_notion : dict of str to xarray.Dataset
        The margins under each of the three notions; see ``margins``.
    compliance : xarray.Dataset
        Over epsilon: ``share`` of users all of whose margins are at or above -epsilon, at every stage, with its
        error over users, and bounds: ``share_lower`` counts users whose lower bounds are that high.
    users : ndarray
        (user, feature), the users of the crowd; the worst users of each stage, added to it, are not among them.
    n_worlds : int
        Worlds of each stage.
    n_random : int
        Users drawn at random; 0 where users were given.
    level : float
        One minus the confidence of the bounds, which hold for all cells at once.
    seed : int
        Of the worlds and of the users.
    belief : str
        The name of the users' belief.
    kind : {"ex ante", "realised"}
        "ex ante", what users expect before the mechanism runs; "realised" for a log, what one run came to.
    n_posteriors, n_not_vouched : int
        Behind the margins, and those of them that no engine vouches for: with more than 1 % of them no verdict stands,
        and ``verdict`` is "inconclusive".
    notes : tuple of str
        What was left out, and why; that the plan is for users who know something else, where it is.
    knows : {"stage", "level", "phase", "mechanism"}, optional
        What users of a plan know of the clock; None of a log, and of another policy.

    Attributes
    ----------
    margins : xarray.Dataset
        Dims (stage, user, arm, rival): ``estimate``, the conditional margin E[m_i - m_j | i recommended]
        (under ``proof`` that times its probability), with ``mcse``, ``lower``, ``upper``; ``mass``, how often the arm
        is recommended; ``verdict``, a position in "pass", "inconclusive", "fail", -1 for no cell; of every stage
        ``share``, how many runs get there before the horizon. Under ``definition`` there is no dim ``user``. Of more
        than 60 arms the margins of each user and arm are those against "any rival": the lowest estimate and bounds.

    Examples
    --------
    With ``found`` as in ``audit``:

    >>> found.verdict, found.kind
    ('pass', 'ex ante')
    >>> found.margins["stage"].values.tolist()
    ['most popular', 'old', 'epoch 0', 'epoch 1']
    >>> round(found.compliance["share"].sel(epsilon=0.1, method="nearest").item(), 2)
    1.0
    """

    verdict: Verdict | Literal["realised"]
    notion: str
    epsilon: float
    by_notion: "dict[str, xr.Dataset]"
    compliance: "xr.Dataset"
    users: FloatArray
    n_worlds: int
    n_random: int
    level: float
    seed: int
    belief: str = ""
    kind: Kind = "ex ante"
    n_posteriors: int = 0
    n_not_vouched: int = 0
    notes: tuple[str, ...] = ()
    knows: Knows | None = None

    @property
    def margins(self) -> "xr.Dataset":
        """The margins under the notion that was asked for.

        Examples
        --------
        With ``found`` as in ``audit``:

        >>> found.margins["lower"].dims
        ('stage', 'user', 'arm', 'rival')
        >>> bool(found.margins["lower"].min() >= -found.epsilon)
        True
        """
        return self.by_notion[self.notion]

    @property
    def realised(self) -> dict[str, Any]:
        """Of a log: the ``lowest`` margin with its bounds ``lower`` and ``upper``, the window (``stage``), ``arm`` and
        ``rival``; where a plan was given, ``share_as_low`` of ``n_runs`` faithful runs that come to as little, with its
        error. Empty of other audits.
        """
        return dict(self.margins.attrs) if self.kind == "realised" else {}

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict under each notion; none of a log."""
        if self.kind == "realised":
            return {}
        sand = rests_on_sand(self.n_not_vouched, self.n_posteriors)
        return {notion: "inconclusive" if sand else verdict_of(part) for notion, part in self.by_notion.items()}

    def worst(self, notion: str | None = None) -> "xr.Dataset":
        """Of every stage the cell that decides: the lowest among those with the worst verdict; dim (stage).

        Parameters
        ----------
        notion : str, optional
            Under which notion; that of the audit unless given.

        Returns
        -------
        xarray.Dataset
            Dim (stage).

        Examples
        --------
        With ``found`` as in ``audit``:

        >>> worst = found.worst().sel(stage="old")
        >>> worst["arm"].item(), worst["rival"].item(), round(worst["estimate"].item(), 2)
        ('new', 'old', -0.1)
        """
        import xarray as xr

        margins = self.by_notion[self.notion if notion is None else as_notion(notion).name]
        cells = []
        for stage in margins["stage"].values:
            part = margins.sel(stage=stage)
            # A stage without any cell has none that decides: its figures are NaN, its verdict -1.
            place = deciding_place(part) or dict.fromkeys(map(str, part["estimate"].dims), 0)
            cell = part.isel(place)
            cells.append(cell.reset_coords(drop=False).drop_vars("stage"))
        return xr.concat(cells, dim="stage").assign_coords(stage=margins["stage"].values)

    def worlds_needed(self, resolution: float = 0.02) -> int:
        """Worlds at which a margin ``resolution`` off -epsilon would be decided, 19 times out of 20.

        From the widest band among the cells that decide. Errors fall like the square root of the number of worlds.

        Parameters
        ----------
        resolution : float
            How far off -epsilon a margin is, in units of the reward.

        Returns
        -------
        int
            Worlds of each stage.
        """
        as_positive(resolution, name="resolution")
        from scipy.special import ndtri

        cells = self.worst()
        reach = cells["upper"].values - cells["estimate"].values
        # At least as many errors as one cell of each stage alone would be given.
        critical = max(float(ndtri(1.0 - self.level / len(reach))), 1e-3)
        needed = self.n_worlds * (reach * (1.0 + _POWER / critical) / resolution) ** 2
        return int(np.ceil(np.max(needed[np.isfinite(needed)], initial=1.0)))

    def __repr__(self) -> str:
        return f"<Audit: {self._headline()}>"

    def _repr_html_(self) -> str:
        return as_html("Audit", self.summary(), verdict=self.verdict)

    def summary(self) -> str:
        """Verdict, and the worst cell of every stage.

        Examples
        --------
        With ``found`` as in ``audit``:

        >>> print(found.summary())
        pass: user notion, epsilon 0.1, users know which arms are saturated, 500 worlds a stage, 20 users at random ...
        most popular: pass, worst old against new: 0.0...
        old: pass, worst new against old: -0.09...
        ...
        other notions: proof pass, definition pass
        """
        lines = [self._headline(), *self._realised_lines(), *self._stage_lines()]
        share = self.compliance.sel(epsilon=self.epsilon, method="nearest")
        lines.append(
            f"{percent(share['share'].item())} of users {'at random ' if self.n_random else ''}stand at -epsilon or "
            f"above, by the point estimates; at least {percent(share['share_lower'].item())} by a one-sided "
            f"{100 * (1 - self.level):g} % bound"
        )
        others = [f"{name} {verdict}" for name, verdict in self.verdicts.items() if name != self.notion]
        lines += [f"other notions: {', '.join(others)}"] if others else []
        if self.verdict == "inconclusive" and self.kind == "ex ante":
            lines.append(f"to tell a margin .02 above or below -epsilon takes about {self.worlds_needed():,} worlds")
        return "\n".join([*lines, *self.notes])

    def _headline(self) -> str:
        if self.kind == "realised":
            return (
                f"realised margins of one log, {self.notion} notion, epsilon {self.epsilon:g}: what this run came to, "
                "not what users expected of the mechanism"
            )
        added = " (the rest the worst of many)" if self.margins.sizes.get("user", 0) > self.n_random > 0 else ""
        who = f"{self.n_random} users at random" if self.n_random else f"the {len(self.users)} users given"
        known = "" if self.knows is None else f"users know {as_knowledge(self.knows).words}, "
        sand = f"; {self.n_not_vouched:,} of {self.n_posteriors:,} posteriors behind it are not vouched for"
        return (
            f"{self.verdict}: {self.notion} notion, epsilon {self.epsilon:g}, {known}{self.n_worlds:,} worlds a stage, "
            f"{who}{added}{sand if self.n_not_vouched else ''}"
        )

    def _realised_lines(self) -> list[str]:
        """What a run came to, and how many faithful runs come to as little."""
        found = self.realised
        if not found:
            return []
        bounds = f"bounds {brief(found['lower'])} to {brief(found['upper'])}"
        lines = [f"lowest margin {brief(found['lowest'])}, {bounds}: {found['arm']} against {found['rival']}"]
        if "share_as_low" in found:
            share = percent(found["share_as_low"], found["share_as_low_mcse"])
            lines.append(f"{share} of {found['n_runs']:,} faithful runs, same users, come to as little")
        return lines

    def _stage_lines(self) -> list[str]:
        cells = self.worst()
        lines = []
        for k in range(cells.sizes["stage"]):
            cell = cells.isel(stage=k)
            judged = "" if self.kind == "realised" else f"{VERDICTS[max(int(cell['verdict']), 0)]}, "
            lines.append(
                f"{cell['stage'].item()}: {judged}worst {cell['arm'].item()} against "
                f"{cell['rival'].item()}: {brief(cell['estimate'].item())} ± {brief(cell['mcse'].item(), 2)}, bounds "
                f"{brief(cell['lower'].item())} to {brief(cell['upper'].item())}"
            )
        return lines

    def plot(self, *, figure: str = "margins", axes: "Axes | None" = None) -> "Axes":
        """A figure: "margins" (the worst of every stage), "matrix" (arm by rival), or "compliance" over epsilon.

        Parameters
        ----------
        figure : str
            Which: "margins", "matrix" or "compliance".
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        RcbError
            Another figure.

        Examples
        --------
        With ``found`` as in ``audit``:

        >>> found.plot(figure="compliance").get_xlabel()
        'epsilon, what users put up with (in units of the reward)'
        """
        from rcb_bayes import plots

        if figure not in FIGURES:
            raise no_such("figure", figure, FIGURES, told="Use")
        if figure == "compliance":
            return plots.plot_compliance(self.compliance, epsilon=self.epsilon, axes=axes)
        draw = plots.plot_margins if figure == "margins" else plots.plot_margin_matrix
        return draw(self.margins, epsilon=self.epsilon, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file, a group for each notion; ``Audit.load`` reads it back.

        The last line of the file is a digest of the rest, and an interrupted write leaves the old file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Examples
        --------
        With ``found`` as in ``audit``:

        >>> found.save("audit.nc")
        >>> rcb.Audit.load("audit.nc").verdict
        'pass'
        """
        from rcb_bayes.auditing.audit_files import write_audit

        write_audit(self, path)

    to_netcdf = save

    def to_dict(self) -> dict[str, Any]:
        """The verdict under each notion, and of every stage the cell that decides and how many cells pass.

        Examples
        --------
        With ``found`` as in ``audit``:

        >>> [stage["stage"] for stage in found.to_dict()["stages"]]
        ['most popular', 'old', 'epoch 0', 'epoch 1']
        """
        share = self.compliance.sel(epsilon=self.epsilon, method="nearest")
        return plain(
            {
                "verdict": self.verdict,
                "verdicts": self.verdicts,
                "kind": self.kind,
                **({"realised": self.realised} if self.kind == "realised" else {}),
                "notion": self.notion,
                "knows": self.knows,
                "epsilon": self.epsilon,
                "n_worlds": self.n_worlds,
                "n_random_users": self.n_random,
                "compliance": share["share"].item(),
                "compliance_lower": share["share_lower"].item(),
                "stages": self._stage_figures(),
                "notes": self.notes,
                "seed": self.seed,
            }
        )

    def _stage_figures(self) -> list[dict[str, Any]]:
        decide = stage_cells(self.margins)
        rows = []
        for stage in self.margins["stage"].values:
            cells, decisive = self.margins.sel(stage=stage), decide[str(stage)]
            row = {"stage": str(stage), "lowest_margin": lowest_margin(cells)}
            if self.kind != "realised":
                row["cells"] = {name: int((cells["verdict"] == VERDICTS.index(name)).sum()) for name in VERDICTS}
            rows.append(row | {"decides": None if decisive is None else decisive._asdict()})
        return rows

    @classmethod
    def load(cls, path: str | Path) -> "Audit":
        """Read an audit from its file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        Audit
            The audit.

        Raises
        ------
        RcbError
            A file that is not there, or is no audit; a digit that was changed; a verdict that the margins contradict.

        Examples
        --------
        With ``found`` as in ``audit``:

        >>> found.save("audit.nc")
        >>> rcb.Audit.load("audit.nc").margins.equals(found.margins)
        True
        """
        from rcb_bayes.auditing.audit_files import read_audit

        return read_audit(cls, path)


def rests_on_sand(n_not_vouched: int, n_posteriors: int) -> bool:
    """Whether too many posteriors are not vouched for, for a verdict to stand on them."""
    return n_not_vouched > _MOST_NOT_VOUCHED * n_posteriors


def as_audit(
    market: Market,
    looked: Looked,
    asked: Asked,
    *,
    kind: Kind = "ex ante",
    knows: Knows | None = None,
    notes: tuple[str, ...] = (),
) -> Audit:
    """Views, judged. What rests on posteriors that nobody vouches for is inconclusive at best."""
    found = margins_under(market, looked.views, asked)
    for notion, part in found.items():
        part.attrs = {
            "notion": notion,
            "epsilon": asked.epsilon,
            **({} if knows is None else {"knows": knows}),
            "n_worlds": asked.n_worlds,
            "seed": asked.seed,
            "verdict": verdict_of(part),
            "belief": market.prior.name,
            "version": __version__,
        }
    crowd = looked.crowd
    sand = rests_on_sand(looked.n_not_vouched, looked.n_posteriors)
    return Audit(
        verdict="inconclusive" if sand else verdict_of(found[asked.notion.name]),
        notion=asked.notion.name,
        epsilon=asked.epsilon,
        by_notion=found,
        compliance=compliance_of(found[asked.notion.by_user.name], crowd, asked),
        users=crowd.judged.people,
        n_worlds=asked.n_worlds,
        n_random=0 if asked.users is not None else crowd.judged.n_users,
        level=asked.level,
        seed=asked.seed,
        belief=market.prior.name,
        kind=kind,
        n_posteriors=looked.n_posteriors,
        n_not_vouched=looked.n_not_vouched,
        notes=(*looked.notes, *notes),
        knows=knows,
    )
