r"""What an audit looks at: each stage in simulated worlds of the users' belief, as users of a panel see it.

A plan's cold start is followed under its own rates and its exploitation under its own guard, all worlds side by side;
any other policy is run world by world.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes.choice import best_shares, promotion_shares
from rcb_bayes.epochs import EpochWorlds
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.exploit import Exploiting, spread_multiple
from rcb_bayes.forward import N_PATHS, Forward, Settings, StageSimulator
from rcb_bayes.guards import after_cold_start
from rcb_bayes.history import History
from rcb_bayes.margins import Notion, steadied_terms
from rcb_bayes.market import Market
from rcb_bayes.panel import expected_rewards
from rcb_bayes.plan import Plan
from rcb_bayes.policies import check_plan
from rcb_bayes.posterior import make_engine
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.progress import track
from rcb_bayes.rates import LinearOutlook
from rcb_bayes.saturation import STUCK, Paths, arms_of, first_paths, follow, sampling_of
from rcb_bayes.schema import FloatArray
from rcb_bayes.simulation import PAGE, PolicyMaker, World

_SEARCH_WORLDS = 300
_N_WORST = 20
_LEAST_SHARE = 0.01  # of cold starts that pass a stage, for it to be audited
_CHUNK_USERS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an audit is asked."""

    notion: Notion
    epsilon: float
    n_worlds: int
    n_users: int
    level: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """A stage in all worlds, as seen by users: chances and rewards (K, U, W), prior rewards (U, K), best (K, U, W)."""

    name: str
    chances: FloatArray
    rewards: FloatArray
    prior_rewards: FloatArray
    best: FloatArray


# --- plans -----------------------------------------------------------------------------------------------------------


def plan_views(market: Market, plan: Plan, asked: Asked, *, horizon: int, options: Exploiting) -> list[View]:
    """The first phase, every stage of the cold start that is passed often enough, and the beginning of every epoch."""
    check_plan(market, plan)
    if plan.kind == "sampled" and not plan.feasible:
        raise RcbError(f"This plan cannot be run: {plan.reason}")
    if not market.noise.is_gaussian:
        raise RcbError("Plans are audited with Gaussian rewards. Audit a policy, world by world, instead.")
    forward = _followed(market, plan, asked)
    views = [_first_phase(forward, asked)]
    for code, members in _stages(forward):
        views.append(_stage_view(forward, plan, code, members, asked))
    return views + _epoch_views(forward, plan, asked, horizon=horizon, options=options)


def _followed(market: Market, plan: Plan, asked: Asked) -> Forward:
    """The cold start under the plan's own rates, with users and random numbers of the audit's own."""
    settings = Settings(
        epsilon=asked.epsilon,
        notion=asked.notion,
        personalised=plan.personalised,
        n_per_arm=plan.n_per_arm,
        n_worlds=asked.n_worlds + _SEARCH_WORLDS,
        audit_worlds=asked.n_worlds,
        engine="auto",
        seed=int(np.random.SeedSequence([asked.seed, 20]).generate_state(1)[0]),
    )
    simulator = StageSimulator(market, settings)
    panel = simulator.panel
    sampling = {0: sampling_of(panel, 0, 1.0)}
    n, alike = plan.n_per_arm, simulator.alike
    paths = follow(first_paths(N_PATHS), sampling, n_per_arm=n, rng=simulator.rng(1, 0), alike=alike)
    for level in range(1, market.n_arms):
        for code in paths.members():
            labels = [market.arms[arm] for arm in arms_of(code)]
            sampling[code] = sampling_of(panel, code, plan.rate(panel.users, saturated=labels))
        paths = follow(paths, sampling, n_per_arm=n, rng=simulator.rng(1, level), alike=alike)
    return Forward(
        market=market,
        settings=settings,
        panel=panel,
        paths=paths,
        sampling=sampling,
        stages={},
        simulator=simulator,
    )


def _stages(forward: Forward) -> list[tuple[int, np.ndarray]]:
    """Saturated sets that cold starts pass, and which of them do."""
    found = []
    for level in range(1, forward.market.n_arms):
        members = _up_to(forward.paths, level).members()
        found += [(code, some) for code, some in members.items() if len(some) >= _LEAST_SHARE * N_PATHS]
    return found


def _up_to(paths: Paths, level: int) -> Paths:
    """Paths only as far as a level."""
    return replace(paths, sets=paths.sets[: level + 1], taken=paths.taken[:level])


