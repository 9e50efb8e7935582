r"""Thompson sampling after a warm start: with enough data of every arm users follow it.

.. math:: N = C \sigma^2 \epsilon^{-2} \log(1 / \delta), \qquad \epsilon = \min_{i \ne j} E[(\mu_i - \mu_j)^+],
          \qquad \delta = \min_i \Pr(i = \arg\max_j \mu_j) .
"""

from functools import lru_cache
from math import ceil, log

import numpy as np

from rcb_bayes.baselines.cold_started import ColdStarted, Collect, as_collect, collecting
from rcb_bayes.baselines.hidden_exploration import settled_rate
from rcb_bayes.baselines.thompson import LinThompson
from rcb_bayes.baselines.user_types import panel_of
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.mechanism.worlds import draw_worlds
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, as_positive, as_rng

_N_WORLDS = 10_000
_BOUNDED_SIGMA = 0.5  # of rewards in [0, 1], by Hoeffding's lemma


def warm_start_samples(gain: float, chance: float, *, sigma: float = 1.0, constant: float = 1.0) -> int:
    """N = C sigma^2 gain^(-2) log(1/chance), at least 1.

    Parameters
    ----------
    gain : float
        epsilon, the least E[(mu_i - mu_j)+] over pairs of arms.
    chance : float
        delta, the least probability of an arm to be the best.
    sigma : float
        Standard deviation of the rewards, 1/2 for any in [0, 1].
    constant : float
        C; the source has some absolute constant.

    Returns
    -------
    int
        N.

    Raises
    ------
    RcbError
        Numbers that are not positive, a chance above 1.
    """
    for name, value in {"gain": gain, "chance": chance, "sigma": sigma, "constant": constant}.items():
        as_positive(value, name=name)
    if chance > 1:
        raise RcbError(f"chance is a probability, got {chance:g}.")
    try:
        return max(1, ceil(constant * (sigma / gain) ** 2 * log(1.0 / chance)))
    except OverflowError:
        raise RcbError(f"A gain of {gain:g} takes more samples than can be counted. Give a larger one.") from None


@lru_cache(maxsize=16)
def estimate_separations(market: Market, *, n_worlds: int = _N_WORLDS, seed: int = DEFAULT_SEED) -> tuple[float, float]:
    """epsilon and delta under the users' belief, the least over a panel of users.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_worlds : int
        Worlds drawn from the users' belief.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    tuple of float, float
        epsilon and delta.
    """
    users = panel_of(market)
    beta = draw_worlds(market.prior, as_count(n_worlds, name="n_worlds", least=1), rng=as_rng(seed)).beta
    rewards = market.noise.mean_reward(np.einsum("ud,wkd->wuk", users, beta, optimize=True))
    chance = float(best_shares(rewards).mean(axis=0).min())
    k = market.n_arms
    gain = min(
        float(np.maximum(rewards[:, :, i] - rewards[:, :, j], 0.0).mean(axis=0).min())
        for i in range(k)
        for j in range(k)
        if i != j
    )
    return gain, chance


class ThompsonAfter(ColdStarted):
    """A cold start, then Thompson sampling."""

    thompson: LinThompson

    def decide_later(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Thompson sampling's."""
        return self.thompson.decide(x, features, uniforms)

    def proba_later(self, x: FloatArray) -> FloatArray:
        """Thompson sampling's."""
        return self.thompson.recommend_proba(x)

    def update_later(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn."""
        self.thompson.update(x, decisions, reward)


class WarmThompson(ThompsonAfter):
    r"""N samples of every arm, then Thompson sampling.

    .. math:: N = C \sigma^2 \epsilon^{-2} \log(1 / \delta)

    Source: Sellke and Slivkins, "The price of incentivizing exploration: a characterization via Thompson sampling and
    sample complexity", 2023; Sellke, "Incentivizing exploration with linear contexts and combinatorial actions", 2023.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int, optional
        N, from the belief unless given.
    constant : float
        C.
    collect : {"hidden", "in turn"}
        How the samples come in: "hidden", by hidden exploration, or "in turn", without asking users.
    inverse_rate : float, optional
        L of the hidden exploration, from the belief unless given.
    n_draws, batch : int
        Of the Thompson sampling.
    seed : int
        The same seed gives the same answer.

    Attributes
    ----------
    n_per_arm : int
        N.
    thompson : LinThompson
        The Thompson sampling, which knows the warm start's samples.

    Raises
    ------
    RcbError
        Numbers that are not positive, another way to collect, an arm that is never the best for some user, a belief
        under which no exploration can be hidden.

    Applicability
    -------------
    Proven for independent arms, users who are alike and rewards in [0, 1], with an absolute constant that is not given
    (1 here): whether an N will do is for ``audit`` to say. The source counts samples of rewards in [0, 1]; sigma^2
    makes that hold for others. With covariates epsilon and delta are the least over a panel of users, and N samples
    need not cover all directions.

    Examples
    --------
    Users who are all alike:

    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5], [0.4]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    >>> rcb.baselines.WarmThompson(market).n_per_arm
    2
    """

    def __init__(
        self,
        market: Market,
        *,
        n_per_arm: int | None = None,
        constant: float = 1.0,
        collect: Collect = "hidden",
        inverse_rate: float | None = None,
        n_draws: int = 1,
        batch: int = 1,
        seed: int = DEFAULT_SEED,
    ) -> None:
        as_collect(collect)
        c = as_positive(constant, name="constant")
        self.n_per_arm = (
            needed_samples(market, c) if n_per_arm is None else as_count(n_per_arm, name="n_per_arm", least=1)
        )
        found = 1.0
        if collect == "hidden":
            found = settled_rate(
                market, inverse_rate, n_per_arm=self.n_per_arm, what="A warm start by hidden exploration"
            )
        super().__init__(market, collecting(market, n_per_arm=self.n_per_arm, collect=collect, inverse_rate=found))
        self.thompson = LinThompson(market, n_draws=n_draws, batch=batch, seed=seed)

    def begin(self) -> None:
        """Hand the warm start over."""
        self.thompson.begin_with(self.cold.history)
        self.history = self.thompson.history


def needed_samples(market: Market, constant: float) -> int:
    """The samples that a belief asks for.

    Raises
    ------
    RcbError
        An arm that is never the best for some user, an unknown noise.
    """
    gain, chance = estimate_separations(market)
    if gain <= 0 or chance <= 0:
        raise RcbError(
            "No number of samples makes Thompson sampling followed: for some user an arm is hardly ever the best. "
            "Give n_per_arm, or plan with rcb.calibrate."
        )
    sigma = getattr(market.noise, "sigma", None) if market.noise.is_gaussian else _BOUNDED_SIGMA
    if sigma is None:
        raise RcbError("The number of samples needs the noise's sigma, which this belief leaves open. Give n_per_arm.")
    return warm_start_samples(gain, chance, sigma=float(sigma), constant=constant)
