"""The answer in words."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rcb_bayes.auditing import Audit
from rcb_bayes.mechanism.deciding import DecidingCell, deciding_cell
from rcb_bayes.planning.plan import Plan
from rcb_bayes.telling.wording import brief, figure, percent

if TYPE_CHECKING:
    import xarray as xr


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
    sweep: tuple[Plan, ...] = (),
) -> Answer:
    """May I explore here? Is there time for it, and how wrong may the belief be, where that was looked at?"""
    found = _answer(plan, audit, not_audited=not_audited)
    told = () if radius is None else tuple(f"It {words}." for words in radius["words"].values if words)
    return replace(found, sentences=(*found.sentences, *_too_long(plan, horizon), *_elsewhere(plan, sweep), *told))


def _elsewhere(plan: Plan, sweep: tuple[Plan, ...]) -> tuple[str, ...]:
    """Of a plan that is not feasible: the least epsilon that was looked at and has one."""
    others = [other for other in sweep if other.feasible and other.epsilon > plan.epsilon]
    if plan.feasible or not others:
        return ()
    nearest = min(others, key=lambda other: other.epsilon)
    length = figure(nearest.expected_cold_start, nearest.expected_cold_start_mcse)
    return (f"At epsilon = {nearest.epsilon:g} there is a plan, with a cold start of {length} rounds.",)


def _too_long(plan: Plan, horizon: int | None) -> tuple[str, ...]:
    """That rounds run out before every arm has its samples."""
    if horizon is None or not plan.feasible or plan.expected_cold_start <= horizon:
        return ()
    return (
        f"There are only {horizon:,} rounds, so most runs end before every arm has its samples. Ask for fewer samples, "
        "fewer arms or a larger epsilon.",
    )


def _answer(plan: Plan, audit: Audit | None, *, not_audited: str) -> Answer:
    at = f"epsilon = {plan.epsilon:g}"
    if not plan.feasible:
        return Answer(verdict="fail", headline=f"No, not at {at}.", sentences=(plan.reason,))
    if audit is None:
        return Answer(
            verdict="inconclusive",
            headline="There is a plan; whether users follow it was not audited.",
            sentences=(not_audited, _takes(plan)),
        )
    worst = deciding_cell(audit.margins)
    if audit.verdict == "pass":
        whom = f"with {percent(plan.share_explored)} of users" if plan.personalised else "with all users, at one rate"
        return Answer(
            verdict="pass",
            headline=f"Yes, {whom}.",
            sentences=(
                f"In {audit.n_worlds:,} fresh worlds of their own belief {_loses(audit, at)}, at any stage.",
                _takes(plan),
            ),
        )
    if audit.verdict == "fail":
        return Answer(
            verdict="fail",
            headline="Not as planned: some users would not follow.",
            sentences=(
                _loss(worst),
                f"{_followers(audit)} would follow at every stage, by the point estimates. "
                "A guard, a larger epsilon or a plan for more worlds of audit can mend it.",
            ),
        )
    return Answer(
        verdict="inconclusive",
        headline="Perhaps: the simulations cannot tell.",
        sentences=(
            _loss(worst),
            f"{_followers(audit)} would follow at every stage, by the point estimates. "
            "More worlds would tell: the bounds are too wide, or too few worlds have the arm as the best one.",
        ),
    )


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


def panel(audit: Audit) -> str:
    """The users that the audit looks at."""
    if averages(audit):
        return f"an average over {len(audit.users):,} users{' at random' if audit.n_random else ''}"
    n, n_random = audit.margins.sizes["user"], audit.n_random
    rest = f" ({n_random:,} at random, the rest the worst of many)" if 0 < n_random < n else ""
    return f"{n:,} users{rest}"


def _loses(audit: Audit, at: str) -> str:
    if averages(audit):
        return f"users who know their recommendation, but not their features, lose at most {at} by following"
    return f"none of the {audit.margins.sizes['user']:,} users of the panel would lose more than {at} by following"


def _loss(worst: DecidingCell | None) -> str:
    if worst is None:
        return "No stage could be judged."
    whom = "a user" if worst.user is not None else "users, on average,"
    return (
        f"Worst at the stage '{worst.stage}': {worst.arm} in the place of {worst.rival} leaves {whom} at "
        f"{brief(worst.estimate)} (bounds {brief(worst.lower)} to {brief(worst.upper)})."
    )


def _followers(audit: Audit) -> str:
    share = percent(float(audit.compliance["share"].sel(epsilon=audit.epsilon, method="nearest")))
    return f"{share} of users{' at random' if audit.n_random else ''}{knowing(audit)}"


def knowing(audit: Audit) -> str:
    """What is said of compliance under ``definition``: it is of users who do know their features."""
    return ", if each knew her own features," if averages(audit) else ""
