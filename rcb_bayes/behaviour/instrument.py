r"""The recommendation as an instrument: what arms give, where those who refuse differ.

With :math:`y = x'b_A + e` of the arm A taken, e may tell who takes what, and a posterior from the arms taken is off.
The arm Z recommended is chosen by x and by what came before, never by this user's e, so that

.. math:: E[1\{Z = k\}\, x\, (y - x'b_A)] = 0 \quad \text{for every arm } k .

These are as many equations as there are coefficients: two-stage least squares, just identified. With
:math:`Q_{kj} = \sum 1\{Z = k, A = j\} xx'` in blocks, :math:`\hat b = Q^{-1} \sum z y`, with covariance
:math:`\sigma^2 Q^{-1} (\sum zz') Q^{-T}`.

Whether the two part is Hausman's test. Where e is as the model has it, the posterior mean m is efficient:
:math:`\hat b - m` is a function of the data, so uncorrelated with b - m, and its covariance is that of
:math:`\hat b` less the posterior's.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import ConfoundingWarning, RcbError
from rcb_bayes.market import Market
from rcb_bayes.posterior import Statistics, make_engine
from rcb_bayes.posterior.data import unchecked_statistics
from rcb_bayes.running.log_tables import as_log, read_log
from rcb_bayes.running.offer_sums import NAMES, OfferSums
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_probability

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_MOST_CONDITION = 1e10
_SAME = 1e-6  # of a variance: directions in which the two estimates are one
_MEAN_USERS = 65_536


def instrument(
    data: "xr.Dataset | pd.DataFrame | str | Path", market: Market, *, level: float = 0.01, seed: int = DEFAULT_SEED
) -> "xr.Dataset":
    """What arms give, with the recommendation as instrument, beside the posterior from the arms taken.

    Parameters
    ----------
    data : Dataset, DataFrame or path-like
        Runs of ``simulate(..., behaviour=...)``; or a log, such as a recommender keeps, with ``arm``, ``taken`` and
        ``reward`` of every round.
    market : Market
        Who believes what, how rewards come about.
    level : float
        At which the two are said to part, in one world or log.
    seed : int
        Of an engine that draws.

    Returns
    -------
    xarray.Dataset
        Dims (world, arm, feature), one world of a log: ``iv`` and ``iv_mcse``, ``naive`` (posterior means from the arms
        taken) and ``naive_mcse`` (posterior standard deviations), coefficient by coefficient; the same of the average
        user's reward over (world, arm): ``iv_reward``, ``naive_reward``; ``p_value`` (world) of the two being one,
        ``part`` where that is below the level. NaN where an arm that was taken was hardly ever recommended.

    Raises
    ------
    RcbError
        0/1 rewards, runs in which everybody followed for want of a behaviour, a level that is no probability.
    DataError
        A log that lacks columns, has unknown arms, or values that are not finite.

    Warns
    -----
    ConfoundingWarning
        Where the two part in more worlds than the level allows.

    Applicability
    -------------
    Rewards are linear in the features, and what a user has beyond others like her is the same for all arms. Where it
    differs by arm, ``iv`` is about those who follow. All rounds count, organic ones too; rewards that never came must
    be missing whatever they are.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``: those who refuse the new arm would have got little of any.

    >>> import warnings
    >>> users = rcb.behaviour.Refusal(arm="new", share=0.4, known=0.9)
    >>> runs = rcb.simulate(market, plan, horizon=4000, n_worlds=3, behaviour=users, seed=1)
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     found = rcb.behaviour.instrument(runs, market)
    >>> told[-1].category.__name__, bool(found["part"].all())
    ('ConfoundingWarning', True)
    """
    as_probability(level, name="level")
    if not market.noise.is_gaussian:
        raise RcbError(
            "The recommendation as an instrument is for rewards that are linear in the features: 0/1 rewards have no "
            "such equation. Compare arms by whole groups of users who were recommended each."
        )
    n, xx, xy, yy = _sums(data, market)
    naive, spread = _posterior(market, xx, xy, yy, n, seed=seed)
    sigma = getattr(market.noise, "sigma", None)
    found = [_estimated(*parts, sigma=sigma) for parts in zip(n, xx, xy, yy, strict=True)]
    estimate, covariance = (np.stack([each[k] for each in found]) for k in range(2))
    out = _as_dataset(market, estimate, covariance, naive, spread)
    p_values = [_p_value(*parts) for parts in zip(estimate, covariance, naive, spread, strict=True)]
    out["p_value"] = ("world", p_values)
    out["part"] = out["p_value"] < level
    _warn(out["part"].values, level)
    out.attrs = {"seed": seed, "version": __version__, "belief": market.platform_prior.name, "level": level}
    return out


def _warn(part: np.ndarray, level: float) -> None:
    from scipy.stats import binom

    n, there = len(part), int(part.sum())
    if there and binom.sf(there - 1, n, level) <= level * (1.0 + 1e-9):
        where = "" if n == 1 else f" in {there:,} of {n:,} worlds"
        warnings.warn(
            f"The recommendation as an instrument and the posterior from the arms taken part{where}: who refuses "
            "differs in what she would have got. Go by the instrument's estimate (iv).",
            ConfoundingWarning,
            stacklevel=3,
        )


def _sums(data: Any, market: Market) -> tuple[FloatArray, ...]:
    """Counts, X'X, X'y and y'y by world, arm offered and arm taken."""
    if hasattr(data, "data_vars"):
        if any(name not in data for name in NAMES):
            raise RcbError("These runs do not tell who was offered what. Simulate with behaviour=, such as Obedient().")
        return tuple(np.asarray(data[name].values, dtype=float) for name in NAMES)
    log = as_log(market, read_log(data))
    there = np.isfinite(log.reward)
    sums = OfferSums(market.n_arms, market.n_features)
    sums.add(log.x[there], log.arm[there], log.taken[there], log.reward[there])
    return tuple(part[None] for part in sums.as_arrays().values())


