"""A plan with the rates and guards of a rule in the place of its own."""

from dataclasses import replace

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.planning.exploitation import GuardRule
from rcb_bayes.planning.leaves import LeafTable
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_files import plan_digest
from rcb_bayes.planning.rule import Rule
from rcb_bayes.telling.wording import percent


def ruled(plan: Plan, rule: Rule) -> Plan:
    """The plan with a rule's rates and guards in the place of its own; see ``Plan.with_rule``."""
    if not isinstance(rule, Rule):
        raise RcbError(f"rule must be what plan.distil() gives, got {type(rule).__name__}.")
    if rule.of_plan != plan_digest(plan):
        raise RcbError("The rule was distilled from another plan. Pass that plan, or distil this one: plan.distil().")
    cold_start, exploitation, k = plan.cold_start, plan.exploitation, len(plan.arms)
    if plan.personalised:
        own = np.arange(k if rule.levels else 1)
        stages = [
            replace(stage, rule=rule.rates.columns(place * len(own) + own)) for place, stage in enumerate(plan.stages)
        ]
        cold_start = replace(cold_start, stages=tuple(stages), programme=None)
    if rule.guards is not None:
        guards = [
            _ruled_guard(guard, rule.guards.columns(epoch * k + np.arange(k)))
            for epoch, guard in enumerate(plan.guards)
        ]
        exploitation = replace(exploitation, guards=tuple(guards))
    found, course = rule.shares_kept, plan.course
    if found.length:
        course = replace(course, expected_cold_start=found.length, expected_cold_start_mcse=found.length_mcse)
    note = f"rates and guards by a rule of {rule.n_leaves} leaves, which keeps {percent(rule.kept)} of exploration"
    return replace(
        plan,
        cold_start=cold_start,
        exploitation=exploitation,
        course=course,
        feasibility=replace(plan.feasibility, verdict=""),
        provenance=replace(plan.provenance, notes=(*plan.notes, note)),
    )


def _ruled_guard(guard: GuardRule, table: LeafTable) -> GuardRule:
    if guard.outlook is None:  # the same for all users
        return guard
    return replace(guard, outlook=None, gamma=guard.gamma[:0], factors=None, by_leaf=table)
