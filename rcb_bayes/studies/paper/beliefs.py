"""Beliefs of other families with the same means and variances, so that only their shape differs."""

import numpy as np

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import FloatArray, suggestion

FAMILIES = ("gaussian", "student_t", "mixture", "skewed")
_NU = 5.0
_SPLIT = 0.8  # of the standard deviation lies between the camps of a mixture, on either side
_SLANT = 5.0


def matched_belief(family: str, mean: FloatArray, variance: float) -> Prior:
    """A belief with these means (K, d) and one variance, of another family.

    "student_t" has 5 degrees of freedom; "mixture" has two camps .8 standard deviations above and below the mean, one
    label per arm; "skewed" is skew-normal with slant 5, its long tail to the right.

    Raises
    ------
    RcbError
        An unknown family.
    """
    k, d = mean.shape
    sd = float(np.sqrt(variance))
    shape = {"n_arms": k, "n_features": d}
    if family == "gaussian":
        return Prior.gaussian(mean, variance)
    if family == "student_t":
        return load_prior("student_t", **shape, mean=mean, scale=sd * ((_NU - 2) / _NU) ** 0.5, nu=_NU)
    if family == "mixture":
        camps = (mean + _SPLIT * sd, mean - _SPLIT * sd)
        within = sd * (1.0 - _SPLIT**2) ** 0.5
        return load_prior("mixture", **shape, means=camps, scales=(within, within))
    if family == "skewed":
        return _skewed(mean, sd)
    raise RcbError(f"There is no family '{family}'.{suggestion(family, FAMILIES)} Use one of {', '.join(FAMILIES)}.")


def _skewed(mean: FloatArray, sd: float) -> Prior:
    import pymc as pm

    from rcb_bayes.authoring import labelled_coords

    delta = _SLANT / np.sqrt(1.0 + _SLANT**2)
    scale = sd / np.sqrt(1.0 - 2.0 * delta**2 / np.pi)
    location = mean - scale * delta * np.sqrt(2.0 / np.pi)
    with pm.Model(coords=labelled_coords(*mean.shape)) as model:
        pm.SkewNormal("beta", mu=location, sigma=scale, alpha=_SLANT, dims=("arm", "feature"))
    return Prior.from_pymc(model, name="skewed")
