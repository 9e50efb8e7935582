"""Beliefs of other families with the same means and variances, so that only their shape differs."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.belief.files import load_prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.belief.prior import Prior
from rcb_bayes.schema import FloatArray, as_labels, no_such

FAMILIES = ("gaussian", "student_t", "mixture", "skewed")
"""Those that studies of a belief's shape go through."""
MATCHED = (*FAMILIES, "laplace")
_NU = 5.0
_SPLIT = 0.8  # of the standard deviation lies between the camps of a mixture, on either side
_SLANT = 5.0


def matched_belief(
    family: str,
    mean: FloatArray,
    variance: ArrayLike,
    *,
    arms: Iterable[object] | None = None,
    features: Iterable[object] | None = None,
) -> Prior:
    """A belief with these means (K, d) and variances, (K, d) or one for all, of another family.

    Coefficients are uncorrelated. "student_t" has 5 degrees of freedom; "laplace" is double exponential; "mixture" has
    two camps .8 standard deviations above and below the mean, one label per arm; "skewed" is skew-normal with slant 5,
    its long tail to the right.

    Raises
    ------
    RcbError
        An unknown family.
    """
    k, d = mean.shape
    sd = np.sqrt(np.broadcast_to(np.asarray(variance, dtype=float), (k, d)))
    labels: dict[str, Any] = {"arms": as_labels(arms, dim="arm", size=k)}
    labels["features"] = as_labels(features, dim="feature", size=d)
    if family == "gaussian":
        return Prior.gaussian(mean, np.array([np.diag(each**2) for each in sd]), **labels)
    if family == "student_t":
        return student_belief(mean, sd, nu=_NU, **labels)
    if family == "mixture":
        return _mixture(mean, sd, **labels)
    if family == "skewed":
        return _skewed(mean, sd, **labels)
    if family == "laplace":
        shape: dict[str, Any] = {"n_arms": k, "n_features": d, **labels}
        return load_prior("laplace", **shape, mean=mean, scale=sd / np.sqrt(2.0))
    raise no_such("family", family, MATCHED)


def student_belief(
    mean: FloatArray, sd: FloatArray, *, nu: float, arms: Iterable[object], features: Iterable[object]
) -> Prior:
    """Independent Student-t coefficients with these means and standard deviations, each (K, d); nu is above 2.

    They are drawn as quantiles of normal numbers, so that with the same random numbers they change smoothly with nu.
    """
    return StudentPrior(mean, sd, nu=nu, arms=tuple(map(str, arms)), features=tuple(map(str, features)))


class StudentPrior(Prior):
    """The gallery's Student-t belief, drawn by quantiles."""

    def __init__(
        self, mean: FloatArray, sd: FloatArray, *, nu: float, arms: tuple[str, ...], features: tuple[str, ...]
    ) -> None:
        scale = sd * np.sqrt((nu - 2.0) / nu)
        shape: dict[str, Any] = {"n_arms": len(arms), "n_features": len(features), "arms": arms, "features": features}
        read = load_prior("student_t", **shape, mean=mean, scale=scale, nu=nu)
        super().__init__(
            arms=arms, features=features, groups=read.groups, law=None, source=read._source, name="student_t"
        )
        self._given, self._words = read._given, read._words
        self._parts = (mean, scale, nu)
        self._made_of = (mean, sd, nu, arms, features)

    def __reduce__(self) -> tuple[Any, ...]:
        """What it was made of."""
        return _student_again, self._made_of

    def draw_arrays(self, n: int, *, rng: np.random.Generator) -> tuple[FloatArray, FloatArray | None]:
        """Draws of beta (n, K, d), and no sigma."""
        from scipy.special import ndtr, stdtrit

        mean, scale, nu = self._parts
        normal = rng.standard_normal((n, *mean.shape))
        tail = stdtrit(nu, ndtr(-np.abs(normal)))  # the lower half, whose quantiles keep their digits
        return mean - np.sign(normal) * scale * tail, None


def _student_again(
    mean: FloatArray, sd: FloatArray, nu: float, arms: tuple[str, ...], features: tuple[str, ...]
) -> StudentPrior:
    return StudentPrior(mean, sd, nu=nu, arms=arms, features=features)


def _mixture(mean: FloatArray, sd: FloatArray, *, arms: tuple[str, ...], features: tuple[str, ...]) -> Prior:
    blocks = tuple(
        Block(
            arms=(arm,),
            weights=np.array([0.5, 0.5]),
            means=np.array([own + _SPLIT * spread, own - _SPLIT * spread]),
            covariances=np.array([np.diag((1.0 - _SPLIT**2) * spread**2)] * 2),
        )
        for arm, (own, spread) in enumerate(zip(mean, sd, strict=True))
    )
    return Prior(
        arms=arms,
        features=features,
        groups=tuple(block.arms for block in blocks),
        law=GaussianLaw(n_arms=len(arms), n_features=len(features), blocks=blocks),
        source=None,
        name="mixture",
    )


def _skewed(mean: FloatArray, sd: FloatArray, *, arms: tuple[str, ...], features: tuple[str, ...]) -> Prior:
    import pymc as pm

    from rcb_bayes.authoring import labelled_coords

    delta = _SLANT / np.sqrt(1.0 + _SLANT**2)
    scale = sd / np.sqrt(1.0 - 2.0 * delta**2 / np.pi)
    location = mean - scale * delta * np.sqrt(2.0 / np.pi)
    with pm.Model(coords=labelled_coords(*mean.shape, arms=arms, features=features)) as model:
        pm.SkewNormal("beta", mu=location, sigma=scale, alpha=_SLANT, dims=("arm", "feature"))
    return Prior.from_pymc(model, name="skewed")
