r"""``distil``: a plan's rates and guards as two tables of leaves, each leaf with the least of its users.

A lower rate is on the safe side for the user herself: H = q e + (1 - q) o falls in q wherever anything binds. So is a
lower factor. But the least over users at hand is not the least over all users of a leaf. A table of users is all there
is, and the least is exact. Elsewhere a table is grown from users at random, and then looked through for users who lie
below their leaf: others at random, users moved within the support, and those who expect to lose the most by what is
recommended. The latter are found without any world, by prior means alone, so that each leaf is searched thoroughly for
them. Whoever is below is taken in and the table is grown anew: its borders give way. What a last search finds below a
leaf lowers it, and by as much again: the search has ended, not the users. Whether that does is the audit's to say.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.guard import off_best_mass
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.mechanism.panel import some_users
from rcb_bayes.mechanism.rates import explored_terms
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.planning.growing import Grown, Sample, grow
from rcb_bayes.planning.leaves import LeafTable, count_leaves, single_leaf
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_files import plan_digest
from rcb_bayes.planning.rule import Kept, Rule
from rcb_bayes.schema import FloatArray, as_count
from rcb_bayes.telling.progress import track
from rcb_bayes.users import Covariates

_N_USERS = 8192  # that a table is grown from
_N_LOOKED = 1024  # at random, and as many moved, in each search
_N_POOL = 32_768  # among whom those who expect to lose the most are looked for
_N_LOSERS = 4096  # of them at most, in each search
_N_KEPT = 4096  # that the share kept is estimated with
_SEARCHES = 3  # after each of which the table is grown anew
_STEPS = (0.3, 0.1, 0.03, 0.01, 0.003)  # of the way towards another user
_LOWEST = 0.1  # share of users that count as the lowest
_FEW_STAGES = 32  # beyond them fewer users are looked at, in proportion
_LEAST_PART = 0.125  # but no fewer than this part of them
_CHUNK_VALUES = 500_000
_CLIMBS, _TRIES = 15, 6  # steps of those who expect to lose the most, and tries of each


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """What a table is made of: values of users (U, d) -> (U, q), and what each weighs, (U, q).

    ``outlooks`` are what users expect to gain by prior means alone, (U, m): where they are lowest, so may values be.
    """

    name: str
    values: Callable[[FloatArray], FloatArray]
    weights: Callable[[FloatArray], FloatArray]
    outlooks: Callable[[FloatArray], FloatArray]


def distil(plan: Plan, *, max_leaves: int, covariates: Covariates | None, seed: int) -> Rule:
    """Rates and guards as tables; see ``Plan.distil``."""
    max_leaves = as_count(max_leaves, name="max_leaves", least=1)
    seed = as_count(seed, name="seed")
    _check(plan)
    parts = _parts(plan)
    found: dict[str, LeafTable] = {}
    kept, course, n_users = Kept(), ((1, 1.0),), 0
    if parts:
        users = _population(plan, covariates)
        search = _Search(users, part=max(min(1.0, _FEW_STAGES / max(len(plan.stages), 1)), _LEAST_PART), seed=seed)
        grown, n_users = search.tables(parts, plan.prior_mean, max_leaves=max_leaves)
        tables = [LeafTable(leaves=one.leaves, values=one.values) for one in grown]
        found = {part.name: table for part, table in zip(parts, tables, strict=True)}
        kept = search.kept(parts, found)
        course = _course(grown)
    return Rule(
        arms=plan.arms,
        features=plan.features,
        alike=plan.alike or tuple((arm,) for arm in plan.arms),
        epsilon=plan.epsilon,
        notion=plan.notion,
        of_plan=plan_digest(plan),
        stages=tuple(stage.saturated for stage in plan.stages),
        shares=tuple(stage.share for stage in plan.stages),
        rates=found.get("rates") or _one_leaf(plan, [plan.exploration_rate] * max(len(plan.stages), 1)),
        guards=found.get("guards") or _same_for_all(plan),
        table=None if plan.known is None or not plan.personalised else plan.known.users,
        shares_kept=kept,
        max_leaves=max_leaves,
        n_users=n_users,
        seed=seed,
        course=course,
    )


def _check(plan: Plan) -> None:
    if plan.knows != STAGE.name and plan.personalised:
        raise RcbError(
            f"A rule has the rates of each saturated set, and this plan's users know '{plan.knows}'. "
            "Calibrate with knows='stage'."
        )
    rules = [stage.rule for stage in plan.stages] + [guard.by_leaf for guard in plan.guards]
    if any(isinstance(rule, LeafTable) for rule in rules):
        raise RcbError("The plan has a rule already. Distil the plan that the rule was made from.")
    if plan.kind == "sampled" and not plan.feasible:
        raise RcbError(f"This plan cannot be run: {plan.reason}")


def _population(plan: Plan, covariates: Covariates | None) -> Covariates:
    users = covariates
    if users is None and plan.before.whom is not None:
        users = plan.before.whom.covariates
    if users is None:
        raise RcbError(
            "The plan does not know its users: its file has neither tables of people nor classes of one's own. "
            "Pass covariates=market.covariates, or --covariates on the command line."
        )
    if users.n_features != len(plan.features):
        raise RcbError(f"covariates must have {len(plan.features)} features, as the plan has, got {users.n_features}.")
    return users


# --- what is distilled -----------------------------------------------------------------------------------------------


def _parts(plan: Plan) -> list[_Part]:
    """Rates, where each user has her own, and guards, where each has."""
    parts = []
    if plan.personalised and plan.stages:
        shares = np.array([stage.share for stage in plan.stages])
        parts.append(
            _Part(
                name="rates",
                values=lambda users: np.stack(
                    [plan.rate(users, saturated=one.saturated) for one in plan.stages], axis=1
                ),
                weights=lambda users: np.tile(shares / shares.sum(), (len(users), 1)),
                outlooks=lambda users: _explored(plan, users),
            )
        )
    if any(guard.outlook is not None for guard in plan.guards):
        epochs = range(len(plan.guards))
        parts.append(
            _Part(
                name="guards",
                values=lambda users: np.concatenate([plan.guard(users, epoch) for epoch in epochs], axis=1),
                weights=lambda users: np.concatenate([_mass(plan, users, epoch) for epoch in epochs], axis=1),
                outlooks=lambda users: _leads(plan.before.of(users)[0]),
            )
        )
    return parts


def _rates(plan: Plan, users: FloatArray) -> FloatArray:
    """Rates of users at every stage, (U, number of stages)."""
    return np.stack([plan.rate(users, saturated=stage.saturated) for stage in plan.stages], axis=1)


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


def _one_leaf(plan: Plan, values: list[float]) -> LeafTable:
    return LeafTable(leaves=single_leaf(len(plan.features)), values=np.array([values]))


def _same_for_all(plan: Plan) -> LeafTable | None:
    """Guards that are the same for all users."""
    if not plan.guards:
        return None
    return _one_leaf(plan, [float(value) for guard in plan.guards for value in guard.factors])  # type: ignore[union-attr]


# --- tables, and users to look at ------------------------------------------------------------------------------------


class _Search:
    """Users that tables are grown from, and that leaves are looked through with."""

    def __init__(self, covariates: Covariates, *, part: float, seed: int) -> None:
        self.covariates = covariates
        self.part = part  # of the usual numbers of users
        self.rng = generator(seed, Stream.DISTILLED)
        self.others = generator(seed, Stream.KEPT_USERS)
        self.users, self.shares, self.is_exact = self._some(_N_USERS, self.rng)

    def tables(self, parts: list[_Part], prior_mean: FloatArray, *, max_leaves: int) -> tuple[list[Grown], int]:
        """A tree for each part with the least of each leaf, and how many users were looked at."""
        samples = [
            Sample(users=self.users, values=part.values(self.users), weights=self._weights(part)) for part in parts
        ]
        if self.is_exact:
            return grow(samples, prior_mean, max_leaves=max_leaves, fewest=1), len(self.users)
        seen: list[list[tuple[FloatArray, FloatArray]]] = [[] for _ in parts]
        for _ in track(range(_SEARCHES), description="leaves"):
            grown = grow(samples, prior_mean, max_leaves=max_leaves)
            for k, part in enumerate(parts):
                users, values = self._looked(part, samples[k], grown[k])
                seen[k].append((users, values))
                below = (values < grown[k].values[grown[k].leaves.of(users)]).any(axis=1)
                samples[k] = samples[k].joined(users[below], values[below])
        grown = grow(samples, prior_mean, max_leaves=max_leaves)
        n_users = len(self.users) + sum(len(users) for some in seen for users, _ in some)
        return [self._lowered(*group) for group in zip(parts, samples, grown, seen, strict=True)], n_users

    def kept(self, parts: list[_Part], found: dict[str, LeafTable]) -> Kept:
        """What tables keep, over users of their own; over all there are, where those are a table."""
        users, shares, _ = (self.users, self.shares, True) if self.is_exact else self._some(_N_KEPT, self.others)
        figures: dict[str, float] = {}
        exceeded, most = np.zeros(len(users), dtype=bool), 0.0
        for part in parts:
            own, given, weights = part.values(users), found[part.name].of(users), part.weights(users)
            before = (weights * own).sum(axis=1)
            after = (weights * np.minimum(own, given)).sum(axis=1)
            mean = float(shares @ before)
            share = float(shares @ after) / mean if mean > 0.0 else 1.0
            spread = float(shares @ (after - share * before) ** 2)
            figures[part.name] = share
            error = np.sqrt(spread / len(users)) / mean if mean > 0.0 and not self.is_exact else 0.0
            figures[f"{part.name}_mcse"] = float(error)
            above = np.where(weights > 0.0, given - own, 0.0)
            exceeded |= (above > 0.0).any(axis=1)
            most = max(most, float(above.max(initial=0.0)))
        return Kept(**figures, exceeded=float(shares @ exceeded), exceeded_by=most)

    def _some(self, n_users: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, bool]:
        return some_users(self.covariates, n_users=max(1, int(self.part * n_users)), rng=rng)

    def _weights(self, part: _Part) -> FloatArray:
        return part.weights(self.users) * self.shares[:, None]

    def _looked(self, part: _Part, sample: Sample, grown: Grown) -> tuple[FloatArray, FloatArray]:
        """Users at random, moved, and with most to lose, with their values; who is in an empty leaf is left out."""
        some = self._some(_N_LOOKED, self.rng)[0]
        users = np.concatenate([some, self._moved(sample, grown), self._losers(part, grown)])
        users = users[(grown.values[grown.leaves.of(users)] > 0.0).any(axis=1)]
        return users, part.values(users) if len(users) else np.zeros((0, grown.values.shape[1]))

    def _moved(self, sample: Sample, grown: Grown) -> FloatArray:
        """Users moved towards others, or away from them, within the support; half of them from the lowest."""
        project = getattr(self.covariates, "project", None)
        if project is None:
            return sample.users[:0]
        given = grown.values[grown.leaves.of(sample.users)]
        room = np.where(given > 0.0, sample.values - given, np.inf).min(axis=1)
        lowest = np.argsort(room, kind="stable")[: max(1, int(_LOWEST * len(room)))]
        half = max(1, int(self.part * _N_LOOKED) // 2)
        start = np.concatenate([self.rng.choice(lowest, size=half), self.rng.integers(len(room), size=half)])
        other = self.rng.integers(len(room), size=2 * half)
        size = self.rng.choice(_STEPS, size=(2 * half, 1)) * self.rng.choice([-1.0, 1.0], size=(2 * half, 1))
        return project(sample.users[start] + size * (sample.users[other] - sample.users[start]))

    def _losers(self, part: _Part, grown: Grown) -> FloatArray:
        """Of each leaf the users who expect the least, by each of the outlooks; climbed down to within the leaf."""
        pool = self._some(_N_POOL, self.rng)[0]
        leaf, outlooks = grown.leaves.of(pool), part.outlooks(pool)
        firsts, columns = [], []
        for column, outlook in enumerate(outlooks.T):
            order = np.lexsort((outlook, leaf))
            first = order[np.flatnonzero(np.diff(leaf[order], prepend=-1))]
            firsts.append(first[(grown.values[leaf[first]] > 0.0).any(axis=1)])
            columns.append(np.full(len(firsts[-1]), column))
        start, column = np.concatenate(firsts), np.concatenate(columns)
        most = max(1, int(self.part * _N_LOSERS))
        if len(start) > most:
            some = self.rng.choice(len(start), size=most, replace=False)
            start, column = start[some], column[some]
        project = getattr(self.covariates, "project", None)
        users, place, lowest = pool[start], leaf[start], outlooks[start, column]
        if project is None:
            return users
        for size in np.geomspace(0.5, 0.001, _CLIMBS):
            for _ in range(_TRIES):
                other = pool[self.rng.integers(len(pool), size=len(users))]
                moved = project(users + self.rng.choice([-size, size], size=(len(users), 1)) * (other - users))
                found = part.outlooks(moved)[np.arange(len(users)), column]
                better = (found < lowest) & (grown.leaves.of(moved) == place)
                users, lowest = np.where(better[:, None], moved, users), np.where(better, found, lowest)
        return users

    def _lowered(self, part: _Part, sample: Sample, grown: Grown, seen: list[tuple[FloatArray, FloatArray]]) -> Grown:
        """The table with the least of all users who were looked at, and an allowance for those who were not."""
        values = grown.values.copy()
        for users, own in seen:
            np.minimum.at(values, grown.leaves.of(users), own)
        lower = values.copy()
        users, own = self._looked(part, sample, Grown(leaves=grown.leaves, values=values, course=()))
        np.minimum.at(lower, grown.leaves.of(users), own)
        return Grown(leaves=grown.leaves, values=np.maximum(2.0 * lower - values, 0.0), course=grown.course)


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
