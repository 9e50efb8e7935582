"""Plans as files: written compactly and without loss, and refused on reading unless they could have been made.

The schema is derived from the fields of ``Plan``: a field that is added to the dataclass is written and read without
further ado. ``RANGES`` has what a number must be beyond its type, ``_faults`` what fields must be together.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, Records, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.files.encoding import Packed, packed, unpacked
from rcb_bayes.files.records import LARGEST, Count, Error, NonNegative, Positive, Share
from rcb_bayes.mechanism.compact import LEAST_EXPONENT, from_steps, steps_of
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.planning.plan import GuardRule, KnownUsers, Plan, PlannedStage, SampleChoice, SampledRule, TableRule
from rcb_bayes.schema import FloatArray

FORM = Format(
    name="plan",
    version=2,
    remedy="Restore the file, or calibrate again: `plan.save(path)` and `rcb calibrate --out DIR` write one.",
)
MOST_VALUES = 2**27
"""Posterior means in all of a plan: a gigabyte in memory."""

_Samples = Annotated[int, Meta(ge=1, le=2**53)]
_Worlds = Annotated[int, Meta(ge=2, le=10**8)]
_Perhaps: Any = NonNegative | None  # pyright: ignore[reportOperatorIssue]
_Length = NonNegative | Annotated[str, Meta(pattern="^inf$")]

RANGES: dict[type, dict[str, Any]] = {
    Plan: {
        "epsilon": NonNegative,
        "n_per_arm": _Samples,
        "exploration_rate": Share,
        "exploration_rate_mcse": Error,
        "inverse_rate": _Length,
        "inverse_rate_mcse": Error,
        "tau_mcse": Error,
        "rho_mcse": Error,
        "expected_cold_start": _Length,
        "expected_cold_start_mcse": Error,
        "nearest_epsilon": _Perhaps,
        "spread_multiple": Positive,
        "share_explored": Share,
        "share_free": Share,
        "expected_regret_mcse": Error,
        "expected_pulls_mcse": tuple[Error, ...],
        "coverage": tuple[Error, ...],
        "coverage_mcse": tuple[Error, ...],
        "n_worlds": Count,
        "audit_worlds": Count,
        "n_posteriors": Count,
        "n_not_vouched": Count,
        "ideal_rate": Share | Literal["nan"],
        "verdict": Literal["", "pass", "fail", "inconclusive", "infeasible"],
        "guarantee_probability": Share | Literal["nan"],
        "seed": int,
    },
    PlannedStage: {
        "share": Share,
        "rate": Share,
        "rate_mcse": Error,
        "share_explored": Share,
        "share_free": Share,
    },
    SampledRule: {"slack": NonNegative},
    GuardRule: {"slack": NonNegative, "kept": Share, "closed": Share},
    SampleChoice: {"n_per_arm": _Samples, "regret_mcse": Error, "cold_start": _Length},
}


class _Means(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Posterior means of the arms that do not keep their prior mean in every world, in steps or as they are."""

    arms: tuple[Annotated[int, Meta(ge=0, le=10**6)], ...]
    n_worlds: _Worlds
    exponents: Packed | None
    values: Packed


class _Outlook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    means: _Means
    platform: _Means | None


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="TableRule"):
    """``users`` are not repeated where they are the plan's known ones."""

    users: Packed | None
    rates: Packed


RECORDS = Records(Plan, ranges=RANGES, custom={LinearOutlook: _Outlook, TableRule: _Table})


# --- writing ---------------------------------------------------------------------------------------------------------


def plan_text(plan: Plan) -> str:
    """The plan as JSON text."""
    return as_text(FORM, plan_wire(plan))


def write_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan to a file, at once or not at all."""
    write_atomically(path, plan_text(plan).encode("utf-8"))


def plan_wire(plan: Plan) -> dict[str, Any]:
    """The plan's content as JSON has it."""

    def outlook(found: LinearOutlook) -> dict[str, Any]:
        platform = None if found.platform is None else _packed_means(found.platform, _platform_mean(plan))
        return {"means": _packed_means(found.means, plan.prior_mean), "platform": platform}

    def table(rule: TableRule) -> dict[str, Any]:
        known = plan.known is not None and np.array_equal(plan.known.users, rule.users)
        return {"type": "TableRule", "users": None if known else packed(rule.users), "rates": packed(rule.rates)}

    content = RECORDS.to_wire(plan, {LinearOutlook: outlook, TableRule: table})
    for rule, one in zip(plan.guards, content["guards"], strict=True):
        one["gamma"] = _packed_gamma(rule.gamma)
    return content


