"""Guards at plan time: exploitation simulated epoch by epoch, with the guard of each epoch in force."""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.compact import compact_gamma, compact_outlook
from rcb_bayes.mechanism.epochs import EpochWorlds
from rcb_bayes.mechanism.exploiting import Exploiting, inflation_factor
from rcb_bayes.mechanism.guard import crowd_guard, users_guard
from rcb_bayes.mechanism.rates import LinearOutlook
from rcb_bayes.mechanism.saturation import STUCK, draw_designs
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.worlds import Worlds, block_seeds, data_of_designs, draw_worlds
from rcb_bayes.planning.exploitation import GuardRule
from rcb_bayes.planning.forward import Forward
from rcb_bayes.posterior.data import Statistics, unchecked_statistics
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track

N_EPOCHS = 4
MULTIPLES = (1.0, 3.0, 10.0, 30.0, 100.0)
_TUNING_WORLDS = 400
_TUNING_USERS = 256
MAX_WORLDS = 500
_FLUCTUATION = 2.5
_CRITICAL = 4.5  # errors: a simultaneous band over users, arms, rivals and epochs


@dataclass(slots=True)
class Counts:
    """Posteriors fitted, and those that no engine vouches for."""

    n_fitted: int = 0
    n_not_vouched: int = 0

    def take(self, epochs: EpochWorlds) -> None:
        """What epochs have counted since they were last asked."""
        self.n_fitted += epochs.n_fitted
        self.n_not_vouched += epochs.n_not_vouched
        epochs.n_fitted = epochs.n_not_vouched = 0


def compute_guards(forward: Forward, *, options: Exploiting, counted: Counts | None = None) -> tuple[GuardRule, ...]:
    """The guards of the first epochs; none where no cold start ends.

    Rewards that are not Gaussian have no simulation of their epochs yet: there the guard lets the best arm through and
    nothing else, which users of the platform's belief follow whatever the data.
    """
    if not forward.market.noise.is_gaussian:
        return (closed_guard(forward.market),)
    n_worlds = min(forward.settings.n_worlds, MAX_WORLDS)
    slack = _slack(forward, n_worlds)
    found: list[tuple[GuardRule, FloatArray]] = []
    epochs: EpochWorlds | None = None
    total = counted or Counts()
    for epoch in range(N_EPOCHS):
        # Users whose prior has loosened reckon with other worlds, in which all epochs before were other ones, too.
        if epochs is None or options.inflation != "none":
            epochs = _epochs(forward, options, n_worlds=n_worlds, epoch=epoch)
        if epochs is None:
            return ()
        while epochs.epoch < epoch:
            epochs.run(found[epochs.epoch][1])
            epochs.begin()
        found.append(_rule(forward, epochs, slack=slack))
        total.take(epochs)
    return tuple(rule for rule, _ in found)


def tuned_multiple(forward: Forward, *, guard: bool, horizon: int) -> tuple[float, dict[float, float]]:
    """The multiple of gamma with the least expected regret of exploitation, and that regret for each tried.

    Under the users' belief, with the guard that each multiple needs in force, so that the notion holds for all of them.
    """
    found = {
        multiple: exploitation_regret(forward, multiple=multiple, guard=guard, horizon=horizon).regret
        for multiple in track(MULTIPLES, description="spreads")
    }
    return min(found, key=lambda multiple: found[multiple]), found


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRegret:
    """Expected regret of exploitation under the users' belief; whether some user of the panel ever needs a guard."""

    regret: float
    regret_mcse: float
    needs_guard: bool


def exploitation_regret(forward: Forward, *, multiple: float, guard: bool, horizon: int) -> ExpectedRegret:
    """Regret of ``horizon`` rounds of exploitation, in worlds side by side, with the guard that it needs in force.

    Later epochs than those simulated at plan time have the last one's guard, as a run does.
    """
    epochs = _epochs(forward, Exploiting(spread_multiple=multiple), n_worlds=_TUNING_WORLDS)
    if epochs is None:
        return ExpectedRegret(regret=0.0, regret_mcse=0.0, needs_guard=False)
    some, weights = forward.panel.some(_TUNING_USERS, rng=generator(forward.settings.seed, Stream.TUNING_USERS))
    users = forward.panel.users[some]
    slack = _slack(forward, _TUNING_WORLDS)
    total, rounds, needs_guard = np.zeros(_TUNING_WORLDS), 0, False
    factors: FloatArray | None = None
    while rounds < horizon:
        if epochs.epoch < N_EPOCHS:
            factors = _rule(forward, epochs, slack=slack)[1]
            needs_guard = needs_guard or bool(factors.min() < 1.0)
        own = factors if guard else None
        n = min(epochs.length, horizon - rounds)
        total += n * epochs.regret(users, weights, guard=None if own is None else own[some])
        rounds += n
        if rounds < horizon:
            epochs.run(own)
            epochs.begin()
    error = float(total.std(ddof=1) / np.sqrt(_TUNING_WORLDS))
    return ExpectedRegret(regret=float(total.mean()), regret_mcse=error, needs_guard=needs_guard)


