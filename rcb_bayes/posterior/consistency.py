"""Whether sums can be those of samples: counts, symmetry, ranks and Cauchy's inequality."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.posterior.data import Statistics

_TOLERANCE = 1e-8
_RANK_TOLERANCE = 1e-6


def check_consistent(data: "Statistics") -> None:
    """Raise where sums cannot be those of samples."""
    if (data.n < 0).any() or (data.n != np.round(data.n)).any():
        raise DataError("n must hold whole numbers of samples, 0 or more.")
    if (data.yty < 0).any():
        raise DataError(f"y'y must hold sums of squares, 0 or more, got {data.yty.min():.3g}.")
    size = np.abs(data.xtx).max(axis=(2, 3), initial=0.0)
    gap = np.abs(data.xtx - data.xtx.swapaxes(2, 3)).max(axis=(2, 3), initial=0.0)
    if (gap > _TOLERANCE * size).any():
        raise DataError("X'X must be symmetric: pass sums of x x'.")
    empty = (data.n == 0) & (size + np.abs(data.xty).sum(axis=2) + data.yty > 0)
    if empty.any():
        m, k = (int(index) for index in np.argwhere(empty)[0])
        raise DataError(f"n says that data set {m} has no sample of arm {k}, but its sums are not zero.")
    if data.xty.size:
        _check_spectrum(data)


def _check_spectrum(data: "Statistics") -> None:
    """The moments of (x, y) as correlations: positive semi-definite, and those of x of a rank no higher than n."""
    d = data.xty.shape[-1]
    joint = np.empty((*data.n.shape, d + 1, d + 1))
    joint[..., :d, :d], joint[..., d, d] = data.xtx, data.yty
    joint[..., :d, d] = joint[..., d, :d] = data.xty
    scale = np.sqrt(np.maximum(np.diagonal(joint, axis1=2, axis2=3), 0.0))
    scale = np.maximum(scale, 1e-7 * scale.max(axis=-1, keepdims=True))  # below is rounding
    scale = np.where(scale > 0, scale, 1.0)
    joint /= scale[..., :, None] * scale[..., None, :]
    if not _is_semi_definite(joint):
        if not _is_semi_definite(joint[..., :d, :d]):
            smallest = np.linalg.eigvalsh(data.xtx)[..., 0].min()
            raise DataError(f"X'X must be positive semi-definite, got an eigenvalue of {smallest:.3g}.")
        raise DataError("X'y is larger than X'X and y'y allow: the sums are not of the same samples.")
    few = data.n < d
    rank = (np.linalg.eigvalsh(joint[few][:, :d, :d]) > _RANK_TOLERANCE).sum(axis=-1)
    if (rank > data.n[few]).any():
        where = int(np.argmax(rank > data.n[few]))
        m, k = (int(index) for index in np.argwhere(few)[where])
        raise DataError(
            f"n says that data set {m} has {data.n[m, k]:.0f} sample(s) of arm {k}, "
            f"but its X'X has rank {rank[where]}. Count every sample in n."
        )


def _is_semi_definite(matrices: FloatArray) -> bool:
    """Whether no eigenvalue of any correlation matrix (..., p, p) lies below zero by more than rounding."""
    try:
        np.linalg.cholesky(matrices + _TOLERANCE * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError:
        return False
    return True
