"""What NUTS will cost, said before it begins: a rehearsal counts the posteriors, a trial of one of them times them.

The rehearsal is the call itself in a market that differs in one thing: every belief is a Gaussian one with the same
means and covariances, whose posteriors take microseconds. How many are asked for depends on the plan that is found, so
that the number is an estimate; a formula would be one, too, and would have to know how every call goes about its work.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.belief.moving import MovedPrior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.worlds import draw_worlds, simulate_data
from rcb_bayes.posterior.counting import counting
from rcb_bayes.posterior.engines import is_sampled
from rcb_bayes.posterior.nuts import NutsEngine
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import announce, duration
from rcb_bayes.workers import Workers
from rcb_bayes.workers.serving import in_worker

_LONG_SECONDS = 20.0
_N_PER_ARM = 20  # of the trial: posteriors of few samples and of many take about as long
_SIGMA = 0.5  # of the rehearsal, where rewards are 0 or 1

_is_told: ContextVar[bool] = ContextVar("whether the cost has been told", default=False)


def foresee(
    market: Market,
    rehearse: Callable[[Market], object] | int | None,
    *,
    more: int = 0,
    engine: str = "auto",
    workers: Workers = None,
    seed: int,
) -> None:
    """Say in one line on standard error how long a call will take, where NUTS answers and it takes long.

    Parameters
    ----------
    market : whose posteriors are asked for
    rehearse : the call in another market, or how many posteriors it asks for; None where neither is to be had: then the
        time of one posterior is said
    more : posteriors that a rehearsal would not ask for
    engine : of the users' posteriors
    workers : who shares the work
    """
    sampled = _sampled_belief(market, engine=engine)
    if sampled is None or _is_told.get() or in_worker():
        return
    n = _rehearsed(market, rehearse) if callable(rehearse) else rehearse
    seconds = _seconds(sampled, market, seed=seed)
    n = None if n is None else n + more
    total = None if n is None else n * seconds
    if total is not None and total < _LONG_SECONDS:
        return
    each = f"NUTS answers for '{sampled.name}', about {seconds:.2f} s a posterior"
    if n is None or total is None:
        announce(f"{each}; how many are asked for is not known beforehand.")
        return
    hands = workers if isinstance(workers, int) and workers > 1 else 1
    crew = f", shared by {hands} workers" if hands > 1 else ""
    announce(f"{each}: some {n:,} of them take {duration(total / hands)}{crew}.")


@contextmanager
def told() -> Iterator[None]:
    """Nothing more is said in here: the cost of all of it has been."""
    token = _is_told.set(True)
    try:
        yield
    finally:
        _is_told.reset(token)


def stand_in(market: Market) -> Market:
    """The market with beliefs of the same means and covariances whose posteriors are in closed form."""
    made: Any = cache(gaussian_like)  # two roles with one belief go on sharing it
    roles = {role: made(getattr(market, role)) for role in ("prior", "platform_prior", "nature")}
    return replace(market, noise=GaussianNoise(_sigma(market)), **roles)


def gaussian_like(prior: Prior) -> Prior:
    """A belief with the same means, covariances, independent arms and arms that are alike, as a mixture of two.

    Of one and the same Gaussian: of single ones some posteriors need not be asked for at all.
    """
    mean, covariance = prior.mean.values, _covariance(prior)
    k, d = mean.shape
    blocks = []
    for arms in prior.groups:
        index = [arm * d + j for arm in arms for j in range(d)]
        own = covariance[np.ix_(index, index)]
        blocks.append(
            Block(
                arms=tuple(arms),
                weights=np.array([0.5, 0.5]),
                means=np.stack([mean[list(arms)].reshape(-1)] * 2),
                covariances=np.stack([own] * 2),
            )
        )
    return Prior(
        arms=prior.arms,
        features=prior.features,
        groups=prior.groups,
        law=GaussianLaw(n_arms=k, n_features=d, blocks=tuple(blocks)),
        source=None,
        name=prior.name,
        feature_map=prior.feature_map,
    )


def _covariance(prior: Prior) -> FloatArray:
    """(K d, K d), the same for arms that are alike."""
    k, d = prior.n_arms, prior.n_features
    tiles = prior.covariance.values.reshape(k, d, k, d).copy()
    for arms in prior.alike:
        own = np.mean([tiles[arm, :, arm] for arm in arms], axis=0)
        for arm in arms:
            tiles[arm, :, arm] = own
    return tiles.reshape(k * d, k * d)


def _sampled_belief(market: Market, *, engine: str) -> Prior | None:
    """The belief whose posteriors are sampled, the users' before the platform's."""
    for prior, name in ((market.prior, engine), (market.platform_prior, "auto")):
        belief = prior.base if isinstance(prior, MovedPrior) else prior
        if is_sampled(belief, market.noise, engine=name):
            return belief
    return None


def _rehearsed(market: Market, rehearse: Callable[[Market], object]) -> int | None:
    """How many posteriors the call asks for; None where it cannot be told."""
    with counting() as count, warnings.catch_warnings(), told():
        warnings.simplefilter("ignore")
        try:
            rehearse(stand_in(market))
        except (RcbError, np.linalg.LinAlgError):
            return None
    return count.n_posteriors


def _seconds(prior: Prior, market: Market, *, seed: int) -> float:
    """How long one posterior takes."""
    alone = replace(market, prior=prior, platform_prior=prior, nature=prior)
    rng = np.random.default_rng(seed)
    worlds = draw_worlds(prior, 1, rng=rng)
    data = simulate_data(worlds, alone, n_per_arm=np.full(market.n_arms, _N_PER_ARM), rng=rng)
    return NutsEngine(prior, market.noise, seed=seed).seconds(data)


def _sigma(market: Market) -> float:
    """The noise of the rehearsal."""
    if not market.noise.is_gaussian:
        return _SIGMA
    known = getattr(market.noise, "sigma", None)
    if known is not None:
        return float(known)
    sigma = market.prior.draw_arrays(1000, rng=np.random.default_rng(0))[1]
    return _SIGMA if sigma is None else float(np.sqrt(np.mean(sigma**2)))
