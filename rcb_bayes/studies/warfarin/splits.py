"""The honest figure: choices made on one half of the patients, scored on the other, over many random halves.

Whoever tries several choices on the patients that she scores them on reports the luckiest. Here each split of the
patients into two halves makes all choices anew on the first half, one after the other, each the value with the least
error there, from the paper's own on; the second half is replayed with what was chosen, with the paper's choices, and
with those that were picked with all patients in view.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.files.store import open_store
from rcb_bayes.schema import DEFAULT_SEED, as_count
from rcb_bayes.studies.warfarin.cohort import MEDIUM, Cohort
from rcb_bayes.studies.warfarin.metrics import replay_metrics
from rcb_bayes.studies.warfarin.replay import replay
from rcb_bayes.studies.warfarin.to_the_letter import TUNED, Choices
from rcb_bayes.workers import Workers, run_cells

if TYPE_CHECKING:
    import xarray as xr

LETTER = Choices(plan="fixed")
IN_VIEW = Choices(plan="fixed", **TUNED)
TRIED: dict[str, tuple[Any, ...]] = {
    "spread": (1.0, 10.0, 30.0, 100.0),
    "inflation": ("linear", "none"),
    "sigma": (0.054, 0.3),
    "n_per_arm": (10, 20),
}
"""What is tried, in this order; budget and prior variance enter by the plan only, and a fixed one has neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Sizes: orders in which a half is replayed to choose by, and to score."""

    tuning_orders: int = 1
    scoring_orders: int = 1


def choose(cohort: Cohort, *, n_orders: int, seed: int) -> tuple[Choices, float]:
    """The choices with the least error on a cohort, one after the other from the paper's on, and that error.

    Ties go to what was.
    """
    chosen = LETTER
    known: dict[str, float] = {}

    def error(one: Choices) -> float:
        if one.key not in known:
            known[one.key] = float(_replayed(cohort, one, n_orders=n_orders, seed=seed)["error"])
        return known[one.key]

    for name, values in TRIED.items():
        others = [replace(chosen, **{name: value}) for value in values if value != getattr(chosen, name)]
        chosen = min([chosen, *others], key=error)
    return chosen, error(chosen)


def run_split(cohort: Cohort, *, number: int, sizes: Split, seed: int) -> "xr.Dataset":
    """One split: figures of the second half over policy, and what was chosen as attributes."""
    import xarray as xr

    first, second = halves(cohort, number=number, seed=seed)
    chosen, on_first = choose(first, n_orders=sizes.tuning_orders, seed=seed + number)
    contenders = {
        "chosen on the other half": chosen,
        "the paper's choices": LETTER,
        "picked with all in view": IN_VIEW,
    }
    how: dict[str, Any] = {"n_orders": sizes.scoring_orders, "seed": seed + number}
    found = {name: _replayed(second, one, **how) for name, one in contenders.items()}
    found["physician"] = replay_metrics(replay(second, np.full(len(second), MEDIUM), n_permutations=2, seed=seed))
    index = xr.DataArray(list(found), dims="policy", name="policy")
    attrs = {name: getattr(chosen, name) for name in TRIED}
    return xr.concat(list(found.values()), dim=index).assign_attrs(attrs | {"split": number, "error_first": on_first})


def run_splits(
    cohort: Cohort,
    *,
    n_splits: int = 20,
    sizes: Split | None = None,
    folder: Path | None = None,
    workers: Workers = None,
    seed: int = DEFAULT_SEED,
) -> "list[xr.Dataset]":
    """Splits, each a Dataset; finished ones are read from the folder."""
    n_splits = as_count(n_splits, name="n_splits", least=1)
    sizes = sizes or Split()
    asked = {"experiment": "warfarin splits", "cohort": cohort.describe(), "seed": seed}
    asked |= {"tuning_orders": sizes.tuning_orders, "scoring_orders": sizes.scoring_orders}
    made = {
        f"split-{number}": partial(run_split, cohort, number=number, sizes=sizes, seed=seed)
        for number in range(n_splits)
    }
    return run_cells(open_store(folder, asked, resume=None), made, workers=workers, description="splits")


def halves(cohort: Cohort, *, number: int, seed: int) -> tuple[Cohort, Cohort]:
    """Two random halves, the same ones for the same number and seed."""
    order = np.random.default_rng([seed, number]).permutation(len(cohort))
    middle = len(order) // 2
    return cohort.part(order[:middle]), cohort.part(order[middle:])


def _replayed(cohort: Cohort, choices: Choices, *, n_orders: int, seed: int) -> "xr.Dataset":
    market = choices.market(cohort)
    plan = choices.make_plan(market, horizon=len(cohort), n_worlds=50, seed=seed)
    return replay_metrics(
        replay(cohort, choices.policy(market, plan), market=market, n_permutations=n_orders, seed=seed)
    )
