r"""Posterior means of any belief with a density, by importance sampling from a surrogate's posterior.

For draws :math:`b_s = m + L z_s` from a proposal q the weights are :math:`w_s \propto p(b_s) L(b_s) / q(b_s)`, with the
belief's density p and the Gaussian likelihood L read off X'X and X'y; independent groups of arms are weighted apart.
The base draws z are scrambled Sobol points, shared by many data sets but replicated, because an error that all data
sets share does not average out over them.

A group's answer is vouched for when the Pareto k-hat of its weights is below .7 and their effective size at least 200,
when the draws hide no lump of the belief (``rcb_bayes.posterior.lumps``) and when the posterior variance does not rest
on a handful of draws (weights alone do not tell about a mean); in either case k-hat is given as infinite.
What is not vouched for is tried again with better proposals and more draws, and in the end handed back to the caller.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import GaussianLaw
from rcb_bayes.errors import BeliefError
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.exact import Components, block_statistics
from rcb_bayes.posterior.lumps import Cover, find_lumps, log_hiding
from rcb_bayes.posterior.pareto import pareto_khat
from rcb_bayes.posterior.proposal import (
    Proposal,
    Sites,
    expectation_propagation,
    half_and_half,
    moment_surrogate,
    scale_surrogate,
    surrogate_posterior,
)
from rcb_bayes.posterior.vouching import KHAT_LIMIT, MIN_EFFECTIVE_SIZE
from rcb_bayes.schema import DEFAULT_SEED, FloatArray
from rcb_bayes.telling.progress import track

N_REPLICATES = 8
_MIN_SPREAD_SIZE = 15.0  # draws that a variance rests on: it is then known to about a quarter
_NEGLIGIBLE = 0.01  # share of a posterior that may stay hidden
_CHUNK_VALUES = 500_000  # coefficients drawn at a time: arrays of 4 MB, which the processor keeps near


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: the surrogate that proposes, and the number of draws."""

    surrogate: str
    n_draws: int