def _first_phase(forward: Forward, asked: Asked) -> View:
    """The most popular arm's phase: everybody gets the arm that the platform's prior means put first."""
    panel = forward.panel
    users = _at_random(forward, asked)
    chances = promotion_shares(panel.promoted_by[users], range(forward.market.n_arms)).T[:, :, None]
    rewards = panel.prior_rewards[users].T[:, :, None]
    two = np.ones(2)
    return View(
        name="most popular",
        chances=chances * two,
        rewards=rewards * two,
        prior_rewards=panel.prior_rewards[users],
        best=best_shares(rewards, axis=0) * two,
    )


def _stage_view(forward: Forward, plan: Plan, code: int, members: np.ndarray, asked: Asked) -> View:
    market, panel = forward.market, forward.panel
    labels = [market.arms[arm] for arm in arms_of(code)]
    outlook, _ = forward.simulator.simulated(code, _up_to(forward.paths, len(labels)), members, forward.sampling)
    assert isinstance(outlook, LinearOutlook)  # rewards are Gaussian
    open_arms = [arm for arm in range(market.n_arms) if arm not in arms_of(code)]
    promoted = promotion_shares(panel.promoted_by, open_arms)
    rates = plan.rate(panel.users, saturated=labels)

    def view(users: np.ndarray, worlds: slice) -> View:
        part = LinearOutlook(outlook.means[worlds], None if outlook.platform is None else outlook.platform[worlds])
        organic = best_shares(part.acted_on(panel.users[users]), axis=0)  # (K, U, W)
        q = rates[users][None, :, None]
        return View(
            name=_stage_name(plan, labels),
            chances=q * promoted[users].T[:, :, None] + (1.0 - q) * organic,
            rewards=part.rewards(panel.users[users]),
            prior_rewards=panel.prior_rewards[users],
            best=organic,
        )

    return _with_worst(view, forward, asked)


def _stage_name(plan: Plan, labels: list[str]) -> str:
    for stage in plan.stages:
        if list(stage.saturated) == labels:
            return plan.stage_name(stage)
    return ", ".join(labels)


def _epoch_views(forward: Forward, plan: Plan, asked: Asked, *, horizon: int, options: Exploiting) -> list[View]:
    """The beginning of every epoch before the horizon."""
    ended = np.flatnonzero(forward.paths.sets[-1] != STUCK)
    if not len(ended):
        return []
    worlds, data = after_cold_start(forward, ended, n_worlds=forward.settings.n_worlds)
    epochs = EpochWorlds(
        forward.market,
        forward.panel,
        worlds,
        data,
        n_per_arm=plan.n_per_arm,
        engine=forward.simulator.engine,
        platform=forward.simulator.platform,
        options=replace(options, spread_multiple=spread_multiple(options, plan)),
        seed=int(forward.simulator.rng(12).integers(2**63)),
    )
    views: list[View] = []
    rounds = round(plan.expected_cold_start)
    while rounds < horizon:
        guard = plan.guard(forward.panel.users, epochs.epoch) if options.guard and plan.has_guard else None
        views.append(_epoch_view(forward, epochs, guard, asked))
        rounds += epochs.length
        if rounds < horizon:
            epochs.run(guard)
            epochs.begin()
    return views


def _epoch_view(forward: Forward, epochs: EpochWorlds, guard: FloatArray | None, asked: Asked) -> View:
    panel = forward.panel

    def view(users: np.ndarray, worlds: slice) -> View:
        chances = epochs.probabilities(panel.users[users], guard=None if guard is None else guard[users])
        x = panel.users[users]
        return View(
            name=f"epoch {epochs.epoch}",
            chances=np.ascontiguousarray(chances[:, worlds].swapaxes(1, 2)),
            rewards=LinearOutlook(epochs.user_means[worlds]).rewards(x),
            prior_rewards=panel.prior_rewards[users],
            best=best_shares(LinearOutlook(epochs.means[worlds]).rewards(x), axis=0),
        )

    return _with_worst(view, forward, asked)


def _at_random(forward: Forward, asked: Asked) -> np.ndarray:
    """Users of the panel, drawn as they come."""
    return forward.simulator.rng(13).choice(forward.panel.n_users, size=asked.n_users, p=forward.panel.weights)


def _with_worst(view: Callable[[np.ndarray, slice], View], forward: Forward, asked: Asked) -> View:
    """Users drawn at random and the worst of the panel, found in other worlds than they are judged in."""
    first, rest = slice(0, _SEARCH_WORLDS), slice(_SEARCH_WORLDS, None)
    scores = []
    for start in range(0, forward.panel.n_users, _CHUNK_USERS):
        some = np.arange(start, min(start + _CHUNK_USERS, forward.panel.n_users))
        mean, error = _moments(view(some, first), asked)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0, mean / error, np.where(mean < 0, -np.inf, np.inf))
        scores.append(z.min(axis=(0, 1)))
    worst = np.argsort(np.concatenate(scores))[:_N_WORST]
    return view(np.concatenate([_at_random(forward, asked), worst]), rest)


