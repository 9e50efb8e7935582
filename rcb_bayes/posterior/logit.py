"""The likelihood of 0/1 rewards, and the modes of posteriors under it."""

import numpy as np

from rcb_bayes.belief.law import Block
from rcb_bayes.posterior.coordinates import NormalScores
from rcb_bayes.posterior.data import Rows
from rcb_bayes.posterior.proposal import lifted
from rcb_bayes.schema import FloatArray

CHUNK_VALUES = 2_000_000  # numbers held at a time
_NEWTON_STEPS = 40
_HALVINGS = 12


def signed_design(data: Rows, arms: tuple[int, ...]) -> FloatArray:
    """The group's rows times the sign of their outcome, in the columns of their arm: (M, n of the group, p)."""
    d = data.x.shape[2]
    used = np.isin(data.arm, arms)
    first = np.argsort(~used, axis=1, kind="stable")[:, : int(used.sum(axis=1).max(initial=0))]  # the group's rows
    arm = np.take_along_axis(data.arm, first, axis=1)
    sign = 2.0 * np.take_along_axis(data.reward, first, axis=1) - 1.0
    signed = np.take_along_axis(data.x, first[..., None], axis=1) * sign[..., None]
    out = np.zeros((*first.shape, len(arms) * d))
    for k, label in enumerate(arms):
        out[..., k * d : (k + 1) * d] = np.where((arm == label)[..., None], signed, 0.0)
    return out


def log_likelihood(values: FloatArray, z: FloatArray) -> FloatArray:
    """Sum over rows of log logistic(z'b), (M, S); rows of padding would add the constant log 2, and add nothing."""
    used = (z != 0).any(axis=2)  # (M, n)
    out = np.zeros(values.shape[:2])
    step = max(1, CHUNK_VALUES // max(out.size, 1))
    for start in range(0, z.shape[1], step):
        rows = slice(start, start + step)
        eta = values @ z[:, rows].swapaxes(-1, -2)  # (M, S, rows)
        out -= (softplus(-eta) @ used[:, rows, None].astype(float))[..., 0]
    return out


def modes(block: Block, z: FloatArray, scores: NormalScores | None) -> tuple[FloatArray, FloatArray]:
    """Modes (M, C, p) of the log posterior under each component, and roots of the inverse curvature there.

    ``block`` lives in the coordinates of ``scores``, or in those of the coefficients where there are none.
    """
    found, roots = [], []
    for mean, covariance in zip(block.means, block.covariances, strict=True):
        precision = np.linalg.inv(lifted(covariance))
        mode = _newton(z, mean, precision, scores)
        rows, eta = _linearised(z, mode, scores)
        found.append(mode)
        roots.append(np.linalg.cholesky(lifted(np.linalg.inv(_curvature(rows, eta, precision)))))
    return np.stack(found, axis=1), np.stack(roots, axis=1)


def _newton(z: FloatArray, mean: FloatArray, precision: FloatArray, scores: NormalScores | None) -> FloatArray:
    """Newton's method (Gauss's, where b is a map of u) for all data sets at once; a step that falls is halved."""
    u = np.broadcast_to(mean, (len(z), len(mean))).copy()
    value = _objective(z, u, mean, precision, scores)
    settled = np.zeros(len(z), dtype=bool)  # and moved no more, so that no data set depends on the others
    for _ in range(_NEWTON_STEPS):
        rows, eta = _linearised(z, u, scores)
        gradient = (logistic(-eta)[:, None, :] @ rows)[:, 0] - (u - mean) @ precision
        step = np.linalg.solve(_curvature(rows, eta, precision), gradient[..., None])[..., 0]
        length = np.ones((len(z), 1))
        new = _objective(z, u + step, mean, precision, scores)
        for _ in range(_HALVINGS):
            worse = new < value - 1e-12
            if not worse.any():
                break
            length[worse] *= 0.5
            new = _objective(z, u + length * step, mean, precision, scores)
        length[settled | (new < value - 1e-12)] = 0.0
        u, value = u + length * step, np.where(length[:, 0] > 0, new, value)
        settled |= np.abs(gradient * length * step).sum(axis=1) < 1e-10
        if settled.all():
            break
    return u


def _linearised(z: FloatArray, u: FloatArray, scores: NormalScores | None) -> tuple[FloatArray, FloatArray]:
    """Rows (M, n, p) as seen from the coordinates u (M, p), and the linear predictors (M, n)."""
    if scores is None:
        return z, (z @ u[..., None])[..., 0]
    values, slopes = scores.values_and_slopes(u)
    return z * slopes[:, None], (z @ values[..., None])[..., 0]


def _objective(
    z: FloatArray, u: FloatArray, mean: FloatArray, precision: FloatArray, scores: NormalScores | None
) -> FloatArray:
    centred = u - mean
    values = u if scores is None else scores.values(u)
    fit = softplus(-(z @ values[..., None])[..., 0]).sum(axis=1)
    return -fit - 0.5 * np.einsum("mi,ij,mj->m", centred, precision, centred)


def _curvature(rows: FloatArray, eta: FloatArray, precision: FloatArray) -> FloatArray:
    share = logistic(eta)
    return (rows * (share * (1.0 - share))[..., None]).swapaxes(-1, -2) @ rows + precision


def logistic(eta: FloatArray) -> FloatArray:
    """1 / (1 + exp(-eta))."""
    return 0.5 * (1.0 + np.tanh(0.5 * eta))


def softplus(eta: FloatArray) -> FloatArray:
    """log(1 + exp(eta)), without overflow and faster than logaddexp."""
    return np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta)))
