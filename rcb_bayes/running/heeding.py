r"""Any oracle, within what the users themselves would accept.

Exploitation with another oracle than the users' own posterior mean may recommend what they hold to be worse. With
:math:`g_i(x) = \max_j m_j(x) - m_i(x)` the gap by the *users'* posterior mean, this cut takes the oracle's
probabilities to

.. math::

    p_i \to p_i 1\{g_i \le \epsilon\} \quad (\text{user}), \qquad
    p_i \to p_i \min(1, \epsilon / (p_i g_i)) \quad (\text{proof}),

and gives what is cut to the arm that users hold to be best. The cut may depend on the data because the constraint then
holds given any history whatsoever, and so on average: a user who is told i loses at most epsilon by following
(``user``), or at most epsilon times how rarely she is told so (``proof``).
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import NOTIONS, as_notion
from rcb_bayes.posterior import Engine, Rows
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, Predictor
from rcb_bayes.schema import FloatArray, as_amount


@dataclass(frozen=True, slots=True, eq=False)
class Heeding:
    """An oracle whose exploitation recommends nothing that users hold to be worse by more than epsilon.

    Parameters
    ----------
    oracle : Oracle
        Any oracle, however wrong.
    epsilon : float, optional
        What users put up with; the plan's unless given.
    notion : str, optional
        In which sense; the plan's unless given.

    Raises
    ------
    RcbError
        A negative epsilon, an unknown notion. When it runs: ``feed="last"`` or growing prior variances.

    Applicability
    -------------
    The users' posterior mean is that of ``market.prior`` given all samples that count, frozen in each epoch, as the
    oracle is. The margin holds given the data of all earlier epochs, and so by construction
    (``kept_by_construction``), up to the error of the engine that answers for that posterior. An audit of exploitation
    then says that the program does what it should: it rests on the users' belief being ``market.prior``, which no
    audit can tell. In the cold start the plan's rates answer for it. The plan's guard, made for posterior means, is not
    in force. Where the oracle and the users disagree, the users win: regret is that of their belief.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = rcb.SklearnOracle(estimator=DecisionTreeRegressor(max_depth=2, random_state=0))
    >>> runs = rcb.simulate(market, plan, horizon=100, n_worlds=2, oracle=rcb.Heeding(tree), seed=1)
    >>> organic = (runs["stage"] == 2).sum("t")  # not counted
    >>> (runs["n_samples"].sum("arm") + organic).values
    array([100, 100])
    """

    oracle: Oracle
    epsilon: float | None = None
    notion: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.oracle, Heeding):
            raise RcbError("This oracle heeds users already. Give Heeding the oracle inside it.")
        if self.epsilon is not None:
            as_amount(self.epsilon, name="epsilon")
        if self.notion is not None:
            as_notion(self.notion)

    @property
    def needs_rows(self) -> bool:
        """Whether the oracle does."""
        return self.oracle.needs_rows

    @property
    def read(self) -> str:
        """How posterior means are read."""
        return getattr(self.oracle, "read", "summary")

    def fit(self, history: History) -> Predictor:
        """The oracle, fitted: recommendations are cut, not predictions.

        Parameters
        ----------
        history : History
            What the platform has seen.

        Returns
        -------
        Predictor
            The oracle's own.
        """
        return self.oracle.fit(history)

    def by(self, *, epsilon: float, notion: str, options: Exploiting) -> "Heeding":
        """With a plan's epsilon and notion where it has none of its own.

        Parameters
        ----------
        epsilon : float
            The plan's.
        notion : str
            The plan's.
        options : Exploiting
            How the plan is exploited.

        Returns
        -------
        Heeding
            With both.

        Raises
        ------
        RcbError
            Options under which users' posterior mean is not that of all samples.
        """
        if not options.feeds_all:
            raise RcbError("Heeding reckons with all samples, as users do. Use feed='all' with it, got 'last'.")
        if options.inflation != "none":
            raise RcbError(f"Heeding is for priors that stay. Use inflation='none' with it, got {options.inflation!r}.")
        own = epsilon if self.epsilon is None else float(self.epsilon)
        return replace(self, epsilon=own, notion=self.notion or notion)

    def cut(self, probabilities: FloatArray, expected: FloatArray) -> FloatArray:
        """Probabilities (K, n) without what users would not accept, from what they expect of each arm (K, n).

        Parameters
        ----------
        probabilities : ndarray
            (K, n), the oracle's.
        expected : ndarray
            (K, n), users' posterior means.

        Returns
        -------
        ndarray
            (K, n); what is cut goes to the arm that users hold to be best.
        """
        assert self.epsilon is not None  # a plan's, by now
        gap = expected.max(axis=0) - expected
        kept = np.minimum(probabilities, as_notion(self.notion).largest_chance(gap, self.epsilon))
        return kept + (1.0 - kept.sum(axis=0)) * best_shares(expected, axis=0)


def heeding(market: Market, oracle: Oracle | None) -> Heeding:
    """An oracle of exploitation that heeds users, where no guard was made for what the data have become."""
    if isinstance(oracle, Heeding):
        return oracle
    return Heeding(oracle or PosteriorOracle(market.platform_prior, market.noise, read="summary"))


def refuse_heeding(oracle: Oracle | None, *, name: str) -> None:
    """Refuse an oracle that heeds users where nothing would cut what it recommends.

    Raises
    ------
    RcbError
        A ``Heeding``.
    """
    if isinstance(oracle, Heeding):
        raise RcbError(f"Heeding cuts what RCB recommends, and {name} is not cut. Give it the oracle inside Heeding.")


def kept_by_construction(notion: str) -> tuple[str, ...]:
    """Notions that exploitation keeps whatever the data, where it heeds this one.

    Heeding ``proof`` bounds each user's loss times its probability: ``proof`` alone. Heeding ``user``, or
    ``definition``, for which the same cut serves, bounds the loss itself in every world: all three.
    """
    return tuple(name for name, other in NOTIONS.items() if as_notion(notion).implies(other))


@lru_cache(maxsize=8)
def _users_posterior(market: Market) -> PosteriorOracle:
    """One engine, compiled once, for all worlds of a market."""
    return PosteriorOracle(market.prior, market.noise, read="engine")


def users_expect(market: Market, history: History) -> Predictor:
    """What users expect of every arm, if they knew the history: posterior means under their own belief."""
    posterior = _users_posterior(market)
    if not posterior.needs_rows:
        return posterior.fit(history)
    return _Expected(posterior.made, history.as_rows(range(market.n_arms)))


@dataclass(frozen=True, slots=True, eq=False)
class _Expected:
    """Mean rewards as the engine has them, which is sharper than the average over a few draws."""

    engine: Engine
    data: Rows

    def scores(self, features: FloatArray) -> FloatArray:
        found = self.engine.fit(self.data, users=np.ascontiguousarray(features.T)).reward
        assert found is not None  # users were given
        return np.ascontiguousarray(found[0].T)

    def variances(self, features: FloatArray) -> FloatArray | None:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class WithSpread:
    """An oracle's scores, with the posterior variances of a belief, from which exploitation takes its spread."""

    oracle: Oracle
    belief: PosteriorOracle

    @property
    def needs_rows(self) -> bool:
        """Whether either of them does."""
        return self.oracle.needs_rows or self.belief.needs_rows

    @property
    def read(self) -> str:
        """How posterior means are read."""
        return self.belief.read

    def fit(self, history: History) -> Predictor:
        """Both, fitted."""
        return _Joined(self.oracle.fit(history), self.belief.fit(history))


@dataclass(frozen=True, slots=True, eq=False)
class _Joined:
    scored: Predictor
    spread: Predictor

    def scores(self, features: FloatArray) -> FloatArray:
        return self.scored.scores(features)

    def variances(self, features: FloatArray) -> FloatArray | None:
        return self.spread.variances(features)
