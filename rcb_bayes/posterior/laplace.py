r"""Posteriors under Bernoulli rewards: Laplace's approximation, corrected by importance sampling.

For each group of arms and each Gaussian component of the belief (its closed form, or a Gaussian surrogate) Newton's
method finds the mode of :math:`\log N(b; m, V) + \sum_i \log \mathrm{logistic}(\pm x_i'b)`; multivariate Student-t
draws around the modes, with the curvature there, are then weighted by the true belief and likelihood. Every component
keeps its share of the draws, so that no mode is lost, and half of the draws have tails of two degrees of freedom:
outcomes that are all alike bound the coefficients on one side only, and on the other the belief's own tail remains.
The mean reward of a user is the average of logistic(x'b) over the posterior, not logistic of the mean.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from rcb_bayes.errors import BeliefError
from rcb_bayes.posterior.data import Rows, Statistics, as_rows
from rcb_bayes.posterior.importance import KHAT_LIMIT, MIN_EFFECTIVE_SIZE, N_REPLICATES, normalised, resample
from rcb_bayes.posterior.lumps import find_lumps
from rcb_bayes.posterior.pareto import pareto_khat
from rcb_bayes.posterior.proposal import lifted, moment_surrogate, scale_surrogate
from rcb_bayes.posterior.results import PosteriorBatch, users_of
from rcb_bayes.prior import Prior
from rcb_bayes.prior.law import Block, GaussianLaw
from rcb_bayes.progress import track
from rcb_bayes.schema import BoolArray, FloatArray

_LADDER = (512, 2048, 8192)
_DEGREES = np.array([8.0, 2.0])  # of freedom, half of the draws each
_NEWTON_STEPS = 40
_CHUNK_VALUES = 2_000_000  # numbers held at a time


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """One group's rows for M data sets: signed designs ``z`` (M, n, p), zero where a row is not of this group."""

    block: Block
    index: list[int]
    z: FloatArray


