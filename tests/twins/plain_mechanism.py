"""The paper's mechanism once more, in NumPy alone and with true rewards: what the package is judged by.

Nothing here comes from the package. A belief is Gaussian: prior means (K, d) and a covariance per arm, or one joint
covariance of all coefficients. Users come from a weighted table of types, or from a sampler (a fresh table of its draws
for each batch of worlds). Two things are taken from the plan under test, as functions: ``rate(users, saturated)`` and
``guard(users, epoch)``.

A world: coefficients from the users' belief. MPASC recommends the arm with the largest prior mean until one arm has N
samples. Then the promoted arm (the largest prior mean of those without N samples) with probability q(x, saturated),
which counts, or else the organic arm (the largest posterior mean given the samples of saturated arms), which does not.
When every arm has N samples, epochs follow: K N rounds, then twice as many each time, with recommendations
p_i = 1 / (K + gamma (m_b - m_i)) off the best arm b, cut by the guard.

N may be another for each arm. An arm with N = 0 and no samples from before is never promoted, and recommended off the
best in no epoch. Users who like such an arm best before any data get it, uncounted, while no arm has N samples, but for
those with ``rate(users, ()) = 1``. Samples from before (``past``) count; their rewards are drawn in every world.
With an ``order`` of arms, only its first ones may be promoted: ``first`` of them, and one more for every arm that has
its samples since. With ``admits``, a user is promoted arms that it admits for her, and where none of them is left
she is not explored.

What a user expects is then estimated with the true mean rewards of the worlds, never with posterior means:
sum_w p_w(i | x) (mu_w(x, i) - mu_w(x, j)) / sum_w p_w(i | x). ``run_one_world`` draws the recommendations and the
rewards as well, round by round, and is what ``run_worlds`` is checked by.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Rate = Callable[[Array, tuple[int, ...]], Array]  # users (U, d), saturated arms -> (U,)
Admits = Callable[[Array], Array]  # users (U, d) -> for whom each arm is explored, (U, K)
Guard = Callable[[Array, int], Array]  # users (U, d), epoch -> (U, K)

_TIE = 1e-10  # scores that differ by less are the same number, computed in two ways
_FEW = 64  # types up to which an epoch is drawn by counts rather than one by one


# --- beliefs and users -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Belief:
    """A Gaussian belief: mean (K, d), covariance (K, d, d), or (K d, K d) where arms are coupled."""

    mean: Array
    covariance: Array

    @classmethod
    def of(cls, mean, variance) -> "Belief":
        """From a variance, one per arm, covariances (K, d, d), or a joint covariance (K d, K d)."""
        mean = np.asarray(mean, dtype=float)
        n_arms, d = mean.shape
        given = np.asarray(variance, dtype=float)
        if given.ndim <= 1:
            given = np.broadcast_to(given, (n_arms,))[:, None, None] * np.eye(d)
        return cls(mean=mean, covariance=given)

    @property
    def is_coupled(self) -> bool:
        return self.covariance.ndim == 2

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """True coefficients, (n, K, d)."""
        n_arms, d = self.mean.shape
        if self.is_coupled:
            root = np.linalg.cholesky(self.covariance)
            return self.mean + (rng.standard_normal((n, n_arms * d)) @ root.T).reshape(n, n_arms, d)
        root = np.linalg.cholesky(self.covariance)
        return self.mean + np.einsum("kde,nke->nkd", root, rng.standard_normal((n, n_arms, d)))

    def posterior(self, xx: Array, xy: Array, sigma: float) -> tuple[Array, Array]:
        """Means (W, K, d) and covariances (W, K, d, d) of each arm, given X'X (W, K, d, d) and X'y (W, K, d)."""
        n_arms, d = self.mean.shape
        if not self.is_coupled:
            prior = np.linalg.inv(self.covariance)
            after = np.linalg.inv(prior + xx / sigma**2)
            pull = np.einsum("kde,ke->kd", prior, self.mean) + xy / sigma**2
            return np.einsum("wkde,wke->wkd", after, pull), after
        prior = np.linalg.inv(self.covariance)
        blocks = np.zeros((len(xx), n_arms, d, n_arms, d))
        for k in range(n_arms):
            blocks[:, k, :, k, :] = xx[:, k] / sigma**2
        joint = np.linalg.inv(prior + blocks.reshape(len(xx), n_arms * d, n_arms * d))
        pull = prior @ self.mean.ravel() + xy.reshape(len(xy), -1) / sigma**2
        mean = np.einsum("wab,wb->wa", joint, pull).reshape(len(xx), n_arms, d)
        joint = joint.reshape(len(xx), n_arms, d, n_arms, d)
        return mean, np.stack([joint[:, k, :, k, :] for k in range(n_arms)], axis=1)


@dataclass(frozen=True, kw_only=True)
class Users:
    """A table of types (U, d) and their shares (U,)."""

    rows: Array
    shares: Array

    @classmethod
    def table(cls, rows, shares=None) -> "Users":
        rows = np.asarray(rows, dtype=float)
        shares = np.ones(len(rows)) if shares is None else np.asarray(shares, dtype=float)
        return cls(rows=rows, shares=shares / shares.sum())


def sphere(d: int, size: int = 2048) -> Callable[[np.random.Generator], Users]:
    """Users on the unit sphere: a fresh table of ``size`` draws each time it is asked."""

    def sample(rng: np.random.Generator) -> Users:
        draws = rng.standard_normal((size, d))
        return Users.table(draws / np.linalg.norm(draws, axis=1, keepdims=True))

    return sample


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything that a world needs.

    ``platform`` is what the platform believes, where it differs from the users' ``belief`` (of which worlds are drawn).
    ``multiple`` times gamma; ``feed_last`` gives the oracle the last epoch alone, the cold start being the one before
    the first. The prediction error behind gamma is averaged over the kernel of the last epoch: as the paper has it, or
    as it was played, cut by the guard (``spread_guarded``).
    """

    belief: Belief
    users: Users | Callable[[np.random.Generator], Users]
    sigma: float
    n_per_arm: int | tuple[int, ...]
    rate: Rate
    horizon: int = 10**12
    n_epochs: int = 3
    guard: Guard | None = None
    multiple: float = 1.0
    platform: Belief | None = None
    feed_last: bool = False
    spread_guarded: bool = False
    past: tuple[Array, ...] | None = None
    order: tuple[int, ...] = ()
    first: int = 0
    admits: Admits | None = None

    @property
    def n_arms(self) -> int:
        return len(self.belief.mean)

    @property
    def needed(self) -> Array:
        return np.broadcast_to(self.n_per_arm, self.n_arms)

    @property
    def before(self) -> Array:
        """Samples of each arm from before the first round, (K,)."""
        return np.array([0] * self.n_arms if self.past is None else [len(rows) for rows in self.past])

    @property
    def totals(self) -> Array:
        return np.maximum(self.needed, self.before)

    @property
    def closed_kernel(self) -> Array | None:
        return None if (self.totals > 0).all() else (self.totals > 0).astype(float)

    def full(self, counts: Array) -> Array:
        """Which arms have their samples, (W, K)."""
        return (counts >= self.needed) & (counts > 0)

    def closed(self, saturated: tuple[int, ...]) -> tuple[int, ...]:
        """Arms that are not promoted once these are saturated."""
        shut = {arm for arm in range(self.n_arms) if arm in saturated or self.needed[arm] <= self.before[arm]}
        if self.order:
            since = sum(arm in self.order for arm in saturated)
            shut |= set(self.order[self.first + since :])
        return tuple(sorted(shut))

    @property
    def all_at_once(self) -> bool:
        return not self.closed(())

    def promoted(self, rows: Array, saturated: tuple[int, ...]) -> Array:
        """The promoted arm of users (U, d), (U, K): nothing where no arm is left for them."""
        prior = rows @ self.acting.mean.T
        if self.admits is None:
            return promoted_shares(prior, self.closed(saturated))
        prior = np.where(self.admits(rows), prior, -np.inf)
        some = np.isfinite(np.delete(prior, self.closed(saturated), axis=1)).any(axis=1)
        return np.where(
            some[:, None], promoted_shares(np.where(some[:, None], prior, 0.0), self.closed(saturated)), 0.0
        )

    def rates(self, rows: Array, saturated: tuple[int, ...]) -> Array:
        """How often users (U, d) are explored, (U,)."""
        return np.clip(self.rate(rows, saturated), 0.0, 1.0) * self.promoted(rows, saturated).any(axis=1)

    @property
    def acting(self) -> Belief:
        """What the platform goes by."""
        return self.platform or self.belief


