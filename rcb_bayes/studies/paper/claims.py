r"""The paper's claims, each judged by an interval over worlds: held, not held, or undecided.

Worlds are the same in all cells with the same number of arms and features, so that differences are taken world by
world. A claim about all cells is held if it holds in each, with bounds for all of them at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.mechanism.deciding import VERDICTS, rank
from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.paper.intervals import (
    Decision,
    Interval,
    all_of,
    any_of,
    decide,
    exponent_weights,
    log_contrast,
    mean_interval,
)
from rcb_bayes.studies.paper.tables import with_error

if TYPE_CHECKING:
    import xarray as xr

_PER_GROUP = 6  # bins of a record that are judged together
_CUBIC = (2.5, 3.5)
_Z = 1.96
_ALIKE = 0.1  # of the mean regret


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of the paper about one kind of plan.

    ``figure`` says what was found; ``estimate``, ``error``, ``lower`` and ``upper`` are the one that decides.

    Parameters
    ----------
    claim : str
        What the paper says.
    kind : str
        The kind of plan.
    verdict : {"held", "not held", "undecided"}
        Whether it holds.
    figure : str
        What was found, in words.
    estimate : float
        The figure that decides.
    error : float
        Its standard error.
    lower : float
        Its lower bound.
    upper : float
        Its upper bound.

    Examples
    --------
    With ``outcome`` as in ``reproduce``:

    >>> claim = outcome.claims[0]
    >>> claim.claim, claim.kind, claim.verdict
    ('gain above -epsilon (realised)', 'theorem', 'held')
    """

    claim: str
    kind: str
    verdict: Decision
    figure: str
    estimate: float
    error: float
    lower: float
    upper: float


def runs_of(part: "xr.Dataset", kind: str) -> "list[xr.Dataset]":
    """The runs of a kind in a cell, as far as there were any."""
    return [
        one
        for one in (part.isel(run=k) for k in range(part.sizes["run"]))
        if one["kind"].item() == kind and np.isfinite(one["regret"].values).any()
    ]


def exploiting(runs: "Sequence[xr.Dataset]") -> "list[xr.Dataset]":
    """Those that leave the cold start in some world: of others nothing can be said about what comes after it."""
    return [run for run in runs if bool((run["cold_share"] < 1.0).any())]


