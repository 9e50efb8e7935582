"""More of the paper's claims: sublinear regret, levels of regret, and effects of K, d, variance and schedule on gains.

Judged as those of ``claims`` are, by intervals over the same worlds.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.paper.claims import Claim, as_claim, exploiting, final_regret, stretches
from rcb_bayes.studies.paper.intervals import Decision, all_of, decide, log_contrast, mean_interval
from rcb_bayes.studies.paper.tables import with_error

if TYPE_CHECKING:
    import xarray as xr

_ABOVE_ZERO = np.nextafter(0.0, 1.0)
_HALF_DECADE = 10.0**0.5
_LEVELS = {"setting-1": 1e5, "setting-2": 1e3}
_MANY_ARMS = 10
_FEATURES_OF_CONCERN = (5, 10)
_LINEAR = 0.99  # from here on an exponent of t is that of a straight line


def sublinear(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """Over the last tenfold of rounds regret grows with an exponent below .99, in every run.

    The limit is short of one, so that a run whose regret grows in proportion to t can be told from one that levels off:
    about one, intervals would leave it undecided for ever.
    """
    tested = []
    for run in runs:
        t = run["t"].values.astype(float)
        place = int(np.abs(np.log(t / t[-1]) + math.log(10.0)).argmin())
        early, late = run["regret"].values[:, place], final_regret(run)
        if (early > 0).all():
            weights = np.array([1.0, -1.0]) / np.log(t[-1] / t[place])
            tested.append(log_contrast([late, early], weights))
    if not tested:
        return []
    worst = max(tested, key=lambda interval: interval.upper)
    verdict = all_of([decide(one, high=_LINEAR) for one in tested])
    below = sum(one.upper <= _LINEAR for one in tested)
    text = f"exponent of t below {_LINEAR:g} in {below} of {len(tested)} runs, largest "
    text += with_error(worst.estimate, worst.error)
    return [as_claim("regret is sublinear (last tenfold of rounds)", kind, verdict, text, worst)]


def level(setting: str, kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """The geometric mean of regrets over cells is within half a decade of the paper's level; by N in Setting 2."""
    if setting != "setting-2":
        return _level(_LEVELS[setting], kind, runs, front="")
    groups = [(n, [run for run in runs if _is_n(run, n)]) for n in _sizes(runs)]
    return [claim for n, own in groups for claim in _level(_LEVELS[setting], kind, own, front=f"N = {n:,}: ")]


def _level(wanted: float, kind: str, runs: "Sequence[xr.Dataset]", *, front: str) -> list[Claim]:
    weights = np.full(len(runs), 1.0 / len(runs))
    regrets = [final_regret(run) for run in runs]
    if not all((one > 0).all() for one in regrets):
        return []
    found = log_contrast(regrets, weights)
    low, high = math.log(wanted / _HALF_DECADE), math.log(wanted * _HALF_DECADE)
    verdict = decide(found, low=low, high=high)
    means = [float(one.mean()) for one in regrets]
    text = (
        f"{front}mean regret {min(means):,.3g} to {max(means):,.3g} over {len(runs)} runs, geometric mean "
        f"{math.exp(found.estimate):,.3g} ({math.exp(found.lower):,.3g} to {math.exp(found.upper):,.3g})"
    )
    return [as_claim(f"regret at the level of {wanted:.0e}".replace("e+0", "e"), kind, verdict, text, found)]


