"""An assumption, judged; and all of them together: told, drawn, saved and read back."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes.files import Format, Records
from rcb_bayes.mechanism.margins import Verdict
from rcb_bayes.schema import plain
from rcb_bayes.telling.html import as_html
from rcb_bayes.telling.wording import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Z = 3.0
_SAMPLED = 3  # assumptions that figures decide; the fourth is about users' behaviour over time, and declared
_FORM = Format(name="checks", version=2, remedy="Check again: `check_assumptions(market).save(path)` writes a file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One assumption, judged.

    Parameters
    ----------
    name : str
        The assumption.
    verdict : {"pass", "fail", "inconclusive"}
        Whether it holds; inconclusive where three Monte Carlo errors do not decide.
    estimate : float
        The figure that decides.
    mcse : float
        Its Monte Carlo error.
    threshold : float
        What the figure stands against.
    meaning : str
        What that amounts to.
    remedy : str
        What to do about it; empty where it passes.
    belief : str
        Whose belief the figure was computed under.
    is_limit : bool
        Whether the figure has to stay below the threshold, and not above.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> first = rcb.check_assumptions(market, n_per_arm=10, tau=0.05, rho=0.9, seed=1)[0]
    >>> first.name, first.verdict, first.threshold, round(first.estimate, 2)
    ('1 fighting chance', 'fail', 0.9, 0.29)
    >>> print(first.remedy)
    Explore only users who lose little by it (a rate for each), allow a larger epsilon, or sample more.
    """

    name: str
    verdict: Verdict
    estimate: float
    mcse: float
    threshold: float
    meaning: str
    remedy: str
    belief: str = "users"
    is_limit: bool = False

    @property
    def asked(self) -> str:
        """What the figure stands against, in words; empty where it stands alone."""
        if self.threshold <= 0:
            return ""
        return f"{'at most' if self.is_limit else 'needed'} {self.threshold:g}"

    def headline(self) -> str:
        """The verdict with its figure, in a line."""
        asked = f", {self.asked}" if self.asked else ""
        return f"{self.name}: {self.verdict}  {figure(self.estimate, self.mcse)}{asked}"

    def __str__(self) -> str:
        return "\n".join([self.headline(), f"   {self.meaning} {self.remedy}".rstrip()])

    def to_dict(self) -> dict[str, Any]:
        """The check as plain values."""
        return plain(self)


@dataclass(frozen=True, slots=True)
class _Listed:
    """Checks, as a file has them."""

    checks: tuple[Check, ...]


_RECORDS = Records(_Listed)


class Checks(tuple[Check, ...]):
    """The paper's assumptions, judged: a tuple of ``Check``.

    Parameters
    ----------
    iterable : iterable of Check
        In the paper's order.

    Examples
    --------
    With ``checks`` as in ``check_assumptions``:

    >>> checks.verdict, len(checks)
    ('pass', 4)
    >>> checks.save("checks.json")
    >>> type(checks).load("checks.json") == checks
    True
    """

    __slots__ = ()

    @property
    def verdict(self) -> Verdict:
        """That of Assumptions 1 to 3; the fourth is about users' behaviour over time, and declared."""
        return combine([check.verdict for check in self[:_SAMPLED]])

    def summary(self) -> str:
        """Every check with its verdict and figure, and below it what that means and what to do.

        Examples
        --------
        With ``checks`` as in ``check_assumptions``:

        >>> print(checks.summary())
        pass: the paper's assumptions
        1 fighting chance: pass  0.34...
        ...
        """
        return "\n".join([f"{self.verdict}: the paper's assumptions", *map(str, self)])

    def _repr_html_(self) -> str:
        return as_html("The paper's assumptions", self.summary(), verdict=self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """The verdict and the checks as plain values."""
        return {"verdict": self.verdict, "checks": [check.to_dict() for check in self]}

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """Estimates, with three Monte Carlo errors, over their thresholds; see ``plots.plot_checks``.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from rcb_bayes.plots import plot_checks

        return plot_checks(self, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write the checks to a JSON file, with a digest of its content.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        _RECORDS.write(_FORM, _Listed(tuple(self)), path)

    @classmethod
    def load(cls, path: str | Path) -> "Checks":
        """Read what ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        Checks

        Raises
        ------
        RcbError
            A file that is not there, or has no checks; a digit that was changed.
        """
        return cls(_RECORDS.read(_FORM, path).checks)


def judge(estimate: float, mcse: float, threshold: float) -> Verdict:
    """Pass or fail only when three Monte Carlo errors lie between the estimate and the threshold."""
    if estimate - _Z * mcse >= threshold:
        return "pass"
    if estimate + _Z * mcse < threshold:
        return "fail"
    return "inconclusive"


def combine(verdicts: list[Verdict]) -> Verdict:
    """All must pass; one failure fails."""
    if "fail" in verdicts:
        return "fail"
    return "inconclusive" if "inconclusive" in verdicts else "pass"
