r"""Weighted draws under 0/1 rewards, for beliefs that are Gaussian, or Gaussian given one scale.

A Gaussian factor takes the place of the likelihood (``rcb_bayes.posterior.sites``). Draws come from the exact posterior
under it, the scale from its grid, and are weighted by likelihood over factor: the belief cancels, and so does the
scale. In proposals the factor is a little flatter than it was found, so that weights stay bounded where it matters.

All is done in coordinates u with :math:`b_k = m_k + Tu_k`, in which an arm's coefficients have unit variances under
the belief: ages in years and standardised ages are the same to it.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.posterior.data import Rows, Tallies
from rcb_bayes.posterior.logit import logistic
from rcb_bayes.posterior.proposal import lifted
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.belief import Prior

_EVERY = 3  # of the values of a scale; sums over these are still integrals
_ALIKE = 0.01  # of the prior variance: values of a scale that differ by less are one
_NODES = 32  # of Gauss-Hermite rules
_CHUNK_VALUES = 400_000  # predictors at a time: they stay in a core's own cache


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Trials ``n`` and successes ``s`` (M, K, C) of users with standardised rows ``x`` (M or 1, K or 1, C, d) and
    predictors ``offset`` (M or 1, K, C) at u = 0."""

    x: FloatArray
    offset: FloatArray
    n: FloatArray
    s: FloatArray


