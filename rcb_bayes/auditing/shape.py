r"""Do rewards bend where the belief does not? Residual curvature of a log, arm by arm.

A belief that is linear in its features says of an arm's rewards :math:`y = \phi b + \mathrm{noise}`, whatever b is. So
squares and products of users' x, less their projection on the features, tell nothing: with :math:`W_\perp` these,
:math:`W_\perp' y` has mean zero and covariance :math:`\sigma^2 W_\perp' W_\perp`, and its squared length in units of
that is chi-square distributed (F where sigma is the belief's to learn).

A belief may hold coefficients, or combinations of them, to be known: its features are then the directions that it is
unsure of, and what it knows is taken off the rewards first.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.checks import Check
from rcb_bayes.market import Market
from rcb_bayes.running.log_tables import as_log, read_log
from rcb_bayes.schema import FloatArray, as_probability

if TYPE_CHECKING:
    import pandas as pd

_SPARE = 20  # rewards beyond the directions that are looked at
_NO_VARIANCE = 1e-9  # of the largest, below which a combination of coefficients is known
_NOTHING = 1e-9  # of a column's length that is left outside the features: none


def check_shape(market: Market, log: "pd.DataFrame | str | Path", *, level: float = 0.01) -> Check:
    """Whether rewards of a log bend with users' x in ways that the belief's features cannot follow.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    log : pandas.DataFrame, str or path-like
        As for ``audit_log``: a column for each of users' covariates, ``arm`` and ``reward``.
    level : float
        The chance that a belief of the right shape fails.

    Returns
    -------
    Check
        Fails where curvature is there beyond chance: the smallest p-value of the arms, times their number, is below the
        level. Inconclusive where no arm has rewards to spare, or the features have all squares and products already.

    Raises
    ------
    RcbError
        Rewards that are not Gaussian, or a level that is no probability.
    DataError
        A log that cannot be read.

    Applicability
    -------------
    The features, as far as the users' belief is unsure of their coefficients. Arms were chosen in the light of earlier
    rewards, which the test does not know of: in a cold start the choice is by x and chance alone, and the level is
    exact there.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> import pandas as pd
    >>> from rcb_bayes.auditing import check_shape
    >>> x = market.covariates.sample(200, seed=1)
    >>> log = pd.DataFrame(x, columns=market.features).assign(arm="old", reward=2.0 * x[:, 0] ** 2)
    >>> check_shape(market, log).verdict
    'fail'
    """
    if not market.noise.is_gaussian:
        raise RcbError("Curvature is looked for in Gaussian rewards. With 0/1 rewards compare rates by bands of x.")
    as_probability(level, name="level")
    table = read_log(log)
    rows = as_log(market, table)
    x = np.stack([np.asarray(table[name], dtype=float) for name in market.features], axis=1)
    kept = rows.counted & np.isfinite(rows.reward)
    sigma = getattr(market.noise, "sigma", None)
    found = {}
    for arm, label in enumerate(market.arms):
        own = kept & (rows.taken == arm)
        open_to, known = _reach(market, arm)
        beyond = rows.reward[own] - rows.x[own] @ known
        p_value = _curvature(rows.x[own] @ open_to, _bends(x[own]), beyond, sigma=sigma)
        if p_value is not None:
            found[label] = p_value
    return _as_check(found, level=level)


def _reach(market: Market, arm: int) -> tuple[FloatArray, FloatArray]:
    """Directions that the belief is unsure of, (d, r), and its mean, (d,), by which the others are known.

    Moments that were sampled have no direction without variance but by chance: all of them are open then.
    """
    prior = market.prior
    everything = np.eye(prior.n_features), np.zeros(prior.n_features)
    if not prior.is_gaussian:
        return everything
    cov = prior.covariance.values[arm, :, arm]
    values, directions = np.linalg.eigh(cov)
    some = values > _NO_VARIANCE * max(values[-1], 0.0)
    return everything if some.all() else (directions[:, some], prior.mean.values[arm])


def _bends(x: FloatArray) -> FloatArray:
    """Squares and products of covariates, standardised first so that none is lost beside another."""
    spread = x.std(axis=0) if len(x) else np.ones(x.shape[1])
    z = (x - (x.mean(axis=0) if len(x) else 0.0)) / np.where(spread > 0, spread, 1.0)
    rows, columns = np.triu_indices(x.shape[1])
    return z[:, rows] * z[:, columns]


def _curvature(features: FloatArray, bends: FloatArray, reward: FloatArray, *, sigma: float | None) -> float | None:
    """The p-value of what squares and products add to the features; None where nothing can be said."""
    from scipy import stats

    n = len(reward)
    if n == 0:
        return None
    basis, values, _ = np.linalg.svd(features, full_matrices=False)
    basis = basis[:, values > 1e-10 * values[0]] if values[0] > 0 else basis[:, :0]
    outside = bends - basis @ (basis.T @ bends)
    length = np.linalg.norm(bends, axis=0)
    outside = outside[:, np.linalg.norm(outside, axis=0) > _NOTHING * np.maximum(length, 1e-300)]
    if not outside.shape[1]:
        return None
    directions, sizes, _ = np.linalg.svd(outside, full_matrices=False)
    directions = directions[:, sizes > 1e-8 * sizes[0]]
    q, left = directions.shape[1], n - basis.shape[1] - directions.shape[1]
    if left < _SPARE:
        return None
    explained = float(((directions.T @ reward) ** 2).sum())
    if sigma is not None:
        return float(stats.chi2.sf(explained / sigma**2, q))
    residual = reward - basis @ (basis.T @ reward)
    return float(stats.f.sf(explained / q / ((residual @ residual - explained) / left), q, left))


def _as_check(found: dict[str, float], *, level: float) -> Check:
    worst = min(found, key=lambda label: found[label]) if found else None
    p_value = min(1.0, found[worst] * len(found)) if worst is not None else float("nan")
    verdict = "inconclusive" if worst is None else "fail" if p_value < level else "pass"
    meaning = (
        "No arm has rewards to spare, or the features have all squares and products of x."
        if worst is None
        else f"Rewards of {worst} bend with x beyond the belief's features by chance with probability {p_value:.2g}."
    )
    return Check(
        name="shape of rewards",
        verdict=verdict,
        estimate=p_value,
        mcse=0.0,
        threshold=level,
        meaning=meaning,
        remedy=""
        if verdict == "pass"
        else "Give the belief curves: features=SplineTransformer(), or models/smooth.py.",
    )
