r"""Does a heeding policy keep its word in every world, not only on average?

In worlds of the physician's belief, as every epoch of exploitation begins, the smallest of
:math:`p_i (m_i - m_j)` (``proof``) or of :math:`m_i - m_j` where :math:`p_i > 0` (``user``) is looked up over patients,
arms and rivals. It is not an estimate: each world by itself has to stay at -epsilon or above.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.margins import Verdict
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.running.driving import drive
from rcb_bayes.running.heeding import Heeding
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.worlds import SimulatedWorld
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.telling.progress import track

RcbMaker = Callable[[Market, int], Rcb]
"""RCB for a world, from the market and a seed."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointwise:
    """The smallest margin of any world, epoch, patient, arm and rival (NaN of none), and what it is judged by."""

    epsilon: float
    notion: str
    smallest: float
    n_worlds: int
    n_epochs: int

    @property
    def verdict(self) -> Verdict:
        """Whether no margin is below -epsilon; inconclusive where no world got as far as exploitation."""
        if not self.n_epochs:
            return "inconclusive"
        return "pass" if self.smallest >= -self.epsilon - _ROUNDING else "fail"


def pointwise_margin(
    market: Market,
    maker: RcbMaker,
    *,
    horizon: int,
    n_worlds: int = 20,
    n_users: int = 500,
    seed: int = DEFAULT_SEED,
) -> Pointwise:
    """Run a heeding policy in worlds of the users' belief and look up its smallest margin.

    Parameters
    ----------
    maker : makes RCB with a ``Heeding`` oracle from the market and a seed
    n_users : patients whose margins are looked up, drawn at random
    """
    n_worlds = as_count(n_worlds, name="n_worlds", least=1)
    users = np.ascontiguousarray(market.covariates.sample(as_count(n_users, name="n_users", least=1), seed=seed).T)
    smallest, n_epochs = np.inf, 0
    policy = None
    for child in track(np.random.SeedSequence(seed).spawn(n_worlds), description="worlds"):
        policy = maker(market, int(child.generate_state(1)[0]))
        margins = _watched(SimulatedWorld(market, child), policy, users, horizon=horizon)
        smallest, n_epochs = min(smallest, *margins, np.inf), max(n_epochs, len(margins))
    assert policy is not None  # of one world at least
    heeding = _heeding(policy)
    return Pointwise(
        epsilon=float(heeding.epsilon or 0.0),
        notion=str(heeding.notion),
        smallest=float(smallest) if n_epochs else np.nan,
        n_worlds=n_worlds,
        n_epochs=n_epochs,
    )


def _watched(world: SimulatedWorld, policy: Rcb, users: FloatArray, *, horizon: int) -> list[float]:
    """The smallest margin as each epoch begins."""
    seen = -1
    margins: list[float] = []
    for block in drive(policy, world, horizon=horizon):
        exploitation = policy.exploitation
        if exploitation is not None and exploitation.epoch > seen and block.stop < horizon:
            seen = exploitation.epoch
            margins.append(_smallest(policy, users))
    return margins


def _smallest(policy: Rcb, users: FloatArray) -> float:
    assert policy.exploitation is not None  # looked at as its epochs begin
    probabilities, expected = policy.recommend_proba(users.T).T, policy.exploitation.scores(users)
    lead = expected - expected.max(axis=0)  # at most 0: against the best rival
    mass = as_notion(_heeding(policy).notion).mass(probabilities)
    told = mass > 0.0
    return float((probabilities[told] * lead[told] / mass[told]).min())


def _heeding(policy: Rcb) -> Heeding:
    assert isinstance(policy.oracle, Heeding)  # others give no word to keep
    return policy.oracle