def _posterior(
    market: Market, xx: FloatArray, xy: FloatArray, yy: FloatArray, n: FloatArray, *, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Posterior means (W, Kd) and covariances (W, Kd, Kd) from the arms taken, whoever was recommended what."""
    engine = make_engine(market.platform_prior, market.noise, seed=seed)
    data: Statistics = unchecked_statistics(*(part.sum(axis=1) for part in (xx, xy, yy, n)))
    batch = engine.fit(data, covariance=True)
    assert batch.covariance is not None  # asked for
    w, size = len(n), market.n_arms * market.n_features
    return batch.mean.reshape(w, size), batch.covariance.reshape(w, size, size)


def _estimated(
    n: FloatArray, xx: FloatArray, xy: FloatArray, yy: FloatArray, *, sigma: float | None
) -> tuple[FloatArray, FloatArray]:
    """Coefficients (Kd,) and their covariance (Kd, Kd) in one world; arms nobody took or was offered are NaN."""
    k, _, d = xy.shape
    size = k * d
    coefficients, covariance = np.full(size, np.nan), np.full((size, size), np.nan)
    arms = np.flatnonzero((n.sum(axis=0) > 0) | (n.sum(axis=1) > 0))
    at = (arms[:, None] * d + np.arange(d)).reshape(-1)
    grid = np.ix_(arms, arms)
    crossed = xx[grid].transpose(0, 2, 1, 3).reshape(len(at), len(at))
    if np.linalg.cond(crossed) > _MOST_CONDITION:
        return coefficients, covariance
    inverse = np.linalg.inv(crossed)
    own = inverse @ xy[arms].sum(axis=1).reshape(-1)
    taken = xx[:, arms].sum(axis=0)  # of the arms taken, (A, d, d)
    each = own.reshape(-1, d)
    if sigma is None:
        left = yy.sum() - 2.0 * (each * xy[:, arms].sum(axis=0)).sum() + np.einsum("ad,ade,ae->", each, taken, each)
        variance = float(left / max(n.sum() - len(at), 1.0))
    else:
        variance = float(sigma) ** 2
    offered = np.zeros_like(crossed)
    for place, block in enumerate(xx[arms].sum(axis=1)):
        some = slice(place * d, (place + 1) * d)
        offered[some, some] = block
    coefficients[at] = own
    covariance[np.ix_(at, at)] = variance * inverse @ offered @ inverse.T
    return coefficients, covariance


def _p_value(estimate: FloatArray, covariance: FloatArray, naive: FloatArray, spread: FloatArray) -> float:
    """Hausman's, of the two estimates being of one thing; 1 where they are the same estimate, NaN where one is not."""
    from scipy.linalg import eigh
    from scipy.stats import chi2

    at = np.flatnonzero(np.isfinite(estimate))
    if not len(at):
        return float("nan")
    grid = np.ix_(at, at)
    shares, directions = eigh(covariance[grid] - spread[grid], covariance[grid])  # of the variance, at most 1
    kept = shares > _SAME
    if not kept.any():
        return 1.0
    # Directions are scaled so that the estimate's own variance is one along them.
    scores = directions[:, kept].T @ (estimate - naive)[at]
    return float(chi2.sf((scores**2 / shares[kept]).sum(), int(kept.sum())))


def _as_dataset(
    market: Market, estimate: FloatArray, covariance: FloatArray, naive: FloatArray, spread: FloatArray
) -> "xr.Dataset":
    import xarray as xr

    w, k, d = len(estimate), market.n_arms, market.n_features
    average = market.population.sample(_MEAN_USERS, seed=0).mean(axis=0)
    variables: dict[str, Any] = {}
    for name, value, errors in (("iv", estimate, covariance), ("naive", naive, spread)):
        coefficients = value.reshape(w, k, d)
        blocks = np.einsum("wkdke->wkde", errors.reshape(w, k, d, k, d))
        variables[name] = (("world", "arm", "feature"), coefficients)
        variables[f"{name}_mcse"] = (("world", "arm", "feature"), np.sqrt(np.einsum("wkdd->wkd", blocks)))
        variables[f"{name}_reward"] = (("world", "arm"), coefficients @ average)
        variables[f"{name}_reward_mcse"] = (
            ("world", "arm"),
            np.sqrt(np.einsum("d,wkde,e->wk", average, blocks, average)),
        )
    coords = {"world": np.arange(w), "arm": list(market.arms), "feature": list(market.prior.features)}
    return xr.Dataset(variables, coords=coords)
