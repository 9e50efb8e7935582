r"""A plan as an audit looks at it: its cold start under its own rates, its exploitation under its own guard.

All worlds go side by side: rates, guards and the kernel are known functions of x, and the rewards of a stage are drawn
as sums given its users. How long each stage of a cold start takes is drawn, too: what a run does not get to before the
horizon is not looked at, and what it does get to is, however long others take.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from rcb_bayes.auditing.averaging import Fixed, averages_of, fixed_mean
from rcb_bayes.auditing.search import SEARCH_WORLDS, ViewOf, worst_in
from rcb_bayes.auditing.view import Asked, Crowd, Looked, View, make_crowd
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.epochs import EpochWorlds
from rcb_bayes.mechanism.exploiting import Exploiting, inflation_factor, spread_multiple
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.panel import panel_of
from rcb_bayes.mechanism.saturation import Paths, arms_of, draw_rounds
from rcb_bayes.mechanism.streams import Stream, derived_seed
from rcb_bayes.planning.forward import N_PATHS, Forward, followed
from rcb_bayes.planning.guard_rules import Counts, after_cold_start, loosened
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track
from rcb_bayes.telling.wording import percent

_LEAST_SHARE = 0.01  # of runs that are at a stage before the horizon, for it to be audited
_STILL_THERE = 0.9  # of the worlds of an epoch that get to the next; fewer are drawn anew


@dataclass(slots=True, kw_only=True, eq=False)
class _Followed:
    """A plan's cold start, followed; rounds after which each level begins, and the cold start ends, (K + 1, R)."""

    forward: Forward
    plan: Plan
    crowd: Crowd
    asked: Asked
    horizon: int
    begins: FloatArray
    counts: Counts = field(default_factory=Counts)

    @property
    def market(self) -> Market:
        return self.forward.market


def plan_views(market: Market, plan: Plan, asked: Asked, *, horizon: int, options: Exploiting) -> Looked:
    """The first phase, and every stage and epoch that runs get to before the horizon often enough."""
    forward = followed(
        market,
        plan,
        epsilon=asked.epsilon,
        notion=asked.notion,
        n_worlds=asked.n_worlds + SEARCH_WORLDS,
        audit_worlds=asked.n_worlds,
        seed=derived_seed(asked.seed, Stream.AUDIT),
    )
    rounds = draw_rounds(forward.paths, forward.sampling, rng=forward.simulator.rng(Stream.AUDITED_ROUNDS))
    begins = np.vstack([np.zeros(rounds.shape[1]), np.cumsum(rounds, axis=0)])
    crowd = make_crowd(market, forward.panel, asked, rng=forward.simulator.rng(Stream.JUDGED_USERS))
    run = _Followed(forward=forward, plan=plan, crowd=crowd, asked=asked, horizon=horizon, begins=begins)
    views = [_first_phase(run)]
    for code, members in track(_stages(run), description="stages"):
        views.append(_stage(run, code, members))
    views += _epoch_views(run, options)
    simulator = forward.simulator
    return Looked(
        crowd=crowd,
        views=views,
        notes=_unfinished(run),
        n_posteriors=simulator.n_fitted + run.counts.n_fitted,
        n_not_vouched=simulator.n_not_vouched + run.counts.n_not_vouched,
    )


def _unfinished(run: _Followed) -> tuple[str, ...]:
    share = float((run.begins[-1] >= run.horizon).mean())
    if share < _LEAST_SHARE:
        return ()
    return (f"{percent(share)} of runs are still in the cold start when the horizon ends",)


# --- the cold start --------------------------------------------------------------------------------------------------


def _stages(run: _Followed) -> list[tuple[int, np.ndarray]]:
    """Saturated sets that runs get to before the horizon, and which of them do."""
    paths, found = run.forward.paths, []
    for level in range(1, run.market.n_arms):
        there = run.begins[level] < run.horizon
        for code, some in _up_to(paths, level).members().items():
            members = some[there[some]]
            if len(members) >= _LEAST_SHARE * N_PATHS:
                found.append((code, members))
    return found


def _up_to(paths: Paths, level: int) -> Paths:
    """Paths only as far as a level."""
    return replace(paths, sets=paths.sets[: level + 1], taken=paths.taken[:level])


def _first_phase(run: _Followed) -> View:
    """The most popular arm's phase: everybody gets the arm that the platform's prior means put first."""
    market = run.market

    def view(users: FloatArray) -> View:
        seats = panel_of(market, users)
        two = np.ones(2)  # worlds, all alike
        chances = promotion_shares(seats.promoted_by, range(market.n_arms)).T[:, :, None] * two
        return View(
            name="most popular",
            chances=chances,
            rewards=seats.prior_rewards.T[:, :, None] * two,
            prior_rewards=seats.prior_rewards,
            best=chances,
        )

    averages = averages_of(view, run.crowd.population, epsilon=run.asked.epsilon, n_worlds=2)
    return replace(view(run.crowd.judged.users), averages=averages)


