r"""Mixtures of multivariate Student-t's to propose from, drawn by Sobol points and fitted anew to weighted draws.

Each of C components has three kinds: tails of eight and of three degrees of freedom around its centre, and the
component of the belief itself with tails of eight. The last bounds the weights: a likelihood of 0/1 rewards is at most
one, so that the posterior is nowhere more than the belief over the evidence.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from rcb_bayes.belief.law import Block
from rcb_bayes.posterior.proposal import lifted
from rcb_bayes.schema import FloatArray

_SHARES = np.array([0.6, 0.25, 0.15])
_LOCAL = 2  # kinds around the centre come first
_DEGREES = np.array([8.0, 3.0, 8.0])


@dataclass(frozen=True, slots=True, eq=False)
class StudentMixture:
    """Proposals for M data sets: ``centre`` (M, C, p) and triangular ``root`` (M, C, p, p), and the belief's own
    components, the same for all data sets, ``belief_centre`` (C, p) and ``belief_root`` (C, p, p)."""

    centre: FloatArray
    root: FloatArray
    belief_centre: FloatArray
    belief_root: FloatArray

    @classmethod
    def around(cls, centre: FloatArray, root: FloatArray, block: Block) -> "StudentMixture":
        """Around given centres, beside the components of a block."""
        return cls(centre, root, block.means, np.linalg.cholesky(lifted(block.covariances)))

    def take(self, index: np.ndarray | slice) -> "StudentMixture":
        """The proposals of some data sets."""
        return replace(self, centre=self.centre[index], root=self.root[index])

    def draw(self, n_draws: int, *, seed: tuple[int, ...]) -> FloatArray:
        """Draws (M, S, p) in two independent halves; data sets share the points they are made of."""
        n_components, p = self.belief_centre.shape
        halves = [student_base(n_draws // 2, p, n_components=n_components, seed=(*seed, half)) for half in range(2)]
        component, kind, base = (np.concatenate(part) for part in zip(*halves, strict=True))
        out = np.empty((len(self.centre), n_draws, p))
        for c in range(n_components):
            near, far = ((component == c) & of_kind for of_kind in (kind < _LOCAL, kind >= _LOCAL))
            out[:, near] = self.centre[:, c, None] + base[near] @ self.root[:, c].swapaxes(-1, -2)
            out[:, far] = self.belief_centre[c] + base[far] @ self.belief_root[c].T
        return out

    def log_densities(self, values: FloatArray) -> FloatArray:
        """Log density of every component with its share at values (M, S, p), constants dropped: (C, M, S)."""
        n_components, p = self.belief_centre.shape
        inverse, own = np.linalg.inv(self.root), np.linalg.inv(self.belief_root)
        out = np.empty((n_components, *values.shape[:2]))
        for c in range(n_components):
            near = _squares((values - self.centre[:, c, None]) @ inverse[:, c].swapaxes(-1, -2))
            far = _squares((values - self.belief_centre[c]) @ own[c].T)
            local = _log_student(near, p, slice(None, _LOCAL)) - _log_det(self.root[:, c])[:, None]
            out[c] = np.logaddexp(local, _log_student(far, p, slice(_LOCAL, None)) - _log_det(self.belief_root[c]))
        return out

    def fitted(self, values: FloatArray, log_weight: FloatArray, log_q: FloatArray) -> "StudentMixture":
        """Centres and roots by the weighted moments of draws (M, S, p), each component by its share of each draw.

        Weights are cut at sqrt(S) times their mean, so that no draw makes a proposal of its own, and few draws are
        filled up with the covariance that there was (Cappe et al. 2008; Ionides 2008).
        """
        p, n_draws = values.shape[2], values.shape[1]
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        weight = np.minimum(weight, weight.mean(axis=1, keepdims=True) * np.sqrt(n_draws))
        centre, root = self.centre.copy(), self.root.copy()
        total = np.logaddexp.reduce(log_q, axis=0)
        for c in range(len(log_q)):
            own = weight * np.exp(log_q[c] - total)
            mass = own.sum(axis=1)
            seen = np.flatnonzero(mass > 1e-3 * weight.sum(axis=1))
            own = own[seen] / mass[seen, None]
            mean = (own[:, None] @ values[seen])[:, 0]
            centred = values[seen] - mean[:, None]
            covariance = (own[..., None] * centred).swapaxes(1, 2) @ centred
            size = 1.0 / (own**2).sum(axis=1)
            trust = (size / (size + 2.0 * p))[:, None, None]
            before = self.root[seen, c] @ self.root[seen, c].swapaxes(-1, -2)
            centre[seen, c] += trust[..., 0] * (mean - centre[seen, c])
            root[seen, c] = np.linalg.cholesky(lifted(trust * covariance + (1.0 - trust) * before))
        return replace(self, centre=centre, root=root)


@cache
def student_base(
    n_draws: int, p: int, *, n_components: int, seed: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """Scrambled Sobol points as labels of component (S,) and kind (S,), and Student-t draws of unit scale (S, p)."""
    from scipy.special import ndtri
    from scipy.stats import chi2, qmc

    points = np.clip(qmc.Sobol(p + 2, rng=np.random.default_rng(seed)).random(n_draws), 1e-12, 1 - 1e-12)
    # The label has a coordinate of its own: labels by turns would give each component a biased half of the points.
    component, within = np.divmod(points[:, 0] * n_components, 1.0)
    kind = np.searchsorted(np.cumsum(_SHARES)[:-1], within)
    degrees = _DEGREES[kind]
    scale = np.sqrt(degrees / chi2.ppf(points[:, 1], degrees))
    return component.astype(int), kind, ndtri(points[:, 2:]) * scale[:, None]


def _squares(scaled: FloatArray) -> FloatArray:
    return np.einsum("...p,...p->...", scaled, scaled)


def _log_det(root: FloatArray) -> FloatArray:
    return np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)


def _log_student(square: FloatArray, p: int, kinds: slice) -> FloatArray:
    """Log density of the shares of Student-t's at a squared radius, up to a constant."""
    from scipy.special import gammaln

    out = None
    for share, nu in zip(_SHARES[kinds], _DEGREES[kinds], strict=True):
        constant = np.log(share) + gammaln(0.5 * (nu + p)) - gammaln(0.5 * nu) - 0.5 * p * np.log(nu)
        term = constant - 0.5 * (nu + p) * np.log1p(square / nu)
        out = term if out is None else np.logaddexp(out, term)
    assert out is not None  # there are kinds
    return out
