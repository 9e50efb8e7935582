"""Any policy as an audit looks at it: run world by world, with all that drove it at hand.

The paper's algorithm is looked at as each of its stages begins, for users know the stage; other policies as rounds
1, 2, 4, ... begin.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from rcb_bayes.auditing.averaging import averages_of
from rcb_bayes.auditing.view import Asked, Crowd, Looked, View, make_crowd
from rcb_bayes.baselines.learner import Learner
from rcb_bayes.errors import DataError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.margins import MIN_WORLDS
from rcb_bayes.mechanism.panel import expected_rewards, make_panel
from rcb_bayes.mechanism.rates import LinearOutlook
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.posterior import Engine, Rows, make_engine
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.running.cold_start import ColdStart
from rcb_bayes.running.history import History
from rcb_bayes.running.policies import Policy, Rcb
from rcb_bayes.running.simulation import PAGE, PolicyMaker, World
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track

_N_USERS = 2048


@dataclass(slots=True)
class _Look:
    """A stage, or a round, in the worlds that were seen there.

    Of each: probabilities (U, K), the data behind them, and the arms that the policy itself takes for the best (U, K),
    where it says.
    """

    chances: list[FloatArray] = field(default_factory=list)
    data: list[Statistics | Rows] = field(default_factory=list)
    best: list[FloatArray | None] = field(default_factory=list)


def policy_views(market: Market, maker: PolicyMaker, asked: Asked, *, horizon: int) -> Looked:
    """Every stage, or round 1, 2, 4, ..., that enough worlds pass before the horizon."""
    believed = replace(market, nature=market.prior)  # users reckon with their own belief
    panel = make_panel(market, n_users=_N_USERS, rng=generator(asked.seed, Stream.POLICY_PANEL))
    crowd = make_crowd(market, panel, asked, rng=generator(asked.seed, Stream.POLICY_USERS))
    same = crowd.population is crowd.judged
    users = crowd.judged.users if same else np.concatenate([crowd.judged.users, crowd.population.users])
    looks: dict[str, _Look] = {}
    for child in track(np.random.SeedSequence(asked.seed).spawn(asked.n_worlds), description="worlds"):
        for name, chances, data, best in _watched(believed, maker, users, horizon, child):
            look = looks.setdefault(name, _Look())
            look.chances.append(chances)
            look.data.append(data)
            look.best.append(best)
    engine = _Counting(make_engine(market.prior, market.noise, seed=asked.seed))
    prior_rewards = expected_rewards(market.prior, market.noise, users)
    seen = {name: look for name, look in looks.items() if len(look.data) >= MIN_WORLDS}
    views = []
    for name, look in seen.items():
        view = _view(name, look, engine, market, users, prior_rewards)
        views.append(_split(replace(view, share=len(look.data) / asked.n_worlds), crowd, asked.epsilon))
    rare = [name for name in looks if name not in seen]
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

    def fit(
        self, data: Statistics | Rows, *, covariance: bool = False, users: FloatArray | None = None
    ) -> PosteriorBatch:
        found = self._engine.fit(data, covariance=covariance, users=users)
        self.n_fitted += found.n_sets
        self.n_not_vouched += int((~found.vouched).sum())
        return found

    def draw(self, data: Statistics | Rows, n: int, *, rng: np.random.Generator) -> FloatArray:
        return self._engine.draw(data, n, rng=rng)


def _view(name: str, look: _Look, engine: Engine, market: Market, users: FloatArray, prior_rewards: FloatArray) -> View:
    rewards = expectations(engine, look.data, users, n_arms=market.n_arms)
    told = [part for part in look.best if part is not None]
    own = len(told) == len(look.best)
    return View(
        name=name,
        chances=np.ascontiguousarray(np.stack(look.chances, axis=2).swapaxes(0, 1)),
        rewards=rewards,
        prior_rewards=prior_rewards,
        best=np.stack(told, axis=2).swapaxes(0, 1) if own else best_shares(rewards, axis=0),
    )


def _split(view: View, crowd: Crowd, epsilon: float) -> View:
    """The crowd's part of a view, with the averages over the population, which are the rest of it."""
    n, population = crowd.judged.n_users, crowd.population
    start = 0 if population is crowd.judged else n
    place = {row.tobytes(): k for k, row in reversed(list(enumerate(population.users)))}

    def of(users: FloatArray) -> View:
        return _of_users(view, start + np.array([place[row.tobytes()] for row in users]))

    averages = averages_of(of, population, epsilon=epsilon, n_worlds=view.n_worlds)
    return replace(_of_users(view, np.arange(n)), averages=averages)


