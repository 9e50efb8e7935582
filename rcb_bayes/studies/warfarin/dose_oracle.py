r"""An oracle that knows what the buckets are: parts of one dose.

The square root of the weekly dose is normal around a linear predictor,

.. math:: \sqrt{dose} = c + x'\theta + s z, \qquad \theta \sim N(0, v I),

so that a reward of 1 says that the dose lies in the bucket that was tried, and a reward of 0 that it does not. Three
arms share one theta: what is learnt of one is learnt of all. The mode of theta's posterior gives the probability of
each bucket.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.running.history import History
from rcb_bayes.schema import FloatArray, as_positive, is_number

_LEAST = 1e-9  # of a probability whose logarithm is taken


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DoseOracle:
    """The probability that each bucket is right, from rewards of any of them.

    Parameters
    ----------
    bounds : where one bucket ends and the next begins, in mg a week
    center : c, the square root of the usual dose; 27 mg unless given
    spread : s, the sd of the square root of the dose given the features
    variance : v, of the prior of theta

    Raises
    ------
    RcbError
        Bounds that do not rise, a spread or variance that is not positive.

    Applicability
    -------------
    Rewards that say whether an ordered outcome lies in the bucket tried. A reward between 0 and 1 counts as that share
    of a success, others as the nearer of the two, so that the oracle answers in any simulated world.
    """

    bounds: tuple[float, float] = (21.0, 49.0)
    center: float = 5.2
    spread: float = 0.95
    variance: float = 10.0
    needs_rows: bool = True

    def __post_init__(self) -> None:
        low, high = self.bounds
        if not (is_number(low) and is_number(high) and 0 < low < high):
            raise RcbError(f"bounds must be two rising doses, got {self.bounds!r}.")
        for name in ("spread", "variance"):
            value = getattr(self, name)
            as_positive(value, name=name)

    @property
    def cuts(self) -> FloatArray:
        """Bounds in units of the spread, around the usual dose, (K + 1,)."""
        inner = (np.sqrt(self.bounds) - self.center) / self.spread
        return np.concatenate([[-np.inf], inner, [np.inf]])

    def fit(self, history: History) -> "DosePredictor":
        """The mode of theta given a history."""
        from scipy.optimize import minimize

        x, arm, reward = history.rows()
        cuts, hit = self.cuts, np.clip(reward, 0.0, 1.0)
        lower, upper = cuts[arm], cuts[arm + 1]
        ridge = self.spread**2 / self.variance  # theta is fitted in units of the spread

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            value, slope = _log_likelihood(x @ theta, lower, upper, hit)
            return float(-value + 0.5 * ridge * theta @ theta), -(slope @ x) + ridge * theta

        found = minimize(objective, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 300})
        return DosePredictor(theta=found.x, cuts=cuts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DosePredictor:
    """Probabilities of buckets, given theta in units of the spread."""

    theta: FloatArray
    cuts: FloatArray

    def scores(self, features: FloatArray) -> FloatArray:
        """Probability that each bucket is right, (d, n) -> (K, n)."""
        from scipy.special import ndtr

        return np.diff(ndtr(self.cuts[:, None] - self.theta @ features), axis=0)

    def variances(self, features: FloatArray) -> FloatArray | None:
        """A mode has none."""
        return None


def _log_likelihood(eta: FloatArray, lower: FloatArray, upper: FloatArray, hit: FloatArray) -> tuple[float, FloatArray]:
    """Sum of hit log p + (1 - hit) log(1 - p), p = Phi(upper - eta) - Phi(lower - eta), and its slope in eta, (n,)."""
    from scipy.special import ndtr

    p = np.clip(ndtr(upper - eta) - ndtr(lower - eta), _LEAST, 1.0 - _LEAST)
    slope = _density(lower - eta) - _density(upper - eta)
    value = hit * np.log(p) + (1.0 - hit) * np.log1p(-p)
    return float(value.sum()), (hit / p - (1.0 - hit) / (1.0 - p)) * slope


def _density(z: FloatArray) -> FloatArray:
    return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)  # 0 at infinity
