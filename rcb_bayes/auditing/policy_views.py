"""Any policy as an audit looks at it: run world by world, with all that drove it at hand.

A policy with stages, such as the paper's algorithm, is looked at as each of them begins, for users know the stage;
others as rounds 1, 2, 4, ... begin.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rcb_bayes.auditing.averaging import averages_of
from rcb_bayes.auditing.view import Asked, Crowd, Looked, View, make_crowd
from rcb_bayes.files.store import Store, part_file, part_format, read_part, write_part
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.margins import MIN_WORLDS
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.panel import expected_rewards, make_panel
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.posterior import Engine, Rows, make_engine
from rcb_bayes.posterior.data import Data, Statistics, unchecked_statistics
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.running.driving import drive
from rcb_bayes.running.history import History
from rcb_bayes.running.protocol import PolicyMaker, as_probabilities, completed
from rcb_bayes.running.worlds import SimulatedWorld
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.workers import Workers, run_blocks, run_kept, run_tasks

if TYPE_CHECKING:
    import xarray as xr

_N_USERS = 2048
_FIT_WORLDS = 100  # whose posteriors are fitted together


class _Seen(NamedTuple):
    """A stage, or a round, in a world: probabilities (U, K), the data behind them, the arms that the policy itself
    takes for the best (U, K), where it says, and those that are there (K,), where not all are."""

    name: str
    chances: FloatArray
    data: Data
    best: FloatArray | None
    present: BoolArray | None = None


def policy_views(
    market: Market,
    maker: PolicyMaker,
    asked: Asked,
    *,
    horizon: int,
    workers: Workers = None,
    store: Store | None = None,
) -> Looked:
    """Every stage, or round 1, 2, 4, ..., that enough worlds pass before the horizon.

    Worlds are run one by one, by as many workers as there are, and each has a seed of its own; ``store`` keeps them.
    """
    believed = replace(market, nature=market.prior)  # users reckon with their own belief
    panel = make_panel(market, n_users=_N_USERS, rng=generator(asked.seed, Stream.POLICY_PANEL))
    crowd = make_crowd(market, panel, asked, rng=generator(asked.seed, Stream.POLICY_USERS))
    same = crowd.population is crowd.judged
    users = crowd.judged.users if same else np.concatenate([crowd.judged.users, crowd.population.users])
    cast = _Cast(believed, maker, users, horizon, asked.seed)
    looks: dict[str, list[_Seen]] = {}
    for world in _run_worlds(cast, asked.n_worlds, workers, store):
        for seen in world:
            looks.setdefault(seen.name, []).append(seen)
    wanted = {name: look for name, look in looks.items() if len(look) >= MIN_WORLDS}
    expected, counts = _expected(market, asked, [look for look in wanted.values()], users, workers)
    prior_rewards = expected_rewards(market.prior, market.noise, users)
    views = []
    for look, rewards in zip(wanted.values(), expected, strict=True):
        view = _view(look, rewards, prior_rewards)
        views.append(_split(replace(view, share=len(look) / asked.n_worlds), crowd, asked.epsilon))
    rare = [name for name in looks if name not in wanted]
    return Looked(
        crowd=crowd,
        views=views,
        notes=(f"too few worlds to judge: {', '.join(rare)}",) if rare else (),
        n_posteriors=counts[0],
        n_not_vouched=counts[1],
    )


# --- worlds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cast:
    """What worlds share."""

    market: Market
    maker: PolicyMaker
    users: FloatArray
    horizon: int
    seed: int


def _same(cast: _Cast) -> _Cast:
    return cast


def _run_worlds(cast: _Cast, n_worlds: int, workers: Workers, store: Store | None) -> list[list[_Seen]]:
    """All worlds, in their order."""
    make = partial(_same, cast)
    if store is None or store.folder is None:
        return run_blocks(_world, n_worlds, make=make, workers=workers)
    return run_kept(
        store,
        {part_file(f"world-{number}"): number for number in range(n_worlds)},
        function=_world,
        make=make,
        save=lambda number, seen, path: write_part(part_format(f"world-{number}"), _as_dataset(seen), path),
        load=lambda number, path: _as_seen(read_part(part_format(f"world-{number}"), path), cast.market.n_arms),
        workers=workers,
        description="worlds",
    )


def _world(cast: _Cast, number: int) -> list[_Seen]:
    seed = np.random.SeedSequence(cast.seed, spawn_key=(number,))  # as the seed's own children have it
    return list(_watched(cast.market, cast.maker, cast.users, cast.horizon, seed))


def _as_dataset(seen: list[_Seen]) -> "xr.Dataset":
    """A world as it is kept in a file."""
    import xarray as xr

    parts: dict[str, np.ndarray] = {"chances": np.stack([one.chances for one in seen])}
    told = [one.best for one in seen if one.best is not None]
    if len(told) == len(seen):
        parts["best"] = np.stack(told).astype(float)
    if any(one.present is not None for one in seen):
        n_arms = seen[0].chances.shape[1]
        there = [np.ones(n_arms) if one.present is None else one.present for one in seen]
        parts["present"] = np.stack(there).astype(float)
    data = [one.data for one in seen]
    if isinstance(data[0], Rows):
        rows = [part for part in data if isinstance(part, Rows)]
        parts |= {name: np.concatenate([getattr(part, name)[0] for part in rows]) for name in ("x", "arm", "reward")}
        parts["length"] = np.array([part.x.shape[1] for part in rows])
    else:
        sums = Statistics.joined([part for part in data if isinstance(part, Statistics)])
        parts |= {name: getattr(sums, name) for name in ("xtx", "xty", "yty", "n")}
    variables: dict[str, Any] = {
        name: (tuple(f"{name}_{k}" for k in range(part.ndim)), part) for name, part in parts.items()
    }
    return xr.Dataset(variables | {"look": ("look_0", [one.name for one in seen])})


def _as_seen(data: "xr.Dataset", n_arms: int) -> list[_Seen]:
    """A world as it was kept."""
    names = [str(name) for name in data["look"].values]
    chances = data["chances"].values
    best = data["best"].values if "best" in data else [None] * len(names)
    present = data["present"].values > 0.0 if "present" in data else [None] * len(names)
    if "length" not in data:
        sums = unchecked_statistics(*(data[name].values for name in ("xtx", "xty", "yty", "n")))
        parts: list[Data] = [sums.take(np.array([k])) for k in range(len(names))]
    else:
        ends = np.cumsum(data["length"].values)
        x, arm, reward = (np.split(data[name].values, ends[:-1]) for name in ("x", "arm", "reward"))
        parts = [Rows(x=x[k][None], arm=arm[k][None], reward=reward[k][None], n_arms=n_arms) for k in range(len(names))]
    return [_Seen(*each) for each in zip(names, chances, parts, best, present, strict=True)]


# --- what users expect -----------------------------------------------------------------------------------------------


def _expected(
    market: Market, asked: Asked, looks: list[list[_Seen]], users: FloatArray, workers: Workers
) -> tuple[list[FloatArray], tuple[int, int]]:
    """What users expect at every look, (K, U, W) each; posteriors fitted, and those that nobody vouches for."""
    tasks = [
        (number, [seen.data for seen in look[start : start + _FIT_WORLDS]])
        for number, look in enumerate(looks)
        for start in range(0, len(look), _FIT_WORLDS)
    ]
    make = partial(_Fitting, market, users, asked.seed)
    done = dict(run_tasks(_fitted, tasks, make=make, workers=workers, description="posteriors"))
    parts: list[list[FloatArray]] = [[] for _ in looks]
    for place, (number, _) in enumerate(tasks):
        parts[number].append(done[place][0])
    counts = np.sum([done[place][1:] for place in range(len(tasks))], axis=0) if tasks else (0, 0)
    return [np.concatenate(own, axis=2) for own in parts], (int(counts[0]), int(counts[1]))


class _Fitting:
    """What fits of data sets share."""

    def __init__(self, market: Market, users: FloatArray, seed: int) -> None:
        self.users, self.n_arms = users, market.n_arms
        self.engine = _Counting(make_engine(market.prior, market.noise, seed=seed))


def _fitted(fitting: _Fitting, task: tuple[int, list[Data]]) -> tuple[FloatArray, int, int]:
    engine = fitting.engine
    before = engine.n_fitted, engine.n_not_vouched
    rewards = expectations(engine, task[1], fitting.users, n_arms=fitting.n_arms)
    return rewards, engine.n_fitted - before[0], engine.n_not_vouched - before[1]


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


def _view(look: list[_Seen], rewards: FloatArray, prior_rewards: FloatArray) -> View:
    told = [seen.best for seen in look if seen.best is not None]
    rewards = _among_present(look, rewards)
    return View(
        name=look[0].name,
        chances=np.ascontiguousarray(np.stack([seen.chances for seen in look], axis=2).swapaxes(0, 1)),
        rewards=rewards,
        prior_rewards=_before_any_data(look, prior_rewards),
        best=np.stack(told, axis=2).swapaxes(0, 1) if len(told) == len(look) else best_shares(rewards, axis=0),
        absent=None if look[0].present is None else ~look[0].present,
    )


def _among_present(look: list[_Seen], rewards: FloatArray) -> FloatArray:
    """Expectations (K, U, W) with arms that are not there no better than the worst that is: nobody could have them."""
    if all(seen.present is None for seen in look):
        return rewards
    everywhere = np.ones(len(rewards), dtype=bool)
    there = np.stack([everywhere if seen.present is None else seen.present for seen in look], axis=1)[:, None]
    worst = np.where(there, rewards, np.inf).min(axis=0)
    return np.where(there, rewards, worst)


def _before_any_data(look: list[_Seen], prior_rewards: FloatArray) -> FloatArray:
    """The same of what users expect before any data, (U, K): the name of a look tells who is there."""
    there = look[0].present
    if there is None or there.all():
        return prior_rewards
    worst = np.where(there, prior_rewards, np.inf).min(axis=1, keepdims=True)
    return np.where(there, prior_rewards, worst)


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
        present = getattr(self.policy, "present", None)  # of policies whose arms come and go
        return _Seen(name, chances, data, self.policy.best(users), present)


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