def _of_users(view: View, some: np.ndarray) -> View:
    return replace(
        view,
        chances=view.chances[:, some],
        rewards=view.rewards[:, some],
        prior_rewards=view.prior_rewards[some],
        best=view.best[:, some],
    )


def expectations(engine: Engine, data: list[Statistics | Rows], users: FloatArray, *, n_arms: int) -> FloatArray:
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


def _watched(
    market: Market, maker: PolicyMaker, users: FloatArray, horizon: int, seed: np.random.SeedSequence
) -> Iterator[tuple[str, FloatArray, Statistics | Rows, FloatArray | None]]:
    """One world: what is looked at, probabilities of the users (U, K), the data by then, the policy's best (U, K)."""
    world = World(market, seed)
    policy = maker(market, int(seed.generate_state(1)[0]))
    history = History(market.n_arms, market.n_features, keep_rows=not market.noise.is_gaussian)
    waiting = History(market.n_arms, market.n_features, keep_rows=history.keeps_rows)
    learns_late = isinstance(policy, Learner) and policy.batch > 1
    done, last = 0, ""
    while True:
        name = _name(policy, done, market)
        if name != last:
            best = _best(policy, users) if isinstance(policy, Rcb) else None
            yield name, _checked(policy.recommend_proba(users)), _acted_on(policy, history), best
            last = name
        next_look = 1 << (done + 1).bit_length()
        end = horizon if isinstance(policy, Rcb) else next_look - 1
        if done >= horizon or (not isinstance(policy, Rcb) and next_look > horizon):
            return
        number, place = divmod(done, PAGE)
        page = world.page(number)
        some = slice(place, min(PAGE, place + end - done))
        samples = waiting if learns_late else history
        done += _serve(policy, world, page.x[some], page.uniforms[some], page.noise[some], samples)
        if isinstance(policy, Learner) and learns_late and not policy.n_waiting:
            history.join(waiting)
            waiting = History(market.n_arms, market.n_features, keep_rows=history.keeps_rows)


def _best(policy: Rcb, users: FloatArray) -> FloatArray:
    """Shares of the arms that the platform takes for the best of each user now, (U, K)."""
    stage = policy.cold if policy.exploitation is None else policy.exploitation
    decide = stage.decide_now if isinstance(stage, ColdStart) else stage.decide
    return best_shares(decide(users, np.ascontiguousarray(users.T), np.zeros((len(users), 2))).scores, axis=0).T


def _serve(
    policy: Policy, world: World, x: FloatArray, uniforms: FloatArray, noise: FloatArray, history: History
) -> int:
    """Rounds until the policy has to learn; returns how many."""
    decisions = policy.decide(x, np.ascontiguousarray(x.T), uniforms)
    n = len(decisions)
    x = x[:n]
    reward = world.rewards((x * world.beta[decisions.arm]).sum(axis=1), noise[:n])
    policy.update(x, decisions, reward)
    counted = decisions.counted
    history.add(x[counted], decisions.arm[counted], reward[counted])
    return n


def _name(policy: Policy, done: int, market: Market) -> str:
    """The stage that users know of; rounds 1, 2, 4, ... for policies without stages."""
    if not isinstance(policy, Rcb):
        return f"round {1 << (done + 1).bit_length() - 1}"
    if policy.exploitation is not None:
        return f"epoch {policy.exploitation.epoch}"
    return ", ".join(market.arms[arm] for arm in policy.cold.saturated) or "most popular"


def _acted_on(policy: Policy, history: History) -> Statistics | Rows:
    """The data behind the recommendations: all of them, whatever the oracle is fed; samples that wait excepted.

    Of these no recommendation knows: they would only blur what users expect.
    """
    waits = isinstance(policy, Rcb) and policy.exploitation is None
    arms = policy.cold.saturated if waits and isinstance(policy, Rcb) else range(len(history.n))
    return history.as_rows(arms) if history.keeps_rows else history.sums().of_arms(arms)


def _checked(probabilities: FloatArray) -> FloatArray:
    found = np.asarray(probabilities, dtype=float)
    if not np.isfinite(found).all() or (found < -1e-9).any() or np.abs(found.sum(axis=1) - 1.0).max() > 1e-6:
        raise DataError("A policy's probabilities must be finite, not negative, and sum to one for every user.")
    return found
