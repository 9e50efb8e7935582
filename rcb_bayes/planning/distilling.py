r"""``distil``: a plan's rates and guards as two tables of leaves, each leaf with the least of its users.

A lower rate is on the safe side for the user herself. Recommending i in the place of j leaves
:math:`H = \sum_k q_k e_{ki} (U_{ij} + \epsilon) + \sum_k (1 - q_k) O^k_{ij}` (``mechanism.level_rates``; at a saturated
set there is one k), and no O is negative. Where :math:`U_{ij} + \epsilon \ge 0` no term is, whatever the rates;
elsewhere H falls in every q_k. So is a lower factor. Users who cannot tell levels apart add these forms up,
each as often as its level lasts, and a level lasts the longer the lower its rates are: by :math:`1/\kappa_l` where
the share :math:`\kappa_l` of exploration is kept. A level that others pay for then weighs up to
:math:`\kappa_m / \kappa_l` times as much as one that pays. Plans count what others pay by .7 (``planning.stages``), so
that rules which keep nine tenths of every level stay within that. Whether they do is the audit's to say.

The least over users at hand is not the least over all users of a leaf. A table of users is all there is, and the least
is exact. Elsewhere a table is grown from users at random, and then looked through for users who lie below what they are
given (``planning.searching``). Whoever is below is taken in and the table is grown anew: its borders give way. Then
leaves stay, and further searches, with as many users at random again, lower values and move cuts. The search ends, not
the users: whom a table gives more than the plan does is counted among users of its own, and told with a bound.

What a lower rate costs is rounds. A stage of T rounds at a mean rate c grows by T/c times what its rate loses, to
first order, so that T/c is what rates weigh as a table is grown, and 1/kept^2 times that once some are lost. A rule
that closes a stage is refused, and how long its own cold start takes is simulated among users of its own.

Rates at a set have a border that no search is needed for: who loses at most epsilon by the best arm that is open is
explored, whatever the worlds say (``planning.growing``).
"""

from functools import partial
from typing import Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.exchange import class_of_each
from rcb_bayes.mechanism.guard import off_best_mass, users_room
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.promotion import Sets
from rcb_bayes.mechanism.rates import explored_terms
from rcb_bayes.mechanism.simulator import ColdStarts, walk_levels
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.walk import Walk, arms_of, walk
from rcb_bayes.planning.checks import check_feasible
from rcb_bayes.planning.course import MOST_STUCK
from rcb_bayes.planning.cutting import MOST_GROUPS
from rcb_bayes.planning.growing import Grown
from rcb_bayes.planning.leaves import LeafTable, count_leaves, single_leaf
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_files import plan_digest
from rcb_bayes.planning.rule import Kept, Rule
from rcb_bayes.planning.searching import Part, Rounds, Search
from rcb_bayes.planning.stages import LevelRule
from rcb_bayes.schema import FloatArray, as_count
from rcb_bayes.telling.wording import percent
from rcb_bayes.users import Covariates

_FEW_STAGES = 32  # beyond them fewer users are looked at, in proportion
_LEAST_PART = 0.125  # but no fewer than this part of them
_CHUNK_VALUES = 500_000
_N_PATHS = 4000  # cold starts that are simulated


def distil(plan: Plan, *, max_leaves: int, covariates: Covariates | None, seed: int) -> Rule:
    """Rates and guards as tables; see ``Plan.distil``."""
    max_leaves = as_count(max_leaves, name="max_leaves", least=1)
    seed = as_count(seed, name="seed")
    _check(plan)
    parts = _parts(plan, seed)
    found: dict[str, LeafTable] = {}
    kept, course, n_users = Kept(), ((1, 1.0),), 0
    if parts:
        users = _population(plan, covariates)
        search = Search(users, part=max(min(1.0, _FEW_STAGES / max(len(plan.stages), 1)), _LEAST_PART), seed=seed)
        grown, n_users = search.tables(parts, plan.prior_mean, max_leaves=max_leaves)
        found = {part.name: search.table(part, one) for part, one in zip(parts, grown, strict=True)}
        kept = search.kept(parts, found)
        _check_open(plan, kept, max_leaves)
        found = {part.name: part.whole(found[part.name]) for part in parts}
        course = _course(grown)
    by_level = plan.knows != STAGE.name and plan.personalised
    stages = () if plan.knows != STAGE.name else plan.stages
    known = plan.known if plan.personalised else None
    promoted_by = plan.prior_mean if plan.platform_mean is None else plan.platform_mean
    return Rule(
        arms=plan.arms,
        features=plan.features,
        alike=plan.alike or tuple((arm,) for arm in plan.arms),
        epsilon=plan.epsilon,
        notion=plan.notion,
        knows=plan.knows,
        of_plan=plan_digest(plan),
        stages=tuple(stage.saturated for stage in stages),
        levels=tuple(stage.level for stage in plan.stages) if by_level else (),
        shares=tuple(stage.share for stage in (plan.stages if by_level else stages)),
        promoted_by=(promoted_by if known is None else known.promoted_by) if by_level else None,
        rates=found.get("rates") or _one_leaf(plan, [plan.exploration_rate] * max(len(stages), 1)),
        guards=found.get("guards") or _same_for_all(plan),
        table=None if known is None else known.users,
        shares_kept=kept,
        max_leaves=max_leaves,
        n_users=n_users,
        seed=seed,
        course=course,
    )


