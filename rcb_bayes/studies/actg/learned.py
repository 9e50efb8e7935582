r"""A belief from data: fitted to one part of the trial, for the patients of another.

.. math:: y = x'\beta_a + noise, \quad noise \sim N(0, \sigma^2), \quad \beta_a \sim N(0, \tau^2 I)

with :math:`\sigma` the residual deviation within arms and :math:`\tau = 1`, a hundred cells for a standard deviation of
a feature. A past patient counts for a share :math:`\alpha` of one (a power prior), for the past is not the present:

.. math:: C_a = (\alpha X_a'X_a/\sigma^2 + I/\tau^2)^{-1}, \qquad \beta_a \sim N(\alpha C_a X_a'y_a/\sigma^2, C_a).
"""

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.schema import is_number
from rcb_bayes.studies.actg.trial import ARMS, Trial

_TAU = 1.0


def learned_market(past: Trial, coming: Trial, *, discount: float = 0.1) -> Market:
    """The belief fitted to past patients, as a PyMC model, with patients to come.

    Parameters
    ----------
    discount : alpha, what a past patient counts for; above 0, at most 1

    Raises
    ------
    RcbError
        A discount out of range, parts of different trials.
    DataError
        An arm with fewer patients than features.

    Applicability
    -------------
    Arms come out independent, as the trial drew them. Patients to come must be others than the past ones.
    """
    import pymc as pm

    if not (is_number(discount) and 0 < discount <= 1):
        raise RcbError(f"discount must be above 0 and at most 1, got {discount!r}.")
    if past.names != coming.names or past.outcome != coming.outcome:
        raise RcbError("The two parts must have the same features and outcome: take both from one trial.")
    d = len(past.names)
    mean, covariance = np.empty((len(ARMS), d)), np.empty((len(ARMS), d, d))
    sigma = _residual(past)
    for k in range(len(ARMS)):
        x, y = past.features[past.arm == k], past.reward[past.arm == k]
        covariance[k] = np.linalg.inv(discount * x.T @ x / sigma**2 + np.eye(d) / _TAU**2)
        mean[k] = discount * covariance[k] @ (x.T @ y) / sigma**2
    with pm.Model(coords={"arm": list(ARMS), "feature": list(past.names)}) as model:
        pm.MvNormal("beta", mean, cov=covariance, dims=("arm", "feature"))
    prior = Prior.from_pymc(model, name="actg_learned")
    return Market(prior=prior, covariates=coming.users, noise=GaussianNoise(sigma))


def _residual(trial: Trial) -> float:
    """The deviation around a regression of each arm, pooled."""
    total, freedom = 0.0, 0
    for k, label in enumerate(ARMS):
        x, y = trial.features[trial.arm == k], trial.reward[trial.arm == k]
        if len(x) <= x.shape[1]:
            raise DataError(
                f"{label} has {len(x)} patients for {x.shape[1]} features. Take a larger part of the trial."
            )
        fitted = x @ np.linalg.lstsq(x, y, rcond=None)[0]
        total, freedom = total + float(((y - fitted) ** 2).sum()), freedom + len(x) - x.shape[1]
    return float(np.sqrt(total / freedom))
