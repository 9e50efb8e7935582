"""The answer in words."""

import math
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.auditing import Audit
from rcb_bayes.gaps.checks import combine, judge
from rcb_bayes.gaps.estimation import probability_error
from rcb_bayes.mechanism.deciding import DecidingCell, deciding_cell
from rcb_bayes.mechanism.margins import Verdict
from rcb_bayes.planning.plan import Plan
from rcb_bayes.telling.wording import brief, figure, percent
from rcb_bayes.users import Covariates, Empirical

if TYPE_CHECKING:
    import xarray as xr

_MOST_RUNS = 0.5  # of runs whose cold start has to end: it does on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict, in a word, a headline and a few sentences."""

    verdict: str
    headline: str
    sentences: tuple[str, ...]


def answer_of(
    plan: Plan,
    audit: Audit | None,
    *,
    not_audited: str,
    radius: "xr.Dataset | None" = None,
    horizon: int | None = None,
    runs: "xr.Dataset | None" = None,
    sweep: tuple[Plan, ...] = (),
    users: Covariates | None = None,
) -> Answer:
    """May I explore here? The one place where the headline is decided.

    A plan that users follow, and whose cold start ends before the horizon, is a yes. How wrong the belief may be is
    told beside it, where that was looked at.
    """
    at = f"epsilon = {plan.epsilon:g}"
    if not plan.feasible:
        return _no_plan(plan, at, sweep)
    in_time, late = _in_time(plan, horizon, runs)
    if audit is None:
        headline, told = "There is a plan; whether users follow it was not audited.", (not_audited, _takes(plan))
        return Answer(verdict=combine(["inconclusive", in_time]), headline=headline, sentences=(*told, *late))
    if audit.verdict != "pass":
        return _not_passed(plan, audit, late)
    follows = f"In {audit.n_worlds:,} fresh worlds of their own belief {_loses(audit, at, users)}, at any stage."
    sentences = (follows, _takes(plan), *late, *([] if radius is None else [radius_words(radius)]))
    if in_time != "pass":
        takes = "takes" if in_time == "fail" else "may take"
        headline = f"Not within {horizon:,} rounds: the cold start {takes} longer."
        return Answer(verdict=in_time, headline=headline, sentences=sentences)
    whom = f"with {percent(plan.share_explored)} of users" if plan.personalised else "with all users, at one rate"
    return Answer(verdict="pass", headline=f"Yes, {whom}.", sentences=sentences)


def _no_plan(plan: Plan, at: str, sweep: tuple[Plan, ...]) -> Answer:
    """That there is none, or that the worlds are too few to tell; and the least epsilon looked at that has one."""
    untold = plan.verdict == "inconclusive"
    headline = f"Not known at {at}: {plan.n_worlds:,} worlds do not tell." if untold else f"No, not at {at}."
    others = [other for other in sweep if other.feasible and other.epsilon > plan.epsilon]
    told = [plan.reason]
    if others:
        nearest = min(others, key=lambda other: other.epsilon)
        length = figure(nearest.expected_cold_start, nearest.expected_cold_start_mcse)
        told.append(f"At epsilon = {nearest.epsilon:g} there is a plan, with a cold start of {length} rounds.")
    return Answer(verdict="inconclusive" if untold else "fail", headline=headline, sentences=tuple(told))


def _in_time(plan: Plan, horizon: int | None, runs: "xr.Dataset | None") -> tuple[Verdict, tuple[str, ...]]:
    """Whether the cold start ends before the horizon, by the plan's runs or else by its own figure, and how many do."""
    if horizon is None:
        return "pass", ()
    verdict, told = "inconclusive", ""
    if runs is not None and runs.sizes["world"] > 1:  # one run tells nothing of others
        ended = (runs["cold_start_length"].values >= 0).astype(float)
        share, error = float(ended.mean()), float(probability_error(ended))
        verdict = judge(share, error, _MOST_RUNS)
        told = "" if share == 1.0 else f"It ends within {horizon:,} rounds in {percent(share, error)} of runs."
    if verdict == "inconclusive":
        verdict = judge(float(horizon), plan.expected_cold_start_mcse, plan.expected_cold_start)
    if verdict != "pass":
        told = f"{told or f'There are only {horizon:,} rounds.'} Ask for fewer samples, fewer arms or a larger epsilon."
    return verdict, (told,) if told else ()


