"""The package beside ``plain_mechanism``: the same market and plan on both sides, figure by figure.

Of the plan only its rates and its guards reach the plain side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.mechanism.exploiting import Exploiting
from tests.twins import plain_mechanism as plain

FIRST = "most popular"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A market in plain numbers: means (K, d), variance (see ``plain.Belief.of``), users, sigma.

    Users are ``rows`` with ``shares``, or on the sphere where there are none.
    """

    name: str
    mean: Any
    variance: Any
    sigma: float
    rows: Any = None
    shares: Any = None
    platform_mean: Any = None
    platform_variance: Any = None
    sphere_size: int = 2048

    def belief(self) -> plain.Belief:
        """What users believe."""
        return plain.Belief.of(self.mean, self.variance)

    def platform(self) -> plain.Belief | None:
        """What the platform believes, where it differs."""
        return None if self.platform_mean is None else plain.Belief.of(self.platform_mean, self.platform_variance)

    def users(self) -> plain.Users | Callable[[np.random.Generator], plain.Users]:
        """The table, or a sampler."""
        if self.rows is None:
            return plain.sphere(np.asarray(self.mean).shape[1], self.sphere_size)
        return plain.Users.table(self.rows, self.shares)

    def market(self) -> rcb.Market:
        """The same for the package."""
        own = None
        if self.platform_mean is not None:
            own = rcb.Prior.gaussian(self.platform_mean, self.platform_variance)
        d = np.asarray(self.mean).shape[1]
        users = rcb.Sphere(d) if self.rows is None else rcb.Empirical(self.rows, weights=self.shares)
        more: dict[str, Any] = {} if own is None else {"platform_prior": own}
        prior = rcb.Prior.gaussian(self.mean, self.variance)
        return rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(self.sigma), **more)


def scenario_of(
    case: Case,
    plan: rcb.Plan,
    *,
    horizon: int,
    options: Exploiting | None = None,
    n_epochs: int | None = None,
    past: tuple[np.ndarray, ...] | None = None,
    admits: plain.Admits | None = None,
) -> plain.Scenario:
    """The mechanism of a plan; rates and guards are the plan's. ``past`` are users behind samples from before."""
    options = options or Exploiting()
    agenda = plan.agenda
    first = int(agenda.totals.sum())
    within = int(np.ceil(np.log2(horizon / first + 1.0)))
    multiple = plan.spread_multiple if options.spread_multiple is None else options.spread_multiple
    return plain.Scenario(
        belief=case.belief(),
        users=case.users(),
        sigma=case.sigma,
        n_per_arm=plan.n_per_arm,
        rate=lambda users, saturated: plan.rate(users, saturated=[plan.arms[arm] for arm in saturated]),
        horizon=horizon,
        n_epochs=within if n_epochs is None else min(within, n_epochs),
        guard=plan.guard if options.guard and plan.guards else None,
        multiple=multiple,
        platform=case.platform(),
        feed_last=options.feed == "last",
        past=past,
        order=agenda.order,
        first=agenda.first,
        admits=admits,
    )