def constant_rate(q: float) -> Rate:
    return lambda users, saturated: np.full(len(users), q)


# --- choices ---------------------------------------------------------------------------------------------------------


def best_shares(scores: Array) -> Array:
    """Which arm is best, (..., K): 1 for the best, shared evenly by arms that tie."""
    top = scores >= scores.max(axis=-1, keepdims=True) - _TIE
    return top / top.sum(axis=-1, keepdims=True)


def promoted_shares(prior_scores: Array, saturated: tuple[int, ...]) -> Array:
    """The promoted arm, (U, K): the largest prior mean of the arms that are not saturated."""
    open_only = prior_scores.copy()
    open_only[..., list(saturated)] = -np.inf
    return best_shares(open_only)


def kernel(scores: Array, gamma: Array, guard: Array | None) -> Array:
    """Recommendation probabilities (W, U, K) from scores (W, U, K), spreads (W,) and guard factors (U, K)."""
    n_arms = scores.shape[-1]
    best = best_shares(scores)
    top = scores.max(axis=-1, keepdims=True)
    off = 1.0 / (n_arms + gamma[:, None, None] * (top - scores))
    if guard is not None:
        off = off * guard
    out = np.zeros_like(scores)
    for b in range(n_arms):  # arms that tie take turns at being the best
        as_b = off.copy()
        as_b[..., b] = 0.0
        as_b[..., b] = 1.0 - as_b.sum(axis=-1)
        out += best[..., b, None] * as_b
    return out


