"""One mechanism: a live recommender, a block simulation and the worlds of an audit agree, whatever the options.

The product of clock, feed, spread, inflation, known and unknown sigma, guard. One run is made three times from the same
users, choices and noise: one by one, in blocks, and, from the samples of its epochs, side by side as audits have it.
Each tells of every epoch when it begins and ends, its spread, and the probabilities of some users.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.mechanism.engines import make_engines
from rcb_bayes.mechanism.epoch import guard_of
from rcb_bayes.mechanism.epoch_worlds import EpochWorlds
from rcb_bayes.mechanism.exploiting import CHOICES, INFLATIONS, Exploiting
from rcb_bayes.mechanism.panel import make_panel
from rcb_bayes.mechanism.worlds import Worlds
from rcb_bayes.planning.exploitation import GuardRule
from rcb_bayes.planning.leaves import LeafTable, Leaves
from rcb_bayes.planning.stages import PlannedStage
from rcb_bayes.posterior import Statistics
from rcb_bayes.running.driving import drive
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.worlds import SimulatedWorld

HORIZON, N = 150, 4
SEED = np.random.SeedSequence(5)
USERS = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.1, 0.0]])
FACTORS = np.array([0.3, 0.7])


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An epoch, as one of the three tells of it."""

    number: int
    begins: float
    ends: float
    gamma: float
    probabilities: np.ndarray


@cache
def market(known: bool) -> Market:
    covariates = rcb.Uniform([0.0, 0.0], [1.0, 1.0])
    if known:
        prior = Prior.gaussian([[0.4, 0.2], [0.1, 0.2]], 0.2)
        return Market(prior=prior, covariates=covariates, noise=rcb.GaussianNoise(0.3))
    return Market(prior=rcb.load_prior("unknown_noise", n_arms=2, n_features=2), covariates=covariates)


@cache
def plan(known: bool) -> Plan:
    """Half of the users explored, and a guard that cuts."""
    fixed = rcb.fixed_plan(market(known), n_per_arm=N, exploration_rate=0.5, epsilon=0.05)
    nothing = np.zeros(0)
    cut = GuardRule(outlook=None, gamma=nothing, slack=0.0, factors=FACTORS, kept=0.5, closed=0.0)
    later = replace(cut, factors=FACTORS**2)
    return replace(fixed, exploitation=replace(fixed.exploitation, guards=(cut, later)))


@cache
def oracle(known: bool) -> PosteriorOracle:
    return PosteriorOracle(market(known).platform_prior, market(known).noise, read="engine")


def world(known: bool) -> SimulatedWorld:
    return SimulatedWorld(market(known), SEED)


def seen_by(policy: Rcb) -> Seen:
    epochs = policy.exploitation
    assert epochs is not None
    chances = policy.recommend_proba(USERS)
    return Seen(number=epochs.epoch, begins=epochs.begins, ends=epochs.ends, gamma=epochs.gamma, probabilities=chances)


def in_blocks(known: bool, options: Exploiting) -> tuple[list[Seen], list[Any]]:
    """What a block simulation does; also the samples of the cold start, and of each epoch."""
    policy = Rcb(market(known), plan(known), oracle=oracle(known), options=options)
    seen: list[Seen] = []
    data: list[Any] = []
    was_cold = True
    for block in drive(policy, world(known), horizon=HORIZON):
        if not was_cold:
            data.append(Statistics.from_rows(block.x, arm=block.decisions.arm, reward=block.reward, n_arms=2))
        elif policy.exploitation is not None:
            data.append(policy.cold.history.sums())
        was_cold = policy.exploitation is None
        if policy.exploitation is not None and (not seen or policy.exploitation.epoch > seen[-1].number):
            seen.append(seen_by(policy))
    return seen, data


def live(known: bool, options: Exploiting) -> list[Seen]:
    """One user at a time."""
    agent = rcb.Recommender(market(known), plan(known), oracle=oracle(known), options=options, seed=SEED)
    here = world(known)
    seen: list[Seen] = []
    arms = list(agent.market.arms)
    for t in range(HORIZON):
        told = agent.recommend(here.arrivals(t, t + 1).x[0])
        agent.observe(here.rewards(t, np.array([arms.index(told.arm)]))[0], ticket=told.ticket)
        epochs = agent._rcb.exploitation
        if epochs is not None and (not seen or epochs.epoch > seen[-1].number):
            seen.append(seen_by(agent._rcb))
    return seen


def side_by_side(known: bool, options: Exploiting, data: list[Any], began: float, n_epochs: int) -> list[Seen]:
    """As guards and audits have it, in the one world whose epochs brought these samples."""
    own = market(known)
    here = world(known)
    sigma = None if known else np.array([here.nature.sigma or 0.0])
    epochs = EpochWorlds(
        make_engines(own, seed=0),
        make_panel(own, n_users=16, rng=np.random.default_rng(0)),
        Worlds(beta=here.beta[None], sigma=sigma),
        data[0],
        mechanism=plan(known),
        options=options,
        began=np.array([began]),
        rng=np.random.default_rng(0),
    )
    seen = []
    for k in range(n_epochs):
        if k:
            epochs.absorb(data[k])
            epochs.begin()
        chances = epochs.probabilities(USERS, guard=guard_of(plan(known), options, USERS, epochs.epoch))
        state = epochs.state
        seen.append(
            Seen(
                number=state.number,
                begins=state.begins[0],
                ends=state.ends[0],
                gamma=state.gamma[0],
                probabilities=chances[:, :, 0].T,
            )
        )
    return seen


