"""Settings 1 and 4 with other beliefs: other families, and users whose belief is off by a shift, a scale or a family.

Three cases of each error. Where *nature* is off, everybody believes the setting's belief and the world follows
another one: regret changes, users' arithmetic does not. Where *users* are off, the platform and nature follow the
setting's belief and users have another one, of which the plan was told or not: margins and compliance change.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.families import FAMILIES, matched_belief
from rcb_bayes.belief.moving import moved
from rcb_bayes.files.store import open_store
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.schema import DEFAULT_HORIZON, FloatArray
from rcb_bayes.studies.paper.cells import side_by_side
from rcb_bayes.studies.paper.measures import Run
from rcb_bayes.studies.paper.outcome import Outcome, Request, write_outcome
from rcb_bayes.studies.paper.plan_kinds import sampled_run, timed
from rcb_bayes.studies.paper.reproduction import FAST_NOTE
from rcb_bayes.studies.paper.settings import SIGMA, Effort, effort_of
from rcb_bayes.studies.paper.tables import as_table, reasons
from rcb_bayes.users import Sphere
from rcb_bayes.workers import run_cells

if TYPE_CHECKING:
    import xarray as xr

NAME = "variants"
ERRORS = ("shift", "scale", "family")
_EPSILON = 0.05
_SHIFT = 0.2  # of the first arm's coefficients
_SCALE = 4.0  # times the variance for nature; users are as much too sure
_FEATURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A setting to vary: the favourite arm's mean, and the variance of all coefficients."""

    name: str
    favourite: float
    variance: float

    def mean(self, n_arms: int) -> FloatArray:
        """Prior means, (K, d)."""
        out = np.zeros((n_arms, _FEATURES))
        out[0] = self.favourite
        return out


BASES = (
    Base(name="setting-1", favourite=0.0, variance=0.2),
    Base(name="setting-4", favourite=1.0, variance=0.02),
)


def run_variants(request: Request) -> Outcome:
    """Margin, regret and compliance under every variant of Settings 1 and 4 with three arms, in one table."""
    effort = replace(effort_of(n_worlds=request.n_worlds, fast=request.fast), most_rounds=DEFAULT_HORIZON)
    n_arms = 2 if request.fast else 3
    return run_bases(BASES, request, effort=effort, n_arms=n_arms)


def run_bases(
    bases: tuple[Base, ...],
    request: Request,
    *,
    effort: Effort,
    n_arms: int,
    families: tuple[str, ...] = FAMILIES,
    errors: tuple[str, ...] = ERRORS,
) -> Outcome:
    """The variants of some settings; finished ones are read from the folder where the run is resumed."""
    parameters = {"experiment": NAME, "n_worlds": effort.n_worlds, "fast": request.fast, "seed": request.seed}
    store = open_store(request.folder, parameters, resume=request.resume)
    made: dict[str, Callable[[], xr.Dataset]] = {}
    for base in bases:
        given = {"n_arms": n_arms, "effort": effort, "seed": request.seed}
        made |= {f"{base.name}-{one}": partial(family_part, base, one, **given) for one in families}
        made |= {f"{base.name}-off-by-{one}": partial(error_part, base, one, **given) for one in errors}
    parts = run_cells(store, made, workers=request.workers, description=NAME)
    outcome = Outcome(
        name=NAME,
        title="Settings 1 and 4 with other beliefs, and with beliefs that are off",
        table=as_table(parts, keys=("setting",)),
        keys=("setting",),
        notes=(
            "Families have the setting's means and variances. Shift: the first arm's coefficients by "
            f"{_SHIFT:g}; scale: users are too sure, by a factor {_SCALE:g} of the variance; family: Student-t.",
            "Nature off: everybody believes the setting's belief, the world follows another. Users off: users believe "
            "another one than platform and nature; told, the plan was made for their belief.",
            *((FAST_NOTE,) if request.fast else ()),
            *(line for part in parts for line in reasons(part)),
        ),
        parts=tuple(parts),
    )
    return replace(outcome, files=write_outcome(outcome, store, {}))


def family_part(base: Base, family: str, *, n_arms: int, effort: Effort, seed: int) -> "xr.Dataset":
    """A setting in which everybody, nature included, has a belief of this family."""
    market = _market(matched_belief(family, base.mean(n_arms), base.variance))
    run = _planned(market, f"all {family}", effort=effort, seed=seed)
    return _measured(base, market, [run], effort=effort, seed=seed)


def error_part(base: Base, error: str, *, n_arms: int, effort: Effort, seed: int) -> "xr.Dataset":
    """A setting in which nature, or users, are off; users with a plan that was told, and one that was not."""
    import xarray as xr

    mean = base.mean(n_arms)
    right = matched_belief("gaussian", mean, base.variance)
    off_nature, off_users = (_wrong(error, right, scale=scale) for scale in (_SCALE**0.5, _SCALE**-0.5))
    fair = _market(right)
    plan = _planned(fair, f"nature off by {error}", effort=effort, seed=seed)
    nature = _market(right, nature=off_nature)
    fooled = _market(off_users, platform_prior=right, nature=right)
    untold = replace(plan, name=f"users off by {error}, untold", audited=fooled)
    told = _planned(fooled, f"users off by {error}, told", effort=effort, seed=seed)
    parts = [
        _measured(base, market, [run], effort=effort, seed=seed)
        for market, run in ((nature, plan), (fair, untold), (fooled, told))
    ]
    return xr.concat(parts, dim="run", combine_attrs="override")


def _wrong(error: str, right: Prior, *, scale: float) -> Prior:
    """The belief shifted, scaled or of another family, as ``sensitivity`` has it."""
    if error == "family":
        return matched_belief("student_t", right.mean.values, right.covariance.values[0, 0, 0, 0])
    first = np.zeros((right.n_arms, right.n_features))
    first[0] = _SHIFT
    return moved(right, shift=first) if error == "shift" else moved(right, scale=scale)


def _market(prior: Prior, *, platform_prior: Prior | None = None, nature: Prior | None = None) -> Market:
    return Market(
        prior=prior,
        covariates=Sphere(_FEATURES),
        noise=GaussianNoise(SIGMA),
        platform_prior=platform_prior or prior,
        nature=nature or prior,
    )


def _planned(market: Market, name: str, *, effort: Effort, seed: int) -> Run:
    run = timed(sampled_run, market, _EPSILON, personalised=True, effort=effort, seed=seed)
    return replace(run, name=name)


def _measured(base: Base, market: Market, runs: list[Run], *, effort: Effort, seed: int) -> "xr.Dataset":
    found = side_by_side(market, runs, horizon=effort.most_rounds, epsilon=_EPSILON, effort=effort, seed=seed)
    return found.assign_attrs({"setting": base.name, "epsilon": _EPSILON, "horizon": effort.most_rounds})
