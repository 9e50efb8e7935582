"""A plan in words: what it comes to, and why a user is explored as often as she is."""

import math

from rcb_bayes.mechanism.knowledge import as_knowledge
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.stages import PlannedStage, SampledRule, sampled_rates
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import figure, how_often, percent
from rcb_bayes.users.labelled import Users, as_users


def promise(plan: Plan) -> str:
    """What a plan promises: in which sense, how much at most, by whose rates."""
    who = "a rate for each user" if plan.personalised else "one rate for all users"
    return f"{plan.notion} notion, epsilon {plan.epsilon:g}, {who}"


def users_know(plan: Plan) -> str:
    """What users know of the clock, as the plan has it."""
    return f"users know {as_knowledge(plan.knows).words}"


def summary(plan: Plan, *, audited: str = "") -> str:
    """The plan in a few lines, with the verdict of an audit that it does not know of itself."""
    constants, course, provenance = plan.constants, plan.course, plan.provenance
    length = figure(course.expected_cold_start, course.expected_cold_start_mcse)
    ends = math.isfinite(course.expected_cold_start)
    sand = f"; {provenance.n_not_vouched:,} of {provenance.n_posteriors:,} posteriors behind it are not vouched for"
    lines = [
        f"{constants.kind} plan, {promise(plan)}, {users_know(plan)}" + (sand if provenance.n_not_vouched else ""),
        f"samples per arm N      {plan.agenda.words}" + (", by expected regret" if plan.choices else ""),
        f"exploration rate       {figure(constants.exploration_rate, constants.exploration_rate_mcse)}{_inverse(plan)}",
        f"expected cold start    {length} rounds" if ends else "expected cold start    no end",
    ]
    if constants.kind == "sampled":
        lines.append(
            f"users explored         {percent(course.share_explored)}; "
            f"{percent(course.share_free)} lose at most epsilon by it and need no subsidy"
        )
    lines += [f"guard                  {guard_words(plan)}"] if plan.guards else []
    lines += [] if plan.feasible else [f"not feasible           {plan.reason}"]
    if constants.kind == "sampled" and plan.feasible:
        lines.append(f"audit                  {audited or plan.verdict or 'rcb.audit(market, plan) makes one'}")
    if course.cold_start_scatter:
        lines.append(f"plans of other seeds   cold starts of ± {course.cold_start_scatter:.2g} rounds")
    return "\n".join([*lines, *provenance.notes])


def _inverse(plan: Plan) -> str:
    """L beside one rate for all; the mean of many rates tells no number of rounds."""
    if plan.personalised:
        return ", the mean over users and stages"
    rate, constants = plan.exploration_rate, plan.constants
    if rate >= 1 or rate <= 0:
        return f" ({how_often(rate)})"
    return f" (L = {figure(constants.inverse_rate, constants.inverse_rate_mcse)})"


def guard_words(plan: Plan) -> str:
    """What the guards of a plan leave, where it has any."""
    first, last = plan.guards[0], plan.guards[-1]
    return (
        f"keeps {percent(first.kept)} of off-best recommendations at first, {percent(last.kept)} later; "
        f"{percent(last.closed)} of users have an arm closed"
    )


def stage_table(plan: Plan, *, most: int) -> tuple[list[str], list[tuple[PlannedStage | None, list[str]]]]:
    """A head, and the cells of the stages that most cold starts pass; the others are summed up, as no stage."""
    rate, explored = ("mean rate", "explored") if plan.personalised else ("largest rate", "explorable")
    stages = sorted(plan.stages, key=lambda stage: -stage.share)
    shown = stages if len(stages) <= most else stages[: most - 1]
    rest = stages[len(shown) :]
    rows: list[tuple[PlannedStage | None, list[str]]] = [
        (
            stage,
            [
                plan.stage_name(stage),
                percent(stage.share),
                figure(stage.rate, stage.rate_mcse),
                percent(stage.share_explored),
                percent(stage.share_free),
            ],
        )
        for stage in sorted(shown, key=lambda stage: (len(stage.saturated), -stage.share))
    ]
    if rest:
        names = {"rate": "{:.3f}", "share_explored": "{:.0%}", "share_free": "{:.0%}"}
        ranges = [_range([getattr(stage, name) for stage in rest], form) for name, form in names.items()]
        rows.append((None, [f"and {len(rest)} more stages", f"{percent(rest[0].share)} at most", *ranges]))
    return ["saturated arms", "cold starts", rate, explored, "free"], rows