def _check(plan: Plan) -> None:
    rules = [stage.rule for stage in plan.stages] + [guard.by_leaf for guard in plan.guards]
    if any(isinstance(rule, LeafTable) for rule in rules):
        raise RcbError("The plan has a rule already. Distil the plan that the rule was made from.")
    if plan.types is not None:
        raise RcbError("A plan for several types of users is not distilled. Run it as it is.")
    if plan.agenda.regions is not None:
        raise RcbError("A plan whose arms are explored among some users only is not distilled. Run it as it is.")
    check_feasible(plan)


def _check_open(plan: Plan, kept: Kept, max_leaves: int) -> None:
    """Refuse a rule that closes a stage: whoever runs it would never get past there."""
    closed = (
        [stage for stage, share in zip(plan.stages, kept.stages, strict=True) if share <= 0.0] if kept.stages else []
    )
    if closed:
        where = f"the stage with {plan.stage_name(closed[0])} saturated"
    elif kept.stuck > MOST_STUCK:
        where = f"a stage that {percent(kept.stuck)} of cold starts reach"
    else:
        return
    raise RcbError(f"A rule of {max_leaves} leaves closes {where}, which the plan keeps open. Ask for more leaves.")


def _population(plan: Plan, covariates: Covariates | None) -> Covariates:
    users = covariates
    if users is None and plan.before.whom is not None:
        users = plan.before.whom.covariates
    if users is None:
        raise RcbError(
            "The plan does not know its users: its file has neither tables of people nor classes of one's own. "
            "Pass covariates=market.covariates."
        )
    if users.n_features != len(plan.features):
        raise RcbError(f"covariates must have {len(plan.features)} features, as the plan has, got {users.n_features}.")
    return users


# --- what is distilled -----------------------------------------------------------------------------------------------


def _parts(plan: Plan, seed: int) -> list[Part]:
    """Rates, where each user has her own, and guards, where each has."""
    parts = []
    if plan.personalised and plan.stages:
        parts.append((_rates_by_set if plan.knows == STAGE.name else _rates_by_level)(plan, seed))
    if any(guard.outlook is not None for guard in plan.guards):
        parts.append(_factors(plan))
    return parts


