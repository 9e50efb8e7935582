"""The study to the letter beside what was picked with these patients in view: plans, orders, audits, row by row.

To the letter is what the paper says of its own runs: noise .054, a prior variance that grows linearly after the cold
start, the plain spread, and rewards by one of the two rules that the paper gives (see ``letter``). The paper does not
say how long its cold starts were: by its theorem they do not end, so that N is fixed or sampled as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing import audit
from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.files.store import open_store
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import VERDICTS, deciding_cell, rank
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import NOTIONS, as_notion
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.theorem import theorem_plan
from rcb_bayes.running.heeding import Heeding, WithSpread
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.schema import DEFAULT_SEED, as_count
from rcb_bayes.studies.warfarin.beliefs import PAPER_SIGMA, REWARD_SIGMA, physician_market
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.contenders import PRACTICAL_RATE, SPREAD_MULTIPLE
from rcb_bayes.studies.warfarin.dose_oracle import DoseOracle
from rcb_bayes.studies.warfarin.letter import dose_rewards
from rcb_bayes.studies.warfarin.metrics import replay_metrics
from rcb_bayes.studies.warfarin.replay import replay, replay_plans
from rcb_bayes.workers import Workers, run_cells

if TYPE_CHECKING:
    import xarray as xr

EPSILON, VARIANCE = 0.025, 0.8
PAPER_TAU = 0.005
_N_PER_ARM = {"proof": 20, "definition": 10, "user": 10}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a run of the study rests on; those of the class are the paper's.

    Attributes
    ----------
    plan : "theorem", "fixed" (N = 20, a rate of .4), or the notion that a plan is sampled for
    rewards : "binary", 1 for the right bucket; "dose", the scaled dose there
    sigma, inflation, spread : the physician's noise, how its prior variance grows, multiples of the posterior's spread
    oracle : "posterior"; "dose", cut to what the plan's notion allows
    epsilon, variance : budget and prior variance
    n_per_arm : of a fixed plan
    """

    plan: str = "proof"
    rewards: str = "binary"
    sigma: float = PAPER_SIGMA
    inflation: str = "linear"
    spread: float = 1.0
    oracle: str = "posterior"
    epsilon: float = EPSILON
    variance: float = VARIANCE
    n_per_arm: int = 20

    @property
    def is_sampled(self) -> bool:
        """Whether the plan comes from simulated worlds, so that another seed gives another plan."""
        return self.plan in _N_PER_ARM

    @property
    def key(self) -> str:
        """A name for files."""
        numbers = f"sigma{self.sigma:g}-spread{self.spread:g}-epsilon{self.epsilon:g}-variance{self.variance:g}"
        return f"{self.plan}-{self.rewards}-{self.oracle}-{self.inflation}-{numbers}-N{self.n_per_arm}"

    @property
    def options(self) -> Exploiting:
        """Of the exploitation stage."""
        return Exploiting(spread_multiple=self.spread, inflation=self.inflation)

    def market(self, cohort: Cohort) -> Market:
        """The physician's belief with this noise and variance."""
        return physician_market(cohort, variance=self.variance, sigma=self.sigma)

    def make_plan(self, market: Market, *, horizon: int, n_worlds: int, seed: int) -> Plan:
        """The plan that belongs to a seed."""
        given: dict[str, Any] = {"epsilon": self.epsilon}
        if self.plan == "theorem":
            constants: dict[str, Any] = {"tau": PAPER_TAU, "tau_star": PAPER_TAU, "prior_gap": 1.0, "phi0": 1.0}
            return theorem_plan(market, horizon=horizon, n_worlds=200, seed=seed, **given, **constants)
        if self.plan == "fixed":
            return fixed_plan(
                market, n_per_arm=self.n_per_arm, exploration_rate=PRACTICAL_RATE, notion="proof", **given
            )
        return calibrate(
            market,
            notion=self.plan,
            personalised=as_notion(self.plan).is_per_user,
            n_per_arm=_N_PER_ARM[self.plan],
            n_worlds=n_worlds,
            audit_worlds=n_worlds,
            guard=False,
            seed=seed,
            **given,
        )

    def policy(self, market: Market, plan: Plan) -> PolicyMaker:
        """RCB by a plan with these choices."""
        posterior = PosteriorOracle(market.platform_prior, market.noise, read="engine")
        oracle = posterior if self.oracle == "posterior" else Heeding(WithSpread(DoseOracle(), posterior))
        return lambda made_for, seed: Rcb(made_for, plan, oracle=oracle, options=self.options)


