"""Any policy as an audit looks at it: run world by world, with all that drove it at hand.

A policy with stages, such as the paper's algorithm, is looked at as each of them begins, for users know the stage;
others as rounds 1, 2, 4, ... begin.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rcb_bayes.auditing.averaging import averages_of
from rcb_bayes.auditing.view import Asked, Crowd, Looked, View, make_crowd
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.margins import MIN_WORLDS
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.panel import expected_rewards, make_panel
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.posterior import Engine, Rows, make_engine
from rcb_bayes.posterior.data import Data, Statistics
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.running.driving import drive
from rcb_bayes.running.history import History
from rcb_bayes.running.protocol import PolicyMaker, as_probabilities, completed
from rcb_bayes.running.worlds import SimulatedWorld
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track

_N_USERS = 2048


class _Seen(NamedTuple):
    """A stage, or a round, in a world: probabilities (U, K), the data behind them, and the arms that the policy itself
    takes for the best (U, K), where it says."""

    name: str
    chances: FloatArray
    data: Data
    best: FloatArray | None


def policy_views(market: Market, maker: PolicyMaker, asked: Asked, *, horizon: int) -> Looked:
    """Every stage, or round 1, 2, 4, ..., that enough worlds pass before the horizon."""
    believed = replace(market, nature=market.prior)  # users reckon with their own belief
    panel = make_panel(market, n_users=_N_USERS, rng=generator(asked.seed, Stream.POLICY_PANEL))
    crowd = make_crowd(market, panel, asked, rng=generator(asked.seed, Stream.POLICY_USERS))
    same = crowd.population is crowd.judged
    users = crowd.judged.users if same else np.concatenate([crowd.judged.users, crowd.population.users])
    looks: dict[str, list[_Seen]] = {}
    for child in track(np.random.SeedSequence(asked.seed).spawn(asked.n_worlds), description="worlds"):
        for seen in _watched(believed, maker, users, horizon, child):
            looks.setdefault(seen.name, []).append(seen)
    engine = _Counting(make_engine(market.prior, market.noise, seed=asked.seed))
    prior_rewards = expected_rewards(market.prior, market.noise, users)
    views = []
    for look in looks.values():
        if len(look) >= MIN_WORLDS:
            view = _view(look, engine, market, users, prior_rewards)
            views.append(_split(replace(view, share=len(look) / asked.n_worlds), crowd, asked.epsilon))
    rare = [name for name, look in looks.items() if len(look) < MIN_WORLDS]
    return Looked(
        crowd=crowd,
        views=views,
        notes=(f"too few worlds to judge: {', '.join(rare)}",) if rare else (),
        n_posteriors=engine.n_fitted,
        n_not_vouched=engine.n_not_vouched,
    )


class _Counting:
    """An engine that counts what it is asked for, and what is not vouched for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.prior, self.name, self.reason = engine.prior, engine.name, engine.reason
        self.n_fitted = self.n_not_vouched = 0

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        found = self._engine.fit(data, covariance=covariance, users=users)
        self.n_fitted += found.n_sets
        self.n_not_vouched += int((~found.vouched).sum())
        return found

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        return self._engine.draw(data, n, rng=rng)


def _view(look: list[_Seen], engine: Engine, market: Market, users: FloatArray, prior_rewards: FloatArray) -> View:
    rewards = expectations(engine, [seen.data for seen in look], users, n_arms=market.n_arms)
    told = [seen.best for seen in look if seen.best is not None]
    return View(
        name=look[0].name,
        chances=np.ascontiguousarray(np.stack([seen.chances for seen in look], axis=2).swapaxes(0, 1)),
        rewards=rewards,
        prior_rewards=prior_rewards,
        best=np.stack(told, axis=2).swapaxes(0, 1) if len(told) == len(look) else best_shares(rewards, axis=0),
    )


def _split(view: View, crowd: Crowd, epsilon: float) -> View:
    """The crowd's part of a view, with the averages over the population, which are the rest of it."""
    n, population = crowd.judged.n_users, crowd.population
    start = 0 if population is crowd.judged else n
    everybody = view.of_users(slice(start, None))
    averages = averages_of(everybody.of_users, population, epsilon=epsilon, n_worlds=view.n_worlds)
    return replace(view.of_users(slice(n)), averages=averages)


def expectations(engine: Engine, data: list[Data], users: FloatArray, *, n_arms: int) -> FloatArray:
    """What users expect of every arm given each of W data sets, (K, U, W)."""
    rows = [part for part in data if isinstance(part, Rows)]
    if not rows:
        sums = Statistics.joined([part for part in data if isinstance(part, Statistics)])
        return LinearOutlook(engine.fit(sums).mean).rewards(users)
    found = engine.fit(_padded(rows, n_arms), users=users).reward  # (W, U, K)
    assert found is not None  # users were given
    return np.ascontiguousarray(found.T)


def _padded(rows: list[Rows], n_arms: int) -> Rows:
    """Data sets of one length, the shorter ones padded."""
    n, d = max(part.x.shape[1] for part in rows), rows[0].x.shape[2]
    x, arm, reward = np.zeros((len(rows), n, d)), np.full((len(rows), n), -1), np.zeros((len(rows), n))
    for k, part in enumerate(rows):
        own = part.x.shape[1]
        x[k, :own], arm[k, :own], reward[k, :own] = part.x[0], part.arm[0], part.reward[0]
    return Rows(x=x, arm=arm, reward=reward, n_arms=n_arms)


class _Watched:
    """A policy in a world, and all samples that count."""

    def __init__(self, market: Market, maker: PolicyMaker, seed: np.random.SeedSequence) -> None:
        self._world = SimulatedWorld(market, seed)
        there = self._world.market
        self.policy = completed(maker(there, int(seed.generate_state(1)[0])))
        self._seen = History.of_market(there, keep_rows=True)
        self._sums_do = market.noise.is_gaussian

    def drive(self, start: int, stop: int) -> Iterator[None]:
        """Rounds start, ..., stop - 1, block by block."""
        for block in drive(self.policy, self._world, start=start, horizon=stop):
            counted = block.decisions.counted
            self._seen.add(block.x[counted], block.decisions.arm[counted], block.reward[counted])
            yield

    def looked_at(self, name: str, users: FloatArray) -> _Seen:
        """What users (U, d) are told now, and the data behind it, whatever the oracle is fed."""
        chances = as_probabilities(self.policy.recommend_proba(users), n_users=len(users))
        n = self.policy.n_acted_on
        known = self._seen if n is None else self._seen.first(n)
        data = known.sums() if self._sums_do else known.as_rows(range(len(known.n)))
        return _Seen(name, chances, data, self.policy.best(users))


def _watched(
    market: Market, maker: PolicyMaker, users: FloatArray, horizon: int, seed: np.random.SeedSequence
) -> Iterator[_Seen]:
    """One world: every stage as it begins; of a policy without stages rounds 1, 2, 4, ..."""
    watched = _Watched(market, maker, seed)
    stage = watched.policy.known_stage
    if stage is None:
        yield watched.looked_at("round 1", users)
        done = 0
        while 2 * done + 1 < horizon:
            for _ in watched.drive(done, 2 * done + 1):
                pass
            done = 2 * done + 1
            yield watched.looked_at(f"round {done + 1}", users)
        return
    yield watched.looked_at(stage, users)
    for _ in watched.drive(0, horizon):
        now = watched.policy.known_stage
        if now is not None and now != stage:
            stage = now
            yield watched.looked_at(stage, users)
