"""Replay: patients come in a permuted order, a policy recommends a bucket, and the reward is 1 if it is the right one.

The right bucket of every patient is known, so that any policy can be replayed on the same patients: what it would have
been told is 1 or 0, whatever it recommends.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, ROUND_KINDS
from rcb_bayes.running.driving import Arrivals, Block, drive
from rcb_bayes.running.protocol import BarePolicy, PolicyMaker
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.studies.warfarin.cohort import ARMS, Cohort
from rcb_bayes.studies.warfarin.letter import DoseRewards
from rcb_bayes.telling.progress import track

if TYPE_CHECKING:
    import xarray as xr


def replay(
    cohort: Cohort,
    policy: PolicyMaker | np.ndarray,
    *,
    market: Market | None = None,
    rewards: DoseRewards | None = None,
    n_permutations: int = 10,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """Replay a policy over all patients, in several orders.

    Parameters
    ----------
    policy : a function (market, seed) -> policy, made anew for each order; or the arm of each patient, (n,), for doses
        that do not depend on what was seen
    market : what the policy is made for; its features are the cohort's
    rewards : what the policy is told, 1 for the right bucket and 0 for others unless given; regret stays the same
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
        order, choices, own, noise = (np.random.default_rng(part) for part in child.spawn(4))
        patients = order.permutation(len(cohort))
        if isinstance(policy, np.ndarray):
            runs.append(_given(cohort, policy, patients))
        else:
            assert market is not None  # refused above
            made = policy(market, int(own.integers(2**31)))
            told = None if rewards is None else _Told(rewards, patients, noise)
            runs.append(_run(_Patients(cohort, patients, choices.random((len(cohort), 2)), told), made, patients))
    dims = {"cold_start_length": ("permutation",)}
    variables = {
        name: (dims.get(name, ("permutation", "t")), np.stack([run[name] for run in runs])) for name in runs[0]
    }
    coords = {"permutation": np.arange(n_permutations), "t": np.arange(1, len(cohort) + 1)}
    data = xr.Dataset(variables, coords=coords)
    data["stage"].attrs = {"flag_values": list(range(len(ROUND_KINDS))), "flag_meanings": ", ".join(ROUND_KINDS)}
    data.attrs = {"seed": seed, "version": __version__, "cohort": cohort.source, "rule": cohort.rule}
    return data


def replay_plans(
    cohort: Cohort,
    policies: Sequence[PolicyMaker],
    *,
    market: Market,
    rewards: DoseRewards | None = None,
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
    how: dict[str, Any] = {"market": market, "rewards": rewards, "n_permutations": n_permutations, "seed": seed}
    runs = [replay(cohort, one, **how) for one in policies]
    return xr.concat(runs, dim=xr.DataArray(np.arange(len(runs)), dims="plan", name="plan"))


class _Told:
    """What patients in an order earn in their right bucket, and the noise of each round."""

    def __init__(self, rewards: DoseRewards, patients: np.ndarray, rng: np.random.Generator) -> None:
        self.mean = rewards.mean[patients]
        self.noise = rewards.sigma * rng.standard_normal(len(patients))


class _Patients:
    """A world of patients in an order: 1 for the right bucket and 0 for another, or what else they earn."""

    def __init__(self, cohort: Cohort, patients: np.ndarray, uniforms: FloatArray, told: _Told | None) -> None:
        self._x, self._uniforms, self._told = cohort.features[patients], uniforms, told
        self._features = np.ascontiguousarray(self._x.T)
        self.right = cohort.arm[patients]

    def arrivals(self, start: int, stop: int) -> Arrivals:
        some = slice(start, stop)
        return Arrivals(x=self._x[some], features=self._features[:, some], uniforms=self._uniforms[some])

    def mean_rewards(self, start: int, stop: int) -> FloatArray:
        is_right = (self.right[start:stop] == np.arange(len(ARMS))[:, None]).astype(float)
        return is_right if self._told is None else is_right * self._told.mean[start:stop]

    def rewards(self, start: int, arm: np.ndarray) -> FloatArray:
        some = slice(start, start + len(arm))
        is_right = (arm == self.right[some]).astype(float)
        return is_right if self._told is None else is_right * self._told.mean[some] + self._told.noise[some]


def _run(world: _Patients, policy: BarePolicy, patients: np.ndarray) -> dict[str, np.ndarray]:
    """One order of arrival."""
    out = _empty(patients, world.right)
    length = 0
    for block in drive(policy, world, horizon=len(patients)):
        _note(out, block)
        if (block.decisions.stage != EXPLOIT).any():
            length = block.stop
    out["regret"] = (out["recommended"] != out["right"]).astype(np.int8)
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


def _note(out: dict[str, np.ndarray], block: Block) -> None:
    some, decisions = slice(block.start, block.stop), block.decisions
    out["recommended"][some] = decisions.arm
    out["stage"][some] = decisions.stage
    out["propensity"][some] = decisions.propensity
    out["gain"][some] = decisions.gain


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