def agree(one: list[Seen], other: list[Seen], *, rel: float) -> bool:
    """Same epochs, same spreads, same probabilities."""
    if len(one) != len(other):
        return False
    return all(
        (a.number, a.begins, a.ends) == (b.number, b.begins, b.ends)
        and np.isclose(a.gamma, b.gamma, rtol=rel, atol=0.0)
        and np.allclose(a.probabilities, b.probabilities, rtol=0.0, atol=rel)
        for a, b in zip(one, other, strict=True)
    )


OPTIONS = [
    {"clock": clock, "feed": feed, "spread": spread, "inflation": inflation, "guard": guard}
    for clock, feed, spread, inflation, guard in product(*CHOICES.values(), INFLATIONS, (True, False))
]


def names(options: dict[str, Any]) -> str:
    return "-".join(str(value) for value in options.values())


@pytest.mark.filterwarnings("ignore::rcb_bayes.errors.GuardWarning")
@pytest.mark.parametrize("known", [True, False], ids=["sigma known", "sigma unknown"])
@pytest.mark.parametrize("chosen", OPTIONS, ids=names)
def test_live_block_and_audited_worlds_are_one_mechanism(chosen: dict[str, Any], known: bool) -> None:
    options = Exploiting(**chosen)
    if not known and options.inflation != "none":
        for run in (in_blocks, live):
            with pytest.raises(rcb.RcbError, match="Inflation stretches a prior"):
                run(known, options)
        return
    blocks, data = in_blocks(known, options)
    assert len(blocks) >= 3
    assert agree(blocks, live(known, options), rel=0.0)
    audited = side_by_side(known, options, data, blocks[0].begins, len(blocks))
    assert agree(blocks, audited, rel=1e-7)


@pytest.mark.filterwarnings("ignore::rcb_bayes.errors.GuardWarning")
@pytest.mark.parametrize("chosen", OPTIONS[:: len(OPTIONS) // 8], ids=names)
@pytest.mark.parametrize("n_per_arm", [(4, 0), (0, 6), (3, 7)], ids=str)
def test_samples_of_each_arm_are_one_mechanism_too(
    chosen: dict[str, Any], n_per_arm: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Exploiting(**chosen)
    same = plan(True)
    each = rcb.fixed_plan(market(True), n_per_arm=n_per_arm, exploration_rate=0.5, epsilon=0.05)
    each = replace(each, exploitation=same.exploitation)
    monkeypatch.setitem(globals(), "plan", lambda known: each)
    blocks, data = in_blocks(True, options)
    assert len(blocks) >= 3
    assert agree(blocks, live(True, options), rel=0.0)
    audited = side_by_side(True, options, data, blocks[0].begins, len(blocks))
    assert agree(blocks, audited, rel=1e-7)
    monkeypatch.setitem(globals(), "plan", lambda known: same)
    if options.clock == "relative" or 0 in n_per_arm:  # the planted error: worlds of an audit that know of one N only
        assert not agree(blocks, side_by_side(True, options, data, blocks[0].begins, len(blocks)), rel=1e-7)


@cache
def ruled(known: bool) -> Plan:
    """A plan whose rates and cuts are those of leaves, another for each of four kinds of users."""
    leaves = Leaves(
        weights=np.array([[1.0, 0.0], [0.7, -1.0], [0.0, 1.0]]),
        thresholds=np.array([0.45, 0.1, 0.6]),
        below=np.array([1, -1, -3]),
        above=np.array([2, -2, -4]),
    )
    rates = LeafTable(leaves=leaves, values=np.array([[0.2], [0.9], [0.5], [0.7]]))
    stages = [
        PlannedStage(
            saturated=(arm,),
            level=1,
            share=0.5,
            rate=0.5,
            rate_mcse=0.0,
            share_explored=1.0,
            share_free=0.0,
            rule=rates,
        )
        for arm in market(known).arms
    ]
    cuts = LeafTable(leaves=leaves, values=np.array([[0.3, 0.7], [1.0, 0.0], [0.5, 0.2], [0.9, 0.9]]))
    guard = replace(plan(known).guards[0], factors=None, by_leaf=cuts)
    later = replace(guard, by_leaf=replace(cuts, values=cuts.values**2))
    made = plan(known)
    return replace(
        made,
        goal=replace(made.goal, personalised=True),
        constants=replace(made.constants, kind="sampled"),
        cold_start=replace(made.cold_start, stages=tuple(stages)),
        exploitation=replace(made.exploitation, guards=(guard, later)),
    )


@pytest.mark.parametrize("chosen", OPTIONS[:: len(OPTIONS) // 5], ids=names)
@pytest.mark.filterwarnings("ignore::rcb_bayes.errors.GuardWarning")
def test_a_rule_is_one_mechanism_too(chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(Exploiting(**chosen), guard=True)
    without = in_blocks(True, options)[0]
    by_leaves = ruled(True)
    monkeypatch.setitem(globals(), "plan", lambda known: by_leaves)
    blocks, data = in_blocks(True, options)
    assert len(blocks) >= 3
    assert agree(blocks, live(True, options), rel=0.0)
    assert agree(blocks, side_by_side(True, options, data, blocks[0].begins, len(blocks)), rel=1e-7)
    assert not agree(blocks, without, rel=1e-7)


@pytest.mark.parametrize(
    "planted",
    [{"clock": "global"}, {"feed": "last"}, {"spread": "paper"}, {"inflation": "sqrt"}, {"guard": False}],
    ids=str,
)
def test_a_difference_in_any_option_is_noticed(planted: dict[str, Any]) -> None:
    """The planted errors: worlds of an audit that go by another clock, feed, spread, inflation or guard."""
    blocks, data = in_blocks(True, Exploiting())
    assert agree(blocks, side_by_side(True, Exploiting(), data, blocks[0].begins, len(blocks)), rel=1e-7)
    other = side_by_side(True, Exploiting(**planted), data, blocks[0].begins, len(blocks))
    assert not agree(blocks, other, rel=1e-7)
