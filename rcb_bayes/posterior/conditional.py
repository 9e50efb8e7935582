"""Posteriors of beliefs that are Gaussian given their scales: the scales are drawn, the rest is exact.

Each draw of the scales (or correlations, or the noise's sd) is a component of a Gaussian mixture; a data set reweights
the components by how well they predict it. The weights are importance weights with the belief itself as proposal, and
are vouched for like any others: k-hat below .7 and an effective size of at least 200.
"""

from dataclasses import replace

import numpy as np

from rcb_bayes.errors import BeliefError
from rcb_bayes.noise import GaussianNoise
from rcb_bayes.posterior.data import Rows, Statistics, as_statistics
from rcb_bayes.posterior.exact import Components, blocks_by_shape, component_posterior, exact_draws
from rcb_bayes.posterior.importance import KHAT_LIMIT, MIN_EFFECTIVE_SIZE, Weighted
from rcb_bayes.posterior.pareto import pareto_khat
from rcb_bayes.posterior.results import PosteriorBatch, linear_rewards, merged
from rcb_bayes.prior import Prior
from rcb_bayes.prior.law import Block
from rcb_bayes.schema import FloatArray

LADDER = (512, 2048, 8192)  # draws of the scales; more where fewer are not vouched for
_CHUNK_VALUES = 20_000_000


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
        self._kept: dict[int, list[tuple[list[Block], Components]]] = {}

    def fit(
        self, data: Statistics | Rows, *, covariance: bool = False, users: FloatArray | None = None
    ) -> PosteriorBatch:
        """Posterior moments of every data set, with k-hat and effective size of the scales' weights."""
        data = as_statistics(data)
        batch = self._attempt(data, LADDER[0], covariance=covariance)
        for n_draws in LADDER[1:]:
            open_sets = np.flatnonzero(~batch.vouched)
            if not len(open_sets):
                break
            found = self._attempt(data.take(open_sets), n_draws, covariance=covariance)
            batch = merged(batch, found, open_sets)
        return replace(batch, reward=linear_rewards(batch.mean, users))

    def draw(self, data: Statistics | Rows, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws, (M, n, K, d): a draw of the scales by its weight, then the rest exactly."""
        data = as_statistics(data)
        out = np.empty((data.n_sets, n, self.prior.n_arms, self.prior.n_features))
        for m in range(data.n_sets):
            one = data.take(slice(m, m + 1))
            n_draws = next((k for k in LADDER if self._attempt(one, k, covariance=False).vouched[0]), LADDER[-1])
            law = self.prior.conditional_law(n_draws).law
            out[m] = exact_draws(law, one, precision=self._precision(n_draws), n=n, rng=rng)[0]
        return out

    def _attempt(self, data: Statistics, n_draws: int, *, covariance: bool) -> PosteriorBatch:
        law = self.prior.conditional_law(n_draws).law
        largest = max(len(block.arms) for block in law.blocks) * law.n_features
        step = max(1, _CHUNK_VALUES // (n_draws * law.n_arms * law.n_features * largest))
        chunks = [data.take(slice(start, start + step)) for start in range(0, max(data.n_sets, 1), step)]
        parts = [self._fit_chunk(chunk, n_draws, covariance=covariance) for chunk in chunks]
        khat = np.concatenate([part.khat for part in parts])
        effective = np.concatenate([part.effective_size for part in parts])
        joints = [part.covariance for part in parts if part.covariance is not None]
        return PosteriorBatch(
            mean=np.concatenate([part.mean for part in parts]),
            covariance=np.concatenate(joints) if joints else None,
            vouched=(khat < KHAT_LIMIT) & (effective >= MIN_EFFECTIVE_SIZE),
            engine=np.full(data.n_sets, self.name, dtype=object),
            diagnostics={"khat": khat, "effective_size": effective, "effective_share": effective / n_draws},
            reason=self.reason,
        )

    def _fit_chunk(self, data: Statistics, n_draws: int, *, covariance: bool) -> Weighted:
        law = self.prior.conditional_law(n_draws).law
        size = law.n_arms * law.n_features
        mean = np.empty((data.n_sets, size))
        joint = np.zeros((data.n_sets, size, size)) if covariance else None
        khats, sizes = [], []
        for blocks, components in self._components(n_draws):
            found = component_posterior(components, data, precision=self._precision(n_draws), covariance=covariance)
            mixed = found.mixed_mean()
            spread = found.mixed_covariance() if joint is not None else None
            for b, block in enumerate(blocks):
                index = law.flat_index(block)
                mean[:, index] = mixed[:, b]
                if joint is not None and spread is not None:
                    joint[:, np.array(index)[:, None], index] = spread[:, b]
                log_weight = np.ascontiguousarray(found.log_weight[:, b])
                unseen = data.n[:, list(block.arms)].sum(axis=1) == 0
                khats.append(np.where(unseen, -np.inf, pareto_khat(log_weight)))
                sizes.append(1.0 / np.exp(2.0 * log_weight).sum(axis=1))
        khat, effective = np.stack(khats), np.stack(sizes).min(axis=0)
        return Weighted(
            mean=mean.reshape(data.n_sets, law.n_arms, law.n_features),
            covariance=joint,
            khat=np.where(np.isnan(khat).any(axis=0), np.nan, khat.max(axis=0)),
            effective_size=effective,
            effective_share=effective / n_draws,
        )

    def _components(self, n_draws: int) -> list[tuple[list[Block], Components]]:
        if n_draws not in self._kept:
            law = self.prior.conditional_law(n_draws).law
            self._kept[n_draws] = [(blocks, Components.of(blocks)) for blocks in blocks_by_shape(law)]
        return self._kept[n_draws]

    def _precision(self, n_draws: int) -> FloatArray | float:
        """1/sigma^2: the known one, or one per component where the belief has drawn it."""
        if self._noise.sigma is not None:
            return 1.0 / self._noise.sigma**2
        sigma = self.prior.conditional_law(n_draws).sigma
        assert sigma is not None  # an unknown sigma is the belief's own
        return (1.0 / sigma**2)[None]
