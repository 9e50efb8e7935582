"""Faithful runs of a plan with given users, in worlds of the users' belief: what a log is compared with."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.streams import Stream, sequence
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.simulation import World
from rcb_bayes.telling.progress import track

if TYPE_CHECKING:
    from rcb_bayes.auditing.logs import Log


def faithful_runs(
    market: Market, plan: Plan, log: "Log", *, n_runs: int, options: Exploiting | None, seed: int
) -> "Iterator[Log]":
    """Logs of runs that follow the plan, with the users of a log in their order and rewards at once.

    Where the log has no propensities, these have none either.
    """
    believed = replace(market, nature=market.prior)
    oracle = PosteriorOracle(market.platform_prior, market.noise, read="engine")
    for child in track(sequence(seed, Stream.FAITHFUL_RUNS).spawn(n_runs), description="faithful runs"):
        policy = Rcb(believed, plan, oracle=oracle, options=options)
        yield _run(World(believed, child), policy, log, np.random.default_rng(child.spawn(1)[0]))


def _run(world: World, policy: Rcb, log: "Log", rng: np.random.Generator) -> "Log":
    n, k = len(log.x), policy.market.n_arms
    features = np.ascontiguousarray(log.x.T)
    uniforms, noise = rng.random((n, 2)), rng.standard_normal(n)
    truth = world.beta @ features
    arm, counted = np.empty(n, dtype=np.int64), np.empty(n, dtype=bool)
    reward, chances = np.empty(n), np.empty((n, k))
    start = 0
    while start < n:
        decisions = policy.decide(log.x[start:], features[:, start:], uniforms[start:])
        own = slice(start, start + len(decisions))
        arm[own], counted[own] = decisions.arm, decisions.counted
        chances[own] = decisions.probabilities.T
        reward[own] = world.rewards(truth[decisions.arm, np.arange(own.start, own.stop)], noise[own])
        policy.update(log.x[own], decisions, reward[own])
        start = own.stop
    weights = chances if log.has_propensities else np.eye(k)[arm]
    return replace(log, arm=arm, taken=arm, reward=reward, weights=weights, counted=counted)
