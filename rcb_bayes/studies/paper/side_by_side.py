"""All policies side by side on Settings 1 and 4 and on a skewed belief: regret, cold start, verdicts, time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes import baselines
from rcb_bayes.belief.families import matched_belief
from rcb_bayes.files.store import open_store
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.paper.cells import side_by_side
from rcb_bayes.studies.paper.claims import Claim
from rcb_bayes.studies.paper.intervals import Interval, decide, log_contrast
from rcb_bayes.studies.paper.measures import PolicyMaker, Run
from rcb_bayes.studies.paper.outcome import Outcome, Request, write_outcome
from rcb_bayes.studies.paper.plan_kinds import fixed_run, sampled_run, theorem_run, timed
from rcb_bayes.studies.paper.reproduction import FAST_NOTE
from rcb_bayes.studies.paper.settings import SIGMA, Cell, Effort, effort_of
from rcb_bayes.studies.paper.tables import as_table, reasons
from rcb_bayes.users import Sphere
from rcb_bayes.workers import run_cells

if TYPE_CHECKING:
    import xarray as xr

NAME = "comparison"
_SKEWED_MEAN = 0.5
_SPLIT_USERS = 4096
_POLICY_ROUNDS = 256  # of baselines that are audited: world by world, so that more take long


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """Where policies meet: a cell of a setting, or a skewed belief with the same fields."""

    name: str
    cell: Cell

    def market(self) -> Market:
        """The market."""
        if self.cell.belief != "skewed":
            return self.cell.market()
        mean = np.full((self.cell.n_arms, self.cell.n_features), _SKEWED_MEAN)
        prior = matched_belief("skewed", mean, self.cell.variance)
        return Market(prior=prior, covariates=Sphere(self.cell.n_features), noise=GaussianNoise(SIGMA))


ARENAS = (
    Arena(name="setting-1", cell=Cell(belief="setting_1")),
    Arena(name="setting-4", cell=Cell(belief="setting_4", variance=0.02, horizon=50_000)),
    Arena(name="skewed", cell=Cell(belief="skewed", n_arms=3, variance=0.16, horizon=10_000)),
)


def run_comparison(request: Request) -> Outcome:
    """Every policy in every arena, in one table."""
    return run_arenas(ARENAS, request, effort=effort_of(n_worlds=request.n_worlds, fast=request.fast))


def run_arenas(arenas: tuple[Arena, ...], request: Request, *, effort: Effort) -> Outcome:
    """Every policy in some arenas; finished ones are read from the folder where the run is resumed."""
    parameters = {"experiment": NAME, "n_worlds": effort.n_worlds, "fast": request.fast, "seed": request.seed}
    store = open_store(request.folder, parameters, resume=request.resume)
    jobs = [(arena, job) for arena in arenas for job in ("plans", "bandits", "predecessors")]
    made = {
        f"{arena.name}-{job}": partial(run_arena, arena, job, effort=effort, seed=request.seed) for arena, job in jobs
    }
    parts = run_cells(store, made, workers=request.workers, description=NAME)
    outcome = Outcome(
        name=NAME,
        title="All policies side by side",
        table=as_table(parts, keys=("setting",)),
        keys=("setting",),
        claims=tuple(judge_comparison(parts)),
        notes=(
            f"Plans are audited over the cold start and {effort.audit_rounds:,} rounds of exploitation. Other policies "
            f"are audited over their first {_POLICY_ROUNDS} rounds. The table says which policies do not apply. The "
            "bill is what users who see all data lose beyond epsilon: in all, and for each try of an arm that is not "
            "the best known.",
            *((FAST_NOTE,) if request.fast else ()),
            *_price_lines(parts),
            *(line for part in parts for line in (*reasons(part), *_split_lines(part))),
        ),
        parts=tuple(parts),
    )
    return replace(outcome, files=write_outcome(outcome, store, {}))


def run_arena(arena: Arena, job: str, *, effort: Effort, seed: int) -> "xr.Dataset":
    """Plans, usual bandits, or the paper's predecessors in one arena, dims (run, world, t)."""
    market, cell = arena.market(), arena.cell
    horizon = effort.horizon(cell)
    split: dict[str, float] = {}
    if job == "plans":
        runs = plan_runs(market, cell, effort=effort, horizon=horizon, seed=seed)
        personal = next(run.plan for run in runs if run.kind == "personalised")
        split = split_users(market, personal) if isinstance(personal, Plan) and personal.feasible else {}
    else:
        runs = bandit_runs(market) if job == "bandits" else predecessor_runs(market, horizon=horizon)
    found = side_by_side(market, runs, horizon=horizon, epsilon=cell.epsilon, effort=effort, seed=seed)
    return found.assign_attrs({"setting": arena.name, "epsilon": cell.epsilon, "horizon": horizon, **split})