def _platform_mean(plan: Plan) -> FloatArray:
    return plan.prior_mean if plan.platform_mean is None else plan.platform_mean


def _packed_means(means: FloatArray, before: FloatArray) -> dict[str, Any]:
    moved = [k for k in range(means.shape[1]) if (means[:, k] != before[k]).any()]
    own = means[:, moved]
    found = steps_of(own, before[moved])
    head = {"arms": moved, "n_worlds": len(means)}
    if found is None:
        return {**head, "exponents": None, "values": packed(own)}
    return {**head, "exponents": packed(found[1], "i2"), "values": packed(found[0], "i2")}


def _packed_gamma(gamma: FloatArray) -> dict[str, object]:
    with np.errstate(over="ignore", under="ignore"):
        is_short = np.array_equal(gamma.astype(np.float32).astype(np.float64), gamma)
    return packed(gamma, "f4" if is_short else "f8")


# --- reading ---------------------------------------------------------------------------------------------------------


def plan_of_text(text: str, *, where: str | Path = "this text") -> Plan:
    """The plan of a JSON text; RcbError where it is none."""
    content = content_of(FORM, text, where=where)
    try:
        return plan_of(RECORDS.checked(content))
    except (msgspec.ValidationError, RcbError) as error:
        raise refused(FORM, where, error) from None


def read_plan(path: str | Path) -> Plan:
    """The plan of a file; RcbError where it is none."""
    return plan_of_text(read_text(FORM, path), where=path)


def plan_of(struct: Any) -> Plan:
    """The plan of a content whose types and ranges are right.

    Raises
    ------
    RcbError
        Fields that contradict each other, in a few words.
    """
    shape = (len(struct.arms), len(struct.features))
    before = _finite(unpacked(struct.prior_mean), shape, "prior_mean")
    theirs = before
    if struct.platform_mean is not None:
        theirs = _finite(unpacked(struct.platform_mean), shape, "platform_mean")
    room = MOST_VALUES

    def outlook(found: _Outlook) -> LinearOutlook:
        nonlocal room
        room -= (1 + (found.platform is not None)) * found.means.n_worlds * math.prod(shape)
        if room < 0:
            raise RcbError(f"it claims more than {MOST_VALUES:,} posterior means")
        platform = None if found.platform is None else _means(found.platform, theirs)
        return LinearOutlook(_means(found.means, before), platform)

    def table(found: _Table) -> TableRule:
        if found.users is None and struct.known is None:
            raise RcbError("a rule is for known users, and there are none")
        return TableRule(unpacked(struct.known.users if found.users is None else found.users), unpacked(found.rates))

    plan: Plan = RECORDS.from_wire(struct, {_Outlook: outlook, _Table: table})
    for fault in _faults(plan):
        raise RcbError(fault)
    return plan


def _means(found: _Means, before: FloatArray) -> FloatArray:
    """Posterior means (W, K, d) of all arms."""
    k, d = before.shape
    arms = list(found.arms)
    if sorted(set(arms)) != arms or not all(arm < k for arm in arms):
        raise RcbError("posterior means are of arms that do not exist")
    values = unpacked(found.values)
    if values.shape != (found.n_worlds, len(arms), d):
        raise RcbError(f"posterior means have shape {values.shape}, expected {(found.n_worlds, len(arms), d)}")
    if found.exponents is not None:
        exponents = unpacked(found.exponents)
        steps_right = found.exponents.kind == found.values.kind == "i2" and exponents.shape == values.shape[1:]
        if not steps_right or (np.abs(exponents) > -LEAST_EXPONENT).any():
            raise RcbError("the steps of posterior means have no scale")
        values = from_steps(values, exponents, before[arms])
    out = np.broadcast_to(before, (found.n_worlds, k, d)).copy()
    out[:, arms] = values
    return _finite(out, out.shape, "posterior means")


def _finite(values: np.ndarray, shape: tuple[int, ...], name: str) -> FloatArray:
    if values.shape != shape or values.dtype.kind != "f" or not (np.abs(values) <= LARGEST).all():
        raise RcbError(f"{name} must be numbers within {LARGEST:g}, of shape {shape}, got shape {values.shape}")
    return values


# --- what must hold --------------------------------------------------------------------------------------------------