TUNED: dict[str, Any] = {"sigma": REWARD_SIGMA, "inflation": "none", "spread": SPREAD_MULTIPLE}
ROWS = (
    Choices(plan="theorem"),
    Choices(plan="fixed"),
    Choices(plan="fixed", rewards="dose"),
    Choices(plan="proof"),
    Choices(plan="proof", rewards="dose"),
    Choices(plan="fixed", **TUNED),
    Choices(plan="user"),
    Choices(plan="user", rewards="dose"),
    Choices(plan="definition"),
    Choices(plan="definition", rewards="dose"),
)
GRID = tuple(
    Choices(plan="proof", epsilon=epsilon, variance=variance)
    for epsilon in (0.025, 0.035, 0.045)
    for variance in (0.8, 0.4, 0.6)
    if (epsilon, variance) != (EPSILON, VARIANCE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much work goes into a row: plans, orders, worlds of a plan and of its audits, patients audited.

    Sampled plans are replayed in ``orders_each``, a single plan in ``n_orders``.
    """

    n_plans: int = 8
    n_orders: int = 10
    orders_each: int = 4
    n_worlds: int = 500
    audit_worlds: int = 50
    n_users: int = 60
    seed: int = DEFAULT_SEED


def run_row(cohort: Cohort, row: Choices, *, sizes: Sizes) -> "xr.Dataset":
    """Figures of one row: errors over plans and orders together."""
    market = row.market(cohort)
    made = _plans(cohort, replace(row, rewards="binary"), sizes)
    plans = [plan for plan in made if plan.feasible or not row.is_sampled]
    n_orders = sizes.orders_each if row.is_sampled else sizes.n_orders
    how: dict[str, Any] = {"market": market, "n_permutations": n_orders, "seed": sizes.seed}
    how |= {"rewards": dose_rewards(cohort) if row.rewards == "dose" else None}
    runs = replay_plans(cohort, [row.policy(market, plan) for plan in plans], **how)
    found = replay_metrics(runs)
    return found.assign({"n_orders": n_orders, "n_made": len(made)}).assign_attrs(_attributes(row))


def audit_row(cohort: Cohort, row: Choices, *, sizes: Sizes) -> "xr.Dataset":
    """Verdicts on one row under every notion: the cold start of each plan, and exploitation by the first.

    Of each part and notion the number of plans that pass, fail or are inconclusive, and the margin that decides. Audits
    are of worlds that the physician believes in: they do not depend on the rule by which patients are rewarded.
    """
    import xarray as xr

    market = row.market(cohort)
    made = _plans(cohort, replace(row, rewards="binary"), sizes)
    plans = [plan for plan in made if plan.feasible or not row.is_sampled]
    told = _audited(market, row, plans, sizes=sizes, horizon=len(cohort))
    return xr.Dataset(told).assign_attrs(_attributes(row))


@lru_cache(maxsize=4)  # rows with either rule of rewards follow each other, and have the same plans
def _plans(cohort: Cohort, row: Choices, sizes: Sizes) -> tuple[Plan, ...]:
    market = row.market(cohort)
    seeds = range(sizes.seed, sizes.seed + (sizes.n_plans if row.is_sampled else 1))
    return tuple(row.make_plan(market, horizon=len(cohort), n_worlds=sizes.n_worlds, seed=seed) for seed in seeds)


def run_rows(
    cohort: Cohort,
    rows: Sequence[Choices],
    *,
    sizes: Sizes,
    audited: bool = False,
    folder: Path | None = None,
    workers: Workers = None,
) -> "list[xr.Dataset]":
    """Rows side by side, or their audits; finished ones are read from the folder."""
    asked = {"experiment": "warfarin to the letter", "cohort": cohort.describe(), "audited": audited, **asdict(sizes)}
    make = audit_row if audited else run_row
    made: dict[str, Callable[[], xr.Dataset]] = {row.key: partial(make, cohort, row, sizes=sizes) for row in rows}
    return run_cells(open_store(folder, asked, resume=None), made, workers=workers, description="warfarin rows")


def _attributes(row: Choices) -> dict[str, Any]:
    names = ("plan", "rewards", "sigma", "inflation", "spread", "oracle", "epsilon", "variance")
    return {name: getattr(row, name) for name in names} | {"key": row.key}


def _audited(market: Market, row: Choices, plans: Sequence[Plan], *, sizes: Sizes, horizon: int) -> dict[str, Any]:
    """Every plan over its cold start, and exploitation by the first, with the inflation and spread it runs under."""
    out: dict[str, Any] = {}
    for part, judged in (("cold", plans), ("exploitation", plans[:1])):
        cells: dict[str, list[Any]] = {notion: [] for notion in NOTIONS}
        for plan in judged:
            found = _audit(market, row, plan, part, sizes=sizes, horizon=horizon)
            for notion in NOTIONS:
                cells[notion].append(found.get(notion))
        for notion, own in cells.items():
            seen = [cell for cell in own if cell is not None]
            words = [cell.verdict for cell in seen]
            out |= {f"{part}_{notion}_{word}": words.count(word) for word in VERDICTS}
            worst = min(seen, key=lambda cell: rank(cell.verdict, cell.estimate)) if seen else None
            out[f"{part}_{notion}_margin"] = np.nan if worst is None else worst.estimate
            out[f"{part}_{notion}_mcse"] = np.nan if worst is None else worst.mcse
    return out


def _audit(market: Market, row: Choices, plan: Plan, part: str, *, sizes: Sizes, horizon: int) -> dict[str, Any]:
    """The deciding cell of each notion over the stages of one part; nothing of a part that no world gets to."""
    cold = part == "cold"
    length = min(max(1, int(np.ceil(plan.expected_cold_start))), horizon)
    common: dict[str, Any] = {"notion": plan.notion, "epsilon": plan.epsilon, "seed": sizes.seed + 10_000}
    if cold:
        how: dict[str, Any] = {"n_worlds": sizes.n_worlds, "n_users": sizes.n_users, "options": row.options}
        found = audit(market, plan, horizon=length, **how, **common)
    else:
        if length >= horizon:
            return {}
        users = market.covariates.sample(sizes.n_users, seed=sizes.seed)
        policy = row.policy(market, plan)
        found = audit(market, policy, horizon=horizon, n_worlds=sizes.audit_worlds, users=users, **common)
    out: dict[str, Any] = {}
    for notion, margins in found.by_notion.items():
        names = [str(name) for name in margins["stage"].values]
        own = [name for name in names if name.startswith("epoch") != cold]
        if own:
            out[notion] = deciding_cell(margins.sel(stage=own))
    return out


def given_row(cohort: Cohort, arms: np.ndarray, *, n_orders: int = 2) -> "xr.Dataset":
    """Figures of doses given beforehand."""
    return replay_metrics(replay(cohort, arms, n_permutations=as_count(n_orders, name="n_orders", least=1)))
