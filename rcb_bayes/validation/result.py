"""What a validation found: told, drawn as a page, saved as JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.files.envelope import write_atomically
from rcb_bayes.schema import plain
from rcb_bayes.validation.zero_mean import holm

LEVEL = 1e-3
"""The chance that a sound installation does not pass, whatever the seed."""

Verdict = Literal["pass", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """An error put in on purpose: what it is, and how the test judges it."""

    name: str
    p_value: float
    beyond: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One comparison.

    Parameters
    ----------
    part : str
        An engine, or "gaps", "rates", "audits".
    case : str
        On what.
    test : str
        What is compared.
    estimate, mcse : float
        How far off, and its Monte Carlo error; in posterior sd for engines.
    p_value : float, optional
        Of no more than what is allowed; None where the comparison is with a limit.
    limit : float, optional
        What the estimate may be at most, in absolute value, where there is no p-value.
    planted : tuple of Planted
        The same comparison with errors put in.
    """

    part: str
    case: str
    test: str
    estimate: float
    mcse: float = 0.0
    p_value: float | None = None
    limit: float | None = None
    planted: tuple[Planted, ...] = ()

    @property
    def is_within(self) -> bool:
        """Whether a comparison with a limit holds."""
        return self.limit is None or abs(self.estimate) <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What a validation found.

    Parameters
    ----------
    findings : tuple of Finding
        Every comparison.
    quick : bool
        Whether it was the quick one.
    seed : int
        Of all random numbers.
    seconds : mapping of str to float
        Processor time of each part.
    versions : mapping of str to str
        Of what was validated.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> found = rcb.validate(engines=["exact"], quick=True, seed=1)
    >>> found.verdict, found.missed
    ('pass', ())
    """

    findings: tuple[Finding, ...]
    quick: bool
    seed: int
    seconds: dict[str, float]
    versions: dict[str, str]

    @property
    def verdict(self) -> Verdict:
        """ "pass" where every comparison holds and every planted error is caught."""
        return "fail" if self.failures or self.missed else "pass"

    @property
    def threshold(self) -> float:
        """The p-value below which a comparison fails for certain, whatever the others come to (Bonferroni)."""
        return LEVEL / max(1, sum(finding.p_value is not None for finding in self.findings))

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Comparisons that do not hold, by Holm's procedure over all of those with a p-value."""
        tested = [finding for finding in self.findings if finding.p_value is not None]
        rejected = holm(np.array([finding.p_value for finding in tested]), LEVEL)
        failed = {id(finding) for finding, out in zip(tested, rejected, strict=True) if out}
        return tuple(one for one in self.findings if id(one) in failed or not one.is_within)

    @property
    def missed(self) -> tuple[tuple[Finding, Planted], ...]:
        """Planted errors that no comparison would have told."""
        return tuple((one, error) for one in self.findings for error in one.planted if not self.catches(error))

    def catches(self, error: Planted) -> bool:
        """Whether a planted error is caught, also as the one error among all comparisons."""
        return error.beyond or error.p_value < self.threshold

    @property
    def parts(self) -> tuple[str, ...]:
        """Engines, then gaps, rates and audits."""
        return tuple(dict.fromkeys(finding.part for finding in self.findings))

    def summary(self) -> str:
        """A line for each part, then the verdict.

        Returns
        -------
        str
            Text for a terminal.
        """
        from rcb_bayes.validation.words import summary

        return summary(self)

    def table(self) -> str:
        """Every comparison in a line.

        Returns
        -------
        str
            Text for a terminal.
        """
        from rcb_bayes.validation.words import table

        return table(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it.

        Returns
        -------
        dict
            Verdict, level and threshold, and every finding.
        """
        failed = {id(one) for one in self.failures}
        return {
            "verdict": self.verdict,
            "level": LEVEL,
            "threshold": self.threshold,
            "quick": self.quick,
            "seed": self.seed,
            "versions": dict(self.versions),
            "seconds": {part: plain(seconds) for part, seconds in self.seconds.items()},
            "findings": [
                {name: plain(value) for name, value in asdict(one).items() if name != "planted"}
                | {"holds": id(one) not in failed}
                | {"planted": [asdict(error) | {"caught": self.catches(error)} for error in one.planted]}
                for one in self.findings
            ],
        }

    def to_html(self) -> str:
        """The page, one file that needs nothing else.

        Returns
        -------
        str
            HTML.
        """
        from rcb_bayes.validation.page import page

        return page(self)

    def save(self, path: str | Path) -> None:
        """Write the page (.html) or the figures (.json).

        Parameters
        ----------
        path : str or path-like
            Where to.

        Raises
        ------
        RcbError
            Another ending; the system does not allow it.
        """
        target = Path(path).expanduser()
        if target.suffix not in (".html", ".json"):
            raise RcbError(f"A validation is saved as .html or .json, got '{target.name}'.")
        text = self.to_html() if target.suffix == ".html" else json.dumps(self.to_dict(), indent=2) + "\n"
        write_atomically(target, text.encode("utf-8"))

    def _repr_html_(self) -> str:
        from rcb_bayes.validation.page import body

        return body(self)
