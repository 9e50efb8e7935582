r"""A belief shifted and scaled: its deviations from the mean stretched, its mean moved.

With m the mean of a belief and c drawn from it,

.. math:: b = m + s (c - m) + \delta

has the mean :math:`m + \delta` and s times the standard deviations, whatever the family. A closed form stays one. Any
other belief keeps its PyMC model and its compiled functions: draws and densities are transformed, and an engine of the
belief itself answers for data that are transformed (``posterior.moving``), so that many amounts cost one compilation.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.belief.prior import Prior
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import FloatArray, is_number

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr


def moved(prior: Prior, *, shift: ArrayLike = 0.0, scale: float = 1.0) -> Prior:
    """The belief with its mean moved by ``shift``, (K, d) or what broadcasts, and ``scale`` times its deviations.

    Raises
    ------
    BeliefError
        A shift that is not finite or of another shape, a scale that is not a positive number.

    Examples
    --------
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25)
    >>> fonder = moved(prior, shift=[[0.1, 0.0], [0.0, 0.0]], scale=2.0)
    >>> fonder.mean.values[0], fonder.covariance.values[0, 0, 0, 0]
    (array([0.6, 0.2]), np.float64(1.0))
    """
    if not (is_number(scale) and scale > 0):
        raise BeliefError(f"scale must be a positive number, got {scale!r}.")
    shape = prior.n_arms, prior.n_features
    try:
        by = np.broadcast_to(np.asarray(shift, dtype=float), shape).copy()
    except ValueError as error:
        raise BeliefError(f"shift must have shape {shape}, or be a number, got {np.shape(shift)}.") from error
    if not np.isfinite(by).all():
        raise BeliefError("shift must be finite.")
    if prior.law is not None and not prior.has_sigma:
        return Prior(
            arms=prior.arms,
            features=prior.features,
            groups=prior.groups,
            law=_moved_law(prior.law, by, float(scale)),
            source=None,
            name=prior.name,
            feature_map=prior.feature_map,
            fit=prior.fit,
        )
    return MovedPrior(prior, shift=by, scale=float(scale))


class MovedPrior(Prior):
    """A belief without a closed form, shifted and scaled.

    Attributes
    ----------
    base : the belief that was moved
    shift : delta, (K, d)
    scale : s
    """

    def __init__(self, base: Prior, *, shift: FloatArray, scale: float) -> None:
        super().__init__(
            arms=base.arms,
            features=base.features,
            groups=base.groups,
            law=None,
            source=base._source,  # what is not overridden below does not depend on where the belief lies
            name=base.name,
            feature_map=base.feature_map,
            fit=base.fit,
        )
        self.base, self.shift, self.scale = base, shift, scale

    def __reduce__(self) -> tuple[Any, ...]:
        """The belief, and how it was moved."""
        return _again, (self.base, self.shift, self.scale)

    def moved(self, beta: FloatArray) -> FloatArray:
        """b of c, (..., K, d)."""
        mean = self.base.mean.values
        return mean + self.scale * (beta - mean) + self.shift

    def draw_arrays(self, n: int, *, rng: np.random.Generator) -> tuple[FloatArray, FloatArray | None]:
        """The draws of the belief itself, moved."""
        beta, sigma = self.base.draw_arrays(n, rng=rng)
        return self.moved(beta), sigma

    def group_log_density(self, beta: FloatArray) -> FloatArray:
        """Log density of each independent group of arms, (n, K, d) -> (n, n_groups)."""
        mean = self.base.mean.values
        inner = self.base.group_log_density(mean + (beta - self.shift - mean) / self.scale)
        sizes = np.array([len(group) for group in self.groups]) * self.n_features
        return inner - sizes * np.log(self.scale)

    @cached_property
    def moments(self) -> "xr.Dataset":
        """Those of the belief itself, moved; see ``Prior.moments``."""
        own = self.base.moments
        spread = {name: self.scale**2 * own[name] for name in ("covariance", "covariance_mcse")}
        return own.assign({"mean": own["mean"] + self.shift, **spread})

    # What reads the model's graph would see the belief where it was.

    @property
    def is_conditionally_gaussian(self) -> bool:
        """Not as far as anybody is told: engines ask the belief itself."""
        return False

    @property
    def conditional_grid(self) -> None:
        """None: engines ask the belief itself."""
        return None

    @property
    def conditional_lattices(self) -> None:
        """None: engines ask the belief itself."""
        return None

    @property
    def scale_mixture(self) -> None:
        """None: engines ask the belief itself."""
        return None

    @property
    def noise_line(self) -> None:
        """None: engines ask the belief itself."""
        return None

    @property
    def model(self) -> "pm.Model":  # pyright: ignore[reportIncompatibleVariableOverride]
        """There is none.

        Raises
        ------
        BeliefError
            Always.
        """
        raise BeliefError(f"The belief '{self.name}' was moved and has no model of its own: ask for that of its base.")


def _again(base: Prior, shift: FloatArray, scale: float) -> MovedPrior:
    return MovedPrior(base, shift=shift, scale=scale)


def _moved_law(law: GaussianLaw, shift: FloatArray, scale: float) -> GaussianLaw:
    mean = law.mean()
    blocks = []
    for block in law.blocks:
        centre, by = (part[list(block.arms)].reshape(-1) for part in (mean, shift))
        # c itself where the scale is 1: arms that are alike to the last digit stay so
        means = block.means + by if scale == 1.0 else centre + scale * (block.means - centre) + by
        blocks.append(
            Block(
                arms=block.arms,
                weights=block.weights,
                means=means,
                covariances=scale**2 * block.covariances,
            )
        )
    return GaussianLaw(n_arms=law.n_arms, n_features=law.n_features, blocks=tuple(blocks))
