"""Guards at plan time: exploitation simulated epoch by epoch, with the guard of each epoch in force."""

import numpy as np

from rcb_bayes.epochs import EpochWorlds
from rcb_bayes.exploit import Exploiting
from rcb_bayes.forward import Forward
from rcb_bayes.guard import users_guard
from rcb_bayes.plan import GuardRule
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.rates import LinearOutlook
from rcb_bayes.saturation import STUCK, draw_designs
from rcb_bayes.schema import FloatArray
from rcb_bayes.worlds import Worlds, block_seeds, data_of_designs, draw_worlds

N_EPOCHS = 4
MAX_WORLDS = 1000
_CRITICAL = 4.5  # errors: a simultaneous band over users, arms, rivals and epochs


def compute_guards(forward: Forward, *, options: Exploiting) -> tuple[GuardRule, ...]:
    """The guards of the first epochs; none where no cold start ends or rewards are not Gaussian."""
    market, panel, settings = forward.market, forward.panel, forward.settings
    ended = np.flatnonzero(forward.paths.sets[-1] != STUCK)
    if not len(ended) or not market.noise.is_gaussian:
        return ()
    n_worlds = min(settings.n_worlds, MAX_WORLDS)
    worlds, data = after_cold_start(forward, ended, n_worlds=n_worlds)
    epochs = EpochWorlds(
        market,
        panel,
        worlds,
        data,
        n_per_arm=settings.n_per_arm,
        engine=forward.simulator.engine,
        platform=forward.simulator.platform,
        options=options,
        seed=int(np.random.default_rng([settings.seed, 10]).integers(2**63)),
    )
    fresh = 1.0 / settings.audit_worlds
    slack = float(_CRITICAL * (np.sqrt(fresh) + np.sqrt(fresh + 1.0 / n_worlds)))
    rules = []
    for epoch in range(N_EPOCHS):
        rule, factors = _rule(forward, epochs, slack=slack)
        rules.append(rule)
        if epoch < N_EPOCHS - 1:
            epochs.run(factors)
            epochs.begin()
    return tuple(rules)


def after_cold_start(forward: Forward, ended: np.ndarray, *, n_worlds: int) -> tuple[Worlds, Statistics]:
    """Worlds, and their data when every arm has its samples."""
    market, n = forward.market, forward.settings.n_per_arm
    rng = np.random.default_rng([forward.settings.seed, 11])
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
    return Worlds(beta=np.concatenate(betas), sigma=sigma), Statistics(**joined)


def _rule(forward: Forward, epochs: EpochWorlds, *, slack: float) -> tuple[GuardRule, FloatArray]:
    """The guard of the epoch that has just begun, and its factors for the panel's users, (P, K)."""
    settings, panel = forward.settings, forward.panel
    outlook = LinearOutlook(epochs.user_means, None if epochs.means is epochs.user_means else epochs.means)
    gamma = epochs.gamma
    factors = users_guard(outlook, gamma, panel.users, epsilon=settings.epsilon, notion=settings.notion, slack=slack)
    for_all = factors.min(axis=0) if settings.notion == "definition" else None
    if for_all is not None:
        factors = np.tile(for_all, (panel.n_users, 1))
    kept, of_all = _off_best(epochs, panel.users, factors), _off_best(epochs, panel.users, None)
    rule = GuardRule(
        outlook=outlook,
        gamma=gamma,
        slack=slack,
        factors=for_all,
        kept=kept / of_all if of_all > 0 else 1.0,
        closed=panel.mean((factors <= 0.0).any(axis=1).astype(float))[0],
    )
    return rule, factors


def _off_best(epochs: EpochWorlds, users: FloatArray, guard: FloatArray | None) -> float:
    """Average probability of recommending another arm than the best, over some worlds and users."""
    some = slice(0, 256)
    chances = epochs.probabilities(users[some], guard=None if guard is None else guard[some])
    return float((1.0 - chances.max(axis=0)).mean())