def _factors(plan: Plan) -> Part:
    """Factors by epoch and arm; of arms that are alike they are the same, and the first one stands for all."""
    k, epochs = len(plan.arms), range(len(plan.guards))
    alike = next((guard.alike for guard in plan.guards if guard.outlook is not None), None)
    own = class_of_each(alike or (), k)  # (K,)
    first = np.unique(own, return_index=True)[1]
    n, members = len(first), np.eye(len(first), dtype=np.int64)[own]  # (K, C)

    n_groups = n * len(epochs) if n * len(epochs) <= MOST_GROUPS else n  # else all epochs have one cut
    groups = np.arange(n * len(epochs)) % n_groups

    def room(users: FloatArray, given: FloatArray) -> FloatArray:
        left = _guard_room(plan, users, given.reshape(len(users), -1, n)[:, :, own].reshape(len(users), -1))
        return left.reshape(len(users), -1, k)[:, :, first].reshape(given.shape)

    return Part(
        name="guards",
        groups=groups,
        arms=np.tile(members.T, (n_groups // n, 1)),
        columns=np.concatenate([epoch * n + own for epoch in epochs]),
        room=room,
        values=lambda users: np.concatenate([plan.guard(users, epoch)[:, first] for epoch in epochs], axis=1),
        weights=lambda users: np.concatenate([_mass(plan, users, epoch) @ members for epoch in epochs], axis=1),
        outlooks=lambda users: _leads(plan.before.of(users)[0][:, first]),
    )


def _rates_by_set(plan: Plan, seed: int) -> Part:
    """Rates by set. Who loses at most epsilon by the best arm that is open is explored, whatever the worlds say."""
    shares = np.array([stage.share for stage in plan.stages])
    arms = [plan.before.open_arms(stage.saturated) for stage in plan.stages]
    is_told = plan.goal.sense.is_per_user and plan.platform_mean is None and plan.known is None
    return Part(
        name="rates",
        groups=np.arange(len(shares)),
        arms=np.array([[k in open_ for k in range(len(plan.arms))] for open_ in arms], dtype=np.int64),
        values=lambda users: np.stack([plan.rate(users, saturated=one.saturated) for one in plan.stages], axis=1),
        weights=lambda users: np.tile(shares / shares.sum(), (len(users), 1)),
        outlooks=lambda users: _explored(plan, users),
        border=-plan.epsilon if is_told else None,
        stages=np.arange(len(shares)),
        rounds=partial(_rounds, plan, seed),
    )


def _rates_by_level(plan: Plan, seed: int) -> Part:
    """Rates by level and promoted arm; those of arms that are never promoted to a user do not count."""

    def values(users: FloatArray) -> FloatArray:
        own = np.concatenate([plan.rates_by_arm(users, level=stage.level) for stage in plan.stages], axis=1)
        return np.where(_promoted(plan, users) > 0.0, own, 1.0)

    return Part(
        name="rates",
        groups=np.tile(np.arange(len(plan.arms)), len(plan.stages)),
        arms=np.eye(len(plan.arms), dtype=np.int64),
        is_partial=True,
        values=values,
        weights=lambda users: _promoted(plan, users),
        outlooks=lambda users: _leads(plan.before.of(users)[0]),
        stages=np.repeat(np.arange(len(plan.stages)), len(plan.arms)),
        rounds=partial(_rounds, plan, seed),
    )


def _rounds(plan: Plan, seed: int, users: FloatArray, shares: FloatArray, values: FloatArray) -> Rounds:
    """How long cold starts take of users (U, d) with weights (U,) who are explored at rates (U, q), as they stand."""
    k, agenda, by_level = len(plan.arms), plan.agenda, plan.knows != STAGE.name
    expected, promoted_by = plan.before.of(users)
    panel = Panel(users=users, weights=shares, prior_rewards=expected, promoted_by=promoted_by, is_exact=True)
    place_of = {stage.level if by_level else stage.saturated: n for n, stage in enumerate(plan.stages)}

    def rates_of_level(so_far: ColdStarts, level: int) -> FloatArray:
        first = k * place_of[level] if level in place_of else values.shape[1]
        return values[:, first : first + k] if level in place_of else np.zeros((len(users), k))

    def rates_at(so_far: Walk, code: int, members: np.ndarray) -> FloatArray:
        names = tuple(plan.arms[arm] for arm in arms_of(code))
        place = place_of.get(names)
        return plan.rate(users, saturated=names) if place is None else values[:, place]

    options: dict[str, Any] = {
        "n_per_arm": agenda,
        "n_paths": _N_PATHS,
        "rng_of": lambda level: generator(seed, Stream.PATHS, level),
        "first": 1.0 if agenda.is_plain else plan.rate(users, saturated=()),
    }
    if by_level:
        walked = walk_levels(panel, rates_of_level, **options)
    else:
        alike = tuple(tuple(plan.arms.index(arm) for arm in arms) for arms in plan.alike)
        walked = walk(panel, rates_at, alike=alike, **options)
    ended, spent = walked.ended, np.zeros(len(plan.stages))
    rounds = walked.rounds(rng=generator(seed, Stream.ROUNDS))
    for level in range(1, agenda.n_levels):
        if by_level or not isinstance(walked, Walk):
            groups = {level: walked.at(level)}
        else:
            groups = {
                tuple(plan.arms[arm] for arm in arms_of(code)): some
                for code, some in walked.paths.members(level).items()
            }
        for stage, some in groups.items():
            if stage in place_of:
                spent[place_of[stage]] = rounds[level, some[ended[some]]].sum() / max(ended.sum(), 1)
    length = rounds[:, ended].sum(axis=0)
    error = length.std() / np.sqrt(max(len(length), 1)) if len(length) else 0.0
    return Rounds(
        stages=spent,
        length=float(length.mean()) if len(length) else 0.0,
        error=float(error),
        stuck=float(1.0 - ended.mean()),
    )


def _promoted(plan: Plan, users: FloatArray) -> FloatArray:
    """How often an arm is promoted to users at each level, (U, number of levels times K), in all 1.

    Of arms that tie the first one stands for all, as rates have it. Where no worlds tell, all are promoted alike.
    """
    k, total = len(plan.arms), sum(stage.share for stage in plan.stages)
    out = np.empty((len(users), len(plan.stages), k))
    promoted_by = plan.before.of(users)[1]
    for place, stage in enumerate(plan.stages):
        if not isinstance(stage.rule, LevelRule):
            out[:, place] = stage.share / total / k
            continue
        sets, of_world = np.unique(stage.rule.saturated, axis=0, return_inverse=True)
        often = np.bincount(of_world.reshape(-1), weights=stage.rule.outlook.weights, minlength=len(sets))
        step = max(1, _CHUNK_VALUES // (len(sets) * k))
        for start in range(0, len(users), step):
            some = slice(start, start + step)
            first = Sets(sets, plan.before.admission).promotion(promoted_by[some]).first  # (u, S)
            for arm in range(k):
                out[some, place, arm] = (first == arm) @ (stage.share / total * often / often.sum())
    return out.reshape(len(users), -1)


def _explored(plan: Plan, users: FloatArray) -> FloatArray:
    """The lowest e_ij of users at every stage (``mechanism.rates``), some users at a time, (U, number of stages)."""
    out = np.empty((len(users), len(plan.stages)))
    step = max(1, _CHUNK_VALUES // len(plan.arms) ** 2)
    for start in range(0, len(users), step):
        prior_rewards, promoted_by = plan.before.of(users[start : start + step])
        for column, stage in enumerate(plan.stages):
            promoted = promotion_shares(promoted_by, plan.before.open_arms(stage.saturated))
            terms = explored_terms(prior_rewards, promoted, epsilon=plan.epsilon, notion=plan.goal.sense)
            out[start : start + step, column] = terms.min(axis=(1, 2))
    return out


def _leads(prior_rewards: FloatArray) -> FloatArray:
    """By how much each arm is better than the best before any data, (U, K): never above 0."""
    return prior_rewards - prior_rewards.max(axis=1, keepdims=True)


def _mass(plan: Plan, users: FloatArray, epoch: int) -> FloatArray:
    """What an epoch's factors weigh, (U, K): the probability that they are on; nothing where they are the same."""
    guard = plan.guards[epoch]
    if guard.outlook is None:
        return np.zeros((len(users), len(plan.arms)))
    return off_best_mass(guard.outlook, guard.gamma, users)


def _guard_room(plan: Plan, users: FloatArray, given: FloatArray) -> FloatArray:
    """What bounds leave at factors that are given, epoch by epoch, (U, number of epochs times K)."""
    k, parts = len(plan.arms), []
    for epoch, guard in enumerate(plan.guards):
        own = given[:, epoch * k : epoch * k + k]
        if guard.outlook is None:
            parts.append(np.full(own.shape, np.inf))
            continue
        parts.append(users_room(guard.outlook, guard.gamma, users, own, **guard.options(plan.goal)))
    return np.concatenate(parts, axis=1)


def _one_leaf(plan: Plan, values: list[float]) -> LeafTable:
    return LeafTable(leaves=single_leaf(len(plan.features)), values=np.array([values]))


def _same_for_all(plan: Plan) -> LeafTable | None:
    """Guards that are the same for all users."""
    if not plan.guards:
        return None
    return _one_leaf(plan, [float(value) for guard in plan.guards for value in guard.factors])  # type: ignore[union-attr]


def _course(grown: list[Grown]) -> tuple[tuple[int, float], ...]:
    """Leaves of all tables, and the share kept by the one that keeps less, as they were grown."""
    at = [0] * len(grown)
    out = [(1, min(one.course[0] for one in grown))]
    while True:
        able = [k for k, one in enumerate(grown) if at[k] + 1 < len(one.course)]
        if not able:
            return tuple(out)
        at[min(able, key=lambda k: grown[k].course[at[k]])] += 1
        kept = min(one.course[place] for one, place in zip(grown, at, strict=True))
        out.append((count_leaves(place + 1 for place in at), kept))
