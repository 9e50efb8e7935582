r"""A plan as an audit looks at it: its cold start under its own rates, its exploitation under its own guard.

All worlds go side by side: rates, guards and the kernel are known functions of x, and the rewards of a stage are drawn
as sums given its users.
"""

from dataclasses import replace

import numpy as np

from rcb_bayes.auditing.search import SEARCH_WORLDS, ViewOf, worst_users
from rcb_bayes.auditing.view import Asked, Crowd, View, make_crowd, seats_of
from rcb_bayes.choice import best_shares, promotion_shares
from rcb_bayes.epochs import EpochWorlds
from rcb_bayes.exploit import Exploiting, inflation_factor, spread_multiple
from rcb_bayes.forward import N_PATHS, Forward, Settings, StageSimulator
from rcb_bayes.guards import after_cold_start
from rcb_bayes.market import Market
from rcb_bayes.plan import Plan
from rcb_bayes.posterior.data import Statistics, unchecked_statistics
from rcb_bayes.progress import track
from rcb_bayes.rates import LinearOutlook
from rcb_bayes.saturation import STUCK, Paths, arms_of, first_paths, follow, sampling_of
from rcb_bayes.schema import FloatArray
from rcb_bayes.worlds import Worlds

_LEAST_SHARE = 0.01  # of cold starts that pass a stage, for it to be audited


def plan_views(
    market: Market, plan: Plan, asked: Asked, *, horizon: int, options: Exploiting
) -> tuple[Crowd, list[View]]:
    """The first phase, every stage of the cold start that is passed often enough, and the beginning of every epoch."""
    forward = _followed(market, plan, asked)
    crowd = make_crowd(forward.panel, asked, rng=forward.simulator.rng(13))
    views = [_first_phase(market, crowd)]
    for code, members in track(_stages(forward), description="stages"):
        views.append(_with_worst(_stage_view(forward, plan, code, members), forward, crowd, asked))
    return crowd, views + _epoch_views(forward, plan, crowd, asked, horizon=horizon, options=options)


