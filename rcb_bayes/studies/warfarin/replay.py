"""Replay: patients come in a permuted order, a policy recommends a bucket, and the reward is 1 if it is the right one.

The right bucket of every patient is known, so that any policy can be replayed on the same patients: what it would have
been told is 1 or 0, whatever it recommends.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, STAGES, Decisions
from rcb_bayes.running.policies import Policy
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.studies.warfarin.cohort import ARMS, Cohort
from rcb_bayes.telling.progress import track

if TYPE_CHECKING:
    import xarray as xr

PolicyMaker = Callable[[Market, int], Policy]
"""A policy, from the market and a seed."""


def replay(
    cohort: Cohort,
    policy: PolicyMaker | np.ndarray,
    *,
    market: Market | None = None,
    n_permutations: int = 10,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """Replay a policy over all patients, in several orders.

    Parameters
    ----------
    policy : a function (market, seed) -> policy, made anew for each order; or the arm of each patient, (n,), for doses
        that do not depend on what was seen
    market : what the policy is made for; its features are the cohort's
    n_permutations : orders of arrival; two policies replayed with one seed meet the same ones
    seed : of orders and of the policy's choices

    Returns
    -------
    Dataset, dims (permutation, t): ``patient`` (position in the cohort), ``right`` and ``recommended`` (positions of
    arms), ``regret`` (1 for a wrong bucket), ``stage``, ``propensity``, ``gain`` (what the platform expects of the arm
    beyond its best rival; NaN for doses given), and ``cold_start_length`` (permutation), -1 where it did not end.

    Raises
    ------
    RcbError
        No market for a policy that learns, counts below 1.
    DataError
        Arms that do not fit the cohort.

    Applicability
    -------------
    Rewards of recommendations that were never made are known here because the therapeutic dose is; logged data of a
    real recommender would need propensities.
    """
    import xarray as xr

    n_permutations = as_count(n_permutations, name="n_permutations", least=1)
    seed = as_count(seed, name="seed")
    if isinstance(policy, np.ndarray):
        _check_given(cohort, policy)
    elif market is None:
        raise RcbError("A policy that learns needs a market: pass market=physician_market(cohort).")
    runs = []
    for child in track(np.random.SeedSequence(seed).spawn(n_permutations), description="permutations"):
        order, choices, own = (np.random.default_rng(part) for part in child.spawn(3))
        patients = order.permutation(len(cohort))
        if isinstance(policy, np.ndarray):
            runs.append(_given(cohort, policy, patients))
        else:
            assert market is not None  # refused above
            made = policy(market, int(own.integers(2**31)))
            runs.append(_run(cohort, made, patients, choices.random((len(cohort), 2))))
    dims = {"cold_start_length": ("permutation",)}
    variables = {
        name: (dims.get(name, ("permutation", "t")), np.stack([run[name] for run in runs])) for name in runs[0]
    }
    coords = {"permutation": np.arange(n_permutations), "t": np.arange(1, len(cohort) + 1)}
    data = xr.Dataset(variables, coords=coords)
    data["stage"].attrs = {"flag_values": list(range(len(STAGES))), "flag_meanings": ", ".join(STAGES)}
    data.attrs = {"seed": seed, "version": __version__, "cohort": cohort.source, "rule": cohort.rule}
    return data


def replay_plans(
    cohort: Cohort,
    policies: Sequence[PolicyMaker],
    *,
    market: Market,
    n_permutations: int = 10,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """Replay one policy by several plans, each in the same orders: ``replay``, with a dim "plan" before the others.

    Raises
    ------
    RcbError
        No policy, counts below 1.
    """
    import xarray as xr

    if not policies:
        raise RcbError("Expected a policy for each plan, one or more, got none.")
    runs = [replay(cohort, one, market=market, n_permutations=n_permutations, seed=seed) for one in policies]
    return xr.concat(runs, dim=xr.DataArray(np.arange(len(runs)), dims="plan", name="plan"))


def _run(cohort: Cohort, policy: Policy, patients: np.ndarray, uniforms: FloatArray) -> dict[str, np.ndarray]:
    """One order of arrival."""
    n = len(patients)
    x = cohort.features[patients]
    features = np.ascontiguousarray(x.T)
    right = cohort.arm[patients]
    out = _empty(patients, right)
    start, length = 0, 0
    while start < n:
        decisions = policy.decide(x[start:], features[:, start:], uniforms[start:])
        some = slice(start, start + len(decisions))
        reward = (decisions.arm == right[some]).astype(float)
        policy.update(x[some], decisions, reward)
        _note(out, some, decisions, reward)
        start = some.stop
        if (decisions.stage != EXPLOIT).any():
            length = start
    ended = bool((out["stage"][-1:] == EXPLOIT).all())
    return out | {"cold_start_length": np.array(length if ended else -1)}


def _empty(patients: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    n = len(patients)
    return {
        "patient": patients.astype(np.int32),
        "right": right.astype(np.int8),
        "recommended": np.empty(n, dtype=np.int8),
        "stage": np.full(n, EXPLOIT, dtype=np.int8),
        "regret": np.empty(n, dtype=np.int8),
        "propensity": np.ones(n, dtype=np.float32),
        "gain": np.full(n, np.nan, dtype=np.float32),
    }


def _note(out: dict[str, np.ndarray], some: slice, decisions: Decisions, reward: FloatArray) -> None:
    arm, columns = decisions.arm, np.arange(len(decisions))
    rivals = decisions.scores.copy()
    rivals[arm, columns] = -np.inf
    out["recommended"][some] = arm
    out["stage"][some] = decisions.stage
    out["regret"][some] = 1.0 - reward
    out["propensity"][some] = decisions.propensity
    out["gain"][some] = decisions.scores[arm, columns] - rivals.max(axis=0)


def _given(cohort: Cohort, arms: np.ndarray, patients: np.ndarray) -> dict[str, np.ndarray]:
    """Doses that were given beforehand."""
    out = _empty(patients, cohort.arm[patients])
    out["recommended"] = arms[patients].astype(np.int8)
    out["regret"] = (out["recommended"] != out["right"]).astype(np.int8)
    return out | {"cold_start_length": np.array(0)}


def _check_given(cohort: Cohort, arms: np.ndarray) -> None:
    if arms.shape != (len(cohort),) or not np.issubdtype(arms.dtype, np.integer):
        raise DataError(f"Expected the arm of each of {len(cohort):,} patients, got {arms.dtype} of {arms.shape}.")
    if arms.min() < 0 or arms.max() >= len(ARMS):
        raise DataError(f"Arms are positions 0 to {len(ARMS) - 1} ({', '.join(ARMS)}), got {arms.min()}..{arms.max()}.")