def _moments(view: View, asked: Asked) -> tuple[FloatArray, FloatArray]:
    """Mean and error of every cell, (K, K, U) each."""
    k, u, w = view.chances.shape
    mean, error = np.zeros((k, k, u)), np.zeros((k, k, u))
    for arm in range(k):
        terms = cell_terms(view, arm, asked)  # (W, U, K)
        mean[arm], error[arm] = terms.mean(axis=0).T, terms.std(axis=0, ddof=1).T / np.sqrt(w)
    return mean, error


def cell_terms(view: View, arm: int, asked: Asked) -> FloatArray:
    """Terms of the linear form for an arm and every rival, (W, U, K)."""
    return steadied_terms(
        np.ascontiguousarray(view.chances[arm].T),
        np.ascontiguousarray(view.rewards.T),
        view.prior_rewards,
        arm=arm,
        epsilon=asked.epsilon,
        notion=asked.notion,
    )


# --- policies --------------------------------------------------------------------------------------------------------


def policy_views(market: Market, maker: PolicyMaker, asked: Asked, *, horizon: int) -> list[View]:
    """Any policy: world by world, looked at as rounds 1, 2, 4, ... begin."""
    if not market.noise.is_gaussian:
        raise RcbError("Policies are audited with Gaussian rewards.")
    believed = replace(market, nature=market.prior)  # users reckon with their own belief
    users = market.covariates.sample(asked.n_users, seed=asked.seed)
    looks = [1 << power for power in range(horizon.bit_length()) if 1 << power <= horizon]
    chances: list[list[FloatArray]] = [[] for _ in looks]
    sums: list[list[Any]] = [[] for _ in looks]
    for child in track(np.random.SeedSequence(asked.seed).spawn(asked.n_worlds), description="worlds"):
        for k, (found, seen) in enumerate(_watched(believed, maker, users, looks, child)):
            chances[k].append(found)
            sums[k].append(seen)
    engine = make_engine(market.prior, market.noise)
    prior_rewards = expected_rewards(market.prior, market.noise, users)
    views = []
    for k, look in enumerate(looks):
        data = Statistics(
            **{name: np.stack([getattr(one, name) for one in sums[k]]) for name in ("xtx", "xty", "yty", "n")}
        )
        rewards = LinearOutlook(engine.fit(data).mean).rewards(users)
        views.append(
            View(
                name=f"round {look}",
                chances=np.ascontiguousarray(np.stack(chances[k], axis=2).swapaxes(0, 1)),
                rewards=rewards,
                prior_rewards=prior_rewards,
                best=best_shares(rewards, axis=0),
            )
        )
    return views


def _watched(
    market: Market, maker: PolicyMaker, users: FloatArray, looks: list[int], seed: np.random.SeedSequence
) -> list[tuple[FloatArray, Any]]:
    """One world: recommendation probabilities of the users (U, K) as some rounds begin, and the data by then."""
    world = World(market, seed)
    policy = maker(market, int(seed.generate_state(1)[0]))
    history = History(market.n_arms, market.n_features)
    out: list[tuple[FloatArray, Any]] = []
    done, page = 0, None
    for look in looks:
        while done < look - 1:
            number, place = divmod(done, PAGE)
            page = world.page(number) if page is None or place == 0 else page
            stop = min(PAGE, place + look - 1 - done)
            x = page.x[place:stop]
            decisions = policy.decide(x, np.ascontiguousarray(x.T), page.uniforms[place:stop])
            x = x[: len(decisions)]
            eta = (x * world.beta[decisions.arm]).sum(axis=1)
            reward = world.rewards(eta, page.noise[place : place + len(decisions)])
            policy.update(x, decisions, reward)
            history.add(x, decisions.arm, reward)
            done += len(decisions)
        out.append((_checked(policy.recommend_proba(users)), history.sums()))
    return out


def _checked(probabilities: FloatArray) -> FloatArray:
    found = np.asarray(probabilities, dtype=float)
    if not np.isfinite(found).all() or (found < -1e-9).any() or np.abs(found.sum(axis=1) - 1.0).max() > 1e-6:
        raise DataError("A policy's probabilities must be finite, not negative, and sum to one for every user.")
    return found
