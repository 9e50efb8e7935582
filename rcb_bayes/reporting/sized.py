"""The sample size: how long the cold start takes over epsilon, with fewer and with more samples than the plan's N."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.greedy import is_exact
from rcb_bayes.mechanism.knowledge import MECHANISM
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.tradeoffs import tradeoff
from rcb_bayes.reporting.markup import Markup
from rcb_bayes.reporting.pieces import chart, prose
from rcb_bayes.telling.wording import figure
from rcb_bayes.workers import Workers

if TYPE_CHECKING:
    import xarray as xr

_SHOWN = (0.0, 0.6, 1.0, 2.0)  # of the plan's epsilon, or of the one that opens the stage at which it ends
_KEPT = ("expected_cold_start", "expected_cold_start_mcse")


def lengths_by_size(
    market: Market,
    plan: Plan,
    sweep: tuple[Plan, ...],
    *,
    multiples: tuple[float, ...],
    n_worlds: int,
    audit_worlds: int,
    workers: Workers = None,
) -> "xr.Dataset | None":
    """The length of the cold start over epsilon and N.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan
        The plan that is reported.
    sweep : tuple of Plan
        Plans with its N at other values of epsilon: a curve of their own, as they are there already.
    multiples : tuple of float
        Of the plan's N, at which ``tradeoff`` plans, too.
    n_worlds, audit_worlds : int
        Behind each stage of each plan, and of the audit that it is to pass.
    workers : None, int, str, Client or Executor
        Who makes the plans. The answer is the same.

    Returns
    -------
    Dataset or None
        Dims (epsilon, n): ``expected_cold_start`` with its ``_mcse``, and ``feasible``. None where there is one epsilon
        or one N only, where posteriors have no closed form, and where the plan is not one with the same N for all arms.
    """
    import xarray as xr

    others = [n for n in sorted({round(m * plan.agenda.most) for m in multiples}) if n >= 1 and n != plan.agenda.most]
    shown = _shown(plan, sweep)
    if not others or len(shown) < 2 or not _applies(market, plan):
        return None
    found = tradeoff(
        market,
        epsilons=[one.epsilon for one in shown],
        n_grid=others,
        notion=plan.notion,
        personalised=plan.personalised,
        n_worlds=n_worlds,
        audit_worlds=audit_worlds,
        knows=plan.knows,
        workers=workers,
        seed=plan.seed,
    )
    own: dict[str, Any] = {
        name: (("epsilon", "n"), np.array([[float(getattr(one, name))] for one in shown])) for name in _KEPT
    }
    own["feasible"] = (("epsilon", "n"), np.array([[bool(one.feasible)] for one in shown]))
    beside = xr.Dataset(own, coords={"epsilon": found["epsilon"].values, "n": [plan.agenda.most]})
    return xr.concat([found[[*_KEPT, "feasible"]], beside], dim="n").sortby("n").assign_attrs(n_worlds=n_worlds)


def _applies(market: Market, plan: Plan) -> bool:
    """Whether ``tradeoff`` makes plans as this one was made."""
    alike = plan.agenda.is_plain and isinstance(plan.agenda.n_per_arm, int) and plan.agenda.regions is None
    made = plan.kind == "sampled" and plan.types is None and plan.knows != MECHANISM.name
    return alike and made and is_exact(market) and market.past is None


def _shown(plan: Plan, sweep: tuple[Plan, ...]) -> list[Plan]:
    """Some of the plans at other values of epsilon, the plan's own among them."""
    if len(sweep) <= len(_SHOWN):
        return list(sweep)
    base = plan.nearest_epsilon or plan.epsilon
    if base == 0.0:
        base = max(one.epsilon for one in sweep) / 2
    epsilons = np.array([one.epsilon for one in sweep])
    nearest = {int(np.abs(epsilons - m * base).argmin()) for m in _SHOWN}
    own = next(k for k, one in enumerate(sweep) if one.epsilon == plan.epsilon)
    return [sweep[k] for k in sorted({own, *nearest})]


def size_rows(found: "xr.Dataset") -> tuple[list[str], list[list[str]]]:
    """A head and a row for each N: the length at each epsilon with its error, or that no plan is feasible."""
    head = ["N", *(f"epsilon = {epsilon:g}" for epsilon in found["epsilon"].values)]
    rows = []
    for n in found["n"].values:
        row = found.sel(n=n)
        cells = zip(*(row[name].values for name in (*_KEPT, "feasible")), strict=True)
        rows.append([f"{n:,}", *(figure(value, error) if ok else "not feasible" for value, error, ok in cells)])
    return head, rows


def by_size(found: "xr.Dataset | None") -> Markup | None:
    """The chart with its table; a sentence where no plan is feasible, nothing where there are no such plans."""
    if found is None:
        return None
    sizes = ", ".join(f"{n:,}" for n in found["n"].values)
    if not bool(found["feasible"].any()):
        return prose(f"No plan is feasible with any of these N: {sizes} samples of each arm.")
    head, rows = size_rows(found)
    told = "; ".join(f"N = {row[0]}: {row[1]} to {row[-1]}" for row in rows)
    return chart(
        "sizes",
        "Rounds of cold start, by samples of each arm",
        alt=f"Expected rounds of cold start from {head[1]} to {head[-1]}. {told}.",
        note=(
            f"A curve for each N, {found.attrs['n_worlds']:,} worlds behind each stage. Bands: ± 2 Monte Carlo errors. "
            "A curve has a gap where no plan is feasible."
        ),
        head=head,
        rows=rows,
    )
