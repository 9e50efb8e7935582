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
_MOST_STAGES = 128
_USUAL_VIEWS = 12  # stages that cold starts really pass, and epochs
_FLOAT = 8


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


def check_plan_size(market: Market, *, n_per_arm: int, n_worlds: int, audit_worlds: int = 0) -> None:
    """Refuse plans whose stages cannot be simulated; see ``check_stage_size``. ``audit_worlds`` where one is made."""
    k, d = market.n_arms, market.n_features
    check_samples(n_per_arm)
    _check_draws(market, n_per_arm=n_per_arm, n_worlds=n_worlds)
    stages = min(2**k, _MOST_STAGES)
    _check_memory(_FLOAT * n_worlds * stages * k * (d + 2 * _OWN_USERS), what=f"{n_worlds:,} worlds", ask="worlds")
    check_audit_size(market, n_worlds=audit_worlds, n_users=1)


def check_audit_size(market: Market, *, n_worlds: int, n_users: int) -> None:
    """Refuse audits whose views cannot be held: chances and expectations of every user, arm and world."""
    views = min(2**market.n_arms, _USUAL_VIEWS) + _USUAL_VIEWS if n_users > 1 else 1
    entries = 3 * market.n_arms * n_users * n_worlds * views
    _check_memory(_FLOAT * entries, what=f"{n_worlds:,} worlds and {n_users:,} users", ask="worlds or users")


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
    at_once = isinstance(market.covariates, Gaussian | Empirical) and market.noise.is_gaussian
    each = market.n_features if at_once else n_per_arm
    draws = n_worlds * market.n_arms * market.n_features * each
    if draws > MOST_DRAWS:
        samples = f"{n_per_arm:,} samples of {market.n_arms} arms in {_shown(n_worlds)} worlds"
        raise RcbError(
            f"{samples} take {float(draws):.2g} random numbers, and {MOST_DRAWS:.0e} are the most. Ask for fewer "
            "samples or worlds."
        )


def _check_memory(n_bytes: int, *, what: str, ask: str) -> None:
    here = memory()
    if n_bytes > here:
        raise RcbError(
            f"{what} need some {n_bytes / 1e9:,.0f} GB, and this machine has {here / 1e9:,.0f}. Ask for fewer {ask}."
        )


def memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        return _DEFAULT_MEMORY


def _shown(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"{float(count):.2g}"
