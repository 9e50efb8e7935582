"""A belief with data observed: a PyMC model of one's own to sample, check and plot."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import BeliefError, DataError
from rcb_bayes.market.noise import Noise
from rcb_bayes.posterior.data import Rows
from rcb_bayes.schema import FEATURE, FloatArray, as_finite_array
from rcb_bayes.users.labelled import as_users

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm

_OBSERVED = "y"


class _Samples(NamedTuple):
    """x (n, d), positions of arms (n,), rewards (n,)."""

    x: FloatArray
    arm: np.ndarray
    reward: FloatArray


def posterior_model(prior: Prior, data: "pd.DataFrame | Mapping[str, Any] | Rows", noise: Noise) -> "pm.Model":
    """The belief's own PyMC model, with rewards observed as the variable ``y``.

    Sample it with ``pm.sample``: ``beta`` (arm, feature) is then the posterior that the engines answer for.

    Parameters
    ----------
    prior : Prior
        The belief.
    data : pandas.DataFrame, mapping of str to object or Rows
        A table with a column for each of users' covariates, ``arm`` (labels, or positions) and ``reward``, such as a
        log; a dict of ``x`` (n, p), ``arm`` and ``reward``; or one data set of ``Rows``, by features.
    noise : Noise
        Gaussian rewards, with a known sigma or the belief's own variable ``sigma``; or Bernoulli.

    Returns
    -------
    pymc.Model
        With ``reward`` observed.

    Raises
    ------
    DataError
        Missing columns, unknown arms, values that are not finite, 0/1 rewards that are neither.
    BeliefError
        A belief that has a variable ``y`` already.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> data = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": ["old", "new"], "reward": [1.0, 0.0]}
    >>> model = rcb.posterior_model(market.prior, data, market.noise)
    >>> [variable.name for variable in model.observed_RVs], model.coords["arm"]
    (['y'], ('old', 'new'))
    """
    import pymc as pm
    from pymc.model.fgraph import clone_model

    samples = _as_samples(prior, data)
    if not noise.is_gaussian and not np.isin(samples.reward, (0.0, 1.0)).all():
        raise DataError("Bernoulli rewards are 0 or 1. Check the rewards, or use Gaussian noise.")
    model: Any = clone_model(prior.model)
    if _OBSERVED in model.named_vars:
        raise BeliefError(f"The belief '{prior.name}' has a variable '{_OBSERVED}' already. Rename it.")
    with model:
        model.add_coord("sample", np.arange(len(samples.reward)))
        eta = (samples.x * model["beta"][samples.arm]).sum(axis=1)
        shared: dict[str, Any] = {"observed": samples.reward, "dims": "sample"}
        if noise.is_gaussian:
            sigma = model["sigma"] if noise.needs_sigma else noise.sigma  # type: ignore[attr-defined]
            pm.Normal(_OBSERVED, mu=eta, sigma=sigma, **shared)
        else:
            pm.Bernoulli(_OBSERVED, logit_p=eta, **shared)
    return model


def _as_samples(prior: Prior, data: Any) -> _Samples:
    if isinstance(data, Rows):
        if data.n_sets != 1:
            raise DataError(f"Expected one data set, got {data.n_sets}. Use rows.take(slice(0, 1)).")
        used = data.arm[0] >= 0
        return _Samples(data.x[0][used], data.arm[0][used], data.reward[0][used])
    columns = list(data.columns) if hasattr(data, "columns") else list(data) if isinstance(data, Mapping) else []
    missing = [name for name in ("arm", "reward") if name not in columns]
    if missing:
        got = ", ".join(map(str, columns[:8])) or type(data).__name__
        raise DataError(f"The data need x or a column for each {FEATURE}, arm and reward; got {got}.")
    values = data["x"] if "x" in columns and "x" not in prior.inputs else _features_of(prior, data)
    x = as_users(values, features=prior.inputs, name="x", ndim=2)
    x = x if prior.feature_map is None else prior.feature_map(x)
    reward = as_finite_array(np.asarray(data["reward"]), name="reward", ndim=1)
    arm = _positions(prior, np.asarray(data["arm"]))
    if not len(x) == len(arm) == len(reward):
        raise DataError(f"x, arm and reward must be of one length, got {len(x)}, {len(arm)} and {len(reward)}.")
    return _Samples(x, arm, reward)


def _features_of(prior: Prior, data: Any) -> dict[str, Any]:
    """The columns of the features, whatever else there is; those that lack are named where they are missed."""
    columns = list(data.columns) if hasattr(data, "columns") else list(data)
    return {name: np.asarray(data[name]) for name in prior.inputs if name in columns}


def _positions(prior: Prior, arm: np.ndarray) -> np.ndarray:
    """Positions of arms given by label, or by position."""
    places = {name: k for k, name in enumerate(prior.arms)}
    if np.issubdtype(arm.dtype, np.integer) and not set(arm.astype(str).tolist()) <= set(places):
        found = arm.astype(np.int64)
        if found.size and not (found.min() >= 0 and found.max() < len(places)):
            raise DataError(f"Arms by position are 0 to {len(places) - 1}, got {found.min()} to {found.max()}.")
        return found
    unknown = sorted({name for name in arm.astype(str).tolist() if name not in places})
    if unknown:
        raise DataError(f"There is no arm '{unknown[0]}'. The arms are {', '.join(prior.arms)}.")
    return np.array([places[name] for name in arm.astype(str).tolist()], dtype=np.int64)