def plan_runs(market: Market, cell: Cell, *, effort: Effort, horizon: int, seed: int) -> list[Run]:
    """The theorem's plan, a fixed one, sampled ones, and FALCON with the same spreads."""
    theorem = timed(theorem_run, market, cell, horizon=horizon)
    assert isinstance(theorem.plan, Plan)
    runs = [theorem, fixed_run(market, 100, theorem.plan.exploration_rate, epsilon=cell.epsilon)]
    sampled = partial(timed, sampled_run, market, cell.epsilon, effort=effort, seed=seed)
    runs += [sampled(personalised=False), sampled(personalised=True)]
    tuned = sampled(personalised=True, spread="tuned", horizon=horizon)
    runs.append(tuned)
    multiple = tuned.plan.spread_multiple if isinstance(tuned.plan, Plan) else 1.0
    n = market.n_features
    return [*runs, *(_falcon(name, n, value) for name, value in (("posterior", 1.0), ("tuned", multiple)))]


def _falcon(name: str, n_per_arm: int, multiple: float) -> Run:
    def make(market: Market, seed: int) -> baselines.Falcon:
        options = Exploiting(spread_multiple=multiple)
        return baselines.Falcon(market, n_per_arm=n_per_arm, options=options, seed=seed)

    return _baseline(f"FALCON, {name} spread", make)


def bandit_runs(market: Market) -> list[Run]:
    """Usual bandits; Thompson sampling and LinUCB learn one by one where the belief is Gaussian, others in batches."""
    batch, coarse = (1, 10) if market.prior.is_gaussian else (50, 50)
    n = market.n_features
    makers: dict[str, PolicyMaker] = {
        "Thompson": lambda own, seed: baselines.LinThompson(own, n_draws=10, batch=batch, seed=seed),
        "LinUCB": lambda own, seed: baselines.LinUcb(own, batch=batch, seed=seed),
        "greedy": lambda own, seed: baselines.Greedy(own, batch=coarse, seed=seed),
        "epsilon-greedy, falling": lambda own, seed: baselines.EpsilonGreedy(
            own, rate=1.0, decay=1.0, hold=20.0, batch=coarse, seed=seed
        ),
        "explore then commit": lambda own, seed: baselines.ExploreThenCommit(own, n_per_arm=4 * n, seed=seed),
        "lasso": lambda own, seed: baselines.LassoBandit(own, batch=100, seed=seed),
        "payments": lambda own, seed: baselines.Payments(own, batch=batch, seed=seed),
        "always the first arm": lambda own, seed: baselines.AlwaysArm(own, own.arms[0], seed=seed),
    }
    return [_baseline(name, make) for name, make in makers.items()]


def predecessor_runs(market: Market, *, horizon: int) -> list[Run]:
    """Those of the paper's Table 1; where one does not apply, it says why."""
    batch = 20 if market.prior.is_gaussian else 50
    n = market.n_features

    def inner(own: Market, seed: int) -> baselines.LinThompson:
        return baselines.LinThompson(own, batch=batch, seed=seed)

    makers: dict[str, PolicyMaker] = {
        "Kremer et al.": lambda own, seed: baselines.Kremer(own, seed=seed),
        "hidden exploration": lambda own, seed: baselines.HiddenExploration(own, n_per_arm=n, seed=seed),
        "repeated hidden exploration": lambda own, seed: baselines.RepeatedHiddenExploration(
            own, inner, n_per_arm=n, warm_up="all", seed=seed
        ),
        "warm Thompson": lambda own, seed: baselines.WarmThompson(own, batch=batch, seed=seed),
        "filtered posterior": lambda own, seed: baselines.FilteredPosterior(own, batch=batch, seed=seed),
    }
    runs = {name: _baseline(name, make) for name, make in makers.items()}
    n_warm = _warm_start(market)
    asked = {"warm Thompson": n_warm, "filtered posterior": n_warm / market.population.phi0}
    for name, n in asked.items():
        if n * market.n_arms > horizon:
            note = f"It asks for {n:,.0f} samples of each arm, more than there are in {horizon:,} rounds."
            runs[name] = replace(runs[name], plan=None, note=note)
    return list(runs.values())


def _warm_start(market: Market) -> int:
    """The number of samples that a warm start asks for; 0 where the policy itself says that none would do."""
    gain, chance = baselines.estimate_separations(market)
    return baselines.warm_start_samples(gain, chance, sigma=SIGMA) if gain > 0 and chance > 0 else 0