def _pick(probabilities: Array, rng: np.random.Generator) -> Array:
    """One index per row of probabilities (..., K)."""
    edges = probabilities.cumsum(axis=-1)
    draw = rng.random(probabilities.shape[:-1])[..., None] * edges[..., -1:]
    return np.minimum((draw >= edges).sum(axis=-1), probabilities.shape[-1] - 1)


# --- what is kept of a stage -----------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Stage:
    """A stage in the worlds that were in it before the horizon, as the watched users see it.

    p and mu are (W, U, K): recommendation probabilities and true mean rewards. mass (W, K) and gap (W, K, K) are
    averages over all users, of p_i and of p_i (mu_i - mu_j); loss (W,) is the regret of a round. ``entered`` and
    ``left`` are rounds already over, so that the stage holds rounds entered + 1 to left.
    """

    world: Array
    p: Array
    mu: Array
    mass: Array
    gap: Array
    loss: Array
    entered: Array
    left: Array
    batch: Array
    gamma: Array | None = None

    @property
    def n_worlds(self) -> int:
        return len(self.p)


@dataclass(kw_only=True)
class Outcome:
    """All stages by name ("mpasc", a tuple of saturated arms, "epoch 0", ...) and cold-start lengths (W,)."""

    stages: dict
    cold_start: Array
    n_worlds: int

    def share(self, name) -> float:
        """Of the worlds that were in a stage before the horizon."""
        return self.stages[name].n_worlds / self.n_worlds if name in self.stages else 0.0

    def regret(self) -> tuple[float, float]:
        """Expected regret up to the horizon (or the last epoch), and its error."""
        total = np.zeros(self.n_worlds)
        for stage in self.stages.values():
            total[stage.world] += (stage.left - stage.entered) * stage.loss
        return float(total.mean()), float(total.std(ddof=1) / np.sqrt(self.n_worlds))


