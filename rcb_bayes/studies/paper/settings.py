"""The paper's settings as data: every combination of parameters, and how much work goes into each."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rcb_bayes.belief import load_prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.studies.paper.orthant import Orthant
from rcb_bayes.users import Sphere

KINDS = ("theorem", "measured", "fixed", "uniform", "personalised")
USERS = {"sphere": Sphere, "orthant": Orthant}
SIGMA = 0.05
# As the paper takes them to be; the theorem's plan says where they contradict the belief.
TAU, RHO, TAU_STAR, PRIOR_GAP = 0.01, 0.95, 0.01, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination of parameters.

    Attributes
    ----------
    belief : a name of the gallery
    variance : of every coefficient, before any data
    horizon : T
    fixed : the N of plans with a fixed number of samples per arm
    inflations : how prior variances grow in exploitation; each a run of its own
    users : on the whole "sphere", or on its "orthant" without negative features; the paper says neither
    kinds : of plans, of ``KINDS``
    """

    belief: str
    n_arms: int = 5
    n_features: int = 5
    variance: float = 0.2
    epsilon: float = 0.05
    horizon: int = 100_000
    fixed: tuple[int, ...] = (100,)
    inflations: tuple[str, ...] = ("none",)
    users: str = "sphere"
    kinds: tuple[str, ...] = KINDS

    @property
    def key(self) -> str:
        """A name for files."""
        return f"K{self.n_arms}-d{self.n_features}-variance{self.variance:.3g}-epsilon{self.epsilon:g}"

    @property
    def work(self) -> float:
        """About how long it takes, beside other cells."""
        n_plans = len(self.kinds) + ("fixed" in self.kinds) * (len(self.fixed) - 1)
        return self.n_arms * self.n_features**0.25 * len(self.inflations) * n_plans

    def market(self) -> Market:
        """The belief, the users, Gaussian rewards."""
        shape = {"n_arms": self.n_arms, "n_features": self.n_features}
        scale = {"lam": 1.0 / self.variance} if self.belief == "setting_3" else {"variance": self.variance}
        prior = load_prior(self.belief, **shape, **scale)
        return Market(prior=prior, covariates=USERS[self.users](self.n_features), noise=GaussianNoise(SIGMA))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting: its cells, those of a fast run, and how figures lay them out.

    ``columns`` and ``lines`` are attributes of a cell: panels side by side, and curves of different colours in each.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    fast: tuple[Cell, ...]
    columns: str
    lines: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much work goes into a cell.

    Attributes
    ----------
    n_worlds : worlds that plans are run in
    plan_worlds : simulated worlds behind the rates of a stage
    planned_worlds : worlds of the audit that plans leave room for; the fewer, the less their guards let through
    audit_worlds, audit_users : of an audit; without worlds there is none
    audit_rounds : rounds of exploitation that an audit looks at
    most_rounds : cap on the horizon
    """

    n_worlds: int = 20
    plan_worlds: int = 1000
    planned_worlds: int = 1000
    audit_worlds: int = 1000
    audit_users: int = 60
    audit_rounds: int = 10_000
    most_rounds: int = 1_000_000

    def horizon(self, cell: Cell) -> int:
        """T, as far as it is run."""
        return min(cell.horizon, self.most_rounds)


FULL = Effort()
GRID = Effort(planned_worlds=500, audit_worlds=500, audit_users=40)  # of a setting's whole grid: some 90 audits
FAST = Effort(n_worlds=5, plan_worlds=500, audit_worlds=200, audit_users=30, audit_rounds=1_000, most_rounds=10_000)


def effort_of(*, n_worlds: int | None, fast: bool, usual: Effort = FULL) -> Effort:
    """The usual effort, or that of a fast run, with this many worlds if given."""
    found = FAST if fast else usual
    return found if n_worlds is None else replace(found, n_worlds=n_worlds)


def _environment(
    name: str, arms: tuple[int, ...], features: tuple[int, ...], *, fixed: tuple[int, ...], kinds: tuple[str, ...]
) -> tuple[Cell, ...]:
    given: dict[str, Any] = {"belief": name, "fixed": fixed, "kinds": kinds}
    return tuple(Cell(n_arms=k, n_features=d, **given) for d, k in product(features, arms))


def _budget(epsilons: tuple[float, ...], variances: tuple[float, ...]) -> tuple[Cell, ...]:
    return tuple(
        Cell(belief="setting_3", variance=v, epsilon=e, horizon=50_000) for e, v in product(epsilons, variances)
    )


def _decay(variances: tuple[float, ...], inflations: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(belief="setting_4", variance=v, horizon=50_000, inflations=inflations) for v in variances)


_AD_HOC = (10, 100, 1000)
_SCHEDULES = ("linear", "sqrt", "log")


def _without_negative_features(setting: Setting) -> Setting:
    cells, fast = (tuple(replace(cell, users="orthant") for cell in grid) for grid in (setting.cells, setting.fast))
    return replace(
        setting,
        name=f"{setting.name}-orthant",
        title=f"{setting.title}; users without negative features",
        cells=cells,
        fast=fast,
    )


_ON_THE_SPHERE = (
    Setting(
        name="setting-1",
        title="Setting 1: numbers of arms and features",
        cells=_environment("setting_1", (2, 3, 5, 10), (3, 5, 10), fixed=(100,), kinds=KINDS),
        fast=_environment("setting_1", (2, 3, 5), (3, 5), fixed=(100,), kinds=KINDS),
        columns="n_features",
        lines="n_arms",
    ),
    Setting(
        name="setting-2",
        title="Setting 2: ad hoc numbers of samples",
        cells=_environment("setting_2", (2, 3, 5, 10), (3, 5, 10), fixed=_AD_HOC, kinds=("fixed",)),
        fast=_environment("setting_2", (2, 5), (3, 5), fixed=_AD_HOC, kinds=("fixed",)),
        columns="n_features",
        lines="n_arms",
    ),
    Setting(
        name="setting-3",
        title="Setting 3: epsilon and prior variance",
        cells=_budget((0.01, 0.03, 0.05), (1 / 3, 1 / 5, 1 / 10)),
        fast=_budget((0.01, 0.05), (1 / 3, 1 / 10)),
        columns="epsilon",
        lines="variance",
    ),
    Setting(
        name="setting-4",
        title="Setting 4: a favourite arm, and prior variances that grow",
        cells=_decay((0.02, 0.04, 0.1), _SCHEDULES),
        fast=_decay((0.02, 0.1), _SCHEDULES),
        columns="variance",
        lines="inflation",
    ),
)
SETTINGS = {
    setting.name: setting for setting in (*_ON_THE_SPHERE, *(_without_negative_features(one) for one in _ON_THE_SPHERE))
}