def split_users(market: Market, plan: Plan) -> dict[str, float]:
    """Users who need no subsidy and users who do, at the first stage of the cold start: shares and mean rates."""
    users = market.covariates.sample(_SPLIT_USERS, seed=0)
    first = min(plan.stages, key=lambda stage: (len(stage.saturated), -stage.share))
    rates = plan.rate(users, saturated=first.saturated)
    free, paid = rates >= 1.0, (rates > 0.0) & (rates < 1.0)
    return {
        "share_free": float(free.mean()),
        "share_subsidised": float(paid.mean()),
        "share_never": float((rates <= 0.0).mean()),
        "rate_subsidised": float(rates[paid].mean()) if paid.any() else 0.0,
    }


def judge_comparison(parts: "list[xr.Dataset]") -> list[Claim]:
    """What the comparison is to show: ratios of regrets and of cold starts, in the same worlds."""
    found = []
    regret = _values(parts, "setting-1", "regret")
    lengths = _values(parts, "setting-4", "cold_start")
    sampled, tuned = "sampled, uniform", "sampled, tuned"
    wanted: list[tuple[str, Callable[[], FloatArray | None], Callable[[], FloatArray | None], float, float]] = [
        ("Setting 1: regret at least 50 times below the theorem's", regret("theorem"), regret(sampled), 50.0, np.inf),
        ("Setting 1: tuned, regret at most 3 times Thompson's", regret(tuned), regret("Thompson"), 0.0, 3.0),
        (
            "Setting 4: personalised cold start at least 10 times shorter than one rate for all",
            lengths(sampled),
            lengths("sampled, personalised"),
            10.0,
            np.inf,
        ),
    ]
    for text, one, other, low, high in wanted:
        first, second = one(), other()
        if first is None or second is None:
            continue
        found.append(_ratio(text, first, second, low=low, high=high))
    return found


def _ratio(text: str, first: FloatArray, second: FloatArray, *, low: float, high: float) -> Claim:
    contrast = log_contrast([first, second], np.array([1.0, -1.0]))
    value = float(np.exp(contrast.estimate))
    interval = Interval(
        estimate=value,
        error=value * contrast.error,
        lower=float(np.exp(contrast.lower)),
        upper=float(np.exp(contrast.upper)),
    )
    return Claim(
        claim=text,
        kind="sampled",
        verdict=decide(interval, low=low, high=high),
        figure=f"{value:.3g} times, 95 % interval {interval.lower:.3g} to {interval.upper:.3g}",
        estimate=value,
        error=interval.error,
        lower=interval.lower,
        upper=interval.upper,
    )


def _values(parts: "list[xr.Dataset]", setting: str, name: str) -> "Callable[[str], Callable[[], FloatArray | None]]":
    """A lookup of a run's values over worlds; None where it was not run, or did not end."""

    def of(run: str) -> Callable[[], FloatArray | None]:
        def get() -> FloatArray | None:
            for part in parts:
                if part.attrs["setting"] == setting and run in part["run"].values:
                    values = part[name].sel(run=run)
                    found = (values.isel(t=-1) if "t" in values.dims else values).values
                    return found if np.isfinite(found).all() and (found > 0).all() else None
            return None

        return get

    return of


def _price_lines(parts: "list[xr.Dataset]") -> list[str]:
    """What incentives cost: regrets of sampled plans over those of FALCON with the same spread, in words."""
    lines = []
    regret = _values(parts, "setting-1", "regret")
    for run, spread in (("sampled, uniform", "posterior"), ("sampled, tuned", "tuned")):
        first, second = regret(run)(), regret(f"FALCON, {spread} spread")()
        if first is not None and second is not None:
            found = _ratio("", first, second, low=0.0, high=np.inf)
            lines.append(f"setting-1, {run}, regret over that of FALCON with the same spread: {found.figure}")
    return lines


def _split_lines(part: "xr.Dataset") -> list[str]:
    """How a personalised plan splits users, in words."""
    if "share_free" not in part.attrs:
        return []
    a = part.attrs
    return [
        f"{a['setting']}, personalised, once one arm is saturated: {100 * a['share_free']:.1f} % of users need no "
        f"subsidy, {100 * a['share_subsidised']:.1f} % are explored at a mean rate of {a['rate_subsidised']:.3f}, "
        f"{100 * a['share_never']:.1f} % never"
    ]


def _baseline(name: str, make: PolicyMaker) -> Run:
    return Run(name=name, kind="baseline", plan=make, audit_rounds=_POLICY_ROUNDS)
