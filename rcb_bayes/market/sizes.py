"""Sizes that no machine would finish, or hold: refused before anything is drawn or allocated, with the estimate.

Estimates are of the largest arrays that a call keeps at once, and of the numbers that it draws; both are rough, and the
limits are far above what an answer needs.
"""

import os

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.users import Empirical, Gaussian

MOST_SAMPLES = 10**9  # of an arm: of any arm by then all is known
MOST_DRAWS = 10**11  # numbers, about twenty minutes of drawing
MOST_ROUNDS = 10**10  # in all worlds of a run, about an hour
_DEFAULT_MEMORY = 16 * 10**9  # where the system does not tell
_OWN_USERS = 16  # of every world
_BLOCK, _SQUARES = 500, 3  # worlds simulated together, as in ``mechanism.worlds``; sums of squares, factors of them
_MOST_STAGES = 128
_USUAL_VIEWS = 12  # stages that cold starts really pass, and epochs
_FLOAT = 8
MOST_HOURS = 48
_PANEL, _LEAST_PANEL, _USUAL_ARMS = 2048, 512, 64
_BY_ARM = 5  # arrays over the panel and arms, of a level
_TRIED_USERS = 1792  # at a level, beside the panel twice
_SECONDS_PER_TERM = 3e-9  # of a user, a world and an arm at a level; 10 to 200 arms agree to a half
_SECONDS_PER_GUARD = 1.7e-9  # of a user, a world, an arm and a rival in an epoch; likewise
_GUARD_WORLDS, _GUARD_EPOCHS = 500, 4
_COVARIANCES = 50_000_000  # numbers that epochs keep at once, as in ``mechanism.epoch_worlds``
_SECONDS_PER_ARM = 9e-3  # in a view of an audit: paths, and the search for the worst users
_AUDITED_WORLDS, _SECONDS_PER_CELL = 200, 1e-7  # of a user, arm and rival, few of which are; 60 to 200 arms to a third
_FEW_ARMS = 10
_LOOKED_AT = 8 * 8_000_000  # numbers, as in ``auditing.plan_judging``: a few arrays of those looked at together
_MOST_RIVALS = 60  # as in ``auditing.judging``
_KEPT_CELLS, _PASSING_CELLS = 28, 32  # numbers for each, two notions: counted; measured at 200 arms


def check_stage_size(market: Market, *, n_per_arm: int, n_worlds: int) -> None:
    """Refuse stages whose data cannot be drawn, or whose expectations cannot be held.

    Raises
    ------
    RcbError
        With the estimate, and what to ask for instead.
    """
    k, d = market.n_arms, market.n_features
    check_samples(n_per_arm)
    _check_draws(market, n_per_arm=n_per_arm, n_worlds=n_worlds)
    _check_memory(_FLOAT * n_worlds * (_OWN_USERS * (d + k) + 2 * k * d), what=f"{n_worlds:,} worlds", ask="worlds")
    if market.noise.is_gaussian:
        together = min(n_worlds, _BLOCK)
        what = f"{k:,} arms of {d:,} features in {together:,} worlds at a time"
        _check_memory(_FLOAT * _SQUARES * together * k * d**2, what=what, ask="arms or features")


def check_plan_size(
    market: Market,
    *,
    n_per_arm: int,
    n_worlds: int,
    audit_worlds: int = 0,
    by_set: bool = True,
    pooled: bool = False,
    n_levels: int | None = None,
) -> None:
    """Refuse plans whose stages cannot be simulated; see ``check_stage_size``.

    Parameters
    ----------
    audit_worlds : of the audit that is made with it; 0 where none is
    by_set : stages are saturated sets, else levels, of which there are as many as arms
    pooled : levels pay for one another, so that what each allows is kept for every user, arm and rival
    n_levels : arms that are explored, all unless given
    """
    k, d = market.n_arms, market.n_features
    check_samples(n_per_arm)
    _check_draws(market, n_per_arm=n_per_arm, n_worlds=n_worlds)
    what = f"{n_worlds:,} worlds"
    if by_set:
        stages = min(2 ** min(k, 60 if n_levels is None else n_levels), _MOST_STAGES)
        _check_memory(_FLOAT * n_worlds * stages * k * (d + 2 * _OWN_USERS), what=what, ask="worlds")
    else:
        _check_levels(market, n_levels=k if n_levels is None else n_levels, n_worlds=n_worlds, pooled=pooled)
    if audit_worlds:
        check_audit_size(market, n_worlds=audit_worlds, n_users=1)


def _check_levels(market: Market, *, n_levels: int, n_worlds: int, pooled: bool) -> None:
    """Kept of a level: its worlds, and rates and shares of the panel by arm. Passing: covariances of an epoch."""
    k, d, panel = market.n_arms, market.n_features, panel_size(market)
    kept = max(n_levels - 1, 0) * (n_worlds * k * d + _BY_ARM * panel * k + (2 * panel * k**2 if pooled else 0))
    passing = 2 * min(n_worlds * (k * d) ** 2, max(_COVARIANCES, (k * d) ** 2)) + 2 * n_worlds * k * _OWN_USERS
    terms = max(n_levels - 1, 0) * (2 * panel + _TRIED_USERS) * n_worlds * k
    cells = _GUARD_EPOCHS * panel * min(n_worlds, _GUARD_WORLDS) * k**2
    what = f"{n_levels} levels of {n_worlds:,} worlds"
    ask = "worlds, or plan for fewer arms at a time"
    hours = (_SECONDS_PER_TERM * terms + _SECONDS_PER_GUARD * cells) / 3600.0
    _check_memory(_FLOAT * (kept + passing), what=what, ask=ask, hours=hours)
    _check_hours(hours, n_bytes=_FLOAT * (kept + passing), what=what, ask=ask)


