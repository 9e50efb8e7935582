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

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import GaussianLaw
from rcb_bayes.errors import BeliefError
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.exact import Components, block_statistics
from rcb_bayes.posterior.kernels import weighted_moments
from rcb_bayes.posterior.lumps import Cover, find_lumps, log_hiding
from rcb_bayes.posterior.packing import Classes, Packing, alike_groups
from rcb_bayes.posterior.pareto import has_short_tail, pareto_khat
from rcb_bayes.posterior.proposal import (
    Proposal,
    Sites,
    Weigher,
    expectation_propagation,
    mixed,
    moment_surrogate,
    scale_surrogate,
    surrogate_posterior,
    with_least_weight,
)
from rcb_bayes.posterior.vouching import KHAT_LIMIT, MIN_EFFECTIVE_SIZE
from rcb_bayes.schema import DEFAULT_SEED, FloatArray
from rcb_bayes.telling.progress import track

N_REPLICATES = 8
_MIN_SPREAD_SIZE = 15.0  # draws that a variance rests on: it is then known to about a quarter
_LEAST_WEIGHT = 0.06  # of each component of a proposal, where tails carry much of the variance
_NEGLIGIBLE = 0.01  # share of a posterior that may stay hidden
_CHUNK_VALUES = 1_000_000  # coefficients drawn by one proposal
_BLOCK_VALUES = 65_536  # coefficients drawn at a time: arrays of half a MB


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: what proposes, and the number of draws.

    "moments" is the posterior of the Gaussian with the belief's moments, and is for beliefs whose posterior may have
    several modes; "single" is expectation propagation alone, for the others; "sites" has some of its draws and more
    from the moments' posterior, "defensive" from that of the surrogate with heavy tails and lumps in its place.
    """

    surrogate: str
    n_draws: int

    @property
    def broad(self) -> float:
        """The share of the draws that the surrogate's posterior proposes; the others come from sites."""
        return {"moments": 1.0, "single": 0.0, "sites": 0.25, "defensive": 0.5}[self.surrogate]