class LaplaceEngine:
    """Laplace proposals with importance weights, for one belief."""

    name = "laplace"

    def __init__(self, prior: Prior, *, seed: int = 0) -> None:
        if not prior.has_density:
            raise BeliefError(
                f"The laplace engine needs a density of beta, which '{prior.name}' lacks ({prior.density_reason}). "
                "Use engine='nuts' or engine='auto'."
            )
        self.prior = prior
        self.reason = "laplace: Bernoulli rewards and a belief with a density"
        self._seed = seed

    def fit(
        self, data: Statistics | Rows, *, covariance: bool = False, users: FloatArray | None = None
    ) -> PosteriorBatch:
        """Posterior moments of every data set and, on request, mean rewards of users (M, U, K)."""
        data = as_rows(data)
        n_users = 0 if users is None else users.shape[-2]
        found = _Estimates.empty(data.n_sets, self.prior, n_users=n_users, covariance=covariance)
        turn = data.fingerprints() % N_REPLICATES
        open_sets = np.arange(data.n_sets)
        for n_draws in _LADDER:
            size = self.prior.n_arms * self.prior.n_features
            step = max(1, _CHUNK_VALUES // (n_draws * size))
            members = [open_sets[turn[open_sets] == replicate] for replicate in range(N_REPLICATES)]
            chunks = [(r, own[k : k + step]) for r, own in enumerate(members) for k in range(0, len(own), step)]
            for replicate, chunk in track(chunks, description=f"Laplace proposals, {n_draws} draws"):
                part, own = data.take(chunk), users_of(users, chunk)
                draws, log_weight = self._weighted_draws(part, n_draws=n_draws, replicate=replicate)
                self._average(draws, log_weight, chunk, found, unseen=part.n == 0, users=own)
            open_sets = np.flatnonzero(~found.vouched)
            if not len(open_sets):
                break
        return PosteriorBatch(
            mean=found.mean.reshape(data.n_sets, self.prior.n_arms, self.prior.n_features),
            covariance=found.covariance,
            vouched=found.vouched,
            engine=np.full(data.n_sets, self.name, dtype=object),
            diagnostics={
                "khat": found.khat,
                "effective_size": found.effective_size,
                "effective_share": found.effective_share,
            },
            reason=self.reason,
            reward=found.reward if users is not None else None,
        )

    def draw(self, data: Statistics | Rows, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws by resampling the weighted ones, (M, n, K, d)."""
        data = as_rows(data)
        out = np.empty((data.n_sets, n, self.prior.n_arms, self.prior.n_features))
        first, *more = [n_draws for n_draws in _LADDER if n_draws >= 4 * n] or [_LADDER[-1]]
        found = _Estimates.empty(1, self.prior, n_users=0, covariance=False)
        for m, turn in enumerate(data.fingerprints() % N_REPLICATES):
            one = data.take(slice(m, m + 1))
            draws, log_weight = self._weighted_draws(one, n_draws=first, replicate=int(turn))
            for n_draws in more:
                self._average(draws, log_weight, np.zeros(1, dtype=int), found, unseen=one.n == 0, users=None)
                if found.vouched[0]:
                    break
                draws, log_weight = self._weighted_draws(one, n_draws=n_draws, replicate=int(turn))
            out[m] = resample(draws[0], log_weight[0], law=self._surrogate, n=n, rng=rng)
        return out

    def _weighted_draws(self, data: Rows, *, n_draws: int, replicate: int) -> tuple[FloatArray, FloatArray]:
        """Draws (M, S, K d) and the log weights of each group (M, S, G)."""
        n_sets, size = data.n_sets, self.prior.n_arms * self.prior.n_features
        draws = np.empty((n_sets, n_draws, size))
        log_weight = np.empty((n_sets, n_draws, len(self._surrogate.blocks)))
        for g, block in enumerate(self._surrogate.blocks):
            group = _Group(block, self._surrogate.flat_index(block), _signed_design(data, block.arms))
            values, log_q = self._propose(group, n_draws=n_draws, replicate=replicate)
            draws[:, :, group.index] = values
            log_weight[:, :, g] = _log_likelihood(values, group.z) - log_q
        shaped = draws.reshape(-1, self.prior.n_arms, self.prior.n_features)
        log_prior = self.prior.group_log_density(shaped).reshape(log_weight.shape)
        return draws, np.where(np.isfinite(log_prior), log_weight + log_prior, -np.inf)

    def _average(
        self,
        draws: FloatArray,
        log_weight: FloatArray,
        chunk: np.ndarray,
        found: "_Estimates",
        *,
        unseen: BoolArray,
        users: FloatArray | None,
    ) -> None:
        """Average one chunk of data sets and write the results to their places; ``unseen`` (M, K) arms have no row."""
        n_draws, d = draws.shape[1], self.prior.n_features
        khat = np.empty((len(chunk), len(self._surrogate.blocks)))
        effective = np.empty_like(khat)
        for g, block in enumerate(self._surrogate.blocks):
            index = self._surrogate.flat_index(block)
            group = np.ascontiguousarray(log_weight[:, :, g])
            khat[:, g] = pareto_khat(group)
            weight = normalised(group)
            effective[:, g] = 1.0 / (weight**2).sum(axis=1)
            part = draws[:, :, index]
            mean = (weight[:, None, :] @ part)[:, 0]
            found.mean[np.ix_(chunk, index)] = mean
            if found.covariance is not None:
                centred = part - mean[:, None]
                found.covariance[np.ix_(chunk, index, index)] = (weight[..., None] * centred).swapaxes(1, 2) @ centred
            if users is not None:
                for k, arm in enumerate(block.arms):
                    eta = part[:, :, k * d : (k + 1) * d] @ users.swapaxes(-1, -2)  # (M, S, U)
                    found.reward[chunk, :, arm] = np.einsum("ms,msu->mu", weight, _logistic(eta))
            self._fill_unseen(chunk[unseen[:, list(block.arms)].all(axis=1)], index, found)
        found.khat[chunk] = np.where(np.isnan(khat).any(axis=1), np.nan, khat.max(axis=1))
        found.effective_size[chunk] = effective.min(axis=1)
        found.effective_share[chunk] = effective.min(axis=1) / n_draws

    def _fill_unseen(self, rows: np.ndarray, index: list[int], found: "_Estimates") -> None:
        """A group without any sample keeps its prior moments."""
        if not len(rows):
            return
        found.mean[np.ix_(rows, index)] = self.prior.mean.values.reshape(-1)[index]
        if found.covariance is not None:
            covariance = self.prior.covariance.values.reshape(found.covariance.shape[1:])
            found.covariance[np.ix_(rows, index, index)] = covariance[np.ix_(index, index)]

    def _propose(self, group: _Group, *, n_draws: int, replicate: int) -> tuple[FloatArray, FloatArray]:
        """Student-t draws around each component's mode, (M, S, p), and their log density (M, S), constants dropped."""
        block = group.block
        p = block.means.shape[1]
        modes, roots = _modes(group)  # (M, C, p), (M, C, p, p)
        seed = (self._seed, replicate, n_draws, block.arms[0])
        component, base = _student_base(n_draws, p, n_components=block.n_components, seed=seed)
        values = np.empty((len(modes), n_draws, p))
        for c in range(block.n_components):
            rows = component == c
            values[:, rows] = modes[:, c, None] + base[rows] @ roots[:, c].swapaxes(-1, -2)
        log_q = np.full(values.shape[:2], -np.inf)
        inverse = np.linalg.inv(roots)
        for c in range(block.n_components):
            scaled = (values - modes[:, c, None]) @ inverse[:, c].swapaxes(-1, -2)
            log_det = np.log(np.diagonal(roots[:, c], axis1=-2, axis2=-1)).sum(axis=-1)
            log_q = np.logaddexp(log_q, _student_log_density((scaled**2).sum(axis=-1), p) - log_det[:, None])
        return values, log_q

    @cached_property
    def _surrogate(self) -> GaussianLaw:
        """The belief's closed form, or a Gaussian with its moments and the lumps that it would hide."""
        if self.prior.law is not None:
            return self.prior.law
        gaussian = moment_surrogate(self.prior)
        smooth = scale_surrogate(self.prior, gaussian)  # tails are not lumps: the proposal has its own
        full = find_lumps(self.prior, gaussian, smooth, fewest=_LADDER[0], most=_LADDER[-1]).law
        pairs = zip(gaussian.blocks, full.blocks, smooth.blocks, strict=True)
        blocks = tuple(_with_lumps(plain, whole, start=part.n_components) for plain, whole, part in pairs)
        return GaussianLaw(n_arms=gaussian.n_arms, n_features=gaussian.n_features, blocks=blocks)


@dataclass(slots=True, eq=False)
class _Estimates:
    """Results being filled in, one row a data set."""

    mean: FloatArray
    covariance: FloatArray | None
    reward: FloatArray
    khat: FloatArray
    effective_size: FloatArray
    effective_share: FloatArray

    @classmethod
    def empty(cls, n_sets: int, prior: Prior, *, n_users: int, covariance: bool) -> "_Estimates":
        size = prior.n_arms * prior.n_features
        return cls(
            mean=np.empty((n_sets, size)),
            covariance=np.zeros((n_sets, size, size)) if covariance else None,
            reward=np.empty((n_sets, n_users, prior.n_arms)),
            khat=np.full(n_sets, np.nan),
            effective_size=np.zeros(n_sets),
            effective_share=np.zeros(n_sets),
        )

    @property
    def vouched(self) -> np.ndarray:
        return (self.khat < KHAT_LIMIT) & (self.effective_size >= MIN_EFFECTIVE_SIZE)


def _with_lumps(plain: Block, full: Block, *, start: int) -> Block:
    """A Gaussian block with the components that ``full`` has from ``start`` on; all get the same share of the draws."""
    n_components = 1 + full.n_components - start
    return Block(
        arms=plain.arms,
        weights=np.full(n_components, 1.0 / n_components),
        means=np.concatenate([plain.means, full.means[start:]]),
        covariances=np.concatenate([plain.covariances, full.covariances[start:]]),
    )


def _signed_design(data: Rows, arms: tuple[int, ...]) -> FloatArray:
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


def _log_likelihood(values: FloatArray, z: FloatArray) -> FloatArray:
    """Sum over rows of log logistic(z'b), (M, S); rows of padding would add the constant log 2, and add nothing."""
    used = (z != 0).any(axis=2)  # (M, n)
    out = np.zeros(values.shape[:2])
    step = max(1, _CHUNK_VALUES // max(out.size, 1))
    for start in range(0, z.shape[1], step):
        rows = slice(start, start + step)
        eta = values @ z[:, rows].swapaxes(-1, -2)  # (M, S, rows)
        out -= (_softplus(-eta) @ used[:, rows, None].astype(float))[..., 0]
    return out


def _modes(group: _Group) -> tuple[FloatArray, FloatArray]:
    """Modes (M, C, p) of log posterior under each component, and roots of the inverse curvature there."""
    block, z = group.block, group.z
    modes, roots = [], []
    for mean, covariance in zip(block.means, block.covariances, strict=True):
        precision = np.linalg.inv(lifted(covariance))
        mode = _newton(z, mean, precision)
        curvature = _curvature(z, mode, precision)
        modes.append(mode)
        roots.append(np.linalg.cholesky(lifted(np.linalg.inv(curvature))))
    return np.stack(modes, axis=1), np.stack(roots, axis=1)


def _newton(z: FloatArray, mean: FloatArray, precision: FloatArray) -> FloatArray:
    """Newton's method for all data sets at once; a step that does not climb is halved."""
    b = np.broadcast_to(mean, (len(z), len(mean))).copy()
    value = _objective(z, b, mean, precision)
    for _ in range(_NEWTON_STEPS):
        miss = _logistic(-(z @ b[..., None])[..., 0])  # (M, n)
        gradient = (miss[:, None, :] @ z)[:, 0] - (b - mean) @ precision
        step = np.linalg.solve(_curvature(z, b, precision), gradient[..., None])[..., 0]
        length = np.ones((len(z), 1))
        new = _objective(z, b + step, mean, precision)
        for _ in range(8):
            worse = new < value - 1e-12
            if not worse.any():
                break
            length[worse] *= 0.5
            new = _objective(z, b + length * step, mean, precision)
        b, value = b + length * step, new
        if (np.abs(gradient * step).sum(axis=1) < 1e-10).all():
            break
    return b


def _objective(z: FloatArray, b: FloatArray, mean: FloatArray, precision: FloatArray) -> FloatArray:
    centred = b - mean
    fit = _softplus(-(z @ b[..., None])[..., 0]).sum(axis=1)
    return -fit - 0.5 * np.einsum("mi,ij,mj->m", centred, precision, centred)


def _curvature(z: FloatArray, b: FloatArray, precision: FloatArray) -> FloatArray:
    share = _logistic((z @ b[..., None])[..., 0])
    return (z * (share * (1.0 - share))[..., None]).swapaxes(-1, -2) @ z + precision


@cache
def _student_base(n_draws: int, p: int, *, n_components: int, seed: tuple[int, ...]) -> tuple[np.ndarray, FloatArray]:
    """Scrambled Sobol points as component labels (S,) and Student-t draws with identity scale (S, p)."""
    from scipy.special import ndtri
    from scipy.stats import chi2, qmc

    points = np.clip(qmc.Sobol(p + 2, rng=np.random.default_rng(seed)).random(n_draws), 1e-12, 1 - 1e-12)
    # The label has a coordinate of its own: labels by turns would give each component a biased half of the points.
    component, kind = np.divmod((points[:, 0] * n_components * len(_DEGREES)).astype(int), len(_DEGREES))
    degrees = _DEGREES[kind]
    scale = np.sqrt(degrees / chi2.ppf(points[:, 1], degrees))
    return component, ndtri(points[:, 2:]) * scale[:, None]


def _student_log_density(square: FloatArray, p: int) -> FloatArray:
    """Log density of the equal mixture of Student-t's at a squared radius, up to what does not depend on it."""
    from scipy.special import gammaln

    terms = [
        gammaln(0.5 * (nu + p)) - gammaln(0.5 * nu) - 0.5 * p * np.log(nu) - 0.5 * (nu + p) * np.log1p(square / nu)
        for nu in _DEGREES
    ]
    return np.logaddexp.reduce(terms, axis=0)


def _logistic(eta: FloatArray) -> FloatArray:
    return 0.5 * (1.0 + np.tanh(0.5 * eta))


def _softplus(eta: FloatArray) -> FloatArray:
    """log(1 + exp(eta)), without overflow and faster than logaddexp."""
    return np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta)))
