"""What a page shows: told, drawn, saved and read back."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing import Audit
from rcb_bayes.errors import RcbError
from rcb_bayes.files import write_atomically
from rcb_bayes.gaps.checks import Check, Checks
from rcb_bayes.market import Market
from rcb_bayes.planning.checks import check_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_wording import summary
from rcb_bayes.plots import plot_rates, plot_regret
from rcb_bayes.reporting.data import run_regret
from rcb_bayes.reporting.known import figures_of
from rcb_bayes.reporting.paying import bill_figures
from rcb_bayes.reporting.report_files import SUFFIX, read_report, write_report
from rcb_bayes.reporting.words import Answer, answer_of
from rcb_bayes.schema import FloatArray, as_count, no_such, plain
from rcb_bayes.telling.html import as_html

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

FIGURES = ("rates", "margins", "regret")
_LEAST = {"check_worlds": 2, "plan_worlds": 50, "audit_worlds": 50, "audit_users": 1, "map_users": 1, "run_worlds": 1}
_LEAST |= {"sweep_worlds": 50, "knowledge_worlds": 50, "radius_worlds": 50, "payment_worlds": 2}
_CHOSEN = ("run_worlds", "sweep_worlds", "knowledge_worlds")  # unless given
_LEFT_OUT = ("knowledge_worlds", "radius_worlds", "payment_worlds")  # with 0
_MOST_MAPPED = 100_000
_MOST_MULTIPLE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSizes:
    """How much is simulated for a page.

    Parameters
    ----------
    check_worlds : int
        Behind the assumptions and the gaps.
    plan_worlds : int
        Behind each stage of the plan.
    audit_worlds, audit_users : int
        Of the audit, and of the audit that the plan is made to pass.
    run_worlds : int, optional
        In which the plan, and greedy beside it, are run; as many as take sensible time unless given: 400 where
        posteriors have a closed form, 100 elsewhere, 20 where each takes a NUTS run, and fewer over long horizons.
    sweep_worlds : int, optional
        Behind each stage of the plans at other values of epsilon; as many as the plan's unless given, since fewer make
        for more cautious plans.
    knowledge_worlds : int, optional
        Behind each stage of the plans for users who know more or less of the clock; as many as the plan's unless given,
        and 0 leaves them out.
    radius_worlds : int
        Of the audits behind how wrong the plan may be about what users expect; 0 leaves that out.
    payment_worlds : int
        Behind what paying users would cost instead; 0 leaves that out.
    n_multiples : tuple of float
        Of the plan's N: so many samples of each arm are planned for, too; none leaves that out.
    map_users : int
        Drawn on the map of rates.
    epsilons : tuple of float, optional
        The values the page can be turned to; around the plan's own unless given.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> sizes = rcb.ReportSizes(audit_worlds=4000)  # a sharper audit than usual
    >>> sizes.audit_worlds, sizes.plan_worlds
    (4000, 2000)
    """

    check_worlds: int = 2000
    plan_worlds: int = 2000
    audit_worlds: int = 1000
    audit_users: int = 100
    run_worlds: int | None = None
    sweep_worlds: int | None = None
    knowledge_worlds: int | None = None
    radius_worlds: int = 400
    payment_worlds: int = 10
    n_multiples: tuple[float, ...] = (0.5, 2.0)
    map_users: int = 400
    epsilons: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not ((value is None and name in _CHOSEN) or (value == 0 and name in _LEFT_OUT)):
                as_count(value, name=name, least=least)
        for value in self.n_multiples:
            if not (np.isfinite(value) and 0 < value <= _MOST_MULTIPLE):
                raise RcbError(f"n_multiples must be above 0 and at most {_MOST_MULTIPLE:g}, got {value!r}.")
        if self.map_users > _MOST_MAPPED:
            raise RcbError(f"map_users must be at most {_MOST_MAPPED:,}, dots of a map, got {self.map_users:,}.")
        for value in self.epsilons or ():
            if not (np.isfinite(value) and value >= 0):
                raise RcbError(f"epsilons must be finite numbers of at least 0, got {value!r}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """What a page shows.

    Parameters
    ----------
    market : Market
        What the report is about.
    checks : Checks
        The paper's assumptions, judged.
    gaps : xarray.Dataset
        Of every other arm once the usual first one is saturated.
    plan : Plan
        The plan that is reported.
    theorem : Plan, optional
        Theorem 1's plan beside it, with the sampled tau and rho; None where the theorem does not apply.
    sweep : tuple of Plan
        Plans at other values of epsilon, in their order; the plan itself among them.
    users : ndarray
        (U, d), those on the map.
    runs : xarray.Dataset, optional
        Of the plan; None where it is not feasible.
    audit : Audit, optional
        Of the plan (world by world with 0/1 rewards, which takes longer); None where it could not be audited, for the
        reason ``not_audited``.
    not_audited : str
        Why there is no audit; empty where there is one.
    horizon : int
        T, of the runs and of the audit.
    guard : bool
        Whether the plan is run with its guard.
    sizes : ReportSizes
        How much was simulated.
    seed : int
        Of everything that was simulated.
    command : str
        The words that make this page again, if it was made on a command line.
    need : Check, optional
        Whether greedy recommendations suffice, before everything else; None where it was left out.
    knowledge : xarray.Dataset, optional
        The price of what users know; None where it was left out, or where there are no plans to compare.
    radius : xarray.Dataset, optional
        How much more users may expect of their favourite arm, see ``sensitivity``; None where it was left out.
    yardsticks : xarray.Dataset, optional
        The regret of the plan, of greedy and of everybody's favourite in the same worlds, and how far they are apart;
        None without runs, and where nature is not what users believe.
    payments : xarray.Dataset, optional
        What paying users would cost instead; None where it was left out, and where it does not apply.
    by_size : xarray.Dataset, optional
        The length of the cold start over epsilon and N; None where it was left out, and where it does not apply.

    Examples
    --------
    With ``page`` as in ``report``:

    >>> [check.verdict for check in page.checks]
    ['pass', 'pass', 'pass', 'inconclusive']
    >>> page.plan.feasible, page.audit.verdict, page.runs.sizes["world"]
    (True, 'pass', 2)
    """

    market: Market
    checks: Checks
    gaps: "xr.Dataset"
    plan: Plan
    theorem: Plan | None
    sweep: tuple[Plan, ...]
    users: FloatArray
    runs: "xr.Dataset | None"
    audit: Audit | None
    not_audited: str
    horizon: int
    guard: bool
    sizes: ReportSizes
    seed: int
    command: str = ""
    knowledge: "xr.Dataset | None" = None
    need: Check | None = None
    radius: "xr.Dataset | None" = None
    yardsticks: "xr.Dataset | None" = None
    payments: "xr.Dataset | None" = None
    by_size: "xr.Dataset | None" = None
    answer: Answer = field(init=False)

    def __post_init__(self) -> None:
        found = answer_of(
            self.plan,
            self.audit,
            not_audited=self.not_audited,
            radius=self.radius,
            horizon=self.horizon,
            runs=self.runs,
            sweep=self.sweep,
            users=self.market.covariates,
        )
        object.__setattr__(self, "answer", found)

    @property
    def verdict(self) -> str:
        """ "pass", "fail" or "inconclusive"."""
        return self.answer.verdict

    def to_html(self) -> str:
        """The page: one file that needs nothing else, no network either.

        Examples
        --------
        With ``page`` as in ``report``:

        >>> page.to_html()[:15]
        '<!DOCTYPE html>'
        """
        from rcb_bayes.reporting.page import page

        return page(self)

    def to_markdown(self) -> str:
        """The answer, its figures and what it rests on as Markdown; without the charts.

        Examples
        --------
        With ``page`` as in ``report``:

        >>> page.to_markdown().splitlines()[2]
        '**pass: Yes, with 100.0 % of users.**'
        """
        from rcb_bayes.reporting.markdown import markdown

        return markdown(self)

    def save(self, path: str | Path) -> None:
        """Write the page; as Markdown for ``.md``, and everything behind it, for ``Report.load``, for ``.zip``.

        Parameters
        ----------
        path : str or path-like
            Where to; folders are made where needed.

        Raises
        ------
        RcbError
            When the system does not allow it.

        Examples
        --------
        With ``page`` as in ``report``:

        >>> from pathlib import Path
        >>> page.save("report.html")
        >>> Path("report.html").exists()
        True
        """
        target = Path(os.path.expanduser(path))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RcbError(f"Cannot write {target}: {error.strerror}. Choose another place.") from None
        if target.suffix == SUFFIX:
            write_report(self, target)
        else:
            text = self.to_markdown() if target.suffix == ".md" else self.to_html()
            write_atomically(target, text.encode("utf-8"))

    @classmethod
    def load(cls, path: str | Path, market: Market) -> "Report":
        """Read what ``save`` wrote under a name that ends in ``.zip``.

        Parameters
        ----------
        path : str or path-like
            The file.
        market : Market
            The market that the report is about: its belief is code, and not part of the file.

        Returns
        -------
        Report
            As it was.

        Raises
        ------
        RcbError
            A file that is not there, or is no report; a digit that was changed; a plan for another market.

        Examples
        --------
        With ``page`` and ``market`` as in ``report``:

        >>> page.save("report.zip")
        >>> rcb.Report.load("report.zip", market).verdict
        'pass'
        """
        found = read_report(os.path.expanduser(path), market)
        check_plan(market, found["plan"])
        return cls(**found)

    def _repr_html_(self) -> str:
        return as_html("Report", self.summary(), verdict=self.verdict)

    def summary(self) -> str:
        """The answer in words, the assumptions and the plan."""
        answer = [f"{self.verdict}: {self.answer.headline}", *self.answer.sentences]
        need = (
            []
            if self.need is None
            else [self.need.headline(), f"   {self.need.meaning} {self.need.remedy}".rstrip(), ""]
        )
        plan = summary(self.plan, audited="" if self.audit is None else self.audit.verdict)
        return "\n".join([*answer, "", *need, self.checks.summary(), "", plan])

    def to_dict(self) -> dict[str, Any]:
        """What the page says, as plain values."""
        total, error = (None, None) if self.runs is None else run_regret(self.runs)
        return plain(
            {
                "verdict": self.verdict,
                "answer": [self.answer.headline, *self.answer.sentences],
                "need": None if self.need is None else self.need.to_dict(),
                "checks": self.checks.to_dict()["checks"],
                "plan": self.plan.to_dict(),
                "epsilons": [plan.to_dict() for plan in self.sweep],
                "knowledge": None if self.knowledge is None else figures_of(self.knowledge),
                "by_size": None if self.by_size is None else figures_of(self.by_size.rename(n="n_per_arm")),
                "payments": None if self.payments is None else bill_figures(self.payments),
                "audit": None if self.audit is None else self.audit.to_dict(),
                "regret": total,
                "regret_mcse": error,
                "horizon": self.horizon,
                "seed": self.seed,
            }
        )

    def plot(self, *, figure: str = "rates", axes: "Axes | None" = None) -> "Axes":
        """A figure of the page: "rates" (the map of users), "margins" of the audit, or "regret" of the runs.

        Parameters
        ----------
        figure : {"rates", "margins", "regret"}
            Which.
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        RcbError
            Another figure, or one of what there is not: margins without an audit, regret without runs.
        """
        if figure not in FIGURES:
            raise no_such("figure", figure, FIGURES, told="Use")
        if figure == "rates":
            return plot_rates(self.plan, self.users, axes=axes)
        missing = self.audit is None if figure == "margins" else self.runs is None
        if missing:
            raise RcbError(f"There is no {figure} to draw: {self.not_audited or 'the plan is not feasible.'}")
        if figure == "margins":
            assert self.audit is not None  # told above
            return self.audit.plot(axes=axes)
        assert self.runs is not None
        return plot_regret(self.runs, axes=axes)
