"""Users of several kinds, and kinds by their names."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rcb_bayes.behaviour.plain import Contrary, Obedient, Random, Stubborn
from rcb_bayes.behaviour.rational import Rational
from rcb_bayes.behaviour.trust import Trust
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.running.conduct import Behaviour, Conduct, Offers, Scene
from rcb_bayes.schema import FloatArray, Table, is_number, no_such

_KINDS: dict[str, Callable[[], Behaviour]] = {
    "obedient": Obedient,
    "rational": Rational,
    "stubborn": Stubborn,
    "contrary": Contrary,
    "random": Random,
    "trust": Trust,
}
_EXACT = 1e-9


class Mix:
    """Users of several kinds, each with its share; who she is does not depend on her features or rewards.

    Parameters
    ----------
    *kinds : Behaviour
        What users of each kind do.
    shares : sequence of float
        Of each kind, in their order; they sum to one.

    Raises
    ------
    RcbError
        No kinds, not a share for each, shares below 0 or that do not sum to one.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> users = rcb.behaviour.Mix(rcb.behaviour.Obedient(), rcb.behaviour.Random(), shares=[0.8, 0.2])
    >>> users
    Mix(Obedient() 0.8, Random() 0.2)
    >>> runs = rcb.simulate(market, plan, horizon=1000, n_worlds=5, behaviour=users, seed=1)
    >>> round(float(runs["followed"].mean()), 1)
    0.9
    """

    def __init__(self, *kinds: Behaviour, shares: Sequence[float]) -> None:
        given = list(shares)
        if not kinds or len(given) != len(kinds):
            raise RcbError(f"A mix has a share for each kind of users: {len(kinds)} kinds, got {len(given)} shares.")
        bad = [share for share in given if not (is_number(share) and share >= 0)]
        if bad:
            raise RcbError(f"Shares are numbers of at least 0, got {bad[0]!r}.")
        total = float(sum(given))
        if abs(total - 1.0) > _EXACT:
            raise RcbError(f"Shares must sum to one, these sum to {total:g}. Name the rest, too, such as Obedient().")
        self.kinds = kinds
        self.shares = tuple(float(share) / total for share in given)

    def __repr__(self) -> str:
        parts = ", ".join(f"{kind!r} {share:g}" for kind, share in zip(self.kinds, self.shares, strict=True))
        return f"Mix({parts})"

    def check(self, market: Market, plan: Any) -> None:
        """Refuse what any kind refuses."""
        for kind in self.kinds:
            kind.check(market, plan)

    def prepared(self, scene: Scene) -> Callable[[], Conduct]:
        """Users of every kind."""
        makers = [kind.prepared(scene) for kind in self.kinds]
        return lambda: _Mixed([make() for make in makers], self.shares)

    def response(self, market: Market, prior_rewards: Table) -> FloatArray:
        """The average over kinds, (U, K, K)."""
        parts = [kind.response(market, prior_rewards) for kind in self.kinds]
        return sum(share * part for share, part in zip(self.shares, parts, strict=True))  # pyright: ignore[reportReturnType]


class _Mixed:
    def __init__(self, kinds: list[Conduct], shares: tuple[float, ...]) -> None:
        self._kinds, self._upto = kinds, np.cumsum(shares)
        self._shares = shares

    def take(self, offers: Offers) -> np.ndarray:
        kind = np.minimum(np.searchsorted(self._upto, offers.whims[:, 0], side="right"), len(self._kinds) - 1)
        taken = offers.arm.copy()
        for number, users in enumerate(self._kinds):
            places = np.flatnonzero(kind == number)
            if len(places):
                own = offers.some(places)
                whims = own.whims.copy()  # a mix within a mix has uniform numbers again
                whims[:, 0] = 1.0 - (self._upto[number] - whims[:, 0]) / self._shares[number]
                taken[places] = users.take(replace(own, whims=whims))
        return taken


def as_behaviour(words: str) -> Behaviour:
    """Users by name: "rational", or several with their shares, "obedient .8, stubborn .2".

    Parameters
    ----------
    words : str
        A kind, or kinds with shares, separated by commas: obedient, rational, stubborn, contrary, random, trust.

    Returns
    -------
    Behaviour

    Raises
    ------
    RcbError
        An unknown kind (the nearest is named), a share that is no number, shares that do not sum to one.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> rcb.behaviour.as_behaviour("obedient .8, stubborn .2")
    Mix(Obedient() 0.8, Stubborn(arm=None) 0.2)
    """
    parts = [part.split() for part in str(words).split(",")]
    if any(not 1 <= len(part) <= 2 for part in parts):
        raise RcbError(f"Users are named as 'rational' or as 'obedient .8, stubborn .2', got {words!r}.")
    kinds = [_kind(part[0]) for part in parts]
    if len(parts) == 1 and len(parts[0]) == 1:
        return kinds[0]
    shares = [_share(part[1]) if len(part) == 2 else _share("") for part in parts]
    return Mix(*kinds, shares=shares)


def _kind(word: str) -> Behaviour:
    if word not in _KINDS:
        raise no_such("behaviour", word, _KINDS)
    return _KINDS[word]()


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise RcbError(f"Each of several kinds of users has a share, such as 'stubborn .2', got {text!r}.") from None