class Standardised:
    """A group of arms in coordinates in which each of its coefficients has unit variance."""

    def __init__(self, block: Block, *, n_features: int) -> None:
        self.arms, d = block.arms, n_features
        k = len(self.arms)
        self.centre = block.means[0].reshape(k, d)
        joint = np.tensordot(block.weights, block.covariances, axes=1)
        own = joint.reshape(k, d, k, d)[range(k), :, range(k)]
        scale = np.sqrt(np.maximum(np.diagonal(own, axis1=1, axis2=2).mean(axis=0), np.finfo(float).tiny))
        correlation = own.mean(axis=0) / (scale[:, None] * scale)
        self.map = scale[:, None] * np.linalg.cholesky(lifted(correlation))  # T
        back = np.kron(np.eye(k), np.linalg.inv(self.map))
        weights, covariances = _fewer(block.weights, back @ block.covariances @ back.T)
        self.typical = np.linalg.inv(lifted(np.tensordot(weights, covariances, axes=1)))
        self.precisions = np.linalg.inv(covariances)
        with np.errstate(divide="ignore"):
            self.log_weight = np.log(weights) + 0.5 * np.linalg.slogdet(self.precisions)[1]

    def values(self, u: FloatArray) -> FloatArray:
        """Coefficients (..., K d) at u."""
        shaped = u.reshape(*u.shape[:-1], *self.centre.shape)
        return (self.centre + shaped @ self.map.T).reshape(u.shape)

    def rows(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Users (..., d) in these coordinates, and their predictors at u = 0, (K, ...)."""
        return x @ self.map, np.moveaxis(x @ self.centre.T, -1, 0)

    def prior_rewards(self, x: FloatArray, offset: FloatArray) -> FloatArray:
        """E[logistic(x'b)] before any data, of users in these coordinates (..., U, d): (..., U, K)."""
        nodes, shares = np.polynomial.hermite_e.hermegauss(_NODES)
        k, d = self.centre.shape
        covariances = np.linalg.inv(self.precisions).reshape(-1, k, d, k, d)
        weights = np.exp(self.log_weight - 0.5 * np.linalg.slogdet(self.precisions)[1])
        out = np.zeros((*x.shape[:-1], k))
        for share, joint in zip(weights, covariances, strict=True):
            for arm in range(k):
                sd = np.sqrt(np.maximum(((x @ joint[arm, :, arm]) * x).sum(axis=-1), 0.0))
                eta = offset[arm][..., None] + sd[..., None] * nodes
                out[..., arm] += share * (logistic(eta) @ (shares / shares.sum()))
        return out

    def cells(self, data: Rows | Tallies) -> Cells:
        """The samples of the group."""
        if isinstance(data, Tallies):
            x, offset = self.rows(data.users)
            arms = list(self.arms)
            seen = data.trials[:, arms].any(axis=(0, 1))  # users who never came cost as much as those who did
            n, s = (np.ascontiguousarray(part[:, arms][..., seen]) for part in (data.trials, data.successes))
            return Cells(np.ascontiguousarray(x[None, None, seen]), np.ascontiguousarray(offset[None][..., seen]), n, s)
        own = data.of_each(self.arms)
        x = own.x @ self.map
        offset = np.einsum("mkcd,kd->mkc", own.x, self.centre)
        return Cells(x, offset, own.n, own.s)


class SiteSampler:
    """Weighted draws of every group of arms of a belief.

    Attributes
    ----------
    groups : the groups in their own coordinates
    """

    def __init__(self, law: GaussianLaw) -> None:
        self.groups = [Standardised(block, n_features=law.n_features) for block in law.blocks]

    @classmethod
    def of(cls, prior: "Prior") -> "SiteSampler | None":
        """The sampler of a belief that is Gaussian, or is given one scale; None of others."""
        given = None if prior.law is not None else prior.conditional_grid
        if prior.law is None and (given is None or given.sigma is not None):
            return None
        law = prior.law if given is None else given.law
        assert law is not None  # one of the two
        same = all((block.means == block.means[0]).all() for block in law.blocks)
        # One scale for several independent groups would have to be the same one in all of them.
        if not same or (given is None and not law.is_gaussian) or (given is not None and len(law.blocks) > 1):
            return None
        try:
            return cls(law)
        except np.linalg.LinAlgError:  # a coefficient that is known for certain
            return None

    def draw(
        self, cells: Cells, group: Standardised, *, n_draws: int, kept: float, again: bool, seed: tuple[int, ...]
    ) -> tuple[FloatArray, FloatArray]:
        """Draws u (M, S, p) of a group and their log weights (M, S); data sets share the points they are made of."""
        from rcb_bayes.posterior.sites import approximate  # brings Numba

        labels, base = _base(n_draws, len(group.typical), seed=seed)
        n_sets = len(cells.n)
        u, against = np.empty((n_sets, n_draws, base.shape[1])), np.empty((n_sets, n_draws))
        settled = np.empty(n_sets, dtype=bool)
        run: Any = approximate
        run(
            cells.x,
            cells.offset,
            cells.n,
            cells.s,
            group.typical,
            group.precisions,
            group.log_weight,
            kept,
            again,
            base,
            labels,
            u,
            against,
            settled,
        )
        return u, _softplus_sums(u, cells) - against


def _softplus_sums(u: FloatArray, cells: Cells) -> FloatArray:
    """Less the sum over cells of n log(1 + exp(eta)), (M, S); predictors in single precision."""
    n_sets, n_draws, _ = u.shape
    n_arms, n_cells, d = cells.n.shape[1], cells.n.shape[2], cells.x.shape[3]
    out = np.zeros((n_sets, n_draws))
    short: Any = np.float32
    for arm in range(n_arms):
        if not cells.n[:, arm].any():
            continue
        x: Any = cells.x[:, arm if cells.x.shape[1] > 1 else 0].astype(short).swapaxes(1, 2)  # (M or 1, d, C)
        offset: Any = cells.offset[:, arm, None].astype(short)
        n: Any = cells.n[:, arm, :, None].astype(short)
        step = max(1, _CHUNK_VALUES // (n_draws * max(n_cells, 1)))
        for start in range(0, n_sets, step):
            some = slice(start, start + step)
            of_some = some if len(x) > 1 else slice(None)
            eta = u[some, :, arm * d : (arm + 1) * d].astype(short) @ x[of_some]
            eta += offset[some if len(offset) > 1 else slice(None)]
            soft = np.abs(eta)
            np.negative(soft, out=soft)
            np.exp(soft, out=soft)
            soft += short(1.0)
            np.log(soft, out=soft)
            np.maximum(eta, short(0.0), out=eta)
            soft += eta
            out[some] -= (soft @ n[some])[..., 0]
    return out


def _fewer(weights: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Every third value of a scale, and neighbours among them that hardly differ as one."""
    if len(weights) > _EVERY:
        weights, covariances = weights[::_EVERY], covariances[::_EVERY]
    shares, sums, first = [weights[0]], [weights[0] * covariances[0]], covariances[0]
    for weight, covariance in zip(weights[1:], covariances[1:], strict=True):
        if np.abs(covariance - first).max() < _ALIKE:
            shares[-1] += weight
            sums[-1] = sums[-1] + weight * covariance
        else:
            shares.append(weight)
            sums.append(weight * covariance)
            first = covariance
    kept = np.array(shares) > 0
    found = np.array([total / share for total, share in zip(sums, shares, strict=True) if share > 0])
    return np.array(shares)[kept] / np.sum(shares), found


@cache
def _base(n_draws: int, p: int, *, seed: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Scrambled Sobol points in two independent halves: uniform labels (S,), standard normals (S, p)."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    halves = []
    for half in range(2):
        rng = np.random.default_rng((*seed, half))
        # Every fourth or eighth of them in their own order, as resampling takes them, would lie in one corner.
        halves.append(rng.permutation(qmc.Sobol(p + 1, rng=rng).random(n_draws // 2)))
    points = np.clip(np.concatenate(halves), 1e-12, 1 - 1e-12)
    return points[:, 0].copy(), ndtri(points[:, 1:])