def _view(probabilities, truth, users: Users, watched: Array, **more) -> Stage:
    """A stage from functions of users: probabilities(rows, at) -> (W, U, K), truth (W, K, d)."""
    p = probabilities(watched, False)
    mu = np.einsum("ud,wkd->wuk", watched, truth)
    mass, gap, loss = _averages(probabilities, truth, users)
    return Stage(p=p, mu=mu, mass=mass, gap=gap, loss=loss, **more)


def _averages(probabilities, truth: Array, users: Users) -> tuple[Array, Array, Array]:
    """E_x p_i (W, K), E_x p_i (mu_i - mu_j) (W, K, K) and E_x regret (W,), with the shares of the table."""
    n_arms = truth.shape[1]
    p = probabilities(users.rows, True) * users.shares[:, None]
    moved = np.einsum("wuk,ud->wkd", p, users.rows)  # E p_k x
    own = np.einsum("wid,wjd->wij", moved, truth)  # E p_i mu_j
    kept = own[:, np.arange(n_arms), np.arange(n_arms)]  # E p_i mu_i
    best = np.einsum("ud,wkd->wuk", users.rows, truth).max(axis=-1) @ users.shares
    return p.sum(axis=1), kept[:, :, None] - own, best - kept.sum(axis=1)


# --- worlds side by side ---------------------------------------------------------------------------------------------


def run_worlds(scenario: Scenario, n_worlds: int, *, seed: int, watched: Array | None = None, batch: int = 2000):
    """Many worlds, in batches that share nothing (each has its own users where a sampler gives them)."""
    rng = np.random.default_rng(seed)
    parts = []
    for index, start in enumerate(range(0, n_worlds, batch)):
        parts.append(_run_batch(scenario, min(batch, n_worlds - start), rng, watched, index, start))
    names = sorted({name for part in parts for name in part.stages}, key=_order)
    stages = {name: _joined([part.stages[name] for part in parts if name in part.stages]) for name in names}
    return Outcome(stages=stages, cold_start=np.concatenate([p.cold_start for p in parts]), n_worlds=n_worlds)


def _order(name) -> tuple:
    if name == "mpasc":
        return (0,)
    return (1, len(name), name) if isinstance(name, tuple) else (2, int(name.split()[1]))


