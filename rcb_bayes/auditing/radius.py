r"""How far a direction can go before a plan fails: the root of a margin, on worlds that all amounts share.

At every amount a the same random numbers draw users, worlds and noise, so that the margin of a cell (stage, user, arm,
rival) is a smooth function g(a) + epsilon(a) of it, whose root is bracketed and bisected. Its error is that of the
margin over the slope of the curve,

.. math:: \text{mcse}(a^*) = \text{mcse}(g(a^*)) / |g'(a^*)| .

Which cell binds first is found in worlds of one half, and its root in those of the other, and the other way round:
choosing the lowest of many in the worlds that it is judged in would find failures that are none. The two roots are
averaged.

A plan with a rate for each user has users who stand at -epsilon exactly, whom any error loses. So there is a second
root: from which amount on fewer than a share of users at random would follow. That is where the lower quantile, over
users, of each one's least room is zero.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing.directions import Direction
from rcb_bayes.auditing.run import audit, worst_judged
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.mechanism.streams import Stream, sequence
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    import xarray as xr

_MOST_STEPS = 14
_CLOSE = 0.15  # errors of the margin: a root that is nearer is as good as found
_STEP = 0.02  # of the bracket, for slopes, at least
_NEAR = 0.1  # of the bracket: where the root in one half of the worlds is looked for about that in the other
_TIMES = 2  # as many worlds as an audit has, for the few users who bind
_TINY = 1e-9
_CAUTION = 1.0  # errors added where the cell that binds is chosen: a thin one is not taken for it by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The amount from which on the plan fails, on one side of the base, with its error; infinite if it does not."""

    amount: float
    mcse: float
    stage: str = ""
    arm: str = ""
    rival: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How precisely, and of what, margins are computed."""

    horizon: int
    n_worlds: int
    n_users: int
    options: Exploiting
    seed: int


class SharedWorlds:
    """Margins of some users at any amount of a direction, in worlds that all amounts share.

    ``half`` is 0 or 1: two sets of worlds with nothing in common.
    """

    def __init__(self, direction: Direction, sizes: Sizes, *, users: FloatArray | None, times: int) -> None:
        self.direction, self.sizes, self.users, self.times = direction, sizes, users, times
        self._known: dict[tuple[float, int], xr.Dataset] = {}

    def cells(self, amount: float, half: int) -> "xr.Dataset":
        """``room``, the margin plus epsilon, and its ``mcse``, of every cell at an amount."""
        if (amount, half) not in self._known:
            s, case = self.sizes, self.direction.case(amount)
            found = audit(
                case.market,
                case.plan,
                epsilon=case.epsilon,
                knows=case.knows,
                horizon=s.horizon,
                n_worlds=self.times * s.n_worlds,
                users=self.users,
                options=s.options,
                seed=int(sequence(s.seed, Stream.RADIUS, half).generate_state(1)[0]),
            )
            margins = found.margins
            self._known[amount, half] = margins[["mcse"]].assign(room=margins["estimate"] + case.epsilon)
        return self._known[amount, half]

    def binding(self, amount: float, half: int) -> tuple[dict[str, Any], float, float]:
        """The cell with the least room, one error added, by its labels; its room and the error of that."""
        cells = self.cells(amount, half)
        cautious = cells["room"] + _CAUTION * cells["mcse"]
        place = np.unravel_index(np.nanargmin(cautious.values), cautious.shape)
        cell = cautious.isel(dict(zip(cautious.dims, place, strict=True)))
        labels = {str(dim): cell[dim].item() for dim in cautious.dims}
        return labels, *self.room(labels, amount, half)

    def room(self, labels: dict[str, Any], amount: float, half: int) -> tuple[float, float]:
        """The room of one cell and its error; a stage that is not there at this amount leaves any room."""
        cells = self.cells(amount, half)
        if labels["stage"] not in cells["stage"].values:
            return np.inf, 0.0
        cell = cells.sel(labels)
        room = float(cell["room"])
        return (np.inf, 0.0) if np.isnan(room) else (room, float(cell["mcse"]))

    def of_share(self, amount: float, half: int, share: float) -> tuple[float, float]:
        """The least room of the user whom so many are no worse off than, and its error over users and worlds."""
        cells = self.cells(amount, half)
        n = cells.sizes["user"]
        rooms = cells["room"].transpose("user", ...).values.reshape(n, -1)
        errors = cells["mcse"].transpose("user", ...).values.reshape(n, -1)
        rooms = np.where(np.isnan(rooms), np.inf, rooms)
        place = rooms.argmin(axis=1)
        least = rooms[np.arange(n), place]
        order = np.argsort(least)
        at = min(int((1.0 - share) * n), n - 1)  # as many as this may be worse off
        reach = max(1, round(np.sqrt(share * (1.0 - share) * n)))
        low, high = order[max(at - reach, 0)], order[min(at + reach, n - 1)]
        of_users = (least[high] - least[low]) / 2 if np.isfinite(least[high]) else 0.0
        return float(least[order[at]]), float(np.hypot(of_users, errors[order[at], place[order[at]]]))


def users_who_bind(direction: Direction, sizes: Sizes, amounts: list[float]) -> FloatArray | None:
    """The users who are worst off at some amounts, x (n, p); None where margins are averages over all of them."""
    if not as_notion(direction.case(direction.base).plan.notion).is_per_user:
        return None
    found = []
    for amount in amounts:
        case = direction.case(amount)
        found.append(
            worst_judged(
                case.market,
                case.plan,
                epsilon=case.epsilon,
                knows=case.knows,
                horizon=sizes.horizon,
                n_worlds=sizes.n_worlds,
                n_users=sizes.n_users,
                options=sizes.options,
                seed=sizes.seed,
            )
        )
    return np.unique(np.concatenate(found), axis=0)


def failure(direction: Direction, sizes: Sizes, side: list[float], *, first: float) -> Crossing:
    """From which amount on a plan fails, on one side of the base; ``first`` is one at which an audit found it to.

    Parameters
    ----------
    side : the base, and other amounts on that side of it, further and further away
    """
    users = users_who_bind(direction, sizes, [side[0], first])
    return crossing(SharedWorlds(direction, sizes, users=users, times=_TIMES), side)


def desertion(direction: Direction, sizes: Sizes, side: list[float], *, share: float) -> Crossing:
    """From which amount on fewer than a share of users at random would follow."""
    rng = np.random.default_rng(sequence(sizes.seed, Stream.RADIUS_USERS))
    users = direction.case(direction.base).market.covariates.sample(sizes.n_users, seed=rng)
    shared = SharedWorlds(direction, sizes, users=users, times=1)

    def room(amount: float) -> tuple[float, float]:
        return shared.of_share(amount, 0, share)

    pair = _bracket(lambda amount: room(amount)[0], side)
    if pair is None:
        return Crossing(amount=np.inf, mcse=np.nan)
    root = _root(room, *pair)
    slope = _slope(lambda amount: room(amount)[0], root, pair, side)
    return Crossing(amount=root, mcse=room(root)[1] / max(abs(slope), _TINY))


def crossing(shared: SharedWorlds, amounts: list[float]) -> Crossing:
    """The first failure over amounts in order, from the base on; infinite where there is none up to the last.

    Parameters
    ----------
    amounts : the base, and others on one side of it, further and further away
    """
    found = [_half(shared, amounts, chosen=half, judged=1 - half) for half in (0, 1)]
    return _averaged(found)


def _averaged(found: list[Crossing]) -> Crossing:
    """Of two halves; of one, where the other does not get there as far as was looked."""
    known = [one for one in found if np.isfinite(one.amount)]
    if not known:
        return found[0]
    return replace(
        known[0],
        amount=float(np.mean([one.amount for one in known])),
        mcse=float(np.sqrt(sum(one.mcse**2 for one in known)) / len(known)),
    )


def _half(shared: SharedWorlds, amounts: list[float], *, chosen: int, judged: int) -> Crossing:
    """The cell that binds first in one half of the worlds, and its root in the other."""
    pair = _bracket(lambda a: shared.binding(a, chosen)[1], amounts)
    if pair is None:
        return Crossing(amount=np.inf, mcse=0.0)
    at = _root(lambda a: shared.binding(a, chosen)[1:], *pair)
    labels = shared.binding(at, chosen)[0]
    told = {"stage": str(labels["stage"]), "arm": str(labels["arm"]), "rival": str(labels["rival"])}
    near = _NEAR * abs(pair[1] - pair[0])
    about = [_within(at - near, amounts), _within(at + near, amounts)]
    if amounts[-1] < amounts[0]:
        about.reverse()
    room = partial(shared.room, labels, half=judged)
    narrow = room(about[0])[0] > 0.0 > room(about[1])[0]
    pair = (about[0], about[1]) if narrow else _bracket(lambda a: room(a)[0], amounts)
    if pair is None:
        return Crossing(amount=np.inf, mcse=0.0, **told)
    root = _root(room, *pair)
    slope = _slope(lambda a: room(a)[0], root, pair, amounts, narrow=narrow)
    return Crossing(amount=root, mcse=room(root)[1] / max(abs(slope), _TINY), **told)


def _within(amount: float, amounts: list[float]) -> float:
    return float(np.clip(amount, min(amounts[0], amounts[-1]), max(amounts[0], amounts[-1])))


def _bracket(room: Callable[[float], float], amounts: list[float]) -> tuple[float, float] | None:
    """The first two amounts between which room turns negative; None where it does not."""
    before = amounts[0]
    for amount in amounts[1:]:
        if room(amount) < 0.0:
            return before, amount
        before = amount
    return None


def _root(room: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Where room is zero, between an amount that has some and one that lacks it: regula falsi (Illinois), bisected.

    The base may lack room itself, by chance or by very little: then it is the root.
    """
    at_low, at_high = room(low), room(high)
    if at_low[0] <= 0.0:
        return low
    f_low, f_high = at_low[0], at_high[0]
    width = abs(high - low)
    for step in range(_MOST_STEPS):
        middle = (low + high) / 2
        guess = middle if step % 4 == 3 or not np.isfinite(f_low) else (low * f_high - high * f_low) / (f_high - f_low)
        value, error = room(guess)
        if abs(value) <= max(_CLOSE * error, _TINY) or abs(high - low) < 1e-6 * width:
            return guess
        if value > 0.0:
            low, f_low, f_high = guess, value, f_high / 2
        else:
            high, f_high, f_low = guess, value, f_low / 2 if np.isfinite(f_low) else f_low
    return (low + high) / 2


def _slope(
    room: Callable[[float], float],
    root: float,
    pair: tuple[float, float],
    amounts: list[float],
    *,
    narrow: bool = False,
) -> float:
    """The slope at the root, from two amounts about it, within those that were looked at; a narrow pair's own."""
    step = max(_STEP * abs(pair[1] - pair[0]), _STEP * abs(root - amounts[0]))
    below, above = sorted(pair) if narrow else (_within(root - step, amounts), _within(root + step, amounts))
    values = room(below), room(above)
    if not np.isfinite(values).all() or above <= below:
        return np.inf if above > below else 0.0
    return (values[1] - values[0]) / (above - below)