LADDER = (
    Attempt("moments", 256),
    Attempt("single", 256),
    Attempt("sites", 512),
    Attempt("defensive", 1024),
    Attempt("defensive", 4096),
    Attempt("defensive", 16384),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighted:
    """Self-normalised estimates of M data sets.

    ``mean`` (M, K, d), ``covariance`` (M, K d, K d) or None, and of each of G groups of arms the k-hat, the effective
    size and the number of its draws, (M, G).
    """

    mean: FloatArray
    covariance: FloatArray | None
    group_khat: FloatArray
    group_size: FloatArray
    group_draws: FloatArray

    @property
    def khat(self) -> FloatArray:
        """The worst group's, (M,); NaN if any group's is."""
        return self.group_khat.max(axis=1)

    @property
    def effective_size(self) -> FloatArray:
        """The smallest of the groups, (M,)."""
        return self.group_size.min(axis=1)

    @property
    def effective_share(self) -> FloatArray:
        """Of the draws of the group with the smallest effective size, (M,)."""
        worst = self.group_size.argmin(axis=1)[:, None]
        return np.take_along_axis(self.group_size / self.group_draws, worst, axis=1)[:, 0]

    @property
    def vouched_groups(self) -> np.ndarray:
        """Which groups are vouched for, (M, G)."""
        return (self.group_khat < KHAT_LIMIT) & (self.group_size >= MIN_EFFECTIVE_SIZE)

    @property
    def vouched(self) -> np.ndarray:
        """Which data sets are vouched for, (M,)."""
        return self.vouched_groups.all(axis=1)


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
        """Estimates of every data set, each group of arms by the first attempt of the ladder that is vouched for."""
        turn = data.fingerprints() % N_REPLICATES
        best = self._unseen(data, covariance=covariance)
        for attempt in self._ladder:
            packing = Packing.of(~best.vouched_groups, turn, classes=self._classes)
            if not len(packing.turns):
                break
            part = packing.statistics(data, self._prior.groups)
            found = self._attempt(part, attempt, covariance=covariance, turn=packing.turns)
            self._keep_better(best, found, packing)
        return best

    def _unseen(self, data: Statistics, *, covariance: bool) -> Weighted:
        """The belief itself for groups without any sample, and nothing yet for the others."""
        prior, size = self._prior, self._prior.n_arms * self._prior.n_features
        seen = np.stack([data.n[:, list(arms)].sum(axis=1) > 0 for arms in prior.groups], axis=1)
        joint = np.zeros((data.n_sets, size, size)) if covariance else None
        mean = np.zeros((data.n_sets, size))
        for g, block in enumerate(self._gaussian.blocks):
            self._fill_unseen(~seen[:, g], self._gaussian.flat_index(block), mean, joint)
        n_draws = self._ladder[0].n_draws
        return Weighted(
            mean=mean.reshape(data.n_sets, prior.n_arms, prior.n_features),
            covariance=joint,
            group_khat=np.where(seen, np.inf, -np.inf),
            group_size=np.where(seen, 0.0, n_draws),
            group_draws=np.full(seen.shape, float(n_draws)),
        )

    @cached_property
    def _classes(self) -> Classes:
        return alike_groups(self._prior)

    @cached_property
    def _has_variance(self) -> bool:
        return bool(np.isfinite(self._prior.covariance.values).all())

    @cached_property
    def _ladder(self) -> tuple[Attempt, ...]:
        """The attempts that suit the belief: one of the first two, and those that suit all.

        Under a belief without a variance only those with heavy tails: with few data these carry much of the posterior
        variance, and no weight tells of values that are never proposed.
        """
        if not self._has_variance:
            return tuple(attempt for attempt in LADDER if attempt.surrogate == "defensive")
        left_out = "moments" if self._sites.is_log_concave else "single"
        return tuple(attempt for attempt in LADDER if attempt.surrogate != left_out)

    def _attempt(
        self, data: Statistics, attempt: Attempt, *, covariance: bool, turn: np.ndarray | None = None
    ) -> Weighted:
        """One attempt at every data set; ``turn`` says which base draws each takes, its fingerprint if None."""
        size = self._prior.n_arms * self._prior.n_features
        step = max(1, _CHUNK_VALUES // (attempt.n_draws * size))
        turn = data.fingerprints() % N_REPLICATES if turn is None else turn
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

    def _keep_better(self, old: Weighted, new: Weighted, packing: Packing) -> None:
        """Replace groups of data sets where a new attempt at them is vouched for, or has more to show."""
        blocks = self._gaussian.blocks
        for members in self._classes:
            for g in members:
                sets, source = packing.sets[:, g], packing.groups[:, g]
                better = new.vouched_groups[:, g] | (new.group_size[:, g] > old.group_size[sets, source])
                for h in np.unique(source[packing.wanted[:, g] & better]):
                    rows = np.flatnonzero(packing.wanted[:, g] & better & (source == h))
                    there, arms = list(blocks[g].arms), list(blocks[h].arms)
                    old.mean[np.ix_(sets[rows], arms)] = new.mean[np.ix_(rows, there)]
                    for name in ("group_khat", "group_size", "group_draws"):
                        getattr(old, name)[sets[rows], h] = getattr(new, name)[rows, g]
                    if old.covariance is not None and new.covariance is not None:
                        index, place = (self._gaussian.flat_index(blocks[k]) for k in (h, g))
                        old.covariance[np.ix_(sets[rows], index, index)] = new.covariance[np.ix_(rows, place, place)]

    def draw(self, data: Statistics, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws by resampling the weighted ones of the first attempt that is vouched for, (M, n, K, d)."""
        out = np.empty((data.n_sets, n, self._prior.n_arms, self._prior.n_features))
        first, *more = [attempt for attempt in self._ladder if attempt.n_draws >= 4 * n] or [LADDER[-1]]
        for m, turn in enumerate(data.fingerprints() % N_REPLICATES):
            one = data.take(slice(m, m + 1))
            draws, log_weight, proposals = self._weighted_draws(one, first, replicate=int(turn))
            tried = first
            for attempt in more:
                mean = np.empty((1, draws.shape[2]))
                rests_on = self._average(draws, log_weight, mean, None)
                if self._judged(one, tried, proposals, mean, None, log_weight, rests_on).vouched[0]:
                    break
                tried = attempt
                draws, log_weight, proposals = self._weighted_draws(one, attempt, replicate=int(turn))
            out[m] = resample(draws[0], log_weight[0].T, law=self._gaussian, n=n, rng=rng)
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
        """Draw, weigh and average for one chunk of data sets that share base draws, some at a time.

        Draws of a few data sets stay near the processor, and in memory that is used again.
        """
        proposals = self._proposals(data, attempt)
        weighers = self._weighers(data, attempt, proposals, replicate=replicate)
        size, n_groups = self._prior.n_arms * self._prior.n_features, len(self._prior.groups)
        mean = np.empty((data.n_sets, size))
        joint = np.zeros((data.n_sets, size, size)) if covariance else None
        log_weight = np.empty((data.n_sets, n_groups, attempt.n_draws))
        rests_on = np.empty((data.n_sets, n_groups, 3))
        step = max(1, _BLOCK_VALUES // (attempt.n_draws * size))
        space = np.empty((min(step, data.n_sets), attempt.n_draws, size))
        for begin in range(0, data.n_sets, step):
            rows = slice(begin, min(begin + step, data.n_sets))
            draws = space[: rows.stop - begin]
            self._draw(weighers, rows, draws, log_weight[rows])
            rests_on[rows] = self._average(draws, log_weight[rows], mean[rows], None if joint is None else joint[rows])
        return self._judged(data, attempt, proposals, mean, joint, log_weight, rests_on)

    def _weighers(
        self, data: Statistics, attempt: Attempt, proposals: list[Proposal], *, replicate: int
    ) -> list[tuple[Weigher, np.ndarray, np.ndarray]]:
        """For each batch what draws and weighs, its coefficients (B, p) and its groups (B,)."""
        out = []
        for (groups, surrogate), proposal in zip(self._batches[attempt.surrogate], proposals, strict=True):
            base = self._base_draws(attempt.n_draws, proposal.mean.shape[-1] + 1, replicate)
            information, pull = (part / self._sigma**2 for part in block_statistics(surrogate.arms, data))
            index = np.array([self._gaussian.flat_index(self._gaussian.blocks[g]) for g in groups])
            out.append((proposal.weigher(base, information, pull), index, np.array(groups)))
        return out

    def _draw(
        self,
        weighers: list[tuple[Weigher, np.ndarray, np.ndarray]],
        rows: slice,
        draws: FloatArray,
        log_weight: FloatArray,
    ) -> None:
        """Write the draws of some data sets, (m, S, K d), and the log weights of each group, (m, G, S)."""
        for weigher, index, groups in weighers:
            weigher.write(rows, index, groups, draws, log_weight)
        shape = len(draws), draws.shape[1], log_weight.shape[1]
        log_prior = self._prior.group_log_density(draws.reshape(-1, self._prior.n_arms, self._prior.n_features))
        log_prior = log_prior.reshape(shape).swapaxes(1, 2)
        log_weight += log_prior
        if not np.isfinite(log_prior.sum()):  # looked at one by one only where it has to be
            log_weight[~np.isfinite(log_prior)] = -np.inf

    def _weighted_draws(
        self, data: Statistics, attempt: Attempt, *, replicate: int
    ) -> tuple[FloatArray, FloatArray, list[Proposal]]:
        """Draws (M, S, K d), the log weights of each group (M, G, S), and what proposed them."""
        proposals = self._proposals(data, attempt)
        draws = np.empty((data.n_sets, attempt.n_draws, self._prior.n_arms * self._prior.n_features))
        log_weight = np.empty((data.n_sets, len(self._prior.groups), attempt.n_draws))
        self._draw(self._weighers(data, attempt, proposals, replicate=replicate), slice(None), draws, log_weight)
        return draws, log_weight, proposals

    def _average(
        self, draws: FloatArray, log_weight: FloatArray, mean: FloatArray, joint: FloatArray | None
    ) -> FloatArray:
        """Write the means (m, K d) and covariances (m, K d, K d) of some data sets; returned is what they rest on."""
        index, start = self._places
        weight = np.empty_like(log_weight)
        rests_on = weighted_moments(draws, log_weight, index, start, weight, mean)
        if joint is not None:
            for g in range(len(start) - 1):
                own = index[start[g] : start[g + 1]]
                centred = draws[:, :, own] - mean[:, None, own]
                joint[:, own[:, None], own] = (weight[:, g, :, None] * centred).swapaxes(1, 2) @ centred
        return rests_on

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """The groups' coefficients one after the other, and where each group begins."""
        index = [self._gaussian.flat_index(block) for block in self._gaussian.blocks]
        return np.concatenate(index), np.cumsum([0, *(len(own) for own in index)])

    def _judged(
        self,
        data: Statistics,
        attempt: Attempt,
        proposals: list[Proposal],
        mean: FloatArray,
        joint: FloatArray | None,
        log_weight: FloatArray,
        rests_on: FloatArray,
    ) -> Weighted:
        """Estimates with what speaks for them."""
        n_sets, n_groups, n_draws = log_weight.shape
        effective, khat = rests_on[..., 0].copy(), np.zeros((n_sets, n_groups))
        fitted = ~has_short_tail(rests_on[..., 2], n_draws=n_draws)
        if fitted.any():
            khat[fitted] = pareto_khat(log_weight[fitted])
        khat[rests_on[..., 1] < _MIN_SPREAD_SIZE] = np.inf
        for g, block in enumerate(self._gaussian.blocks):
            unseen = data.n[:, list(block.arms)].sum(axis=1) == 0
            self._fill_unseen(unseen, self._gaussian.flat_index(block), mean, joint)
            khat[unseen, g], effective[unseen, g] = -np.inf, n_draws
        found = Weighted(
            mean=mean.reshape(n_sets, self._prior.n_arms, self._prior.n_features),
            covariance=joint,
            group_khat=khat,
            group_size=effective,
            group_draws=np.full_like(khat, n_draws),
        )
        if attempt.surrogate in ("moments", "sites") and self._may_hide:
            khat[self._hidden(data, attempt, proposals, found.vouched_groups)] = np.inf
        return found

    def _hidden(self, data: Statistics, attempt: Attempt, proposals: list[Proposal], vouched: np.ndarray) -> np.ndarray:
        """Of otherwise vouched groups (M, G), those whose draws hide a lump that matters for the data set, (M, G)."""
        seen = np.stack([data.n[:, list(arms)].sum(axis=1) > 0 for arms in self._prior.groups], axis=1)
        rows = np.flatnonzero((vouched & seen).any(axis=1))
        part = data.take(rows)
        batches = self._batches[attempt.surrogate]
        place = {g: (i, b) for i, (groups, _) in enumerate(batches) for b, g in enumerate(groups)}
        out = np.zeros_like(vouched)
        for groups, full in self._batches["defensive"]:
            wide = surrogate_posterior(full, part, sigma=self._sigma)
            log_wide = wide.log_density(wide.mean)  # (M, B, C)
            for b, g in enumerate(groups):
                batch, own = place[g]
                narrow = proposals[batch].part(rows, own)
                excess = log_wide[:, b] - narrow.log_density(wide.mean[:, b, None])[:, 0]
                lost = (np.exp(wide.log_weight[:, b]) * (excess > log_hiding(attempt.n_draws))).sum(axis=1)
                out[rows, g] = lost > _NEGLIGIBLE
        return out & vouched & seen

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

    def _proposals(self, data: Statistics, attempt: Attempt) -> list[Proposal]:
        """Proposals for the groups of each batch."""
        return [self._propose(surrogate, data, attempt) for _, surrogate in self._batches[attempt.surrogate]]

    def _propose(self, surrogate: Components, data: Statistics, attempt: Attempt) -> Proposal:
        if attempt.surrogate == "single":
            return expectation_propagation(self._sites, surrogate.arms, data, sigma=self._sigma)
        broad = surrogate_posterior(surrogate, data, sigma=self._sigma)
        if attempt.surrogate == "moments":
            return broad
        if not self._has_variance:
            broad = with_least_weight(broad, _LEAST_WEIGHT)
        # Sites alone may settle on one of several modes, and k-hat would not notice: keep some of the draws broad.
        sharp = expectation_propagation(self._sites, surrogate.arms, data, sigma=self._sigma)
        return mixed(sharp, broad, share=1.0 - attempt.broad)

    @cached_property
    def _batches(self) -> dict[str, list[tuple[list[int], Components]]]:
        """For each surrogate, the groups of equal shape with their components."""
        of_name: dict[str, list[tuple[list[int], Components]]] = {}
        for name, law in (("moments", self._gaussian), ("defensive", self._cover.law)):
            sizes: dict[tuple[int, int], list[int]] = {}
            for g, block in enumerate(law.blocks):
                sizes.setdefault((len(block.arms), block.n_components), []).append(g)
            of_name[name] = [(groups, Components.of([law.blocks[g] for g in groups])) for groups in sizes.values()]
        return of_name | {"single": of_name["moments"], "sites": of_name["moments"]}

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
        return self._same_for_alike(moment_surrogate(self._prior))

    def _same_for_alike(self, law: GaussianLaw) -> GaussianLaw:
        """Blocks of groups that are alike as one of them has it: an answer may not depend on where it is computed."""
        first = {g: members[0] for members in self._classes for g in members}
        blocks = [replace(law.blocks[first[g]], arms=block.arms) for g, block in enumerate(law.blocks)]
        return replace(law, blocks=tuple(blocks))

    @cached_property
    def _cover(self) -> Cover:
        smooth = scale_surrogate(self._prior, self._gaussian)
        found = find_lumps(self._prior, self._gaussian, smooth, fewest=LADDER[0].n_draws, most=LADDER[-2].n_draws)
        return replace(found, law=self._same_for_alike(found.law))

    @property
    def _may_hide(self) -> bool:
        """Whether the Gaussian's posterior may hide a part of the belief's; one mode is never hidden."""
        return not self._sites.is_log_concave and self._cover.gaussian_hides

    @cached_property
    def _sites(self) -> Sites:
        sites, d = Sites(self._prior, self._gaussian), self._prior.n_features
        for members in self._classes:
            first, *others = (self._prior.groups[g][0] * d for g in members)
            for other in others:  # groups that are alike are single arms
                sites.table[other : other + d] = sites.table[first : first + d]
        return sites


def resample(
    draws: FloatArray, log_weight: FloatArray, *, law: GaussianLaw, n: int, rng: np.random.Generator
) -> FloatArray:
    """n draws (n, K, d) out of weighted ones (S, K d), each group of arms by its own weights (S, G).

    Weighted draws are taken in random order: those that come from Sobol points, every eighth or sixteenth of them in
    their own order, would lie in one corner.
    """
    out = np.empty((n, draws.shape[1]))
    for g, block in enumerate(law.blocks):
        index = law.flat_index(block)
        weight = normalised(log_weight[None, :, g])[0]
        order = rng.permutation(len(weight))
        # Systematic resampling: as few ties as the weights allow; then in random order.
        chosen = np.searchsorted(np.cumsum(weight[order]), (np.arange(n) + rng.uniform()) / n)
        out[:, index] = draws[np.ix_(order[rng.permutation(np.minimum(chosen, len(weight) - 1))], index)]
    return out.reshape(n, law.n_arms, law.n_features)


def normalised(log_weight: FloatArray) -> FloatArray:
    """Weights that sum to one over the draws, (M, S); all alike where every one of them has collapsed."""
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - np.where(np.isfinite(top), top, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    return np.where(total > 0, weight / np.maximum(total, np.finfo(float).tiny), 1.0 / weight.shape[1])


def _gather(parts: list[tuple[np.ndarray, Weighted]], *, n_sets: int) -> Weighted:
    """Put the chunks back in the order of the data sets."""
    order = np.argsort(np.concatenate([index for index, _ in parts]))
    found = [part for _, part in parts]
    covariances = [part.covariance for part in found if part.covariance is not None]
    assert len(order) == n_sets
    return Weighted(
        mean=np.concatenate([part.mean for part in found])[order],
        covariance=np.concatenate(covariances)[order] if covariances else None,
        group_khat=np.concatenate([part.group_khat for part in found])[order],
        group_size=np.concatenate([part.group_size for part in found])[order],
        group_draws=np.concatenate([part.group_draws for part in found])[order],
    )