def _epochs(forward: Forward, options: Exploiting, *, n_worlds: int, epoch: int = 0) -> EpochWorlds | None:
    """Worlds at the end of their cold start, of the prior as it is by some epoch.

    None where no cold start ends, or rewards are not Gaussian.
    """
    settings = forward.settings
    ended = np.flatnonzero(forward.paths.sets[-1] != STUCK)
    if not len(ended) or not forward.market.noise.is_gaussian:
        return None
    worlds, data, _ = after_cold_start(forward, ended, n_worlds=n_worlds)
    rounds = forward.market.n_arms * settings.n_per_arm * ((1 << epoch) - 1)
    factor = inflation_factor(options.inflation, rounds)
    worlds, data = loosened(forward.market, worlds, data, factor=factor)
    return EpochWorlds(
        forward.market,
        forward.panel,
        worlds,
        data,
        n_per_arm=settings.n_per_arm,
        engine=forward.simulator.engine,
        platform=forward.simulator.platform,
        options=options,
        seed=int(generator(settings.seed, Stream.PLANNED_EPOCHS).integers(2**63)),
    )


def _slack(forward: Forward, n_worlds: int) -> float:
    """Standard deviations over worlds that are left for the audit's bands, and for its estimate to differ from ours."""
    fresh = 1.0 / forward.settings.audit_worlds
    return float(_CRITICAL * np.sqrt(fresh) + _FLUCTUATION * np.sqrt(fresh + 1.0 / n_worlds))


def after_cold_start(forward: Forward, ended: np.ndarray, *, n_worlds: int) -> tuple[Worlds, Statistics, np.ndarray]:
    """Worlds, their data when every arm has its samples, and which of the paths ``ended`` each of them took, (W,)."""
    market, n = forward.market, forward.settings.n_per_arm
    rng = generator(forward.settings.seed, Stream.AFTER_COLD_START)
    chosen = rng.choice(ended, size=n_worlds, replace=len(ended) < n_worlds)
    betas, sigmas, parts = [], [], []
    start = 0
    for size, stream in block_seeds(n_worlds, seed=int(rng.integers(2**63))):
        some = chosen[start : start + size]
        designs = {
            arm: forward.panel.users[draw_designs(forward.paths, some, forward.sampling, arm, n_per_arm=n, rng=one)]
            for arm, one in enumerate(stream.spawn(market.n_arms))
        }
        worlds = draw_worlds(market.prior, size, rng=stream)
        data = data_of_designs(worlds, market, designs, rng=stream)
        assert isinstance(data, Statistics)  # rewards are Gaussian
        betas.append(worlds.beta)
        sigmas.append(worlds.sigma)
        parts.append(data)
        start += size
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("xtx", "xty", "yty", "n")}
    sigma = None if sigmas[0] is None else np.concatenate([part for part in sigmas if part is not None])
    return Worlds(beta=np.concatenate(betas), sigma=sigma), unchecked_statistics(**joined), chosen


def loosened(market: Market, worlds: Worlds, data: Statistics, *, factor: float) -> tuple[Worlds, Statistics]:
    """Worlds of a prior with variances multiplied by a factor, and what the same samples would have given there."""
    if factor == 1.0:
        return worlds, data
    away = (np.sqrt(factor) - 1.0) * (worlds.beta - market.prior.mean.values)  # (W, K, d)
    moved = np.einsum("wkde,wke->wkd", data.xtx, away)
    yty = data.yty + 2.0 * (away * data.xty).sum(axis=2) + (away * moved).sum(axis=2)
    return replace(worlds, beta=worlds.beta + away), unchecked_statistics(data.xtx, data.xty + moved, yty, data.n)


def closed_guard(market: Market) -> GuardRule:
    """The guard that lets nothing but the best arm through."""
    return GuardRule(outlook=None, gamma=np.zeros(0), slack=0.0, factors=np.zeros(market.n_arms), kept=0.0, closed=1.0)


def _rule(forward: Forward, epochs: EpochWorlds, *, slack: float) -> tuple[GuardRule, FloatArray]:
    """The guard of the epoch that has just begun, and its factors for the panel's users, (P, K)."""
    settings, panel = forward.settings, forward.panel
    outlook = LinearOutlook(epochs.user_means, None if epochs.means is epochs.user_means else epochs.means)
    outlook = compact_outlook(outlook, forward.market.prior.mean.values, forward.market.platform_prior.mean.values)
    gamma = compact_gamma(epochs.gamma)
    for_all: FloatArray | None = None
    if settings.notion == "definition":
        scale = 0.0 if panel.is_exact else settings.audit_worlds / panel.n_users
        for_all = crowd_guard(
            outlook, gamma, panel.users, panel.weights, epsilon=settings.epsilon, slack=slack, user_scale=scale
        )
        factors = np.tile(for_all, (panel.n_users, 1))
    else:
        shared = {"epsilon": settings.epsilon, "notion": settings.notion, "slack": slack}
        factors = users_guard(outlook, gamma, panel.users, **shared)
        # None for anybody: 2,048 users without a cut leave at most 3 in 2,048 who need one (95 %).
        for_all = np.ones(forward.market.n_arms) if factors.min() == 1.0 else None
    kept, of_all = _off_best(forward, epochs, factors), _off_best(forward, epochs, None)
    rule = GuardRule(
        outlook=outlook if for_all is None else None,
        gamma=gamma if for_all is None else gamma[:0],
        slack=slack,
        factors=for_all,
        kept=kept / of_all if of_all > 0 else 1.0,
        closed=panel.mean((factors <= 0.0).any(axis=1).astype(float))[0],
    )
    return rule, factors


def _off_best(forward: Forward, epochs: EpochWorlds, guard: FloatArray | None) -> float:
    """Average probability of recommending another arm than the best, over worlds and some users."""
    panel = forward.panel
    some, weights = panel.some(_TUNING_USERS, rng=generator(forward.settings.seed, Stream.OFF_BEST_USERS))
    chances = epochs.probabilities(panel.users[some], guard=None if guard is None else guard[some])
    return float(((1.0 - chances.max(axis=0)) @ weights).mean())
