"""Posteriors of beliefs that are Gaussian given their scales: the scales are drawn, the rest is exact.

Each draw of the scales (or correlations, or the noise's sd) is a component of a Gaussian mixture; a data set reweights
the components by how well they predict it. The weights are importance weights with the belief itself as proposal, and
are vouched for like any others: k-hat below .7 and an effective size of at least 200. Data sets take turns with
several sets of draws, because an error that all of them share does not average out over them.

Where one or two numbers are unknown, a rule over their values comes first (``scales``, ``unknown_noise``): it takes
some twenty components in place of hundreds of draws, and draws are for what it does not vouch for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.errors import BeliefError
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior.data import Data, Statistics, as_statistics
from rcb_bayes.posterior.drawn_scales import DrawnScales
from rcb_bayes.posterior.exact import Components, blocks_by_shape, component_posterior, exact_draws
from rcb_bayes.posterior.pareto import pareto_khat
from rcb_bayes.posterior.results import PosteriorBatch, linear_rewards
from rcb_bayes.posterior.scales import Integrated, ScaleGrid
from rcb_bayes.posterior.unknown_noise import NoiseIntegral, NoiseMixture, integrate_noise, noise_mixture
from rcb_bayes.posterior.vouching import KHAT_LIMIT, MIN_EFFECTIVE_SIZE
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track

_MOST_DENSE = 8192  # draws, where arms are not factored one by one
_LAW_VALUES = 30_000_000  # in the covariances of all draws of the scales
_CHUNK_VALUES = 1_000_000  # numbers in the largest array: more would not fit the processor's cache


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: the number of draws of the scales, and of sets of such draws that the data sets take turns with."""

    n_draws: int
    n_replicates: int


LADDER = (Attempt(512, 4), Attempt(2048, 2), Attempt(8192, 1), Attempt(32768, 1))
NOISE_LADDER = (Attempt(8192, 4), Attempt(65536, 1))  # a draw costs little where the noise alone is unknown


