r"""Figures of a replay: errors, the paper's table and score, recall, extreme errors, subgroups.

The paper's weighted risk score gives +1 for a right and -1 for a wrong decision, weighted by how frequent the right
bucket is. With those weights it is nothing but

.. math:: \sum_k p_k (2 r_k - 1) = 2 \cdot accuracy - 1 ,

:math:`r_k` the recall of bucket k: it ranks policies as their error does, and always-medium is not penalised for the
patients it fails. Macro recall, the plain average of :math:`r_k`, is what tells those apart.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.mechanism.decisions import PROMOTED
from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.warfarin.cohort import ARMS, HIGH, LOW, Cohort
from rcb_bayes.studies.warfarin.variation import two_way_error

if TYPE_CHECKING:
    import xarray as xr


def replay_metrics(runs: "xr.Dataset") -> "xr.Dataset":
    """Figures of one policy's replays, averaged over plans and permutations, each with its error.

    Parameters
    ----------
    runs : dims (permutation, t), see ``replay``; or (plan, permutation, t), see ``replay_plans``

    Returns
    -------
    ``error`` (share of wrong buckets), ``score`` (2 accuracy - 1), ``macro_recall``, ``extreme`` (share of patients who
    got high for low or low for high), ``explored`` (share of patients who were told an arm for exploration's sake),
    ``cold_start`` (rounds; all there are where it did not end), ``ended`` (share of runs whose cold start did);
    ``recall`` over arm; ``confusion`` over (right, assigned), shares of each row. ``*_mcse`` is the standard error over
    plans and permutations together, see ``two_way_error``. ``error_least`` and ``error_most`` are those of the best and
    the worst plan, ``n_plans`` how many there are.
    """
    import xarray as xr

    right, assigned = _by_plan(runs, "right"), _by_plan(runs, "recommended")  # (plans, permutations, t)
    outer = right.shape[:2]
    confusion = np.stack(
        [confusion_table(r, a) for r, a in zip(_flat(right), _flat(assigned), strict=True)]
    )  # (plans x permutations, K, K)
    confusion = confusion.reshape(*outer, *confusion.shape[1:])
    recall = np.diagonal(confusion, axis1=2, axis2=3)
    wrong = right != assigned
    far = np.abs(right.astype(int) - assigned.astype(int)) == HIGH - LOW
    length = _by_plan(runs, "cold_start_length").astype(float)
    plain = {
        "error": wrong.mean(axis=2),
        "score": 1.0 - 2.0 * wrong.mean(axis=2),
        "macro_recall": recall.mean(axis=2),
        "extreme": far.mean(axis=2),
        "explored": (_by_plan(runs, "stage") == PROMOTED).mean(axis=2),
        "cold_start": np.where(length < 0, right.shape[2], length),
        "ended": (length >= 0).astype(float),
    }
    variables: dict[str, Any] = {}
    for name, values in plain.items():
        variables[name], variables[f"{name}_mcse"] = ((), values.mean()), ((), two_way_error(values))
    plans = plain["error"].mean(axis=1)
    variables |= {"error_least": ((), plans.min()), "error_most": ((), plans.max()), "n_plans": ((), len(plans))}
    variables["recall"], variables["recall_mcse"] = ("arm", recall.mean(axis=(0, 1))), ("arm", two_way_error(recall))
    variables["confusion"] = (("right", "assigned"), confusion.mean(axis=(0, 1)))
    return xr.Dataset(variables, coords={"arm": list(ARMS), "right": list(ARMS), "assigned": list(ARMS)})


def _by_plan(runs: "xr.Dataset", name: str) -> np.ndarray:
    """A variable over (plan, permutation, ...), with one plan where there are none."""
    values = runs[name].values
    return values if "plan" in runs[name].dims else values[None]


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, values.shape[-1])


def confusion_table(right: np.ndarray, assigned: np.ndarray) -> FloatArray:
    """Share of each assigned bucket among patients of each right one, (K, K); rows sum to one, NaN for nobody."""
    counts = np.zeros((len(ARMS), len(ARMS)))
    np.add.at(counts, (right.astype(int), assigned.astype(int)), 1.0)
    total = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)


def subgroup_metrics(cohort: Cohort, runs: "xr.Dataset") -> "xr.Dataset":
    """Who bears the errors, and who the exploration: figures by race, sex and age band.

    Returns
    -------
    Dataset over group: ``n`` patients; ``error``; ``extreme``; ``burden``, the share of the group that was told an arm
    for exploration's sake; ``always_medium``, the error that the physician's rule makes there; with ``*_mcse`` over
    plans and permutations together.
    """
    import xarray as xr

    groups = cohort.groups()
    patients = _by_plan(runs, "patient")
    right, assigned = _by_plan(runs, "right").astype(int), _by_plan(runs, "recommended").astype(int)
    told = _by_plan(runs, "stage") == PROMOTED
    rows: dict[str, list[float]] = {
        name: [] for name in ("error", "error_mcse", "extreme", "extreme_mcse", "burden", "burden_mcse")
    }
    for members in groups.values():
        own = members[patients]  # (plans, permutations, t)
        n = own.sum(axis=2)
        found = {
            "error": ((right != assigned) & own).sum(axis=2) / n,
            "extreme": ((np.abs(right - assigned) == HIGH - LOW) & own).sum(axis=2) / n,
            "burden": (told & own).sum(axis=2) / n,
        }
        for name, values in found.items():
            rows[name].append(float(values.mean()))
            rows[f"{name}_mcse"].append(float(two_way_error(values)))
    medium = [float((cohort.arm[members] != ARMS.index("medium")).mean()) for members in groups.values()]
    variables = {name: ("group", values) for name, values in rows.items()}
    variables |= {"n": ("group", [int(m.sum()) for m in groups.values()]), "always_medium": ("group", medium)}
    return xr.Dataset(variables, coords={"group": list(groups)})