def gain_above(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """The realised gain, averaged over worlds and a stretch of rounds, is nowhere below -epsilon."""
    cells = [(run, column) for run in runs for column in stretches(run).T]
    tested = [(mean_interval(column, n_tests=len(cells)), run.attrs["epsilon"]) for run, column in cells]
    decisions: list[Decision] = [decide(interval, low=-epsilon) for interval, epsilon in tested]
    worst = min((interval for interval, _ in tested), key=lambda interval: interval.lower)
    text = f"least certain of {len(cells)} stretches: realised gain {with_error(worst.estimate, worst.error)}"
    text = f"{text}{_overruns(runs)}"
    return [as_claim("gain above -epsilon (realised)", kind, all_of(decisions), text, worst)]


def audited_above(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """Users' expected gain is nowhere below -epsilon, as audits have it, under ``user`` and under ``proof``."""
    return [
        Claim(
            claim=f"gain above -epsilon (audited, {notion})",
            kind=kind,
            **_audits(runs, notion, held="pass", refuted="fail"),
        )
        for notion in ("user", "proof")
        if any(run[f"verdict_{notion}"].item() for run in runs)
    ]


def upward_trend(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """The slope of the realised gain on log t within exploitation is positive."""
    seen = [run for run in runs if np.isfinite(run["trend"].values).sum() > 1]
    if not seen:
        return []
    tested = [mean_interval(run["trend"].values, n_tests=len(seen)) for run in seen]
    worst = min(tested, key=lambda interval: interval.lower)
    decisions: list[Decision] = [decide(interval, low=np.nextafter(0.0, 1.0)) for interval in tested]
    up = sum(one == "held" for one in decisions)
    text = f"rises in {up} of {len(seen)} runs, least slope {with_error(worst.estimate, worst.error)} per log t"
    return [as_claim("upward trend of the gain", kind, all_of(decisions), text, worst)]


def cubic_in_arms(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """Cost grows like K cubed: the exponent lies between 2.5 and 3.5."""
    arms, _ = _exponents(runs)
    if not arms.any():
        return []
    low, high = _CUBIC
    slope = log_contrast([final_regret(run) for run in runs], arms)
    text = f"regret grows like K to the {with_error(slope.estimate, slope.error)}"
    claims = [as_claim("cost grows like K cubed (regret)", kind, decide(slope, low=low, high=high), text, slope)]
    lengths = np.array([float(run["expected_cold_start"]) for run in runs])
    if np.isfinite(lengths).all():
        errors = np.array([float(run["expected_cold_start_mcse"]) for run in runs])
        planned = _of_estimates(arms, lengths, errors)
        text = f"the planned cold start grows like K to the {with_error(planned.estimate, planned.error)}"
        verdict = decide(planned, low=low, high=high)
        claims.append(as_claim("cost grows like K cubed (cold start)", kind, verdict, text, planned))
    return claims


def _of_estimates(weights: FloatArray, values: FloatArray, errors: FloatArray) -> Interval:
    """A contrast of the logs of estimates with errors of their own."""
    estimate = float(weights @ np.log(values))
    error = float(np.sqrt(weights**2 @ (errors / values) ** 2))
    return Interval(estimate=estimate, error=error, lower=estimate - _Z * error, upper=estimate + _Z * error)


def mild_in_features(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """The exponent of regret in d is below that in K."""
    arms, features = _exponents(runs)
    if not (arms.any() and features.any()):
        return []
    regrets = [final_regret(run) for run in runs]
    difference = log_contrast(regrets, arms - features)
    along_d, along_k = (log_contrast(regrets, weights) for weights in (features, arms))
    text = (
        f"regret grows like d to the {with_error(along_d.estimate, along_d.error)}, "
        f"K to the {with_error(along_k.estimate, along_k.error)}, "
        f"a difference of {with_error(difference.estimate, difference.error)}"
    )
    verdict = decide(difference, low=np.nextafter(0.0, 1.0))
    return [as_claim("mild in d (an exponent below that of K)", kind, verdict, text, difference)]


def falls_with_epsilon(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """Regret at the largest epsilon is below that at the smallest, world by world."""
    return difference("regret falls with epsilon", kind, runs, along="epsilon")


def larger_for_small_variance(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """Regret at the smallest prior variance is above that at the largest, world by world."""
    return difference("regret larger for small prior variance", kind, runs, along="variance")


def schedules_alike(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """Regrets under any two inflations differ by at most a tenth, in runs that come to inflate anything."""
    pairs = [
        (one, other)
        for one, other in combinations(exploiting(runs), 2)
        if one.attrs["variance"] == other.attrs["variance"] and one["inflation"].item() != other["inflation"].item()
    ]
    if not pairs:
        return []
    tested = []
    for one, other in pairs:
        first, second = final_regret(one), final_regret(other)
        tested.append(mean_interval((first - second) / ((first + second).mean() / 2), n_tests=len(pairs)))
    worst = max(tested, key=lambda interval: abs(interval.estimate))
    decisions: list[Decision] = [decide(interval, low=-_ALIKE, high=_ALIKE) for interval in tested]
    text = f"regrets differ by {with_error(100 * worst.estimate, 100 * worst.error)} % at most, of {len(pairs)} pairs"
    return [as_claim("inflation schedules alike (within 10 %)", kind, all_of(decisions), text, worst)]


def ad_hoc_negative(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """For each N, the realised gain is negative over some stretch of rounds in some cell."""
    claims = []
    for n in sorted({int(run["n_per_arm"].item()) for run in runs}):
        own = [run for run in runs if run["n_per_arm"].item() == n]
        columns = [column for run in own for column in stretches(run).T]
        tested = [mean_interval(column, n_tests=len(columns)) for column in columns]
        worst = min(tested, key=lambda interval: interval.upper)
        decisions: list[Decision] = [decide(interval, high=np.nextafter(0.0, -1.0)) for interval in tested]
        text = f"N = {n:,}: least realised gain {with_error(worst.estimate, worst.error)} of {len(tested)} stretches"
        claims.append(as_claim("ad hoc N gives negative gains (realised)", kind, any_of(decisions), text, worst))
    return claims


def ad_hoc_fails(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """For each N, some cell fails its audit."""
    claims = []
    for n in sorted({int(run["n_per_arm"].item()) for run in runs}):
        own = [run for run in runs if run["n_per_arm"].item() == n]
        if not any(run["verdict_user"].item() for run in own):
            continue
        found = _audits(own, "user", held="fail", refuted="pass")
        found["figure"] = f"N = {n:,}: {found['figure']}"
        claims.append(Claim(claim="ad hoc N breaks the constraint (audited, user)", kind=kind, **found))
    return claims


# --- parts ------------------------------------------------------------------------------------------------------------


def as_claim(claim: str, kind: str, verdict: Decision, figure: str, interval: Interval) -> Claim:
    """A claim with the interval that decides."""
    return Claim(
        claim=claim,
        kind=kind,
        verdict=verdict,
        figure=figure,
        estimate=interval.estimate,
        error=interval.error,
        lower=interval.lower,
        upper=interval.upper,
    )


def final_regret(run: "xr.Dataset") -> FloatArray:
    """Regret at the end, in each world."""
    return run["regret"].isel(t=-1).values


def stretches(run: "xr.Dataset") -> FloatArray:
    """Gains averaged over stretches of rounds, (worlds, stretches)."""
    lengths = np.diff(np.append(0, run["t"].values))
    starts = np.arange(0, len(lengths), _PER_GROUP)
    sums = np.add.reduceat(run["gain"].values * lengths, starts, axis=1)
    return sums / np.add.reduceat(lengths, starts)


def _exponents(runs: "Sequence[xr.Dataset]") -> tuple[FloatArray, FloatArray]:
    """Weights for the exponents in K and in d; all 0 where a parameter does not vary."""
    arms, features = (np.array([run.attrs[name] for run in runs], dtype=float) for name in ("n_arms", "n_features"))
    return exponent_weights(arms, features), exponent_weights(features, arms)


def difference(claim: str, kind: str, runs: "Sequence[xr.Dataset]", *, along: str) -> list[Claim]:
    """Regret at the smallest value of a parameter minus that at the largest, averaged over the other cells."""
    values = sorted({run.attrs[along] for run in runs})
    if len(values) < 2:
        return []
    ends = [
        {_rest(run, along): final_regret(run) for run in runs if run.attrs[along] == value}
        for value in (values[0], values[-1])
    ]
    both = sorted(set(ends[0]) & set(ends[1]))  # of a grid with gaps
    if not both:
        return []
    totals = [np.mean([end[key] for key in both], axis=0) for end in ends]
    interval = mean_interval(totals[0] - totals[1])
    verdict = decide(interval, low=np.nextafter(0.0, 1.0))
    text = (
        f"regret at {along} {values[0]:.3g} minus at {values[-1]:.3g}: {with_error(interval.estimate, interval.error)} "
        f"(mean regret {np.mean(totals):,.4g})"
    )
    return [as_claim(claim, kind, verdict, text, interval)]


def _rest(run: "xr.Dataset", along: str) -> tuple[str, ...]:
    """What else tells a run from others."""
    names = ("n_arms", "n_features", "variance", "epsilon")
    return (*(str(run.attrs[name]) for name in names if name != along), run["inflation"].item())


def _overruns(runs: "Sequence[xr.Dataset]") -> str:
    """How many runs never leave the cold start, in words; nothing where all do."""
    stuck = sum(bool((run["cold_share"] == 1.0).all()) for run in runs)
    return f"; {stuck} of {len(runs)} runs never leave the cold start" if stuck else ""


def _audits(runs: "Sequence[xr.Dataset]", notion: str, *, held: str, refuted: str) -> dict:
    """Audits together: for "pass" all must, for "fail" one must."""
    audited = [run for run in runs if run[f"verdict_{notion}"].item()]
    words = [run[f"verdict_{notion}"].item() for run in audited]
    decisions: list[Decision] = [
        "held" if word == held else "not held" if word == refuted else "undecided" for word in words
    ]
    verdict = all_of(decisions) if held == "pass" else any_of(decisions)
    ranks = [rank(word, float(run[f"margin_{notion}"])) for word, run in zip(words, audited, strict=True)]
    worst = audited[ranks.index(min(ranks))] if ranks else None
    figure = ", ".join(f"{words.count(word)} {word}" for word in VERDICTS if word in words)
    numbers = {name: np.nan for name in ("estimate", "error", "lower", "upper")}
    if worst is not None:
        margin = [
            float(worst[f"{name}_{notion}"]) for name in ("margin", "margin_mcse", "margin_lower", "margin_upper")
        ]
        numbers = dict(zip(numbers, margin, strict=True))
        figure = f"{figure}; worst margin {with_error(margin[0], margin[1])}{_overruns(runs)}"
    return {"verdict": verdict, "figure": figure, **numbers}