def ten_arms_cost_more(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """Regret with ten arms is above that with three and with five, averaged over numbers of features."""
    many = _regret_of(runs, _MANY_ARMS)
    pairs = [(few, _regret_of(runs, few)) for few in (3, 5)]
    if many is None or any(one is None for _, one in pairs):
        return []
    tested = [(few, mean_interval(many - one, n_tests=len(pairs)), one) for few, one in pairs if one is not None]
    text = "; ".join(
        f"K = 10 over K = {few}: {many.mean() / one.mean():.3g} times, {with_error(found.estimate, found.error)} more"
        for few, found, one in tested
    )
    worst = min((found for _, found, _ in tested), key=lambda found: found.lower)
    verdict = all_of([decide(found, low=_ABOVE_ZERO) for _, found, _ in tested])
    return [as_claim("regret with K = 10 exceeds that with 3 and 5", kind, verdict, text, worst)]


def worse_with_features(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """With ten arms the lowest realised gain, as each N has it, is lower for ten features than for three."""
    claims = []
    for n in _sizes(runs):
        own = {run.attrs["n_features"]: run for run in runs if _is_n(run, n) and run.attrs["n_arms"] == _MANY_ARMS}
        if not {3, 10} <= set(own):
            continue
        found = mean_interval(_lowest(own[3]) - _lowest(own[10]))
        text = f"N = {n:,}, K = 10: lowest gain at d = 3 minus at d = 10: {with_error(found.estimate, found.error)}"
        verdict = decide(found, low=_ABOVE_ZERO)
        claims.append(as_claim("negative gains more pronounced as d grows", kind, verdict, text, found))
    return claims


def mostly_negative(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """With N = 1,000 the realised gain is negative somewhere in most cells with five or ten features."""
    own = [run for run in runs if _is_n(run, 1000) and run.attrs["n_features"] in _FEATURES_OF_CONCERN]
    if not own:
        return []
    n_tests = sum(stretches(run).shape[1] for run in own)
    negative = [_is_negative(run, n_tests) for run in own]
    decided = sum(one == "held" for one in negative), sum(one == "not held" for one in negative)
    half = len(own) / 2
    verdict: Decision = "held" if decided[0] > half else "not held" if decided[1] >= half else "undecided"
    worst = min((mean_interval(_lowest(run)) for run in own), key=lambda found: found.estimate)
    text = f"negative in {decided[0]}, not in {decided[1]} of {len(own)} cells; lowest gain "
    text += with_error(worst.estimate, worst.error)
    return [as_claim("N = 1,000: gain negative for most cells with d of 5 or 10", kind, verdict, text, worst)]


def linear_gains_most(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """In the last stretch of rounds the gain under linear growth of the prior variance is the largest."""
    tested = []
    runs = exploiting(runs)
    for variance in sorted({run.attrs["variance"] for run in runs}):
        own = {run["inflation"].item(): _last_gain(run) for run in runs if run.attrs["variance"] == variance}
        tested += [own["linear"] - own[other] for other in own if other != "linear" and "linear" in own]
    if not tested:
        return []
    found = [mean_interval(one, n_tests=len(tested)) for one in tested]
    worst = min(found, key=lambda one: one.lower)
    above = sum(one.lower > 0 for one in found)
    text = f"larger in {above} of {len(found)} pairs; least difference {with_error(worst.estimate, worst.error)}"
    verdict = all_of([decide(one, low=_ABOVE_ZERO) for one in found])
    return [as_claim("linear growth has the largest gain", kind, verdict, text, worst)]


def gain_grows_with_variance(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """In the last stretch of rounds the gain at the largest prior variance exceeds that at the smallest."""
    ends = _by_variance(exploiting(runs))
    if ends is None:
        return []
    found = mean_interval(ends[1] - ends[0])
    text = f"gain at the largest variance minus at the smallest: {with_error(found.estimate, found.error)}"
    return [as_claim("gain grows with prior variance", kind, decide(found, low=_ABOVE_ZERO), text, found)]


def schedules_converge(kind: str, runs: "Sequence[xr.Dataset]") -> list[Claim]:
    """What regret differs by between schedules, in per cent, is less at the largest variance than at the smallest."""
    runs = exploiting(runs)
    if len({run["inflation"].item() for run in runs}) < 2:
        return []
    spreads = []
    for variance in sorted({run.attrs["variance"] for run in runs}):
        own = np.stack([final_regret(run) for run in runs if run.attrs["variance"] == variance])
        spreads.append(100.0 * np.ptp(own, axis=0) / own.mean())
    if len(spreads) < 2:
        return []
    found = mean_interval(spreads[0] - spreads[-1])
    text = (
        f"range over schedules {spreads[0].mean():.3g} % at the smallest variance, {spreads[-1].mean():.3g} % at the "
    )
    text += f"largest: {with_error(found.estimate, found.error)} less"
    verdict = decide(found, low=_ABOVE_ZERO)
    return [as_claim("schedules differ less where variance is large", kind, verdict, text, found)]


def below_setting_1(ad_hoc: "Sequence[xr.Dataset]", theorem: "Sequence[xr.Dataset]") -> list[Claim]:
    """Regrets of Setting 2, by N, are below those of the theorem's plan in Setting 1: geometric means over cells."""
    claims = []
    cells = {(run.attrs["n_arms"], run.attrs["n_features"]): run for run in theorem}
    for n in _sizes(ad_hoc):
        own = [run for run in ad_hoc if _is_n(run, n) and (run.attrs["n_arms"], run.attrs["n_features"]) in cells]
        if not own:
            continue
        others = [cells[run.attrs["n_arms"], run.attrs["n_features"]] for run in own]
        weights = np.concatenate([np.full(len(own), -1.0), np.full(len(own), 1.0)]) / len(own)
        found = log_contrast([final_regret(run) for run in (*own, *others)], weights)
        low, middle, high = (math.exp(value) for value in (found.lower, found.estimate, found.upper))
        text = f"N = {n:,}: Setting 1 has {middle:,.3g} times the regret ({low:,.3g} to {high:,.3g}), {len(own)} cells"
        verdict = decide(found, low=_ABOVE_ZERO)
        claims.append(as_claim("regret of ad hoc N considerably below Setting 1's", "fixed", verdict, text, found))
    return claims


# --- parts ------------------------------------------------------------------------------------------------------------


def _sizes(runs: "Sequence[xr.Dataset]") -> list[int]:
    return sorted({int(run["n_per_arm"].item()) for run in runs})


def _is_n(run: "xr.Dataset", n: int) -> bool:
    return int(run["n_per_arm"].item()) == n


def _lowest(run: "xr.Dataset") -> FloatArray:
    """The gain in the stretch where it is lowest on average, in each world."""
    gains = stretches(run)
    return gains[:, gains.mean(axis=0).argmin()]


def _is_negative(run: "xr.Dataset", n_tests: int) -> Decision:
    decisions = [decide(mean_interval(one, n_tests=n_tests), high=-_ABOVE_ZERO) for one in stretches(run).T]
    if "held" in decisions:
        return "held"
    return "not held" if all(one == "not held" for one in decisions) else "undecided"


def _regret_of(runs: "Sequence[xr.Dataset]", n_arms: int) -> FloatArray | None:
    """Regret averaged over numbers of features, in each world; None where a number of features is missing."""
    wanted = {run.attrs["n_features"] for run in runs}
    own = [run for run in runs if run.attrs["n_arms"] == n_arms]
    if {run.attrs["n_features"] for run in own} != wanted:
        return None
    return np.mean([final_regret(run) for run in own], axis=0)


def _last_gain(run: "xr.Dataset") -> FloatArray:
    return stretches(run)[:, -1]


def _by_variance(runs: "Sequence[xr.Dataset]") -> tuple[FloatArray, FloatArray] | None:
    """Gains in the last stretch at the smallest and at the largest variance, in each world."""
    variances = sorted({run.attrs["variance"] for run in runs})
    if len(variances) < 2:
        return None
    low, high = (
        np.mean([_last_gain(run) for run in runs if run.attrs["variance"] == one], axis=0)
        for one in (variances[0], variances[-1])
    )
    return low, high