def stage_key(plan: rcb.Plan, name: str) -> object:
    """The plain name of a stage that an audit names."""
    if name == FIRST:
        return "mpasc"
    if name.startswith("epoch "):
        return name
    for stage in plan.stages:
        if plan.stage_name(stage) == name:
            return tuple(plan.arms.index(arm) for arm in stage.saturated)
    return tuple(plan.arms.index(arm) for arm in name.split(", "))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure twice, with errors."""

    scenario: str
    quantity: str
    plain: float
    plain_error: float
    package: float
    package_error: float

    @property
    def z(self) -> float:
        """How many errors they are apart; a figure without any error must be met to rounding."""
        error = float(np.hypot(self.plain_error, self.package_error))
        apart = self.package - self.plain
        return 0.0 if abs(apart) < 1e-9 else apart / error if error > 0.0 else float(np.sign(apart) * np.inf)

    def line(self) -> str:
        """A line of a Markdown table."""
        left = f"{self.plain:.4f} ± {self.plain_error:.4f}"
        right = f"{self.package:.4f} ± {self.package_error:.4f}"
        return f"| {self.scenario} | {self.quantity} | {left} | {right} | {self.z:+.1f} |"


LEAST_EVENTS = 30.0  # worlds, below which the error of a rare part is not normal


def compared(
    case: Case, plan: rcb.Plan, found: rcb.Audit, out: plain.Outcome, *, least_mass: float = 1e-3, least_worlds=300
) -> tuple[list[Row], list[str]]:
    """Every cell that both sides have, and stages that one of them lacks.

    ``out`` watches the users of the audit (``found.users``). Cells whose recommendation has less than ``least_mass``,
    or that were seen in few worlds, are left out: their errors are not normal.
    """
    rows: list[Row] = []
    names = {stage_key(plan, str(name)): str(name) for name in found.margins["stage"].values}
    missing = [f"{case.name}: {key} is not audited" for key in out.stages if key not in names]
    missing += [f"{case.name}: {names[key]} is audited, no run is in it" for key in names if key not in out.stages]
    for key, name in names.items():
        stage = out.stages.get(key)
        if stage is None or stage.n_worlds < least_worlds:
            continue
        for notion, margins in found.by_notion.items():
            expected = plain.expected(stage, notion)
            part = margins.sel(stage=name)
            n_users = 1 if notion == "definition" else len(found.users)
            for user, arm, rival in np.ndindex(n_users, len(plan.arms), len(plan.arms)):
                at = (arm, rival) if notion == "definition" else (user, arm, rival)
                cell = {"arm": arm, "rival": rival} | ({} if notion == "definition" else {"user": user})
                mass = float(expected.mass[(*at[:-1], 0)])
                if arm == rival or mass < least_mass or n_with(stage, notion, at) < least_worlds:
                    continue
                if n_moving(stage, notion, at) < LEAST_EVENTS:
                    continue
                value = part.isel(cell)
                who = "" if notion == "definition" else f" user {user}"
                rows.append(
                    Row(
                        scenario=case.name,
                        quantity=f"{notion}, {name}{who}: {plan.arms[arm]} over {plan.arms[rival]}",
                        plain=float(expected.value[at]),
                        plain_error=float(expected.error[at]),
                        package=float(value["estimate"]),
                        package_error=float(value["mcse"]),
                    )
                )
    return rows, missing


def n_with(stage: plain.Stage, notion: str, at: tuple[int, ...]) -> float:
    """Worlds that carry a recommendation, as if all carried it alike: (sum p)^2 / sum p^2."""
    p = stage.mass[:, at[0]] if notion == "definition" else stage.p[:, at[0], at[1]]
    total = float(np.square(p).sum())
    return float(p.sum()) ** 2 / total if total > 0.0 else 0.0


def n_moving(stage: plain.Stage, notion: str, at: tuple[int, ...]) -> float:
    """The same of what is recommended beyond the least of any world; all worlds where that is always.

    An arm that is explored everywhere, and is the best one hardly anywhere, is judged by worlds that are hardly seen.
    """
    p = stage.mass[:, at[0]] if notion == "definition" else stage.p[:, at[0], at[1]]
    more = p - p.min()
    total = float(np.square(more).sum())
    return float(more.sum()) ** 2 / total if total > 0.0 else (len(p) if p.min() > 0.999 else 0.0)


def both_sides(
    case: Case,
    plan: rcb.Plan,
    *,
    horizon: int,
    n_worlds: int,
    audit_worlds: int = 1000,
    n_users: int = 20,
    options: Exploiting | None = None,
    seed: int = 1,
    batch: int = 2000,
    n_epochs: int | None = None,
) -> tuple[rcb.Audit, plain.Outcome]:
    """An audit of the plan, and the plain mechanism for the users that it looked at."""
    more: dict[str, Any] = {} if options is None else {"options": options}
    found = rcb.audit(case.market(), plan, horizon=horizon, n_worlds=audit_worlds, n_users=n_users, seed=seed, **more)
    scenario = scenario_of(case, plan, horizon=horizon, options=options, n_epochs=n_epochs)
    out = plain.run_worlds(scenario, n_worlds, seed=1000 + seed, watched=found.users, batch=batch)
    return found, out