def _faults(plan: Plan) -> Iterator[str]:
    """What contradicts itself in a plan."""
    k = len(plan.arms)
    if k < 2 or len(set(plan.arms)) != k:
        yield "it needs two arms at least, with labels that differ"
    if not plan.features or len(set(plan.features)) != len(plan.features):
        yield "it needs features, with labels that differ"
    if plan.seed < 0 or (plan.first_epoch is not None and plan.first_epoch < 0):
        yield "seed and first_epoch are not negative"
    if not (math.isnan(plan.rho) or 0.0 <= plan.rho <= 1.0 + 1e-9):
        yield f"rho is a probability, got {plan.rho:g}"
    if math.isinf(plan.tau):
        yield "tau is a number, or not known"
    expected = 1.0 / plan.exploration_rate if plan.exploration_rate > 0 else math.inf
    if not (plan.inverse_rate == expected or abs(plan.inverse_rate - expected) <= 1e-6 * expected < math.inf):
        yield f"inverse_rate is 1 / exploration_rate, {expected:g}, got {plan.inverse_rate:g}"
    for name in ("expected_pulls", "expected_pulls_mcse", "coverage", "coverage_mcse"):
        if len(getattr(plan, name)) not in (0, k):
            yield f"{name} has {len(getattr(plan, name))} values for {k} arms"
    if any(value < 0 for value in plan.expected_pulls):
        yield "expected_pulls are not negative"
    if plan.alike and sorted(arm for arms in plan.alike for arm in arms) != sorted(plan.arms):
        yield "classes of arms that are alike have each arm once"
    yield from _user_faults(plan.known, plan)
    yield from _stage_faults(plan)
    for rule in plan.guards:
        yield from _guard_faults(rule, plan)


def _user_faults(known: KnownUsers | None, plan: Plan) -> Iterator[str]:
    if known is None:
        return
    n, k, d = len(known.users), len(plan.arms), len(plan.features)
    _finite(known.users, (n, d), "known users")
    _finite(known.prior_rewards, (n, k), "known users' expectations")
    _finite(known.promoted_by, (n, k), "the platform's expectations")
    if not n:
        yield "it knows no users"


def _stage_faults(plan: Plan) -> Iterator[str]:
    seen = [stage.saturated for stage in plan.stages]
    if len(set(seen)) != len(seen):
        yield "a stage stands there twice"
    if plan.stages and not sum(stage.share for stage in plan.stages) > 0:
        yield "no cold start passes any of its stages"
    for stage in plan.stages:
        if stage.saturated != tuple(arm for arm in plan.arms if arm in stage.saturated):
            names = ", ".join(stage.saturated)[:80]
            yield f"a stage has saturated arms that do not exist, or in another order: {names}"
        if not 0 < len(stage.saturated) < len(plan.arms):
            yield "a stage has some of the arms saturated, not none and not all"
        if isinstance(stage.rule, TableRule):
            yield from _table_faults(stage.rule, plan)
        if stage.rule is not None and not plan.personalised:
            yield "a plan of one rate for all has rules for each user"


def _table_faults(rule: TableRule, plan: Plan) -> Iterator[str]:
    n = len(rule.users)
    _finite(rule.users, (n, len(plan.features)), "users of a rule")
    _finite(rule.rates, (n,), "rates of users")
    if not ((rule.rates >= 0.0) & (rule.rates <= 1.0)).all():
        yield "rates of users are in [0, 1]"
    if plan.known is not None and not np.array_equal(rule.users, plan.known.users):
        yield "users of a rule are not those it knows"


def _guard_faults(rule: GuardRule, plan: Plan) -> Iterator[str]:
    gamma = rule.gamma
    if gamma.ndim != 1 or gamma.dtype.kind != "f" or not (gamma > 0.0).all():  # infinite where nothing is unknown
        yield "the spreads of a guard are positive numbers, one a world"
    if rule.factors is not None:
        _finite(rule.factors, (len(plan.arms),), "factors of a guard")
        if not ((rule.factors >= 0.0) & (rule.factors <= 1.0)).all():
            yield "factors of a guard are in [0, 1]"
    elif rule.outlook is None:
        yield "a guard has neither factors nor worlds to compute them from"
    if rule.outlook is not None and len(gamma) != rule.outlook.n_worlds:
        yield f"a guard has {len(gamma)} spreads for {rule.outlook.n_worlds} worlds"