def _range(values: list[float], form: str) -> str:
    low, high = (form.format(value).replace("%", " %") for value in (min(values), max(values)))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def arm_table(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """A head, and a row for each arm: pulls, coverage, and where not all arms are alike whether it is explored."""
    pulls = [figure(*pair) for pair in zip(plan.expected_pulls, plan.expected_pulls_mcse, strict=True)]
    coverage = [
        figure(value, mcse) if math.isfinite(value) else "never saturated"
        for value, mcse in zip(plan.coverage, plan.coverage_mcse, strict=True)
    ]
    columns = {"expected pulls": pulls, "coverage (least eigenvalue of X'X/N)": coverage}
    explored = explored_words(plan)
    columns |= {} if explored is None else {"explored": explored}
    return ["arm", *columns], [list(row) for row in zip(plan.arms, *columns.values(), strict=True)]


def explored_words(plan: Plan) -> list[str] | None:
    """Of each arm whether it is explored, and why not or when; None where all of them are, from the first round on.

    In few letters, for a column: "best below 0.01" is a chance, for every user; samples "of before" are a history's.
    """
    agenda, gone = plan.agenda, plan.unexplored
    if agenda.is_plain and gone is None and not any(agenda.past) and agenda.regions is None:
        return None
    eliminated = () if gone is None else gone.eliminated
    siblings = () if gone is None else gone.siblings
    share = 0.0 if gone is None or gone.share is None else gone.share
    told = []
    for k, arm in enumerate(plan.arms):
        past = agenda.past[k] if agenda.past else 0
        if arm in eliminated:
            told.append(f"no: best below {share:g}")
        elif arm in siblings:
            told.append("no: cluster's other is")
        elif agenda.needed[k] == 0:
            told.append("no: 0 samples asked")
        elif agenda.missing[k] == 0:
            told.append(f"no need: {past:,} of before")
        else:
            told.append(", ".join(["yes", *_when(plan, k, past)]))
    return told


def _when(plan: Plan, arm: int, past: int) -> list[str]:
    """With whom and when an arm is explored, and how much of its samples is there."""
    agenda = plan.agenda
    words = [] if agenda.regions is None else ["with some users"]
    if agenda.order:
        later = agenda.order.index(arm) - agenda.first + 1
        words.append("at first" if later <= 0 else f"once {later:,} more done")
    return [*words, f"{past:,} of before"] if past else words


def explanation(plan: Plan, x: Users) -> str:
    """Why user x is explored as often as she is, stage by stage."""
    user = plan.features_of(as_users(x, features=plan.inputs, name="x", ndim=1))
    plan = plan.by_features
    plan.rate(user)  # refused here if it is no user
    if plan.types is not None:  # every type has reasons of its own
        each = zip(plan.types.names, plan.types.plans, strict=True)
        told = [f"as one of '{name}': {explanation(own.by_features, user)}" for name, own in each]
        return "\n".join([*told, f"explored at the rate {plan.rate(user):.3g} on average over stages"])
    expected = plan.before.of(user[None])[0][0]
    each = [f"{value:.3g} of {arm}" for arm, value in zip(plan.arms, expected, strict=True)]
    lines = ["before any data she expects " + ", ".join(each)]
    if not plan.personalised:
        return "\n".join([*lines, f"every user is explored at the rate {plan.exploration_rate:.3g}"])
    for stage in plan.stages:
        when = f"{plan.stage_name(stage)} saturated ({percent(stage.share)} of cold starts)"
        lines.append(f"{when}: {_why(plan, stage, user)}")
    return "\n".join(lines)


def _why(plan: Plan, stage: PlannedStage, user: FloatArray) -> str:
    if not isinstance(stage.rule, SampledRule):
        return f"explored at the rate {plan.rate(user, saturated=stage.saturated or plan.arms[: stage.level]):.3g}"
    rates = sampled_rates(stage, user[None], goal=plan.goal, before=plan.before)
    if rates.is_free[0]:
        return f"she loses at most {plan.epsilon:g} by the promoted arm, and is explored at the rate 1"
    arm, rival = plan.arms[rates.arm[0]], plan.arms[rates.rival[0]]
    return (
        f"{arm} in the place of {rival} costs her {rates.loss[0]:.3g} beyond epsilon when she is explored, and brings "
        f"her {rates.gain[0]:.3g} (sd {rates.spread[0]:.2g}) when she is not; she is explored at the rate "
        f"{rates.rate[0]:.3g} (she would follow at {rates.ideal[0]:.3g}; the rest is room for the audit)"
    )
