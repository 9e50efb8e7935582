"""Faithful runs of a plan with given users, in worlds of the users' belief: what a log is compared with."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.streams import Stream, sequence
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.driving import Block, drive
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.worlds import GivenUsers, Nature
from rcb_bayes.telling.progress import track

if TYPE_CHECKING:
    from rcb_bayes.running.log_tables import Log


def faithful_runs(
    market: Market, plan: Plan, log: "Log", *, n_runs: int, options: Exploiting | None, seed: int
) -> "Iterator[Log]":
    """Logs of runs that follow the plan, with the users of a log in their order and rewards at once.

    Where the log has no propensities, these have none either.
    """
    believed = replace(market, nature=market.prior)
    oracle = PosteriorOracle(market.platform_prior, market.noise, read="engine")
    for child in track(sequence(seed, Stream.FAITHFUL_RUNS).spawn(n_runs), description="faithful runs"):
        nature = Nature(believed, child)
        there = nature.remembered(believed, child)
        policy = Rcb(there, plan, oracle=oracle, options=options)
        rng = np.random.default_rng(child.spawn(1)[0])
        uniforms, noise = rng.random((len(log.x), 2)), rng.standard_normal(len(log.x))
        world = GivenUsers(nature, x=log.x, uniforms=uniforms, noise=noise)
        yield replace(_logged(list(drive(policy, world, horizon=len(log.x))), log), past=there.past)


def _logged(blocks: list[Block], log: "Log") -> "Log":
    """The log of a run."""
    arm = np.concatenate([block.decisions.arm for block in blocks])
    chances = np.concatenate([block.decisions.probabilities.T for block in blocks])
    return replace(
        log,
        arm=arm,
        taken=arm,
        reward=np.concatenate([block.reward for block in blocks]),
        weights=chances if log.has_propensities else np.eye(chances.shape[1])[arm],
        counted=np.concatenate([block.decisions.counted for block in blocks]),
    )