def _joined(parts: list[Stage]) -> Stage:
    def both(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    return Stage(**{name: both(name) for name in Stage.__dataclass_fields__})


@dataclass
class _State:
    """The worlds of a batch: counts (W, K), X'X, X'y of counted samples, rounds that are over."""

    truth: Array
    counts: Array
    xx: Array
    xy: Array
    time: Array


def _run_batch(scenario: Scenario, n: int, rng, watched: Array | None, index: int, first: int) -> Outcome:
    users = scenario.users if isinstance(scenario.users, Users) else scenario.users(rng)
    watched = users.rows if watched is None else np.atleast_2d(np.asarray(watched, dtype=float))
    truth = scenario.belief.draw(n, rng)
    k, d = scenario.belief.mean.shape
    state = _State(truth, np.tile(scenario.before, (n, 1)), np.zeros((n, k, d, d)), np.zeros((n, k, d)), np.zeros(n))
    for arm, rows in enumerate(scenario.past or ()):
        y = truth[:, arm] @ rows.T + scenario.sigma * rng.standard_normal((n, len(rows)))
        state.xx[:, arm], state.xy[:, arm] = rows.T @ rows, y @ rows
    stages = _cold_start(scenario, state, users, watched, rng)
    done = np.flatnonzero((state.counts >= scenario.needed).all(axis=1) & (state.time < scenario.horizon))
    cold = np.full(n, np.inf)
    cold[done] = state.time[done]
    if len(done):
        stages |= _exploitation(scenario, state, done, users, watched, rng)
    for stage in stages.values():
        stage.batch = np.full(stage.n_worlds, index)
        stage.world = stage.world + first
    return Outcome(stages=stages, cold_start=cold, n_worlds=n)


def _cold_start(scenario: Scenario, state: _State, users: Users, watched: Array, rng) -> dict:
    """Counted sample by counted sample; the rounds between two of them are waited for."""
    n, k = state.counts.shape
    rates: dict[tuple[int, ...], Array] = {}
    promoted: dict[tuple[int, ...], Array] = {}
    powers = 2 ** np.arange(k)
    begun = scenario.full(scenario.before)
    sets = np.full(n, int(begun @ powers))  # a code of the saturated arms; 0: MPASC
    first = (np.arange(n), state.time.copy(), state.xx * begun[:, None, None], state.xy * begun[:, None])
    entered: dict[tuple[int, ...], list] = {tuple(np.flatnonzero(begun).tolist()): [first]}
    left: dict[tuple[int, ...], Array] = {}
    if not scenario.all_at_once:
        rates[()] = scenario.rates(users.rows, ())
    while True:
        open_worlds = np.flatnonzero((state.counts < scenario.needed).any(axis=1) & (state.time < scenario.horizon))
        if not len(open_worlds):
            break
        codes = sets[open_worlds]
        for code in np.unique(codes):
            these = open_worlds[codes == code]
            saturated = tuple(int(a) for a in range(k) if code >> a & 1)
            if saturated and saturated not in rates:
                rates[saturated] = scenario.rates(users.rows, saturated)
            who, wait = _next_counted(users, rates.get(saturated), len(these), rng)
            state.time[these] = np.minimum(state.time[these] + wait, scenario.horizon + 1.0)
            came = state.time[these] <= scenario.horizon
            these, who = these[came], who[came]
            if saturated not in promoted:
                promoted[saturated] = scenario.promoted(users.rows, saturated)
            arm = _pick(promoted[saturated][who], rng)
            _count(state, these, users.rows[who], arm, scenario.sigma, rng)
            full = these[state.counts[these, arm] == scenario.needed[arm]]
            if len(full):
                left.setdefault(saturated, np.full(n, np.nan))[full] = state.time[full]
                sets[full] = scenario.full(state.counts[full]) @ powers
                for new in np.unique(sets[full]):
                    into = full[sets[full] == new]
                    name = tuple(int(a) for a in range(k) if new >> a & 1)
                    keep = scenario.full(state.counts[into])[..., None]
                    xx, xy = state.xx[into] * keep[..., None], state.xy[into] * keep
                    entered.setdefault(name, []).append((into, state.time[into].copy(), xx, xy))
    return _cold_views(scenario, state, entered, left, rates, users, watched)


def _next_counted(users: Users, rate: Array | None, n: int, rng) -> tuple[Array, Array]:
    """Who the next counted sample comes from, and how many rounds it takes until then (all of them counted in MPASC).

    A round counts with probability q(x): the wait is geometric with the mean of q, the user has share times q.
    """
    weights = users.shares if rate is None else users.shares * rate
    total = weights.sum()
    if total <= 0.0:
        return np.zeros(n, int), np.full(n, np.inf)
    edges = np.cumsum(weights) / total
    who = np.minimum(np.searchsorted(edges, rng.random(n), side="right"), len(edges) - 1)
    return who, np.ones(n) if rate is None else rng.geometric(min(total, 1.0), size=n).astype(float)


def _count(state: _State, worlds: Array, x: Array, arm: Array, sigma: float, rng) -> None:
    y = np.einsum("wd,wd->w", x, state.truth[worlds, arm]) + sigma * rng.standard_normal(len(worlds))
    state.counts[worlds, arm] += 1
    state.xx[worlds, arm] += x[:, :, None] * x[:, None, :]
    state.xy[worlds, arm] += x * y[:, None]


def _cold_views(scenario, state, entered, left, rates, users, watched) -> dict:
    """Every set of saturated arms as the worlds came to it."""
    out = {}
    for name, parts in entered.items():
        if len(name) == (scenario.totals > 0).sum():
            continue
        worlds = np.concatenate([part[0] for part in parts])
        start = np.concatenate([part[1] for part in parts])
        inside = start < scenario.horizon
        worlds, start = worlds[inside], start[inside]
        if not len(worlds):
            continue
        truth = state.truth[worlds]
        end = left.get(name, np.full(len(state.time), np.nan))[worlds]
        end = np.where(np.isnan(end), scenario.horizon, end)
        if name:
            xx = np.concatenate([part[2] for part in parts])[inside]
            xy = np.concatenate([part[3] for part in parts])[inside]
            means, _ = scenario.acting.posterior(xx, xy, scenario.sigma)
        else:
            means = np.broadcast_to(scenario.acting.mean, truth.shape)
        out[name or "mpasc"] = _view(
            _cold_probabilities(scenario, name, means, rates),
            truth,
            users,
            watched,
            world=worlds,
            entered=start,
            left=end,
            batch=np.zeros(len(worlds), int),
        )
    return out


def _cold_probabilities(scenario: Scenario, saturated: tuple[int, ...], means: Array, rates: dict):
    """q promoted + (1 - q) organic, as a function of users."""

    def at(rows: Array, is_table: bool) -> Array:
        scores = np.einsum("ud,wkd->wuk", rows, means)
        if not saturated and scenario.all_at_once:
            return best_shares(scores)
        known = is_table and saturated in rates
        q = rates[saturated] if known else scenario.rates(rows, saturated)
        promoted = scenario.promoted(rows, saturated)
        return q[:, None] * promoted + (1 - q[:, None]) * best_shares(scores)

    return at


def _exploitation(scenario: Scenario, state: _State, done: Array, users: Users, watched: Array, rng) -> dict:
    """Epochs of K N, 2 K N, 4 K N, ... rounds after each world's own cold start."""
    k, sampled = scenario.n_arms, scenario.totals > 0
    truth, time = state.truth[done], state.time[done].copy()
    xx, xy = state.xx[done], state.xy[done]
    gamma = np.zeros(len(done))
    last = np.tile(sampled / sampled.sum(), (len(done), len(users.rows), 1))
    out: dict[str, Stage] = {}
    worlds = np.arange(len(done))
    for epoch in range(scenario.n_epochs):
        inside = time[worlds] < scenario.horizon
        worlds, last = worlds[inside], last[inside]
        if not len(worlds):
            break
        means, covariances = scenario.acting.posterior(xx[worlds], xy[worlds], scenario.sigma)
        error = _prediction_error(covariances, last, users)
        gamma[worlds] = np.maximum(gamma[worlds], scenario.multiple * 4.0 * np.sqrt(k / error))
        here = _epoch_probabilities(scenario, means, gamma[worlds], epoch)
        length = int(scenario.totals.sum()) * 2**epoch
        end = np.minimum(time[worlds] + length, scenario.horizon)
        out[f"epoch {epoch}"] = _view(
            here,
            truth[worlds],
            users,
            watched,
            world=done[worlds],
            entered=time[worlds].copy(),
            left=end,
            batch=np.zeros(len(worlds), int),
            gamma=gamma[worlds].copy(),
        )
        if epoch + 1 == scenario.n_epochs:
            break
        played = last = here(users.rows, True)
        if not scenario.spread_guarded:
            last = kernel(np.einsum("ud,wkd->wuk", users.rows, means), gamma[worlds], scenario.closed_kernel)
        more_xx, more_xy = _epoch_data(truth[worlds], played, users, length, scenario.sigma, rng)
        if scenario.feed_last:
            xx[worlds], xy[worlds] = more_xx, more_xy
        else:
            xx[worlds] += more_xx
            xy[worlds] += more_xy
        time[worlds] += length
    return out


def _prediction_error(covariances: Array, last: Array, users: Users) -> Array:
    """E over users and the last kernel of Var(mu(x, a) | S), (W,)."""
    variances = np.einsum("ud,wkde,ue->wuk", users.rows, covariances, users.rows, optimize=True)
    return np.einsum("u,wuk,wuk->w", users.shares, last, variances)


def _epoch_probabilities(scenario: Scenario, means: Array, gamma: Array, epoch: int):
    kept: dict[bool, Array | None] = {}

    def at(rows: Array, is_table: bool) -> Array:
        if scenario.guard is None:
            factors = None
        elif is_table and True in kept:
            factors = kept[True]
        else:
            factors = scenario.guard(rows, epoch)
            if is_table:
                kept[True] = factors
        if scenario.closed_kernel is not None:
            factors = scenario.closed_kernel if factors is None else factors * scenario.closed_kernel
        return kernel(np.einsum("ud,wkd->wuk", rows, means), gamma, factors)

    return at


def _epoch_data(truth: Array, p: Array, users: Users, length: int, sigma: float, rng) -> tuple[Array, Array]:
    """X'X and X'y of an epoch's rounds: users by their shares, arms by the kernel, rewards with noise."""
    w, u, k = p.shape
    d = truth.shape[-1]
    if u <= _FEW:  # counts of (type, arm) are multinomial, sums of rewards normal
        cells = (users.shares[:, None] * p).reshape(w, -1)
        counts = rng.multinomial(length, cells / cells.sum(axis=1, keepdims=True)).reshape(w, u, k)
        mu = np.einsum("ud,wkd->wuk", users.rows, truth)
        sums = counts * mu + sigma * np.sqrt(counts) * rng.standard_normal(counts.shape)
        xx = np.einsum("wuk,ud,ue->wkde", counts, users.rows, users.rows, optimize=True)
        return xx, np.einsum("wuk,ud->wkd", sums, users.rows)
    xx, xy = np.zeros((w, k, d, d)), np.zeros((w, k, d))
    edges = np.cumsum(users.shares)
    each = np.arange(w)[:, None]
    for start in range(0, length, 256):
        size = min(256, length - start)
        who = np.minimum(np.searchsorted(edges, rng.random((w, size)), side="right"), u - 1)
        arm = _pick(p[each, who], rng)
        x = users.rows[who]
        y = np.einsum("wsd,wsd->ws", x, truth[each, arm]) + sigma * rng.standard_normal((w, size))
        for a in range(k):
            mine = x * (arm == a)[..., None]
            xx[:, a] += mine.transpose(0, 2, 1) @ x
            xy[:, a] += np.einsum("wsd,ws->wd", mine, y)
    return xx, xy


# --- what users expect -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A margin with its Monte Carlo error, and the probability of the recommendation."""

    value: Array
    error: Array
    mass: Array


def expected(stage: Stage, notion: str, *, by_rounds: bool = False) -> Expected:
    """E[mu_i - mu_j] of the recommended arm i against rival j, with true mean rewards.

    ``user`` and ``proof``: (U, K, K), of the watched users, conditional on I = i and times its probability;
    ``definition``: (K, K), conditional on I = i, averaged over users. Worlds count alike, or by the rounds that they
    spend in the stage (``by_rounds``: what a user meets who only knows that it is on).
    """
    weight = stage.left - stage.entered if by_rounds else np.ones(stage.n_worlds)
    if notion == "definition":
        top, low = stage.gap, stage.mass[:, :, None]
    else:
        top = stage.p[..., :, None] * (stage.mu[..., :, None] - stage.mu[..., None, :])
        low = stage.p[..., :, None]
    shape = (-1,) + (1,) * (top.ndim - 1)
    weight = (weight / weight.mean()).reshape(shape)
    top, low = top * weight, low * weight
    over = weight + 0 * low if notion == "proof" else low
    value, error = _ratio(top, over, stage.batch)
    return Expected(value=value, error=error, mass=low.mean(axis=0))


def _ratio(top: Array, low: Array, batch: Array) -> tuple[Array, Array]:
    """mean(top) / mean(low) and its error by the delta method, over worlds (and over batches, where users differ)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        bottom = low.mean(axis=0)
        value = top.mean(axis=0) / bottom
        parts = (top - value * low) / bottom
        error = parts.std(axis=0, ddof=1) / np.sqrt(len(top))
        n_batches = len(np.unique(batch))
        if n_batches >= 8:  # worlds of a batch share their sampled users
            means = np.stack([parts[batch == b].sum(axis=0) for b in np.unique(batch)])
            error = np.maximum(error, means.std(axis=0, ddof=1) * np.sqrt(n_batches) / len(top))
    return value, error


# --- one world, round by round ---------------------------------------------------------------------------------------


def run_one_world(scenario: Scenario, rng: np.random.Generator) -> list[tuple]:
    """One world without any shortcut: (stage, type of user, recommended arm, true mean rewards (K,)) of every round."""
    users = scenario.users if isinstance(scenario.users, Users) else scenario.users(rng)
    k, d = scenario.belief.mean.shape
    n, sigma, acting = scenario.n_per_arm, scenario.sigma, scenario.acting
    truth = scenario.belief.draw(1, rng)[0]
    counts, xx, xy = np.zeros(k, int), np.zeros((k, d, d)), np.zeros((k, d))
    rounds: list[tuple] = []

    def observe(x, arm):
        y = x @ truth[arm] + sigma * rng.standard_normal()
        xx[arm] += np.outer(x, x)
        xy[arm] += x * y

    while (counts < n).any() and len(rounds) < scenario.horizon:
        saturated = tuple(int(a) for a in np.flatnonzero(counts >= n))
        who = int(rng.choice(len(users.rows), p=users.shares))
        x = users.rows[who]
        prior = acting.mean @ x
        if not saturated or rng.random() < scenario.rate(x[None], saturated)[0]:
            arm = int(_pick(promoted_shares(prior, saturated), rng))
            observe(x, arm)
            counts[arm] += 1
        else:
            keep = (counts >= n)[:, None]
            mean, _ = acting.posterior((xx * keep[..., None])[None], (xy * keep)[None], sigma)
            arm = int(_pick(best_shares(mean[0] @ x), rng))
        rounds.append((saturated or "mpasc", who, arm, truth @ x))
    gamma, last = 0.0, np.full((1, len(users.rows), k), 1.0 / k)
    for epoch in range(scenario.n_epochs):
        if len(rounds) >= scenario.horizon:
            break
        mean, covariance = acting.posterior(xx[None], xy[None], sigma)
        spread = scenario.multiple * 4.0 * np.sqrt(k / _prediction_error(covariance, last, users)[0])
        gamma = max(gamma, float(spread))
        factors = None if scenario.guard is None else scenario.guard(users.rows, epoch)
        scores = (users.rows @ mean[0].T)[None]
        played = kernel(scores, np.array([gamma]), factors)
        last = played if scenario.spread_guarded else kernel(scores, np.array([gamma]), None)
        if scenario.feed_last:
            xx[:], xy[:] = 0.0, 0.0
        for _ in range(k * n * 2**epoch):
            if len(rounds) >= scenario.horizon:
                break
            who = int(rng.choice(len(users.rows), p=users.shares))
            arm = int(_pick(played[0, who], rng))
            observe(users.rows[who], arm)
            rounds.append((f"epoch {epoch}", who, arm, truth @ users.rows[who]))
    return rounds