def _not_passed(plan: Plan, audit: Audit, late: tuple[str, ...]) -> Answer:
    """An audit that fails, or does not tell."""
    worst = deciding_cell(audit.margins)
    told = f"{' '.join(followers(audit))} would follow at every stage, by the point estimates. "
    if audit.verdict == "fail":
        headline, more = "Not as planned: some users would not follow.", _remedy(plan, worst)
    else:
        headline = "Perhaps: the simulations cannot tell."
        more = "More worlds would tell: the bounds are too wide, or too few worlds have the arm as the best one."
    return Answer(verdict=audit.verdict, headline=headline, sentences=(_loss(worst), told + more, *late))


def _remedy(plan: Plan, worst: DecidingCell | None) -> str:
    """What mends a failure: a guard in exploitation; in the cold start the rates."""
    if worst is not None and str(worst.stage).startswith("epoch"):
        return "A guard, or a larger epsilon, can mend it."
    what = "for more worlds of audit" if plan.kind == "sampled" else "with sampled rates (calibrate)"
    return f"A plan {what}, or a larger epsilon, can mend it."


def radius_words(radius: "xr.Dataset") -> str:
    """How wrong the belief may be: the largest amount that passes, and from where on it fails, with the error."""
    one = radius.isel(direction=0)
    arm = str(one["direction"].item()).partition(":")[2]
    looks = zip(one["amount"].values.tolist(), one["verdict"].values.tolist(), strict=True)
    passed = [amount for amount, _ in takewhile(lambda look: look[1] == "pass", looks)]
    fails = float(one["fails_above"])
    held = "only as it is written" if passed else "not even as it is written"
    if passed and passed[-1] > 0:
        held = f"if users expect up to {brief(passed[-1])} more of {arm}"
    told = f"In audits of {int(radius.attrs['n_worlds']):,} worlds it passes {held}"
    if not math.isfinite(fails):
        return f"{told}."
    end = (
        f"it fails from {figure(fails, float(one['fails_above_mcse']))} more of {arm} on"
        if fails > 0
        else "any more fails"
    )
    return f"{told}; by the estimates {end}."


def _takes(plan: Plan) -> str:
    length = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    ends = math.isfinite(plan.expected_cold_start)
    how_long = f"about {length} rounds" if ends else "a cold start without end"
    if len(set(plan.agenda.needed)) > 1:
        return f"It takes samples of each arm as they are needed (N = {plan.agenda.words}) and {how_long}."
    return f"It takes {plan.agenda.words} samples of each of {len(plan.arms)} arms and {how_long}."


def averages(audit: Audit) -> bool:
    """Whether margins are averages over users, as under ``definition``."""
    return "user" not in audit.margins.dims


def panel(audit: Audit, users: Covariates | None = None) -> str:
    """The users that the audit looks at; all of them where it is a small table."""
    if averages(audit):
        return f"an average over {len(audit.users):,} users{' at random' if audit.n_random else ''}"
    n, n_random = audit.margins.sizes["user"], audit.n_random
    if n_kinds(audit, users):
        return f"all {n_kinds(audit, users):,} different users of the table"
    rest = f" ({n_random:,} at random, the rest the worst of many)" if 0 < n_random < n else ""
    return f"{n:,} users{rest}"


def n_kinds(audit: Audit, users: Covariates | None) -> int:
    """How many users differ in a table all of which the audit looks at; 0 where that is not so.

    Of such a table the worst users are some whom the audit has already.
    """
    kinds = len(np.unique(users.rows, axis=0)) if isinstance(users, Empirical) else 0
    return kinds if kinds and len(np.unique(np.asarray(audit.users), axis=0)) == kinds else 0


def _loses(audit: Audit, at: str, users: Covariates | None) -> str:
    if averages(audit):
        return f"users who know their recommendation, but not their features, lose at most {at} by following"
    n = n_kinds(audit, users) or audit.margins.sizes["user"]
    return f"none of the {n:,} users of the panel would lose more than {at} by following"


def _loss(worst: DecidingCell | None) -> str:
    if worst is None:
        return "No stage could be judged."
    whom = "a user" if worst.user is not None else "users, on average,"
    return (
        f"Worst at the stage '{worst.stage}': {worst.arm} in the place of {worst.rival} leaves {whom} at "
        f"{brief(worst.estimate)} (bounds {brief(worst.lower)} to {brief(worst.upper)})."
    )


def followers(audit: Audit) -> tuple[str, str]:
    """The share that would follow, and of whom."""
    at = audit.compliance.sel(epsilon=audit.epsilon, method="nearest")
    share = percent(float(at["share"]), float(at["share_mcse"]))
    return share, f"of users{' at random' if audit.n_random else ''}{knowing(audit)}"


def knowing(audit: Audit) -> str:
    """What is said of compliance under ``definition``: it is of users who do know their features."""
    return ", if each knew her own features," if averages(audit) else ""
