"""Gaussian beliefs in closed form: covariances as people give them, and the same belief as a PyMC model."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief.law import Block, joint_covariance, square_root
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import ARM, FEATURE, FloatArray

if TYPE_CHECKING:
    import pymc as pm

    from rcb_bayes.belief.prior import Prior


def as_tiles(cov: FloatArray, *, n_arms: int, d: int) -> FloatArray | None:
    """The covariance of every arm by itself, (K, d, d), where arms are told one by one; None of a joint covariance.

    Raises
    ------
    BeliefError
        Another shape; what is no covariance.
    """
    size = n_arms * d
    if cov.ndim == 0:
        tiles = np.broadcast_to(cov * np.eye(d), (n_arms, d, d))
    elif cov.shape == (n_arms,):
        tiles = cov[:, None, None] * np.eye(d)
    elif cov.shape == (d, d):
        tiles = np.broadcast_to(cov, (n_arms, d, d))
    elif cov.shape == (n_arms, d, d):
        tiles = cov
    elif cov.shape == (size, size):
        return None
    else:
        raise BeliefError(
            f"cov must be a variance, ({n_arms},), ({d}, {d}), ({n_arms}, {d}, {d}) or ({size}, {size}), "
            f"got shape {cov.shape}."
        )
    _check_covariance(tiles)
    return tiles


def as_joint(cov: FloatArray, *, n_arms: int, d: int) -> FloatArray:
    """Any accepted form of a covariance as the joint one, (K d, K d)."""
    tiles = as_tiles(cov, n_arms=n_arms, d=d)
    if tiles is not None:
        return joint_covariance(list(tiles))
    _check_covariance(cov[None])
    return cov


def _check_covariance(tiles: FloatArray) -> None:
    """Refuse matrices (n, p, p) that are no covariances."""
    if not np.allclose(tiles, tiles.swapaxes(1, 2), rtol=1e-10, atol=1e-12):
        raise BeliefError("cov must be symmetric; (cov + cov.T) / 2 makes it so.")
    values = np.linalg.eigvalsh(tiles)
    if values.min() < -1e-10 * max(values.max(), 1e-300):
        raise BeliefError(
            f"cov must be positive semi-definite, got a smallest eigenvalue of {values.min():.3g}. "
            "Pass variances (not standard deviations with signs) or a valid covariance."
        )


def as_pymc(prior: "Prior") -> "pm.Model":
    """A belief in closed form as a PyMC model: standard normals times a root, so that it may be singular.

    A mixture has a label for each block of arms, which says whose root it is.
    """
    import pymc as pm
    import pytensor.tensor as pt

    law = prior.law
    assert law is not None  # a belief has a source or a law
    with pm.Model(coords={ARM: list(prior.arms), FEATURE: list(prior.features)}) as model:
        if law.is_gaussian:
            beta: Any = _normal("z", law.mean().reshape(-1), square_root(law.covariance()))
        else:
            flat: list[Any] = [None] * (prior.n_arms * prior.n_features)
            for number, block in enumerate(law.blocks):
                part: Any = _normal_mixture(number, block)
                for place, index in enumerate(law.flat_index(block)):
                    flat[index] = part[place]
            beta = pt.stack(flat)
        pm.Deterministic("beta", beta.reshape((prior.n_arms, prior.n_features)), dims=(ARM, FEATURE))
    return model


def _normal(name: str, mean: FloatArray, root: FloatArray) -> Any:
    import pymc as pm

    normal: Any = pm.Normal(name, 0.0, 1.0, shape=len(root))
    return mean + (root * normal).sum(axis=1)


def _normal_mixture(number: int, block: Block) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    if block.n_components == 1:
        return _normal(f"z_{number}", block.means[0], square_root(block.covariances[0]))
    label: Any = pm.Categorical(f"label_{number}", p=block.weights)
    normal: Any = pm.Normal(f"z_{number}", 0.0, 1.0, shape=block.means.shape[1])
    roots = pt.constant(np.stack([square_root(covariance) for covariance in block.covariances]))
    return pt.constant(block.means)[label] + (roots[label] * normal).sum(axis=1)
