"""Plans as files: written compactly and without loss, and refused on reading unless they could have been made.

The schema is derived from the fields of ``Plan`` and its parts: a field that is added to one of them is written and
read without further ado. ``RANGES`` has what a number must be beyond its type, ``_faults`` what fields must be
together.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, Records, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.files.encoding import Packed, packed, unpacked
from rcb_bayes.files.envelope import digest_of
from rcb_bayes.files.records import LARGEST, Count, Error, NonNegative, Positive, Share
from rcb_bayes.mechanism.compact import LEAST_EXPONENT, from_steps, steps_of
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.planning.expectations import Expectations
from rcb_bayes.planning.exploitation import GuardRule, PlannedExploitation
from rcb_bayes.planning.goal import Goal
from rcb_bayes.planning.leaves import LeafTable, table_faults
from rcb_bayes.planning.parts import Constants, Course, Feasibility, Provenance, SampleChoice
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.stages import LevelRule, PlannedStage, SampledRule, TableRule
from rcb_bayes.planning.types import TypedPlans
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.users.stored import StoredUsers, Whom, restored, stored

FORM = Format(
    name="plan",
    version=5,
    remedy="Restore the file, or calibrate again: `plan.save(path)` and `rcb calibrate --out DIR` write one.",
)
_BITS = 15
MOST_VALUES = 2**27
"""Posterior means in all of a plan: a gigabyte in memory."""

_Samples = Annotated[int, Meta(ge=1, le=2**53)]
_Worlds = Annotated[int, Meta(ge=2, le=10**8)]
_Perhaps: Any = NonNegative | None  # pyright: ignore[reportOperatorIssue]
_Length = NonNegative | Annotated[str, Meta(pattern="^inf$")]

RANGES: dict[type, dict[str, Any]] = {
    Goal: {"epsilon": NonNegative},
    Constants: {
        "n_per_arm": _Samples | tuple[Count, ...],
        "exploration_rate": Share,
        "exploration_rate_mcse": Error,
        "inverse_rate": _Length,
        "inverse_rate_mcse": Error,
        "tau_mcse": Error,
        "rho_mcse": Error,
        "ideal_rate": Share | Literal["nan"],
        "guarantee_probability": Share | Literal["nan"],
    },
    Course: {
        "expected_cold_start": _Length,
        "expected_cold_start_mcse": Error,
        "expected_pulls_mcse": tuple[Error, ...],
        "expected_regret_mcse": Error,
        "coverage": tuple[Error, ...],
        "coverage_mcse": tuple[Error, ...],
        "share_explored": Share,
        "share_free": Share,
    },
    PlannedExploitation: {"spread_multiple": Positive},
    Feasibility: {
        "nearest_epsilon": _Perhaps,
        "verdict": Literal["", "pass", "fail", "inconclusive", "infeasible"],
    },
    Provenance: {
        "n_worlds": Count,
        "audit_worlds": Count,
        "n_posteriors": Count,
        "n_not_vouched": Count,
        "seed": int,
        "horizon": _Samples | None,  # pyright: ignore[reportOperatorIssue]
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


class _Law(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What posterior means follow given the designs: X'X of the arms with samples, its lower triangle, and the belief.

    ``blocks`` are the arms that share randomness, with their prior covariances.
    """

    sigma: Positive
    arms: tuple[Annotated[int, Meta(ge=0, le=10**6)], ...]
    grams: Packed
    blocks: tuple[tuple[Annotated[int, Meta(ge=0, le=10**6)], ...], ...]
    covariances: tuple[Packed, ...]


class _Outlook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    means: _Means
    platform: _Means | None
    weights: Packed | None
    law: _Law | None


class _Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="LevelRule"):
    """Saturated sets have a bit for each arm, fifteen in a number."""

    outlook: _Outlook
    saturated: Packed
    slack: NonNegative


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="TableRule"):
    """``users`` are not repeated where they are the plan's known ones."""

    users: Packed | None
    rates: Packed