class ConditionalEngine:
    """Exact posteriors given the scales, averaged over their reweighted draws."""

    name = "conditional"

    def __init__(self, prior: Prior, noise: GaussianNoise) -> None:
        if not prior.is_conditionally_gaussian:
            raise BeliefError(
                f"The conditional engine needs a belief that is Gaussian given its scales, '{prior.name}' is not that. "
                "Use engine='auto' or engine='nuts'."
            )
        self.prior = prior
        self.reason = "conditional: the belief is Gaussian given its scales"
        self._noise = noise
        self._kept: dict[tuple[int, int], tuple[list[DrawnScales], list[tuple[list[Block], Components]]]] = {}

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set, with k-hat and effective size of the scales' weights."""
        data = as_statistics(data)
        turn = data.fingerprints()
        batch = self._integrated(data, covariance=covariance)
        for attempt in self._ladder:
            open_sets = np.flatnonzero(~batch.vouched)
            if not len(open_sets):
                break
            members = [open_sets[turn[open_sets] % attempt.n_replicates == r] for r in range(attempt.n_replicates)]
            chunks = [(r, chunk) for r, own in enumerate(members) for chunk in self._chunks(own, attempt)]
            for replicate, chunk in track(chunks, description=f"{attempt.n_draws} draws of the scales"):
                found = self._fit(data.take(chunk), attempt, replicate=replicate, covariance=covariance)
                _put(batch, found, chunk)
        return replace(batch, reward=linear_rewards(batch.mean, users))

    def _integrated(self, data: Statistics, *, covariance: bool) -> PosteriorBatch:
        """What a rule over the only unknown scale, or over the noise, vouches for; nothing where more is unknown."""
        batch = _empty(data.n_sets, self.prior, covariance=covariance, reason=self.reason)
        if not self._grids and self._noise_line is None:
            return batch
        for chunk in self._chunks(np.arange(data.n_sets), Attempt(64, 1)):
            part = data.take(chunk)
            if self._grids:
                found = self._integrated_scales(part, covariance=covariance)
                mean, spread = found.mean, found.covariance
            else:
                found = self._noise_integral(part)
                mean, spread = found.mixture.mean(), found.mixture.covariance() if covariance else None
            kept = chunk[found.vouched]
            batch.mean[kept] = mean[found.vouched].reshape(-1, *batch.mean.shape[1:])
            batch.vouched[kept] = True
            if batch.covariance is not None and spread is not None:
                batch.covariance[kept] = spread[found.vouched]
            sizes = found.effective_size[found.vouched]
            for name, values in (("khat", -np.inf), ("effective_size", sizes), ("effective_share", 1.0)):
                batch.diagnostics[name][kept] = values
        return batch

    @cached_property
    def _grids(self) -> tuple[ScaleGrid, ...]:
        """A rule for each independent group of arms, over its one scale or its two; none where that will not do."""
        given = self.prior.conditional_grid
        laws = (given,) if given is not None else self.prior.conditional_lattices or ()
        found = [ScaleGrid.of(law, sigma=self._noise.sigma) for law in laws]
        grids = tuple(grid for grid in found if grid is not None)
        return grids if len(grids) == len(found) else ()

    def _integrated_scales(self, data: Statistics, *, covariance: bool) -> Integrated:
        """The rules of all groups, side by side."""
        if len(self._grids) == 1:
            return self._grids[0].fit(data, covariance=covariance)
        size, d = self.prior.n_arms * self.prior.n_features, self.prior.n_features
        found = Integrated(
            mean=np.empty((data.n_sets, size)),
            covariance=np.zeros((data.n_sets, size, size)) if covariance else None,
            effective_size=np.full(data.n_sets, np.inf),
            vouched=np.ones(data.n_sets, dtype=bool),
        )
        for grid in self._grids:
            part = grid.fit(data, covariance=covariance)
            index = np.array([arm * d + k for arm in grid.arms for k in range(d)])
            found.mean[:, index] = part.mean
            if found.covariance is not None and part.covariance is not None:
                found.covariance[:, index[:, None], index] = part.covariance
            np.minimum(found.effective_size, part.effective_size, out=found.effective_size)
            found.vouched[:] &= part.vouched
        return found

    @cached_property
    def _noise_line(self) -> tuple[FloatArray, FloatArray] | None:
        return self.prior.noise_line if self._noise.sigma is None else None

    def _noise_integral(self, data: Statistics) -> NoiseIntegral:
        block = self.prior.conditional_law(LADDER[0].n_draws).law.blocks[0]
        assert self._noise_line is not None  # callers ask first
        return integrate_noise(block.means[0], block.covariances[0], data, line=self._noise_line)

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws, (M, n, K, d): a draw of the scales by its weight, then the rest exactly."""
        data = as_statistics(data)
        out = np.empty((data.n_sets, n, self.prior.n_arms, self.prior.n_features))
        for m in range(data.n_sets):
            one = data.take(slice(m, m + 1))
            if self._integrated(one, covariance=False).vouched[0]:
                out[m] = self._drawn_from_rule(one, n, rng=rng)
                continue
            attempt = next((a for a in self._ladder if self._fit(one, a, replicate=0).vouched[0]), self._ladder[-1])
            if self._only_sigma:
                out[m] = self._noise_mixture(one, attempt, replicate=0).draw(n, rng=rng).reshape(out.shape[1:])
            else:
                law = self.prior.conditional_law(attempt.n_draws).law
                out[m] = exact_draws(law, one, precision=self._precision(attempt, 0), n=n, rng=rng)[0]
        return out

    def _drawn_from_rule(self, one: Statistics, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Draws of one data set, (n, K, d): a node of the rule by its weight, then the rest exactly."""
        grids = list(self._grids)
        if grids:
            law = grids[0].law
            if len(grids) > 1:
                law = replace(law, blocks=tuple(block for grid in grids for block in grid.law.blocks))
            return exact_draws(law, one, precision=grids[0].noise_precision[None], n=n, rng=rng)[0]
        flat = self._noise_integral(one).mixture.draw(n, rng=rng)
        return flat.reshape(n, self.prior.n_arms, self.prior.n_features)

    @property
    def _only_sigma(self) -> bool:
        return self.prior.conditional_law(LADDER[0].n_draws).only_sigma

    @property
    def _ladder(self) -> tuple[Attempt, ...]:
        """The attempts that do not take too long, or too much memory."""
        if self._only_sigma:
            return NOISE_LADDER
        size = max(len(block.arms) for block in self._first_law.blocks) * self.prior.n_features
        most = max(_LAW_VALUES // size**2, _MOST_DENSE) if self._fits_arms else _MOST_DENSE
        return tuple(attempt for attempt in LADDER if attempt.n_draws <= most)

    @cached_property
    def _fits_arms(self) -> bool:
        """Whether arms are factored one by one, whatever is drawn."""
        return not self._only_sigma and not self._components(LADDER[0], 0)[1]

    @property
    def _first_law(self) -> GaussianLaw:
        return self.prior.conditional_law(LADDER[0].n_draws).law

    def _chunks(self, members: np.ndarray, attempt: Attempt) -> list[np.ndarray]:
        """Data sets to fit at a time, so that memory stays bounded."""
        law = self._first_law
        size = law.n_arms * law.n_features
        if self._fits_arms:
            step = max(1, 4 * _CHUNK_VALUES // attempt.n_draws)
            return [members[start : start + step] for start in range(0, len(members), step)]
        largest = 1 if self._only_sigma else max(len(block.arms) for block in law.blocks) * law.n_features
        step = max(1, _CHUNK_VALUES // (attempt.n_draws * size * largest))
        return [members[start : start + step] for start in range(0, len(members), step)]

    def _fit(self, data: Statistics, attempt: Attempt, *, replicate: int, covariance: bool = False) -> PosteriorBatch:
        """One chunk of data sets by one set of draws."""
        batch = _empty(data.n_sets, self.prior, covariance=covariance, reason=self.reason)
        flat = batch.mean.reshape(data.n_sets, -1)
        khat, effective = np.full(data.n_sets, -np.inf), np.full(data.n_sets, np.inf)
        for index, arms, mean, spread, log_weight in self._posteriors(data, attempt, replicate, covariance=covariance):
            unseen = data.n[:, arms].sum(axis=1) == 0
            flat[:, index] = np.where(unseen[:, None], self.prior.mean.values.reshape(-1)[index], mean)
            if batch.covariance is not None and spread is not None:
                batch.covariance[:, np.array(index)[:, None], index] = spread
            khat = np.maximum(khat, np.where(unseen, -np.inf, pareto_khat(log_weight)))  # NaN stays NaN
            effective = np.minimum(effective, 1.0 / np.exp(2.0 * log_weight).sum(axis=1))
        return replace(
            batch,
            vouched=(khat < KHAT_LIMIT) & (effective >= MIN_EFFECTIVE_SIZE),
            diagnostics={
                "khat": khat,
                "effective_size": effective,
                "effective_share": effective / attempt.n_draws,
            },
        )

    def _posteriors(
        self, data: Statistics, attempt: Attempt, replicate: int, *, covariance: bool
    ) -> Iterator[tuple[list[int], list[int], FloatArray, FloatArray | None, FloatArray]]:
        """For every group: index of its coefficients, arms, mean (M, p), covariance (M, p, p), log weights (M, J)."""
        if self._only_sigma:
            found = self._noise_mixture(data, attempt, replicate=replicate)
            everything = list(range(found.centre.size))
            spread = found.covariance() if covariance else None
            yield everything, list(range(self.prior.n_arms)), found.mean(), spread, found.log_weight
            return
        precision = self._precision(attempt, replicate)
        d = self.prior.n_features
        arrows, dense = self._components(attempt, replicate)
        for one in arrows:
            mean, spread, log_weight = one.fit(data, covariance=covariance)
            yield [arm * d + k for arm in one.arms for k in range(d)], one.arms.tolist(), mean, spread, log_weight
        for blocks, components in dense:
            found = component_posterior(components, data, precision=precision, covariance=covariance)
            means = found.mixed_mean()
            spreads = found.mixed_covariance() if covariance else None
            for b, block in enumerate(blocks):
                index = [arm * d + k for arm in block.arms for k in range(d)]
                spread = None if spreads is None else spreads[:, b]
                yield index, list(block.arms), means[:, b], spread, np.ascontiguousarray(found.log_weight[:, b])

    def _noise_mixture(self, data: Statistics, attempt: Attempt, *, replicate: int) -> NoiseMixture:
        block = self.prior.conditional_law(attempt.n_draws, replicate=replicate).law.blocks[0]
        tau = np.broadcast_to(self._precision(attempt, replicate), (1, attempt.n_draws))[0]
        return noise_mixture(block.means[0], block.covariances[0], data, tau=tau)

    def _components(
        self, attempt: Attempt, replicate: int
    ) -> tuple[list[DrawnScales], list[tuple[list[Block], Components]]]:
        """The law given the draws: blocks of arms one by one where that can be, the others in batches of one shape."""
        key = attempt.n_draws, replicate
        if key not in self._kept:
            law = self.prior.conditional_law(attempt.n_draws, replicate=replicate).law
            precision = self._precision(attempt, replicate)
            arrows = [DrawnScales.of(block, precision) for block in law.blocks]
            rest = [block for block, arrow in zip(law.blocks, arrows, strict=True) if arrow is None]
            batches = blocks_by_shape(replace(law, blocks=tuple(rest))) if rest else ()
            kept = [arrow for arrow in arrows if arrow is not None]
            self._kept[key] = kept, [(blocks, Components.of(blocks)) for blocks in batches]
        return self._kept[key]

    def _precision(self, attempt: Attempt, replicate: int) -> FloatArray | float:
        """1/sigma^2: the known one, or one per component where the belief has drawn it."""
        if self._noise.sigma is not None:
            return 1.0 / self._noise.sigma**2
        sigma = self.prior.conditional_law(attempt.n_draws, replicate=replicate).sigma
        assert sigma is not None  # an unknown sigma is the belief's own
        return (1.0 / sigma**2)[None]


def _empty(n_sets: int, prior: Prior, *, covariance: bool, reason: str) -> PosteriorBatch:
    """Results yet to be filled in; nothing is vouched for."""
    size = prior.n_arms * prior.n_features
    return PosteriorBatch(
        mean=np.zeros((n_sets, prior.n_arms, prior.n_features)),
        covariance=np.zeros((n_sets, size, size)) if covariance else None,
        vouched=np.zeros(n_sets, dtype=bool),
        engine=np.full(n_sets, ConditionalEngine.name, dtype=object),
        diagnostics={name: np.full(n_sets, np.nan) for name in ("khat", "effective_size", "effective_share")},
        reason=reason,
    )


def _put(batch: PosteriorBatch, found: PosteriorBatch, index: np.ndarray) -> None:
    """Write the results of some data sets to their places."""
    batch.mean[index] = found.mean
    batch.vouched[index] = found.vouched
    for name, values in found.diagnostics.items():
        batch.diagnostics[name][index] = values
    if batch.covariance is not None and found.covariance is not None:
        batch.covariance[index] = found.covariance
