"""How many worlds an audit can look at in a given time, and how precisely that tells its margins.

Two short audits tell what a world costs beside what every audit costs. Their worlds are not those of the audit that is
sized by them, and only their time is used, so that nothing that was seen decides how much more is looked at.
"""

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rcb_bayes.auditing.result import Audit
from rcb_bayes.errors import RcbError
from rcb_bayes.telling.progress import duration

_FEW, _MORE = 100, 400  # worlds of the trials
_LEAST, _MOST = 50, 200_000
_SPARE = 0.85  # of the time that is left: other work on the machine slows an audit
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_SHORTEST = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """An audit that fits in a time.

    Parameters
    ----------
    n_worlds : how many it looks at
    seconds : that it is given
    half_width : about how far bounds will be from the margin that decides for a stage, the widest; NaN where unknown
    """

    n_worlds: int
    seconds: float
    half_width: float

    def words(self) -> str:
        """In a line."""
        told = f"within {duration(self.seconds)}: {self.n_worlds:,} worlds"
        if not math.isfinite(self.half_width):
            return told
        return f"{told}; every stage's lowest margin will be known to about ±{self.half_width:.2g}"


def as_seconds(text: str) -> float:
    """A time such as "90s", "5min" or "1.5h".

    Raises
    ------
    RcbError
        No such time, or one in which nothing can be told.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)\s*", text)
    if found is None:
        raise RcbError(f"A time is a number with s, min or h, such as 5min, got '{text}'.")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds < _SHORTEST:
        raise RcbError(f"Nothing can be told in {text.strip()}. Give it {_SHORTEST:g}s or more.")
    return seconds


def size_for(trial: Callable[[int], Audit], *, seconds: float, clock: Callable[[], float] = time.monotonic) -> Sized:
    """The worlds that fit into some seconds; ``trial`` audits so many worlds, with a seed that the audit has not.

    What every audit costs is a, what a world costs is b: trials of few and of more worlds take a + b n each. The first
    trial is made twice, since what is compiled and remembered counts in the first only.
    """
    began = clock()
    trial(_FEW)
    if clock() - began > seconds / 3.0:
        return Sized(n_worlds=_FEW, seconds=seconds, half_width=math.nan)
    start = clock()
    seen = trial(_FEW)
    few = clock() - start
    more, n = few, _FEW
    if few * _MORE / _FEW < seconds / 3.0:
        start = clock()
        seen, n = trial(_MORE), _MORE
        more = clock() - start
    each = max((more - few) / (_MORE - _FEW), 0.1 * more / n) if n == _MORE else few / _FEW
    always = max(more - each * n, 0.0)
    left = _SPARE * (seconds - (clock() - began)) - always
    n_worlds = int(min(max(left / each, _LEAST), _MOST))
    return Sized(n_worlds=n_worlds, seconds=seconds, half_width=_half_width(seen) * math.sqrt(n / n_worlds))


def _half_width(found: Audit) -> float:
    """The widest of the cells that decide for their stages; NaN where none has bounds."""
    worst = found.worst()
    widths = 0.5 * (worst["upper"] - worst["lower"]).values
    known = widths[np.isfinite(widths)]
    return float(known.max()) if len(known) else math.nan