class _Types(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plans of several types of users, each as a file of its own would have it."""

    names: tuple[str, ...]
    shares: tuple[Share, ...]
    least_share: Share
    plans: tuple[dict[str, Any], ...]


RECORDS = Records(
    Plan,
    ranges=RANGES,
    custom={LinearOutlook: _Outlook, TableRule: _Table, LevelRule: _Level, Whom: StoredUsers, TypedPlans: _Types},
)


# --- writing ---------------------------------------------------------------------------------------------------------


def plan_text(plan: Plan) -> str:
    """The plan as JSON text."""
    return as_text(FORM, plan_wire(plan))


def write_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan to a file, at once or not at all."""
    write_atomically(path, plan_text(plan).encode("utf-8"))


def plan_wire(plan: Plan) -> dict[str, Any]:
    """The plan's content as JSON has it."""

    def outlook(worlds: LinearOutlook) -> dict[str, Any]:
        platform = None if worlds.platform is None else _packed_means(worlds.platform, _platform_mean(plan.before))
        weights = None if worlds.weights is None else packed(worlds.weights)
        law = None if worlds.law is None else _packed_law(worlds.law)
        means = _packed_means(worlds.means, plan.prior_mean)
        return {"means": means, "platform": platform, "weights": weights, "law": law}

    def table(rule: TableRule) -> dict[str, Any]:
        known = plan.known is not None and np.array_equal(plan.known.users, rule.users)
        return {"type": "TableRule", "users": None if known else packed(rule.users), "rates": packed(rule.rates)}

    def level(rule: LevelRule) -> dict[str, Any]:
        sets = packed(_as_words(rule.saturated), "i2")
        return {"type": "LevelRule", "outlook": outlook(rule.outlook), "saturated": sets, "slack": rule.slack}

    def types(typed: TypedPlans) -> dict[str, Any]:
        told = {"names": list(typed.names), "shares": list(typed.shares), "least_share": typed.least_share}
        return {**told, "plans": [plan_wire(own) for own in typed.plans]}

    hooks = {LinearOutlook: outlook, TableRule: table, LevelRule: level, Whom: stored, TypedPlans: types}
    content = RECORDS.to_wire(plan, hooks)
    for rule, one in zip(plan.guards, content["exploitation"]["guards"], strict=True):
        one["gamma"] = _packed_gamma(rule.gamma)
    return content


def plan_digest(plan: Plan) -> str:
    """Tells plans apart by what a rule is made from: arms, features, rates and guards."""
    wire = plan_wire(plan)
    before = {name: wire["before"][name] for name in ("arms", "features", "prior_mean", "platform_mean", "known")}
    parts = {name: wire[name] for name in ("goal", "cold_start", "exploitation")}
    return digest_of({"before": before, "n_per_arm": plan.n_per_arm, "rate": plan.exploration_rate, **parts})


def _platform_mean(before: Expectations) -> FloatArray:
    return before.prior_mean if before.platform_mean is None else before.platform_mean


def _packed_means(means: FloatArray, before: FloatArray) -> dict[str, Any]:
    moved = [k for k in range(means.shape[1]) if (means[:, k] != before[k]).any()]
    values = means[:, moved]
    steps = steps_of(values, before[moved])
    head = {"arms": moved, "n_worlds": len(means)}
    if steps is None:
        return {**head, "exponents": None, "values": packed(values)}
    return {**head, "exponents": packed(steps[1], "i2"), "values": packed(steps[0], "i2")}


def _packed_law(law: MeanLaw) -> dict[str, Any]:
    sampled = np.flatnonzero(law.grams.any(axis=(0, 2, 3)))
    lower = np.tril_indices(law.belief.n_features)
    return {
        "sigma": law.sigma,
        "arms": sampled.tolist(),
        "grams": packed(law.grams[:, sampled][:, :, *lower], "f4"),
        "blocks": [list(block.arms) for block in law.belief.blocks],
        "covariances": [packed(block.covariances[0]) for block in law.belief.blocks],
    }


def _law(stored: _Law, mean: FloatArray, n_worlds: int) -> MeanLaw:
    """The law of posterior means again, from the belief's means (K, d).

    Raises
    ------
    RcbError
        Blocks that are no partition of the arms, designs or covariances that are none.
    """
    k, d = mean.shape
    arms = list(stored.arms)
    if sorted(set(arms)) != arms or not all(arm < k for arm in arms):
        raise RcbError("designs are of arms that do not exist")
    if sorted(arm for block in stored.blocks for arm in block) != list(range(k)):
        raise RcbError("blocks of a belief have each arm once")
    if len(stored.covariances) != len(stored.blocks):
        raise RcbError("every block of a belief has a covariance")
    lower = np.tril_indices(d)
    half = _finite(unpacked(stored.grams), (n_worlds, len(arms), len(lower[0])), "designs")
    grams = np.zeros((n_worlds, k, d, d))
    for place, arm in enumerate(arms):
        grams[:, arm, *lower] = half[:, place]
        grams[:, arm, *lower[::-1]] = half[:, place]
    blocks = []
    for own, packed_covariance in zip(stored.blocks, stored.covariances, strict=True):
        p = len(own) * d
        covariance = _finite(unpacked(packed_covariance), (p, p), "covariances of a belief")
        blocks.append(
            Block(arms=own, weights=np.ones(1), means=mean[list(own)].reshape(1, p), covariances=covariance[None])
        )
        if not np.array_equal(covariance, covariance.T):
            raise RcbError("covariances of a belief are symmetric")
    for matrices in (grams, *(block.covariances for block in blocks)):
        least = np.linalg.eigvalsh(matrices)[..., 0]
        if (least < -1e-5 * np.abs(matrices).max(axis=(-2, -1))).any():
            raise RcbError("designs and covariances have no negative direction")
    belief = GaussianLaw(n_arms=k, n_features=d, blocks=tuple(blocks))
    return MeanLaw(belief=belief, grams=grams, sigma=float(stored.sigma))


def _as_words(sets: BoolArray) -> np.ndarray:
    """Sets of arms (W, K) as numbers below 2^15, (W, ...)."""
    n_worlds, n_arms = sets.shape
    padded = np.zeros((n_worlds, -(-n_arms // _BITS) * _BITS), dtype=np.int64)
    padded[:, :n_arms] = sets
    return padded.reshape(n_worlds, -1, _BITS) @ (1 << np.arange(_BITS))


def _as_sets(stored: Packed, *, n_worlds: int, n_arms: int) -> BoolArray:
    """The sets again.

    Raises
    ------
    RcbError
        Sets of other worlds or arms.
    """
    words = unpacked(stored)
    if stored.kind != "i2" or words.shape != (n_worlds, -(-n_arms // _BITS)) or (words < 0).any():
        raise RcbError(f"saturated sets are of {n_worlds:,} worlds and {n_arms} arms")
    sets = (words[:, :, None] >> np.arange(_BITS) & 1).reshape(n_worlds, -1).astype(bool)
    if sets[:, n_arms:].any():
        raise RcbError("saturated sets have arms that do not exist")
    return sets[:, :n_arms]


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
    expected = struct.before
    shape = (len(expected.arms), len(expected.features))
    users_mean = _finite(unpacked(expected.prior_mean), shape, "prior_mean")
    platform_mean = users_mean
    if expected.platform_mean is not None:
        platform_mean = _finite(unpacked(expected.platform_mean), shape, "platform_mean")
    room = MOST_VALUES

    def outlook(stored: _Outlook) -> LinearOutlook:
        nonlocal room
        room -= (1 + (stored.platform is not None)) * stored.means.n_worlds * math.prod(shape)
        if room < 0:
            raise RcbError(f"it claims more than {MOST_VALUES:,} posterior means")
        platform = None if stored.platform is None else _means(stored.platform, platform_mean)
        weights = None if stored.weights is None else _world_weights(unpacked(stored.weights), stored.means.n_worlds)
        law = None if stored.law is None else _law(stored.law, users_mean, stored.means.n_worlds)
        return LinearOutlook(_means(stored.means, users_mean), platform, weights, law)

    def table(stored: _Table) -> TableRule:
        if stored.users is None and expected.known is None:
            raise RcbError("a rule is for known users, and there are none")
        users = expected.known.users if stored.users is None else stored.users
        return TableRule(unpacked(users), unpacked(stored.rates))

    def level(stored: _Level) -> LevelRule:
        worlds = outlook(stored.outlook)
        sets = _as_sets(stored.saturated, n_worlds=worlds.n_worlds, n_arms=shape[0])
        return LevelRule(worlds, sets, stored.slack)

    def types(stored: _Types) -> TypedPlans:
        plans = tuple(plan_of(RECORDS.checked(own)) for own in stored.plans)
        return TypedPlans(names=stored.names, shares=stored.shares, least_share=stored.least_share, plans=plans)

    def whom(found: StoredUsers) -> Whom:
        if found.n_features != shape[1]:
            raise RcbError("its population has another number of features")
        return restored(found)

    hooks = {_Outlook: outlook, _Table: table, _Level: level, StoredUsers: whom, _Types: types}
    plan: Plan = RECORDS.from_wire(struct, hooks)
    for fault in _faults(plan):
        raise RcbError(fault)
    return plan


def _means(stored: _Means, before: FloatArray) -> FloatArray:
    """Posterior means (W, K, d) of all arms."""
    k, d = before.shape
    arms = list(stored.arms)
    if sorted(set(arms)) != arms or not all(arm < k for arm in arms):
        raise RcbError("posterior means are of arms that do not exist")
    values = unpacked(stored.values)
    if values.shape != (stored.n_worlds, len(arms), d):
        raise RcbError(f"posterior means have shape {values.shape}, expected {(stored.n_worlds, len(arms), d)}")
    if stored.exponents is not None:
        exponents = unpacked(stored.exponents)
        steps_right = stored.exponents.kind == stored.values.kind == "i2" and exponents.shape == values.shape[1:]
        if not steps_right or (np.abs(exponents) > -LEAST_EXPONENT).any():
            raise RcbError("the steps of posterior means have no scale")
        values = from_steps(values, exponents, before[arms])
    out = np.broadcast_to(before, (stored.n_worlds, k, d)).copy()
    out[:, arms] = values
    return _finite(out, out.shape, "posterior means")


def _world_weights(weights: np.ndarray, n_worlds: int) -> FloatArray:
    _finite(weights, (n_worlds,), "weights of worlds")
    if (weights < 0.0).any() or abs(weights.mean() - 1.0) > 1e-6:
        raise RcbError("weights of worlds are not negative, and one on average")
    return weights


def _finite(values: np.ndarray, shape: tuple[int, ...], name: str) -> FloatArray:
    if values.shape != shape or values.dtype.kind != "f" or not (np.abs(values) <= LARGEST).all():
        raise RcbError(f"{name} must be numbers within {LARGEST:g}, of shape {shape}, got shape {values.shape}")
    return values


# --- what must hold --------------------------------------------------------------------------------------------------


def _faults(plan: Plan) -> Iterator[str]:
    """What contradicts itself in a plan."""
    yield from _label_faults(plan.before)
    yield from _constant_faults(plan.constants)
    yield from _agenda_faults(plan)
    if plan.seed < 0:
        yield "the seed is not negative"
    n_arms = len(plan.arms)
    for name in ("expected_pulls", "expected_pulls_mcse", "coverage", "coverage_mcse"):
        if len(getattr(plan.course, name)) not in (0, n_arms):
            yield f"{name} has {len(getattr(plan.course, name))} values for {n_arms} arms"
    if any(value < 0 for value in plan.course.expected_pulls):
        yield "expected_pulls are not negative"
    if plan.alike and sorted(arm for arms in plan.alike for arm in arms) != sorted(plan.arms):
        yield "classes of arms that are alike have each arm once"
    yield from _user_faults(plan.known, plan)
    yield from _stage_faults(plan)
    for rule in plan.guards:
        yield from _guard_faults(rule, plan)
    if plan.types is not None:
        yield from _type_faults(plan, plan.types)


def _type_faults(plan: Plan, types: TypedPlans) -> Iterator[str]:
    if not types.plans or not len(types.names) == len(types.shares) == len(types.plans):
        yield "every type has a name, a share and a plan"
    if abs(sum(types.shares) - 1.0) > 1e-6 or not types.least_share > 0.0:
        yield "the shares of types sum to 1, and a share of users must follow"
    for own in types.plans:
        if own.types is not None or (own.arms, own.features, own.knows) != (plan.arms, plan.features, plan.knows):
            yield "the plan of a type has other arms, features or knowledge than the whole, or types of its own"


def _label_faults(before: Expectations) -> Iterator[str]:
    if len(before.arms) < 2 or len(set(before.arms)) != len(before.arms):
        yield "it needs two arms at least, with labels that differ"
    if not before.features or len(set(before.features)) != len(before.features):
        yield "it needs features, with labels that differ"


def _agenda_faults(plan: Plan) -> Iterator[str]:
    agenda, n = plan.before.admission, plan.constants.n_per_arm
    if agenda is None:
        if isinstance(n, tuple):
            yield "samples of each arm are not those of its agenda"
        return
    if agenda.n_arms != len(plan.arms) or agenda.n_per_arm != n:
        yield "samples of each arm are not those of its agenda"
    if agenda.regions is not None:
        draws, k = agenda.regions.draws, len(agenda.regions.arms)
        _finite(draws, (len(draws), k, len(plan.features)), "draws of the belief")
        if max(agenda.regions.arms) >= len(plan.arms):
            yield "its regions are of arms that do not exist"


def _constant_faults(constants: Constants) -> Iterator[str]:
    if constants.first_epoch is not None and constants.first_epoch < 0:
        yield "first_epoch is not negative"
    if not (math.isnan(constants.rho) or 0.0 <= constants.rho <= 1.0 + 1e-9):
        yield f"rho is a probability, got {constants.rho:g}"
    if math.isinf(constants.tau):
        yield "tau is a number, or not known"
    rate, inverse = constants.exploration_rate, constants.inverse_rate
    expected = 1.0 / rate if rate > 0 else math.inf
    if not (inverse == expected or abs(inverse - expected) <= 1e-6 * expected < math.inf):
        yield f"inverse_rate is 1 / exploration_rate, {expected:g}, got {inverse:g}"


def _user_faults(known: Panel | None, plan: Plan) -> Iterator[str]:
    if known is None:
        return
    n, k, d = len(known.users), len(plan.arms), len(plan.features)
    _finite(known.users, (n, d), "known users")
    _finite(known.prior_rewards, (n, k), "known users' expectations")
    _finite(known.promoted_by, (n, k), "the platform's expectations")
    _finite(known.weights, (n,), "weights of known users")
    if not n:
        yield "it knows no users"
    if (known.weights < 0).any() or abs(known.weights.sum() - 1.0) > 1e-6:
        yield "weights of known users are not negative, and sum to 1"


def _stage_faults(plan: Plan) -> Iterator[str]:
    seen = [(stage.saturated, stage.level) for stage in plan.stages]
    if len(set(seen)) != len(seen):
        yield "a stage stands there twice"
    if plan.stages and not sum(stage.share for stage in plan.stages) > 0:
        yield "no cold start passes any of its stages"
    for stage in plan.stages:
        if stage.saturated != tuple(arm for arm in plan.arms if arm in stage.saturated):
            names = ", ".join(stage.saturated)[:80]
            yield f"a stage has saturated arms that do not exist, or in another order: {names}"
        counts_only = plan.knows != STAGE.name
        if not 0 < (stage.level if counts_only else len(stage.saturated)) < len(plan.arms):
            yield "a stage has some of the arms saturated, not none and not all"
        wrong = SampledRule if counts_only else LevelRule
        if len(stage.saturated) != (0 if counts_only else stage.level) or isinstance(stage.rule, wrong):
            yield f"its stages are not what users know ({plan.knows})"
        if isinstance(stage.rule, LevelRule) and (stage.rule.saturated.sum(axis=1) != stage.level).any():
            yield "the saturated sets of a stage do not have as many arms as it says"
        if isinstance(stage.rule, TableRule):
            yield from _table_faults(stage.rule, plan)
        if isinstance(stage.rule, LeafTable):
            n_values = len(plan.arms) if counts_only else 1
            yield from table_faults(stage.rule, n_features=len(plan.features), n_values=n_values)
        if stage.rule is not None and not plan.personalised:
            yield "a plan of one rate for all has rules for each user"


def _table_faults(rule: TableRule, plan: Plan) -> Iterator[str]:
    n = len(rule.users)
    _finite(rule.users, (n, len(plan.features)), "users of a rule")
    shape = (n,) if plan.knows == STAGE.name else (n, len(plan.arms))
    _finite(rule.rates, shape, "rates of users")
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
    elif rule.by_leaf is not None:
        yield from table_faults(rule.by_leaf, n_features=len(plan.features), n_values=len(plan.arms))
    elif rule.outlook is None:
        yield "a guard has neither factors nor worlds to compute them from"
    if rule.outlook is not None and len(gamma) != rule.outlook.n_worlds:
        yield f"a guard has {len(gamma)} spreads for {rule.outlook.n_worlds} worlds"
    if rule.alike is not None and sorted(arm for arms in rule.alike for arm in arms) != list(range(len(plan.arms))):
        yield "classes of arms that are alike have each arm once"