def _followed(market: Market, plan: Plan, asked: Asked) -> Forward:
    """The cold start under the plan's own rates, with users and random numbers of the audit's own."""
    settings = Settings(
        epsilon=asked.epsilon,
        notion=asked.notion,
        personalised=plan.personalised,
        n_per_arm=plan.n_per_arm,
        n_worlds=asked.n_worlds + SEARCH_WORLDS,
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


def _first_phase(market: Market, crowd: Crowd) -> View:
    """The most popular arm's phase: everybody gets the arm that the platform's prior means put first."""
    seats = seats_of(market, crowd.users)
    chances = promotion_shares(seats.promoted_by, range(market.n_arms)).T[:, :, None]
    rewards = seats.prior_rewards.T[:, :, None]
    two = np.ones(2)
    return View(
        name="most popular",
        chances=chances * two,
        rewards=rewards * two,
        prior_rewards=seats.prior_rewards,
        best=chances * two,
    )


def _stage_view(forward: Forward, plan: Plan, code: int, members: np.ndarray) -> ViewOf:
    market = forward.market
    labels = [market.arms[arm] for arm in arms_of(code)]
    outlook, _ = forward.simulator.simulated(code, _up_to(forward.paths, len(labels)), members, forward.sampling)
    assert isinstance(outlook, LinearOutlook)  # rewards are Gaussian
    open_arms = [arm for arm in range(market.n_arms) if arm not in arms_of(code)]

    def view(users: FloatArray, worlds: slice) -> View:
        seats = seats_of(market, users)
        part = LinearOutlook(outlook.means[worlds], None if outlook.platform is None else outlook.platform[worlds])
        organic = best_shares(part.acted_on(users), axis=0)  # (K, U, W)
        promoted = promotion_shares(seats.promoted_by, open_arms)
        q = plan.rate(users, saturated=labels)[None, :, None]
        return View(
            name=_stage_name(plan, labels),
            chances=q * promoted.T[:, :, None] + (1.0 - q) * organic,
            rewards=part.rewards(users),
            prior_rewards=seats.prior_rewards,
            best=organic,
        )

    return view


def _stage_name(plan: Plan, labels: list[str]) -> str:
    for stage in plan.stages:
        if list(stage.saturated) == labels:
            return plan.stage_name(stage)
    return ", ".join(labels)


def _epoch_views(
    forward: Forward, plan: Plan, crowd: Crowd, asked: Asked, *, horizon: int, options: Exploiting
) -> list[View]:
    """The beginning of every epoch before the horizon."""
    ended = np.flatnonzero(forward.paths.sets[-1] != STUCK)
    if not len(ended):
        return []
    worlds, data = after_cold_start(forward, ended, n_worlds=forward.settings.n_worlds)
    guarded = options.guard and plan.has_guard

    def view_now(epochs: EpochWorlds) -> View:
        return _with_worst(_epoch_view(forward, epochs, plan if guarded else None), forward, crowd, asked)

    def go_on(epochs: EpochWorlds) -> None:
        epochs.run(plan.guard(forward.panel.users, epochs.epoch) if guarded else None)
        epochs.begin()

    epochs = _begun(forward, plan, worlds, data, options)
    views: list[View] = []
    rounds = round(plan.expected_cold_start)
    while rounds < horizon:
        views.append(view_now(epochs))
        rounds += epochs.length
        if rounds >= horizon:
            break
        if options.inflation == "none":
            go_on(epochs)
            continue
        # Users whose prior has loosened reckon with other worlds, in which all epochs before were other ones, too.
        now = len(views)
        factor = inflation_factor(options.inflation, rounds - round(plan.expected_cold_start))
        epochs = _begun(forward, plan, *_loosened(forward.market, worlds, data, factor=factor), options)
        while epochs.epoch < now:
            go_on(epochs)
    return views


def _begun(forward: Forward, plan: Plan, worlds: Worlds, data: Statistics, options: Exploiting) -> EpochWorlds:
    """Exploitation at its beginning, in these worlds."""
    return EpochWorlds(
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


def _loosened(market: Market, worlds: Worlds, data: Statistics, *, factor: float) -> tuple[Worlds, Statistics]:
    """Worlds of a prior with variances multiplied by a factor, and what the same samples would have given there."""
    away = (np.sqrt(factor) - 1.0) * (worlds.beta - market.prior.mean.values)  # (W, K, d)
    moved = np.einsum("wkde,wke->wkd", data.xtx, away)
    yty = data.yty + 2.0 * (away * data.xty).sum(axis=2) + (away * moved).sum(axis=2)
    return replace(worlds, beta=worlds.beta + away), unchecked_statistics(data.xtx, data.xty + moved, yty, data.n)


def _epoch_view(forward: Forward, epochs: EpochWorlds, plan: Plan | None) -> ViewOf:
    """The epoch that has begun; ``plan`` where its guard is in force."""

    def view(users: FloatArray, worlds: slice) -> View:
        guard = None if plan is None else plan.guard(users, epochs.epoch)
        chances = epochs.probabilities(users, guard=guard, worlds=worlds)
        return View(
            name=f"epoch {epochs.epoch}",
            chances=np.ascontiguousarray(chances.swapaxes(1, 2)),
            rewards=LinearOutlook(epochs.user_means[worlds]).rewards(users),
            prior_rewards=seats_of(forward.market, users).prior_rewards,
            best=best_shares(LinearOutlook(epochs.means[worlds]).rewards(users), axis=0),
        )

    return view


def _with_worst(view_of: ViewOf, forward: Forward, crowd: Crowd, asked: Asked) -> View:
    """The crowd and, unless users were given, the worst users, in other worlds than those they were looked for in."""
    users = crowd.users
    if asked.users is None:
        worst = worst_users(view_of, forward.market, forward.panel, asked, rng=forward.simulator.rng(14))
        users = np.concatenate([users, worst])
    return view_of(users, slice(SEARCH_WORLDS, None))
