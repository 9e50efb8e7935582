"""How well a sample of users determines phi0, the smallest eigenvalue of the population's E[xx'].

With M* the second moment of a resample of the rows (weights carried along) and a = (1 - level)/2::

    lower = quantile_a(lambda_min(M*)),   upper = phi0 / quantile_a(lambda_min(W' M* W)),

upper at most quantile_(1-a)(trace M*)/d, W the eigenvectors of E[xx'] that cannot be told from the weakest, each
divided by the root of its eigenvalue. The smallest eigenvalue of a sample is biased downwards, most where several are
close: percentile and basic intervals miss the phi0 of a sphere nearly always, hence the ratio for the upper end.

At the boundary, phi0 = 0, every resample has phi0 = 0 as well and the bootstrap is silent. The lower end is then 0, the
upper end a rule of three: a direction absent from the n - rank rows that do not define it appears with probability at
most 1 - a^(1/(n - rank)). Where a relation holds for everyone (dummies that sum to one) phi0 is simply 0.
"""

import math

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FloatArray, as_count, is_number
from rcb_bayes.users.moments import spectrum, weighted_moment


def phi0_interval(
    rows: FloatArray, weights: FloatArray, *, level: float, n_boot: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Interval (lower, upper) of phi0 from rows (n, d) with positive weights (n,)."""
    if not is_number(level) or not 0 < level < 1:
        raise DataError(f"level must lie strictly between 0 and 1, got {level!r}. Usual: 0.95.")
    n_boot = as_count(n_boot, name="n_boot", least=100)
    n, d = rows.shape
    moments = np.empty((n_boot, d, d))
    for k in range(n_boot):
        mass = weights * np.bincount(rng.integers(n, size=n), minlength=n)
        moments[k] = weighted_moment(rows, mass / mass.sum())
    values, vectors = spectrum(weighted_moment(rows, weights))
    tail = (1 - level) / 2
    ceiling = float(np.quantile(np.trace(moments, axis1=1, axis2=2), 1 - tail)) / d
    if values[0] == 0:
        n_others = n - int((values > 0).sum())
        unseen = 1 - tail ** (1 / n_others) if n_others > 0 else 1.0
        # E[(x'v)^2] is at most the probability that v appears times max |x|^2.
        return 0.0, min(unseen * float((rows**2).sum(axis=1).max()), ceiling)
    lower = float(np.quantile(spectrum(moments)[0][:, 0], tail))
    shrinkage = _tied_shrinkage(moments, values, vectors, level=level)
    upper = float(values[0]) / shrinkage if shrinkage > 0 else math.inf
    return lower, max(lower, min(upper, ceiling))


def _tied_shrinkage(moments: FloatArray, values: FloatArray, vectors: FloatArray, *, level: float) -> float:
    """Lower quantile of lambda_min(M*)/lambda_min(M) if all eigenvalues not told from the smallest were equal."""
    whitener = vectors / np.sqrt(values)
    whitened = whitener.T @ moments @ whitener  # (n_boot, d, d), mean about I
    spread = np.linalg.eigvalsh(whitened)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(spread[:, 0] > 0, spread[:, -1] / spread[:, 0], np.inf)
    spacing = np.quantile(apart, level, method="higher")
    tied = int((values <= spacing * values[0]).sum())
    smallest = np.linalg.eigvalsh(whitened[:, :tied, :tied])[:, 0]
    shrinkage = float(np.quantile(smallest, (1 - level) / 2))
    return shrinkage if shrinkage > 1e-9 else 0.0
