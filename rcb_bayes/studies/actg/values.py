r"""Values of fixed policies from a randomised trial, and what their intervals are about.

The trial is a log with known propensities, so that ``evaluate`` gives every policy an unbiased value. Its interval is
for the mean over **patients to come**: n patients drawn from a large population have the variance :math:`S^2/n`.

Seen from the trial itself, a random half is another kind of sample: n of N patients without return, and the value in
question that of **these N**. With :math:`z_i` the term of patient i (:math:`w_i y_i` for IPS),

.. math:: E(\bar z_n - \bar z_N)^2 = \left(1 - \frac{n}{N}\right) \frac{S^2}{n},
    \qquad S^2 = \frac{1}{N - 1} \sum_i (z_i - \bar z_N)^2 ,

the finite-population correction (Cochran, "Sampling Techniques", 1977, section 2.6): with a half the error is
:math:`\sqrt{1/2}` of that for patients to come. Without it the interval would cover the full sample's value in 99.4 %
of halves, not in 95 %: :math:`\Pr(|Z| < 1.96 \sqrt 2)`. ``about_trial`` makes the correction, and nothing else does.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.evaluation import evaluate
from rcb_bayes.market import Market
from rcb_bayes.schema import DEFAULT_SEED
from rcb_bayes.studies.actg.trial import Trial

if TYPE_CHECKING:
    import xarray as xr

FIXED_LOG = ("ips", "snips", "dr")
"""Estimators whose intervals hold in a log with fixed propensities, as a trial's are."""


def trial_values(
    trial: Trial, policy: Any, market: Market, *, level: float = 0.05, seed: int = DEFAULT_SEED
) -> "xr.Dataset":
    """The value of a fixed policy for patients to come, by ``evaluate``: dim ``estimator``, "ips", "snips", "dr"."""
    return evaluate(trial.log(), policy, market, estimators=FIXED_LOG, level=level, seed=seed)


def about_trial(values: "xr.Dataset", *, n: int, n_all: int) -> "xr.Dataset":
    """The same with intervals for the value over all N patients of a trial, of whom these n are a random part.

    Raises
    ------
    RcbError
        A part that is larger than the whole.
    """
    if not 1 <= n <= n_all:
        raise RcbError(f"A part has 1 to {n_all} of the trial's patients, got {n}.")
    shrunk = np.sqrt(1.0 - n / n_all)
    error = values["mcse"] * shrunk
    ends = {name: values["value"] + shrunk * (values[name] - values["value"]) for name in ("lower", "upper")}
    found = values.assign(mcse=error, **ends)
    return found.assign_attrs(values.attrs | {"about": f"the value over all {n_all} patients of the trial"})
