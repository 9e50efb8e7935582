"""A belief with data observed: a PyMC model of one's own to sample, check and plot."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import BeliefError, DataError
from rcb_bayes.market.noise import Noise
from rcb_bayes.market.samples import Samples, read_samples
from rcb_bayes.posterior.data import Rows

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm

_OBSERVED = "y"


def posterior_model(
    prior: Prior, data: "pd.DataFrame | Mapping[str, Any] | Rows | Samples", noise: Noise
) -> "pm.Model":
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

    samples = _of_rows(data) if isinstance(data, Rows) else read_samples(prior, data)
    if not noise.is_gaussian and not np.isin(samples.reward, (0.0, 1.0)).all():
        raise DataError("Bernoulli rewards are 0 or 1. Check the rewards, or use Gaussian noise.")
    model: Any = clone_model(prior.model)
    if _OBSERVED in model.named_vars:
        raise BeliefError(f"The belief '{prior.name}' has a variable '{_OBSERVED}' already. Rename it.")
    with model:
        # ArviZ means draws by "sample", and warns of a dim of that name.
        model.add_coord("observation", np.arange(len(samples.reward)))
        eta = (samples.x * model["beta"][samples.arm]).sum(axis=1)
        shared: dict[str, Any] = {"observed": samples.reward, "dims": "observation"}
        if noise.is_gaussian:
            sigma = model["sigma"] if noise.needs_sigma else noise.sigma  # type: ignore[attr-defined]
            pm.Normal(_OBSERVED, mu=eta, sigma=sigma, **shared)
        else:
            pm.Bernoulli(_OBSERVED, logit_p=eta, **shared)
    return model


def _of_rows(data: Rows) -> Samples:
    if data.n_sets != 1:
        raise DataError(f"Expected one data set, got {data.n_sets}. Use rows.take(slice(0, 1)).")
    used = data.arm[0] >= 0
    return Samples(x=data.x[0][used], arm=data.arm[0][used], reward=data.reward[0][used])