LADDER = (
    Attempt("moments", 256),
    Attempt("defensive", 1024),
    Attempt("defensive", 4096),
    Attempt("defensive", 16384),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighted:
    """Self-normalised estimates of M data sets.

    ``mean`` (M, K, d), ``covariance`` (M, K d, K d) or None, and per data set the worst group's ``khat``, the smallest
    ``effective_size`` and its ``effective_share`` of the draws.
    """

    mean: FloatArray
    covariance: FloatArray | None
    khat: FloatArray
    effective_size: FloatArray
    effective_share: FloatArray

    @property
    def vouched(self) -> np.ndarray:
        """Which data sets are vouched for, (M,)."""
        return (self.khat < KHAT_LIMIT) & (self.effective_size >= MIN_EFFECTIVE_SIZE)


class ImportanceSampler:
    """Importance sampling for one belief: surrogates and base draws are made once and kept."""

    def __init__(self, prior: Prior, *, sigma: float, seed: int = DEFAULT_SEED) -> None:
        if not prior.has_density:
            raise BeliefError(
                f"The importance engine needs a density of beta, which '{prior.name}' lacks ({prior.density_reason}). "
                "Use engine='conditional' or engine='nuts', or engine='auto'."
            )
        self._prior = prior
        self._sigma = sigma
        self._seed = seed
        self._base: dict[tuple[int, int, int], FloatArray] = {}

    def fit(self, data: Statistics, *, covariance: bool = False) -> Weighted:
        """Estimates of every data set, each by the first attempt of the ladder that is vouched for."""
        best = self._attempt(data, LADDER[0], covariance=covariance)
        for attempt in LADDER[1:]:
            open_sets = np.flatnonzero(~best.vouched)
            if not len(open_sets):
                break
            found = self._attempt(data.take(open_sets), attempt, covariance=covariance)
            best = _keep_better(best, found, open_sets)
        return best

    def _attempt(self, data: Statistics, attempt: Attempt, *, covariance: bool) -> Weighted:
        size = self._prior.n_arms * self._prior.n_features
        step = max(1, _CHUNK_VALUES // (attempt.n_draws * size))
        turn = data.fingerprints() % N_REPLICATES
        chunks: list[tuple[int, np.ndarray]] = []
        for replicate in range(N_REPLICATES):
            members = np.flatnonzero(turn == replicate)
            chunks += [(replicate, members[start : start + step]) for start in range(0, len(members), step)]
        parts = [
            (chunk, self._weigh(data.take(chunk), attempt, replicate=replicate, covariance=covariance))
            for replicate, chunk in track(chunks, description=f"importance sampling, {attempt.n_draws} draws")
        ]
        if not parts:
            return self._weigh(data, attempt, replicate=0, covariance=covariance)
        return _gather(parts, n_sets=data.n_sets)

    def draw(self, data: Statistics, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws by resampling the weighted ones of the first attempt that is vouched for, (M, n, K, d)."""
        out = np.empty((data.n_sets, n, self._prior.n_arms, self._prior.n_features))
        first, *more = [attempt for attempt in LADDER if attempt.n_draws >= 4 * n] or [LADDER[-1]]
        for m, turn in enumerate(data.fingerprints() % N_REPLICATES):
            one = data.take(slice(m, m + 1))
            draws, log_weight = self._weighted_draws(one, first, replicate=int(turn))
            tried = first
            for attempt in more:
                if self._average(draws, log_weight, one, tried, covariance=False).vouched[0]:
                    break
                tried = attempt
                draws, log_weight = self._weighted_draws(one, attempt, replicate=int(turn))
            out[m] = resample(draws[0], log_weight[0], law=self._gaussian, n=n, rng=rng)
        return self._redraw_unseen(out, data, rng=rng)

    def _redraw_unseen(self, out: FloatArray, data: Statistics, *, rng: np.random.Generator) -> FloatArray:
        """Groups without any sample are drawn from the belief."""
        for arms in self._prior.groups:
            rows = np.flatnonzero(data.n[:, list(arms)].sum(axis=1) == 0)
            if len(rows):
                n = out.shape[1]
                fresh = self._prior.draw_arrays(len(rows) * n, rng=rng)[0].reshape(len(rows), *out.shape[1:])
                out[np.ix_(rows, range(n), arms)] = fresh[:, :, list(arms)]
        return out

    def _weigh(self, data: Statistics, attempt: Attempt, *, replicate: int, covariance: bool) -> Weighted:
        """Draw, weigh and average for one chunk of data sets that share base draws."""
        draws, log_weight = self._weighted_draws(data, attempt, replicate=replicate)
        return self._average(draws, log_weight, data, attempt, covariance=covariance)

    def _weighted_draws(self, data: Statistics, attempt: Attempt, *, replicate: int) -> tuple[FloatArray, FloatArray]:
        """Draws (M, S, K d) and the log weights of each group (M, S, G)."""
        k, d = self._prior.n_arms, self._prior.n_features
        n_sets, n_draws = data.n_sets, attempt.n_draws
        draws = np.empty((n_sets, n_draws, k * d))
        log_ratio = np.empty((n_sets, n_draws, len(self._prior.groups)))  # log L - log q
        for groups, surrogate in self._batches[attempt.surrogate]:
            proposal = self._propose(surrogate, data, attempt)
            base = self._base_draws(n_draws, proposal.mean.shape[-1] + 1, replicate)
            values, log_q = proposal.draw(base)  # (M, B, S, p), (M, B, S)
            log_likelihood = self._log_likelihood(values, surrogate.arms, data)
            for b, group in enumerate(groups):
                draws[:, :, self._gaussian.flat_index(self._gaussian.blocks[group])] = values[:, b]
                log_ratio[:, :, group] = log_likelihood[:, b] - log_q[:, b]
        log_prior = self._prior.group_log_density(draws.reshape(-1, k, d)).reshape(log_ratio.shape)
        return draws, np.where(np.isfinite(log_prior), log_ratio + log_prior, -np.inf)

    def _average(
        self, draws: FloatArray, log_weight: FloatArray, data: Statistics, attempt: Attempt, *, covariance: bool
    ) -> Weighted:
        n_sets, n_draws, size = draws.shape
        k, d = self._prior.n_arms, self._prior.n_features
        mean = np.empty((n_sets, size))
        joint = np.zeros((n_sets, size, size)) if covariance else None
        khat = np.empty((n_sets, len(self._prior.groups)))
        effective = np.empty_like(khat)
        hidden = self._hidden(data, attempt)
        for g, block in enumerate(self._gaussian.blocks):
            index = self._gaussian.flat_index(block)
            group = np.ascontiguousarray(log_weight[:, :, g])
            weight = normalised(group)
            effective[:, g] = 1.0 / np.maximum((weight**2).sum(axis=1), 1.0 / n_draws)
            part = draws[:, :, index]
            mean[:, index] = (weight[:, None, :] @ part)[:, 0]
            centred = part - mean[:, None, index]
            unsafe = hidden[:, g] | (_spread_size(weight, centred) < _MIN_SPREAD_SIZE)
            khat[:, g] = np.where(unsafe, np.inf, pareto_khat(group))
            if joint is not None:
                joint[:, np.array(index)[:, None], index] = (weight[..., None] * centred).swapaxes(1, 2) @ centred
            unseen = data.n[:, list(block.arms)].sum(axis=1) == 0
            self._fill_unseen(unseen, index, mean, joint)
            khat[unseen, g], effective[unseen, g] = -np.inf, n_draws
        smallest = effective.min(axis=1)
        return Weighted(
            mean=mean.reshape(n_sets, k, d),
            covariance=joint,
            khat=khat.max(axis=1),  # NaN if any group's is
            effective_size=smallest,
            effective_share=smallest / n_draws,
        )

    def _hidden(self, data: Statistics, attempt: Attempt) -> np.ndarray:
        """Whether the plain Gaussian's posterior hides a lump that matters for a data set and group, (M, G)."""
        out = np.zeros((data.n_sets, len(self._prior.groups)), dtype=bool)
        if attempt.surrogate != "moments" or not self._cover.gaussian_hides:
            return out
        pairs = zip(self._batches["moments"], self._batches["defensive"], strict=True)
        for (groups, plain), (_, full) in pairs:
            narrow = surrogate_posterior(plain, data, sigma=self._sigma)
            wide = surrogate_posterior(full, data, sigma=self._sigma)
            excess = wide.log_density(wide.mean) - narrow.log_density(wide.mean)  # (M, B, C)
            lost = (np.exp(wide.log_weight) * (excess > log_hiding(attempt.n_draws))).sum(axis=2)
            out[:, groups] = lost > _NEGLIGIBLE
        return out

    def _fill_unseen(self, unseen: np.ndarray, index: list[int], mean: FloatArray, joint: FloatArray | None) -> None:
        """A group without any sample keeps its prior."""
        if not unseen.any():
            return
        rows = np.flatnonzero(unseen)
        mean[np.ix_(rows, index)] = self._prior.mean.values.reshape(-1)[index]
        if joint is not None:
            size = joint.shape[-1]
            covariance = self._prior.covariance.values.reshape(size, size)
            joint[np.ix_(rows, index, index)] = covariance[np.ix_(index, index)]

    def _propose(self, surrogate: Components, data: Statistics, attempt: Attempt) -> Proposal:
        broad = surrogate_posterior(surrogate, data, sigma=self._sigma)
        if attempt.surrogate == "moments":
            return broad
        # Sites alone may settle on one of several modes, and k-hat would not notice: keep half the draws broad.
        sharp = expectation_propagation(self._sites, surrogate.arms, data, sigma=self._sigma)
        return half_and_half(sharp, broad)

    def _log_likelihood(self, values: FloatArray, arms: np.ndarray, data: Statistics) -> FloatArray:
        """b'X'y/s2 - b'X'X b/(2 s2), (M, B, S)."""
        gram, moment = block_statistics(arms, data)
        pulled = moment[:, :, None] - 0.5 * (values @ gram)
        return np.einsum("mbsp,mbsp->mbs", values, pulled) / self._sigma**2

    @cached_property
    def _batches(self) -> dict[str, list[tuple[list[int], Components]]]:
        """For each surrogate, the groups of equal shape with their components."""
        sizes: dict[tuple[int, int], list[int]] = {}
        for g, block in enumerate(self._cover.law.blocks):
            sizes.setdefault((len(block.arms), block.n_components), []).append(g)
        laws = {"moments": self._gaussian, "defensive": self._cover.law}
        return {
            name: [(groups, Components.of([law.blocks[g] for g in groups])) for groups in sizes.values()]
            for name, law in laws.items()
        }

    def _base_draws(self, n_draws: int, dims: int, replicate: int) -> FloatArray:
        """Scrambled Sobol points: uniform in the first coordinate, standard normal in the others, (S, 1 + p)."""
        key = n_draws, dims, replicate
        if key not in self._base:
            from scipy.special import ndtri
            from scipy.stats import qmc

            rng = np.random.default_rng([self._seed, replicate, n_draws])
            points = qmc.Sobol(dims, rng=rng).random(n_draws)
            points = np.clip(points, 1e-12, 1 - 1e-12)
            self._base[key] = np.concatenate([points[:, :1], ndtri(points[:, 1:])], axis=1)
        return self._base[key]

    @cached_property
    def _gaussian(self) -> GaussianLaw:
        return moment_surrogate(self._prior)

    @cached_property
    def _cover(self) -> Cover:
        smooth = scale_surrogate(self._prior, self._gaussian)
        return find_lumps(self._prior, self._gaussian, smooth, fewest=LADDER[0].n_draws, most=LADDER[-2].n_draws)

    @cached_property
    def _sites(self) -> Sites:
        return Sites(self._prior, self._gaussian)


def resample(
    draws: FloatArray, log_weight: FloatArray, *, law: GaussianLaw, n: int, rng: np.random.Generator
) -> FloatArray:
    """n draws (n, K, d) out of weighted ones (S, K d), each group of arms by its own weights (S, G)."""
    out = np.empty((n, draws.shape[1]))
    for g, block in enumerate(law.blocks):
        index = law.flat_index(block)
        weight = normalised(log_weight[None, :, g])[0]
        # Systematic resampling: as few ties as the weights allow; then in random order.
        chosen = np.searchsorted(np.cumsum(weight), (np.arange(n) + rng.uniform()) / n)
        out[:, index] = draws[np.ix_(rng.permutation(np.minimum(chosen, len(weight) - 1)), index)]
    return out.reshape(n, law.n_arms, law.n_features)


def normalised(log_weight: FloatArray) -> FloatArray:
    """Weights that sum to one over the draws, (M, S); all alike where every one of them has collapsed."""
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - np.where(np.isfinite(top), top, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    return np.where(total > 0, weight / np.maximum(total, np.finfo(float).tiny), 1.0 / weight.shape[1])


def _spread_size(weight: FloatArray, centred: FloatArray) -> FloatArray:
    """How many draws the posterior variance of the worst coefficient rests on, (M, S), (M, S, p) -> (M,)."""
    squares = centred**2
    first = (weight[:, None, :] @ squares)[:, 0]
    np.multiply(squares, squares, out=squares)
    second = ((weight**2)[:, None, :] @ squares)[:, 0]
    return (first**2 / np.maximum(second, np.finfo(float).tiny)).min(axis=1)


def _gather(parts: list[tuple[np.ndarray, Weighted]], *, n_sets: int) -> Weighted:
    """Put the chunks back in the order of the data sets."""
    order = np.argsort(np.concatenate([index for index, _ in parts]))
    found = [part for _, part in parts]
    covariances = [part.covariance for part in found if part.covariance is not None]
    assert len(order) == n_sets
    return Weighted(
        mean=np.concatenate([part.mean for part in found])[order],
        covariance=np.concatenate(covariances)[order] if covariances else None,
        khat=np.concatenate([part.khat for part in found])[order],
        effective_size=np.concatenate([part.effective_size for part in found])[order],
        effective_share=np.concatenate([part.effective_share for part in found])[order],
    )


def _keep_better(old: Weighted, new: Weighted, index: np.ndarray) -> Weighted:
    """Replace the data sets at ``index`` where the new attempt is vouched for, or has more to show."""
    wins = new.vouched | (new.effective_size > old.effective_size[index])
    rows = index[wins]
    for name in ("mean", "covariance", "khat", "effective_size", "effective_share"):
        target = getattr(old, name)
        if target is not None:
            target[rows] = getattr(new, name)[wins]
    return old
