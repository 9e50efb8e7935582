r"""An epoch of exploitation (Algorithm 2): when it begins and ends, its spread, how loose priors are by then.

Pure functions over W runs side by side, (W,) each; a live run is W = 1. The spread is
:math:`\gamma_m = 4 c \sqrt{K / E}` with E the oracle's mean squared prediction error: the paper's bound
:math:`(\sigma^2 d + 1)/(\phi_0 n)`, or the posterior's own, the average over users and the last kernel of
:math:`Var(\mu(x, a) | S)`. The kernel is taken before the guard, which cuts it: the error is then rather too large than
too small.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.exploiting import Exploiting, inflation_factor, paper_error, spread_multiple
from rcb_bayes.mechanism.panel import spread_users
from rcb_bayes.mechanism.protocol import Mechanism
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Epoch:
    """Where W runs of exploitation are.

    Attributes
    ----------
    number : of the epoch, from 0; -1 before the first
    began : rounds of each run before exploitation, (W,)
    begins, ends : rounds of each run before the epoch, and after it, (W,)
    gamma : the spread, (W,)
    """

    number: int
    began: FloatArray
    begins: FloatArray
    ends: FloatArray
    gamma: FloatArray

    @property
    def lengths(self) -> np.ndarray:
        """Rounds of the epoch, (W,)."""
        return (self.ends - self.begins).astype(np.int64)


def before_the_first(began: FloatArray) -> Epoch:
    """Runs whose cold start took so many rounds, (W,)."""
    return Epoch(number=-1, began=began, begins=began, ends=began, gamma=np.zeros(len(began)))


def next_epoch(
    last: Epoch,
    *,
    market: Market,
    mechanism: Mechanism,
    options: Exploiting,
    error: FloatArray | None,
    n_fed: FloatArray,
) -> Epoch:
    """The epoch after the last.

    Parameters
    ----------
    error : the oracle's own mean squared prediction error, (W,); None where it has none to tell, or the paper's is used
    n_fed : samples that the oracle was fed, (W,)
    """
    if error is None or options.spread == "paper":
        error = np.broadcast_to(paper_error(market, n_fed), last.gamma.shape)
    multiple = 4.0 * spread_multiple(options, mechanism.spread_multiple)
    with np.errstate(divide="ignore"):
        gamma = np.where(error > 0.0, multiple * np.sqrt(market.n_arms / error), np.inf)
    following = following_ends(last, market=market, mechanism=mechanism, options=options)
    return Epoch(
        number=last.number + 1,
        began=last.began,
        begins=last.ends,
        ends=following,
        gamma=np.maximum(last.gamma, gamma),
    )


def following_ends(last: Epoch, *, market: Market, mechanism: Mechanism, options: Exploiting) -> FloatArray:
    """Rounds of each run after the epoch that follows the last, (W,)."""
    number = last.number + 1
    if options.clock == "relative":
        return last.ends + float(mechanism.agenda.totals.sum()) * 2.0**number
    power = 2.0 ** np.frexp(last.ends)[1]  # the first power of two beyond the rounds done
    # Exploitation begins with a whole epoch: what a cold start leaves of one joins the next. A cold start has 2 N
    # rounds at least, so that this is m_0 = ceil(2 + log2 N) or a later one, as the paper has it.
    is_rest = (number == 0) & (last.ends > 0.0) & (power != 2.0 * last.ends)
    return np.where(np.isfinite(last.ends), np.where(is_rest, 2.0 * power, power), np.inf)


def epochs_from(began: FloatArray, *, market: Market, mechanism: Mechanism, options: Exploiting) -> Iterator[Epoch]:
    """When each epoch of runs begins and ends that have exploited from these rounds on, (W,); spreads are left out."""
    epoch = before_the_first(began)
    while True:
        ends = following_ends(epoch, market=market, mechanism=mechanism, options=options)
        epoch = replace(epoch, number=epoch.number + 1, begins=epoch.ends, ends=ends)
        yield epoch


def epoch_numbered(
    number: int, began: FloatArray, *, market: Market, mechanism: Mechanism, options: Exploiting
) -> Epoch:
    """When the epoch of this number begins and ends; its spread is left out."""
    return next(islice(epochs_from(began, market=market, mechanism=mechanism, options=options), number, None))


def loosening(options: Exploiting, rounds: FloatArray) -> FloatArray:
    """What prior variances are multiplied by in an epoch that begins after so many rounds of exploitation, (W,)."""
    distinct, places = np.unique(rounds, return_inverse=True)
    return np.array([inflation_factor(options.inflation, int(n)) for n in distinct])[places]


class PredictionError:
    """The users over whom a spread averages the prediction error, and that average.

    They are the same ones in every run, live, simulated or audited.
    """

    def __init__(self, market: Market, agenda: Agenda) -> None:
        self.users, self._weights = spread_users(market.population)
        self._shares = agenda.is_sampled / agenda.is_sampled.sum()
        outer = self.users[:, :, None] * self.users[:, None, :]
        self._outer = self._weights[:, None] * outer.reshape(len(outer), -1)  # (U, d d)

    def __call__(self, kernel: FloatArray | None, variances: FloatArray) -> FloatArray:
        """E, (W,): the average over users and the last kernel of the variances of their rewards, (K, U, W) each.

        Before the first epoch there is no kernel: every arm that has samples is as likely.
        """
        if kernel is None:
            return self._weights @ np.tensordot(self._shares, variances, axes=(0, 0))
        return self._weights @ (kernel * variances).sum(axis=0)

    def averaged(self, kernel: FloatArray | None, covariances: FloatArray) -> FloatArray:
        """The same from the covariance of every arm's coefficients, (W, K, d, d), for many worlds at a time."""
        w, k, d, _ = covariances.shape
        tiles = covariances.reshape(w, k, d * d)
        if kernel is None:
            return np.einsum("k,wki->wi", self._shares, tiles) @ self._outer.sum(axis=0)
        met = np.tensordot(kernel, self._outer.astype(kernel.dtype, copy=False), axes=(1, 0))  # (K, W, d d)
        return np.einsum("kwi,wki->w", met, tiles)


def guard_in_force(mechanism: Mechanism, options: Exploiting) -> bool:
    """Whether off-best recommendations are cut."""
    return options.guard and mechanism.has_guard


def guard_of(mechanism: Mechanism, options: Exploiting, users: FloatArray, epoch: int) -> FloatArray | None:
    """Factors on the off-best probabilities of users (U, d) in an epoch, (U, K); None where nothing is cut.

    Arms that are not explored have none, whether a guard is in force or not.
    """
    guard = mechanism.guard(users, epoch) if guard_in_force(mechanism, options) else None
    return mechanism.agenda.cut_from(guard, len(users))