def _stage(run: _Followed, code: int, members: np.ndarray) -> View:
    forward, plan, market = run.forward, run.plan, run.market
    labels = [market.arms[arm] for arm in arms_of(code)]
    outlook, _ = forward.simulator.simulated(code, _up_to(forward.paths, len(labels)), members, forward.sampling)
    assert isinstance(outlook, LinearOutlook)  # rewards are Gaussian
    open_arms = forward.simulator.open_arms(code)

    def explored(users: FloatArray) -> FloatArray:
        promoted = promotion_shares(panel_of(market, users).promoted_by, open_arms)
        return plan.rate(users, saturated=labels)[:, None] * promoted

    def view(users: FloatArray, worlds: slice) -> View:
        seats = panel_of(market, users)
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
            share=len(members) / N_PATHS,
        )

    return _judged(run, view, explored=None if plan.personalised else explored)


def _stage_name(plan: Plan, labels: list[str]) -> str:
    for stage in plan.stages:
        if list(stage.saturated) == labels:
            return plan.stage_name(stage)
    return ", ".join(labels)


# --- exploitation ----------------------------------------------------------------------------------------------------


def _epoch_views(run: _Followed, options: Exploiting) -> list[View]:
    """The beginning of every epoch that runs get to before the horizon."""
    plan, ends = run.plan, run.begins[-1]
    guarded = options.guard and plan.has_guard
    length = run.market.n_arms * plan.n_per_arm
    epochs: EpochWorlds | None = None
    worlds_ends = np.zeros(0)
    views: list[View] = []
    while True:
        before = length * ((1 << len(views)) - 1)  # rounds of exploitation
        there = np.flatnonzero(ends + before < run.horizon)
        if len(there) < _LEAST_SHARE * N_PATHS:
            return views
        still = worlds_ends + before < run.horizon
        # Users whose prior has loosened reckon with other worlds, in which all epochs before were other ones, too.
        anew = epochs is None or still.mean() < _STILL_THERE or options.inflation != "none"
        if anew:
            factor = inflation_factor(options.inflation, before)
            epochs, worlds_ends = _begun(run, there, options, factor=factor)
            still = np.ones(len(worlds_ends), dtype=bool)
        assert epochs is not None  # begun
        while epochs.epoch < len(views):
            epochs.run(plan.guard(run.forward.panel.users, epochs.epoch) if guarded else None)
            epochs.begin()
        view = _epoch_view(run, epochs, plan if guarded else None, np.flatnonzero(still))
        views.append(replace(_judged(run, view), share=len(there) / N_PATHS))
        run.counts.take(epochs)


def _begun(run: _Followed, there: np.ndarray, options: Exploiting, *, factor: float) -> tuple[EpochWorlds, FloatArray]:
    """Exploitation at its beginning, in worlds of some paths, and the rounds after which their cold starts ended."""
    forward, plan = run.forward, run.plan
    worlds, data, chosen = after_cold_start(forward, there, n_worlds=forward.settings.n_worlds)
    worlds, data = loosened(forward.market, worlds, data, factor=factor)
    epochs = EpochWorlds(
        forward.market,
        forward.panel,
        worlds,
        data,
        n_per_arm=plan.n_per_arm,
        engine=forward.simulator.engine,
        platform=forward.simulator.platform,
        options=replace(options, spread_multiple=spread_multiple(options, plan.spread_multiple)),
        seed=int(forward.simulator.rng(Stream.AUDITED_EPOCHS).integers(2**63)),
    )
    return epochs, run.begins[-1][chosen]


def _epoch_view(run: _Followed, epochs: EpochWorlds, plan: Plan | None, there: np.ndarray) -> ViewOf:
    """The epoch that has begun, in the worlds that are there; ``plan`` where its guard is in force."""

    def view(users: FloatArray, worlds: slice) -> View:
        some = there[worlds]
        guard = None if plan is None else plan.guard(users, epochs.epoch)
        chances = epochs.probabilities(users, guard=guard, worlds=some)
        return View(
            name=f"epoch {epochs.epoch}",
            chances=np.ascontiguousarray(chances.swapaxes(1, 2)),
            rewards=LinearOutlook(epochs.user_means[some]).rewards(users),
            prior_rewards=panel_of(run.market, users).prior_rewards,
            best=best_shares(LinearOutlook(epochs.means[some]).rewards(users), axis=0),
        )

    return view


# --- users -----------------------------------------------------------------------------------------------------------


def _judged(run: _Followed, view_of: ViewOf, *, explored: Fixed | None = None) -> View:
    """The crowd and, unless users were given, the worst users, in other worlds than those they were looked for in."""
    users, asked, forward = run.crowd.judged.users, run.asked, run.forward
    if asked.users is None:
        worst = worst_in(view_of, run.market, forward.panel, asked, rng=forward.simulator.rng(Stream.WORST_USERS))
        users = np.concatenate([users, worst])
    judged = slice(SEARCH_WORLDS, None)
    view = view_of(users, judged)
    population, many = run.crowd.population, forward.simulator.crowd
    known = explored is not None and not asked.notion.is_per_user and not population.is_exact and asked.users is None
    averages = averages_of(
        lambda some: view_of(some, judged),
        population,
        epsilon=asked.epsilon,
        n_worlds=view.n_worlds,
        fixed=explored if known else None,
        fixed_mean=fixed_mean(explored, many, epsilon=asked.epsilon) if known and explored is not None else None,
    )
    return replace(view, averages=averages)