def panel_size(market: Market, most: int = _PANEL) -> int:
    """Users who stand for a population: fewer where arms are very many, as what is kept of each grows with them."""
    return min(most, max(_LEAST_PANEL, _PANEL * _USUAL_ARMS // market.n_arms))


def check_audit_size(market: Market, *, n_worlds: int, n_users: int, by_world: bool = False) -> None:
    """Refuse audits that cannot be held: chances and expectations of a view's users, arms and worlds, and cells.

    Worlds of a policy, ``by_world``, are looked at together; those of a plan view by view, some users at a time, and
    what is kept of them is what is expected, posterior means. Cells are kept for every rival up to 60 arms, under two
    notions and with their evidence until they are judged; of more arms those of one view at a time.
    """
    k, d = market.n_arms, market.n_features
    views = min(2**k, _USUAL_VIEWS) + _USUAL_VIEWS if n_users > 1 else 1
    kept = _USUAL_VIEWS * n_worlds * k * (d if market.noise.is_gaussian else panel_size(market))
    entries = 3 * k * n_users * n_worlds * views if by_world else kept + min(6 * k * n_users * n_worlds, _LOOKED_AT)
    many = k > _MOST_RIVALS
    cells = n_users * k**2 * (_PASSING_CELLS if many else _KEPT_CELLS * (k + _USUAL_VIEWS))
    what = f"{n_worlds:,} worlds and {n_users:,} users"
    cells_of_view = k**2 * n_users * (1.0 + n_worlds / _AUDITED_WORLDS) / 2.0
    seconds = (k + _USUAL_VIEWS) * (_SECONDS_PER_ARM * k + _SECONDS_PER_CELL * cells_of_view)
    hours = seconds / 3600.0 if k > _FEW_ARMS and n_users > 1 else 0.0
    _check_memory(_FLOAT * (entries + cells), what=what, ask="worlds or users", hours=hours)
    _check_hours(hours, n_bytes=_FLOAT * (entries + cells), what=what, ask="worlds, users or arms")


def check_run_size(*, horizon: int, n_worlds: int, every: int) -> None:
    """Refuse runs that would not end, or whose rounds cannot be held."""
    rounds = horizon * n_worlds
    if rounds > MOST_ROUNDS:
        raise RcbError(
            f"{n_worlds:,} worlds of {horizon:,} rounds are {float(rounds):.2g} rounds, and {MOST_ROUNDS:.0e} take an "
            "hour. Ask for fewer worlds, or a shorter horizon."
        )
    points = n_worlds * -(-horizon // every)
    what = f"{points:,} rounds, kept one by one,"
    _check_memory(6 * _FLOAT * points, what=what, ask="worlds or rounds, or a larger every")


def check_samples(n_per_arm: int) -> None:
    """Refuse numbers of samples after which an arm is known to all digits."""
    if n_per_arm > MOST_SAMPLES:
        raise RcbError(
            f"n_per_arm must be at most {MOST_SAMPLES:,} (by then nothing is left to learn of an arm), got "
            f"{_shown(n_per_arm)}."
        )


def _check_draws(market: Market, *, n_per_arm: int, n_worlds: int) -> None:
    # Sums over Gaussian users, and over long samples of a table, are drawn at once.
    at_once = isinstance(market.population, Gaussian | Empirical) and market.noise.is_gaussian
    each = market.n_features if at_once else n_per_arm
    draws = n_worlds * market.n_arms * market.n_features * each
    if draws > MOST_DRAWS:
        samples = f"{n_per_arm:,} samples of {market.n_arms} arms in {_shown(n_worlds)} worlds"
        raise RcbError(
            f"{samples} take {float(draws):.2g} random numbers, and {MOST_DRAWS:.0e} are the most. Ask for fewer "
            "samples or worlds."
        )


def _check_memory(n_bytes: int, *, what: str, ask: str, hours: float = 0.0) -> None:
    here = memory()
    if n_bytes > here:
        also = f" (and would take some {_duration(hours)} of one core)" if hours > 0.0 else ""
        raise RcbError(
            f"{what} need some {n_bytes / 1e9:,.0f} GB, and this machine has {here / 1e9:,.0f}{also}. "
            f"Ask for fewer {ask}."
        )


def _check_hours(hours: float, *, n_bytes: int, what: str, ask: str) -> None:
    if hours > MOST_HOURS:
        raise RcbError(
            f"{what} take some {_duration(hours)} of one core (and {n_bytes / 1e9:,.1f} GB), and {MOST_HOURS} hours "
            f"are the most. Ask for fewer {ask}."
        )


def _duration(hours: float) -> str:
    return f"{hours:,.0f} hours" if hours >= 2.0 else f"{60.0 * hours:,.0f} minutes"


def memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        return _DEFAULT_MEMORY


def _shown(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"{float(count):.2g}"
