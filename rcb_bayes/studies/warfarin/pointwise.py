r"""Does a heeding policy keep its word in every world, not only on average?

In worlds of the physician's belief, as every epoch of exploitation begins, the smallest of
:math:`p_i (m_i - m_j)` (``proof``) or of :math:`m_i - m_j` where :math:`p_i > 0` (``user``) is looked up over patients,
arms and rivals. It is not an estimate: each world by itself has to stay at -epsilon or above.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.margins import Verdict
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.simulation import PAGE, PolicyMaker, World
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.studies.warfarin.heeding import Heeding
from rcb_bayes.telling.progress import track

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
    maker: PolicyMaker,
    *,
    horizon: int,
    n_worlds: int = 20,
    n_users: int = 500,
    seed: int = DEFAULT_SEED,
) -> Pointwise:
    """Run a heeding policy in worlds of the users' belief and look up its smallest margin.

    Parameters
    ----------
    maker : makes the policy, a ``Heeding``, from the market and a seed
    n_users : patients whose margins are looked up, drawn at random
    """
    n_worlds = as_count(n_worlds, name="n_worlds", least=1)
    users = np.ascontiguousarray(market.covariates.sample(as_count(n_users, name="n_users", least=1), seed=seed).T)
    smallest, n_epochs = np.inf, 0
    policy = None
    for child in track(np.random.SeedSequence(seed).spawn(n_worlds), description="worlds"):
        policy = maker(market, int(child.generate_state(1)[0]))
        assert isinstance(policy, Heeding)
        found = _watched(World(market, child), policy, users, horizon=horizon)
        smallest, n_epochs = min(smallest, *found, np.inf), max(n_epochs, len(found))
    assert isinstance(policy, Heeding)
    return Pointwise(
        epsilon=float(policy.epsilon),
        notion=policy.notion,
        smallest=float(smallest) if n_epochs else np.nan,
        n_worlds=n_worlds,
        n_epochs=n_epochs,
    )


def _watched(world: World, policy: Heeding, users: FloatArray, *, horizon: int) -> list[float]:
    """The smallest margin as each epoch begins."""
    seen, done = -1, 0
    out: list[float] = []
    while done < horizon:
        exploitation = policy.exploitation
        if exploitation is not None and exploitation.epoch > seen:
            seen = exploitation.epoch
            out.append(_smallest(policy, users))
        number, place = divmod(done, PAGE)
        page = world.page(number)
        stop = min(PAGE, place + horizon - done)
        x = page.x[place:stop]
        decisions = policy.decide(x, np.ascontiguousarray(x.T), page.uniforms[place:stop])
        x = x[: len(decisions)]
        eta = (x * world.beta[decisions.arm]).sum(axis=1)
        policy.update(x, decisions, world.rewards(eta, page.noise[place : place + len(decisions)]))
        done += len(decisions)
    return out


def _smallest(policy: Heeding, users: FloatArray) -> float:
    probabilities, expected = policy.cut(Rcb.recommend_proba(policy, users.T).T, users)
    lead = expected - expected.max(axis=0)  # at most 0: against the best rival
    if policy.notion == "proof":
        return float((probabilities * lead).min())
    return float(lead[probabilities > 0.0].min())
