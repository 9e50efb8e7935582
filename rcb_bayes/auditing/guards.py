"""Rates and guards of a plan as an audit asks for them: again and again of the same users."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rcb_bayes.mechanism.epoch import guard_in_force
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.outlook import row_bytes
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import FloatArray


class RememberedGuards:
    """A plan's guards, worked out once for each user and rule; late epochs share the last rule.

    Users in single precision have guards worked out in single precision: they are simulated, or looked at in a search,
    and not judged.
    """

    def __init__(self, plan: Plan, options: Exploiting) -> None:
        self._plan = plan
        self._in_force = guard_in_force(plan, options)
        self._known: dict[int, dict[bytes, FloatArray]] = {}

    def __call__(self, users: FloatArray, epoch: int) -> FloatArray | None:
        """Factors on the off-best probabilities of users (U, d) in an epoch, (U, K); None where nothing is cut."""
        if not self._in_force:
            return self._plan.agenda.cut_from(None, len(users))
        rule = self._rule(epoch)
        known = self._known.setdefault(rule, {})
        keys = row_bytes(users)
        fresh = [place for place, key in enumerate(keys) if key not in known]
        if fresh:
            known.update(zip((keys[place] for place in fresh), _factors(self._plan, users[fresh], rule), strict=True))
        return np.array([known[key] for key in keys])

    def note(self, users: FloatArray, epoch: int, factors: FloatArray | None) -> None:
        """Factors of users in an epoch that are known already, (U, K)."""
        if self._in_force and factors is not None:
            self._known.setdefault(self._rule(epoch), {}).update(zip(row_bytes(users), factors, strict=True))

    def _rule(self, epoch: int) -> int:
        return min(epoch, len(self._plan.exploitation.guards) - 1)


def _factors(plan: Plan, users: FloatArray, rule: int) -> FloatArray:
    """The factors of users by one of a plan's rules; of a plan for several types, what these follow together."""
    if plan.types is not None:
        return plan.types.followed([_factors(own, users, rule) for own in plan.types.plans])
    found = plan.exploitation.guards[rule]
    if found.outlook is not None and users.dtype == np.float32:
        found = replace(found, gamma=found.gamma.astype(np.float32))
    factors = found.of(users, goal=plan.goal)
    return factors if plan.agenda.cut is None else factors * plan.agenda.cut


class RememberedRates:
    """A plan's rates at a stage, worked out once for each user.

    Users in single precision are looked at in a search, and not judged: those who were rounded from users with known
    rates have these.
    """

    def __init__(self, plan: Plan, saturated: Sequence[str]) -> None:
        self._plan, self._saturated = plan, tuple(saturated)
        self._known: dict[bytes, float] = {}

    def note(self, users: FloatArray, rates: FloatArray | float) -> None:
        """Rates of users (U, d) that are known already, (U,), or of all."""
        each = np.broadcast_to(rates, len(users)).tolist()
        for rows in (users, users.astype(np.float32)):
            self._known.update(zip(row_bytes(rows), each, strict=True))

    def __call__(self, users: FloatArray) -> FloatArray:
        """Rates of users (U, d), (U,)."""
        keys = row_bytes(users)
        fresh = [place for place, key in enumerate(keys) if key not in self._known]
        if fresh:
            found = self._plan.rate(users[fresh], saturated=self._saturated).tolist()
            self._known.update(zip((keys[place] for place in fresh), found, strict=True))
        return np.array([self._known[key] for key in keys])
