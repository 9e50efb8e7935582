r"""Did a log follow its plan? Propensities, stages and counts, recomputed round by round from the logged data.

The plan says which probabilities each user meets, given what was known before her. They are compared with the logged
ones, to rounding, and with what was in fact recommended: in each stage, and each epoch, the number of times that an arm
came up is a sum of independent choices with the plan's probabilities, and so is the number of explored rounds. A count
far out in that law, at a level split over all counts, is a deviation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import is_popular
from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR, ORGANIC, PROMOTED, ROUND_KINDS
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.planning.checks import check_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.log_tables import Log, as_log, read_log
from rcb_bayes.running.moves import Move, Moving, MovingRcb
from rcb_bayes.running.oracle import Oracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.schema import BoolArray, FloatArray, as_probability, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_SAME = 1e-6  # of probabilities
_AT_A_TIME = 256
_EXACT = 500  # choices whose count is told by its exact law
FIRST_OR_ORGANIC = -2  # a round of the first phase whose arm may not have been available


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    r"""Whether a log followed its plan.

    Parameters
    ----------
    followed : bool
        No deviation was found.
    deviations : tuple of str
        What was found, in words.
    counts : pandas.DataFrame
        A row for each stage and arm, and for the explored rounds of each stage: ``observed``, ``expected`` by the plan,
        ``p_value`` (two-sided) and whether it ``deviates`` at ``level``, split over all rows.
    n_rounds, n_propensities : int
        Rounds, and how many had propensities to compare.
    level : float
        The chance that a faithful log is accused by its counts.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> agent = rcb.Recommender(market, plan, keep_log=100, seed=1)
    >>> for x in market.covariates.sample(60, seed=2):
    ...     agent.observe(0.4 * x.sum(), ticket=agent.recommend(x).ticket)
    >>> log = agent.log
    >>> log.loc[0, "stage"] = "exploit"  # which its first round was not
    >>> print("\n".join(rcb.check_log(market, log, plan).deviations))
    stages: 1 rounds are logged at another stage than the plan's; the first is row 1, ...
    """

    followed: bool
    deviations: tuple[str, ...]
    counts: "pd.DataFrame"
    n_rounds: int
    n_propensities: int
    level: float

    def summary(self) -> str:
        """What was looked at, and what was found."""
        looked = f"{self.n_rounds:,} rounds, {self.n_propensities:,} with propensities, {len(self.counts)} counts"
        if self.followed:
            return f"nothing speaks against the plan: {looked}, level {self.level:g}"
        return "\n".join([f"the log did not follow its plan: {looked}, level {self.level:g}", *self.deviations])

    def to_dict(self) -> dict[str, Any]:
        """Everything by its name, the counts as a list of rows."""
        from rcb_bayes.auditing.log_files import record_of

        return plain(record_of(self))

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """How often each arm came up over how often the plan expects it; see ``plots.plot_counts``.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from rcb_bayes.plots import plot_counts

        return plot_counts(self.counts, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write the check to a JSON file, with a digest of its content.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        from rcb_bayes.auditing.log_files import write_log_check

        write_log_check(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "LogCheck":
        """Read what ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        LogCheck

        Raises
        ------
        RcbError
            A file that is not there, or is no such check; a digit that was changed.
        """
        from rcb_bayes.auditing.log_files import read_log_check

        return cls(**read_log_check(path))


class _Round(NamedTuple):
    """What the plan says of a round: its stage by name and kind, the arms' probabilities, the exploration rate (NaN
    where there is none), and whether the sample is among those that count."""

    name: str
    phase: int
    chances: FloatArray
    rate: float
    counts: bool = True


class _Count(NamedTuple):
    """How often something came up at a stage, and how often it should have."""

    stage: str
    what: str
    observed: int
    expected: float
    p_value: float


def check_log(
    market: Market,
    log: "pd.DataFrame | str | Path",
    plan: Plan,
    *,
    oracle: Oracle | None = None,
    options: Exploiting | None = None,
    moves: Sequence[Move] = (),
    availability_varies: bool = False,
    level: float = 0.05,
) -> LogCheck:
    """Whether a log followed its plan: its propensities, its stages, what it counted and how often each arm came up.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    log : pandas.DataFrame, str or path-like
        As for ``audit_log``, from the first round on, with ``stage`` as in ``Recommender.log``, or ``counted``.
        ``known_from``, if there, says when each reward was known; else at once.
    plan : Plan
        The plan that was to be followed.
    oracle : Oracle, optional
        Of exploitation, where they were not the defaults.
    options : Exploiting, optional
        Of exploitation, where they were not the defaults.
    moves : sequence of Move
        Arms that came and left, as ``Recommender.moves`` has them; ``plan`` is then that of the first round, and the
        market has all arms.
    availability_varies : bool
        Whether the recommender was told so from the start; else its rates are the plan's until a user lacks an arm.
    level : float
        The chance that a faithful log is accused by its counts.

    Returns
    -------
    LogCheck
        Whether the log followed its plan, and where it did not.

    Raises
    ------
    DataError
        A log that cannot be read, that does not begin with the first round, or has neither stages nor counts.
    RcbError
        A plan for another market.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> agent = rcb.Recommender(market, plan, keep_log=1000, seed=1)
    >>> for x in market.covariates.sample(100, seed=2):
    ...     agent.observe(0.4 * x.sum(), ticket=agent.recommend(x).ticket)
    >>> checked = rcb.check_log(market, agent.log, plan)
    >>> checked.followed
    True
    """
    import pandas as pd

    as_probability(level, name="level")
    if not moves:
        check_plan(market, plan)
    table = read_log(log)
    rows = as_log(market, table)
    stages = _stages(table, rows)
    if "counted" not in table.columns:
        rows = replace(rows, counted=stages != ORGANIC)
    known = _known_from(table, len(rows.arm))
    run = MovingRcb(market, Moving(plan, moves), oracle=oracle, options=options, read="summary")
    if availability_varies:
        run.rcb.go_by_samples()
    told = list(_replayed(run, rows, stages, known))
    deviations = _of_stages(told, stages, has_stages="stage" in table.columns)
    deviations += _of_counted(told, rows)
    deviations += _of_propensities(market, told, rows)
    counts = _counts(market, told, rows, stages)
    limit = level / max(len(counts), 1)
    deviations += [
        f"{own.stage}: {own.what} came up {own.observed:,} times where {own.expected:.1f} are expected "
        f"(p = {own.p_value:.1g})"
        for own in counts
        if own.p_value < limit
    ]
    return LogCheck(
        followed=not deviations,
        deviations=tuple(deviations),
        counts=pd.DataFrame(counts, columns=list(_Count._fields)).assign(
            deviates=[own.p_value < limit for own in counts]
        ),
        n_rounds=len(rows.arm),
        n_propensities=len(rows.arm) if rows.has_propensities else 0,
        level=float(level),
    )


# --- reading ---------------------------------------------------------------------------------------------------------


def _stages(table: "pd.DataFrame", rows: Log) -> np.ndarray:
    """Positions in ``ROUND_KINDS``; without the column, what is counted was explored, and -1 else."""
    if "ticket" in table.columns and table["ticket"].to_numpy().tolist() != list(range(len(table))):
        raise DataError("The log must have every round from the first on: its tickets are not 0, 1, 2, ....")
    if "stage" not in table.columns:
        if "counted" not in table.columns:
            raise DataError("The log needs the column stage, or counted: else it does not show which rounds explored.")
        return np.where(rows.counted, PROMOTED, -1)
    places = {name: k for k, name in enumerate(ROUND_KINDS)}
    names = table["stage"].astype(str).tolist()
    unknown = sorted(set(names) - set(places))
    if unknown:
        raise DataError(f"The log has the stage '{unknown[0]}'. Stages are {', '.join(ROUND_KINDS)}.")
    return np.array([places[name] for name in names])


def _known_from(table: "pd.DataFrame", n: int) -> FloatArray:
    """Before which round each reward was settled; infinite where it is not."""
    import pandas as pd

    if "known_from" not in table.columns:
        return np.arange(1.0, n + 1.0)
    values = np.asarray(pd.to_numeric(table["known_from"], errors="coerce"), dtype=float)
    return np.where(np.isfinite(values), values, np.inf)


# --- what the plan says ----------------------------------------------------------------------------------------------


def _replayed(run: MovingRcb, rows: Log, stages: np.ndarray, known: FloatArray) -> Iterator[_Round]:
    """The plan's answer to every round, fed with what the log says was known before it."""
    order = np.argsort(known, kind="stable")
    claimed = np.zeros(len(rows.arm), dtype=bool)
    due, block, start, state = 0, None, 0, None
    for t in range(len(rows.arm)):
        while due < len(order) and known[order[due]] <= t:
            _settle(run.rcb, rows, int(order[due]), claimed)
            due += 1
        if run.move():
            block = None
        rcb = run.rcb
        rcb.move_on()
        could = None if rows.available is None or rows.available[t].all() else rows.available[t]
        if could is not None and not rcb.cold.by_samples and (run.present & ~could).any():
            rcb.go_by_samples()
            block = None
        now = STAGE.key(rcb.moment)
        if block is None or now != state or t - start >= _AT_A_TIME:
            block, start, state = _block(run, rows.x[t : t + _AT_A_TIME]), t, now
        told = block[t - start]
        if could is not None:
            told = _confined(run, rows.x[t : t + 1], could, told)
        if rcb.exploitation is None:
            explored = told.phase == MOST_POPULAR or stages[t] in (PROMOTED, MOST_POPULAR)
            claimed[t] = explored and not rcb.cold.is_waiting and int(rows.arm[t]) not in rcb.cold.saturated
            rcb.cold.waiting[rows.arm[t]] += claimed[t]
            told = told._replace(counts=bool(claimed[t]))
        rcb.rounds += 1
        yield told


def _settle(rcb: Rcb, rows: Log, t: int, claimed: np.ndarray) -> None:
    """A reward enters the data, or the place of one that will not is free."""
    in_cold = rcb.exploitation is None and not rcb.cold.is_over
    if in_cold and claimed[t]:
        if rows.counted[t]:
            rcb.absorb_one(rows.x[t], int(rows.arm[t]), float(rows.reward[t]))
        else:
            rcb.cold.release(int(rows.arm[t]))
    elif not in_cold and rows.counted[t] and rcb.exploitation is not None:
        rcb.absorb_one(rows.x[t], int(rows.taken[t]), float(rows.reward[t]))


def _block(run: MovingRcb, x: FloatArray) -> list[_Round]:
    """The plan's answer to users at the present stage."""
    rcb, chances = run.rcb, run.recommend_proba(x)
    arms = rcb.market.arms
    name = STAGE.label(rcb.moment, arms)
    if rcb.exploitation is not None:
        return [_Round(name, EXPLOIT, own, np.nan) for own in chances]
    if not rcb.cold.saturated:
        if rcb.plan.agenda.is_plain:
            return [_Round(name, MOST_POPULAR, own, np.nan) for own in chances]
        popular = is_popular(rcb.plan.agenda, rcb.cold.scores(x, np.ascontiguousarray(x.T)).T)
        rates = rcb.plan.rate(x, saturated=())
        return [
            _Round(name, MOST_POPULAR if first else PROMOTED, own, np.nan if first else rate)
            for first, own, rate in zip(popular, chances, rates, strict=True)
        ]
    rates = rcb.cold.rates(x)
    return [_Round(f"{name} saturated", PROMOTED, own, rate) for own, rate in zip(chances, rates, strict=True)]


def _confined(run: MovingRcb, x: FloatArray, available: BoolArray, told: _Round) -> _Round:
    """The same for a user (1, d) to whom not all arms were available, (K,): exploration may then be organic."""
    there = (run.present & available)[: run.rcb.market.n_arms]
    if not there.any():  # no such round: the log is not this plan's
        return told
    found = run.rcb.decided_now(x, there).probabilities[:, 0]
    chances = np.pad(found, (0, len(told.chances) - len(found)))
    phase = FIRST_OR_ORGANIC if told.phase == MOST_POPULAR else told.phase
    return told._replace(chances=chances, phase=phase, rate=np.nan)


# --- comparisons -----------------------------------------------------------------------------------------------------


def _of_stages(told: list[_Round], stages: np.ndarray, *, has_stages: bool) -> list[str]:
    if not has_stages:
        return []
    allowed = {MOST_POPULAR: (MOST_POPULAR,), PROMOTED: (PROMOTED, ORGANIC), EXPLOIT: (EXPLOIT,)}
    allowed[FIRST_OR_ORGANIC] = (MOST_POPULAR, ORGANIC)
    wrong = [t for t, own in enumerate(told) if stages[t] not in allowed[own.phase]]
    if not wrong:
        return []
    first = wrong[0]
    return [
        f"stages: {len(wrong):,} rounds are logged at another stage than the plan's; the first is row {first + 1}, "
        f"logged as '{ROUND_KINDS[stages[first]]}' where the plan is at: {told[first].name}"
    ]


def _of_counted(told: list[_Round], rows: Log) -> list[str]:
    """Organic rounds must not count, nor samples of an arm beyond its N, nor what comes in while a reward is out."""
    wrong = rows.counted & ~np.array([own.counts for own in told])
    if not wrong.any():
        return []
    first = int(np.argmax(wrong)) + 1
    return [f"counts: {int(wrong.sum()):,} rounds are counted that the plan does not count; the first is row {first}"]


def _of_propensities(market: Market, told: list[_Round], rows: Log) -> list[str]:
    if not rows.has_propensities:
        return []
    by_plan = np.stack([own.chances for own in told])
    off = np.abs(by_plan - rows.weights)
    wrong = (off > _SAME).any(axis=1)
    if not wrong.any():
        return []
    t = int(np.argmax(wrong))
    arm = int(off[t].argmax())
    return [
        f"propensities: {int(wrong.sum()):,} of {len(told):,} rounds differ from the plan's; the first is row {t + 1}, "
        f"where {market.arms[arm]} has {rows.weights[t, arm]:.3g} and the plan says {by_plan[t, arm]:.3g}"
    ]


def _counts(market: Market, told: list[_Round], rows: Log, stages: np.ndarray) -> list[_Count]:
    """Of each stage how often every arm came up, and how many rounds explored."""
    names = np.array([own.name for own in told])
    chances = np.stack([own.chances for own in told])
    rates = np.array([own.rate for own in told])
    found = []
    for name in dict.fromkeys(names.tolist()):
        here = names == name
        for k, arm in enumerate(market.arms):
            found.append(_count(name, arm, rows.arm[here] == k, chances[here, k]))
        told_rate = here & np.isfinite(rates)  # of users who could have all arms
        if told_rate.any() and (stages[here] >= 0).all():
            found.append(_count(name, "exploration", stages[told_rate] == PROMOTED, rates[told_rate]))
    return found


def _count(stage: str, what: str, came_up: np.ndarray, chances: FloatArray) -> _Count:
    observed = int(came_up.sum())
    return _Count(stage, what, observed, float(chances.sum()), tail_of_count(observed, chances))


def tail_of_count(count: int, chances: FloatArray) -> float:
    """Two-sided p-value of a number of successes among independent choices with these probabilities."""
    p = np.clip(chances[(chances > 1e-12) & (chances < 1 - 1e-12)], 0.0, 1.0)
    k = count - int((chances >= 1 - 1e-12).sum())
    if k < 0 or k > len(p):
        return 0.0
    if len(p) <= _EXACT:
        law = _law_of_count(p)
        below, above = law[: k + 1].sum(), law[k:].sum()
    else:
        below, above = _refined(k + 0.5, p), 1.0 - _refined(k - 0.5, p)
    return float(min(1.0, 2.0 * min(below, above)))


def _law_of_count(p: FloatArray) -> FloatArray:
    """Probabilities of 0, 1, ..., n successes."""
    law = np.ones(1)
    for chance in p:
        law = np.append(law, 0.0) * (1.0 - chance) + np.append(0.0, law) * chance
    return law


def _refined(value: float, p: FloatArray) -> float:
    """The normal law with a correction for skewness (Volkova 1996)."""
    from scipy.special import ndtr

    spread = np.sqrt((p * (1 - p)).sum())
    skewness = (p * (1 - p) * (1 - 2 * p)).sum() / spread**3
    z = (value - p.sum()) / spread
    found = ndtr(z) + skewness * (1 - z**2) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / 6
    return float(np.clip(found, 0.0, 1.0))
