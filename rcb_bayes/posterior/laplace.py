r"""Posteriors under Bernoulli rewards: Laplace's approximation, corrected by importance sampling.

Proposals are made in coordinates u in which the belief is about normal: the coefficients themselves for Gaussian
beliefs, their mixtures and beliefs with lumps, else the normal scores of ``rcb_bayes.posterior.coordinates``. For each
group of arms and each Gaussian component of the belief there, Newton's method finds the mode of
:math:`\log N(u; m, V) + \sum_i \log \mathrm{logistic}(\pm x_i'b(u))`; Student-t draws around the modes, with the
curvature there, and from the belief's own components are weighted by the true belief and likelihood. Every component
keeps its share of the draws, so that no mode is lost. A belief that is Gaussian given one scale has its density by
integration over the scale (``rcb_bayes.posterior.marginal``), and a few values of the scale for components.

Outcomes that are all alike bound the coefficients on one side only, and on the other the belief's own tail remains, for
which the mode is a poor centre. So what is not vouched for (``rcb_bayes.posterior.vouching``) is drawn again, with more
draws, around the weighted moments of the draws before. The mean reward of a user is the average of logistic(x'b) over
the posterior, not logistic of the mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.errors import BeliefError
from rcb_bayes.posterior.coordinates import NormalScores, normal_scores
from rcb_bayes.posterior.data import Data, Rows, as_counted, as_rows
from rcb_bayes.posterior.estimates import Estimates
from rcb_bayes.posterior.importance import N_REPLICATES, normalised, resample
from rcb_bayes.posterior.logit import CHUNK_VALUES, log_likelihood, logistic, modes, signed_design
from rcb_bayes.posterior.lumps import find_lumps
from rcb_bayes.posterior.marginal import ScaleDensity
from rcb_bayes.posterior.proposal import moment_surrogate, scale_surrogate
from rcb_bayes.posterior.results import PosteriorBatch, users_of
from rcb_bayes.posterior.site_draws import SiteSampler
from rcb_bayes.posterior.site_fits import draws_of, fit_sites
from rcb_bayes.posterior.student import StudentMixture
from rcb_bayes.posterior.vouching import Checked, check_means, check_rewards
from rcb_bayes.schema import DEFAULT_SEED, BoolArray, FloatArray
from rcb_bayes.telling.progress import track

_LADDER = (512, 2048, 8192, 16384)
_CHUNK_VALUES = CHUNK_VALUES
_N_SCALES = 6  # values of an unknown scale that proposals are made for


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """Draws of M data sets: coefficients ``values`` (M, S, K d), each group's ``log_weight`` (M, S, G), and per group
    the coordinates ``u`` (M, S, p) and the component densities ``log_q`` (C, M, S) of its proposal."""

    values: FloatArray
    log_weight: FloatArray
    u: list[FloatArray]
    log_q: list[FloatArray]

    @property
    def n_draws(self) -> int:
        return self.values.shape[1]


class LaplaceEngine:
    """Laplace proposals with importance weights, for one belief."""

    name = "laplace"

    def __init__(self, prior: Prior, *, seed: int = DEFAULT_SEED) -> None:
        self._integrated = None if prior.has_density else ScaleDensity.of(prior.conditional_grid)
        self._climbs = prior.has_density or self._integrated is not None
        self._sites = SiteSampler.of(prior)
        if not self._climbs and self._sites is None:
            raise BeliefError(
                f"The laplace engine needs a density of beta, which '{prior.name}' lacks ({prior.density_reason}). "
                "Use engine='nuts' or engine='auto'."
            )
        self.prior = prior
        self.reason = "laplace: Bernoulli rewards and a belief with a density"
        self._seed = seed

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set and, on request, mean rewards of users (M, U, K)."""
        n_users = 0 if users is None else users.shape[-2]
        found = Estimates.empty(data.n_sets, self.prior, n_users=n_users, covariance=covariance)
        if self._sites is not None:
            fit_sites(self._sites, as_counted(data), found, users=users, seed=self._seed)
        if self._climbs:
            self._fit_modes(data, np.flatnonzero(~found.vouched), found, users=users)
        return PosteriorBatch(
            mean=found.mean.reshape(data.n_sets, self.prior.n_arms, self.prior.n_features),
            covariance=found.covariance,
            vouched=found.vouched,
            engine=np.full(data.n_sets, self.name, dtype=object),
            diagnostics={
                "khat": found.khat,
                "effective_size": found.effective_size,
                "effective_share": found.effective_share,
                "gap": found.gap,
            },
            reason=self.reason,
            reward=found.reward if users is not None else None,
            reward_variance=found.reward_variance,
        )

    def _fit_modes(self, data: Data, wanted: np.ndarray, found: Estimates, *, users: FloatArray | None) -> None:
        """Answer for some data sets, from proposals around modes."""
        if not len(wanted):
            return
        rows = as_rows(data.take(wanted))
        own = users_of(users, wanted)
        part = Estimates.like(found, len(wanted))
        turn = rows.fingerprints() % N_REPLICATES
        members = [np.flatnonzero(turn == replicate) for replicate in range(N_REPLICATES)]
        step = self._step(_LADDER[0])
        chunks = [(r, some[k : k + step]) for r, some in enumerate(members) for k in range(0, len(some), step)]
        for replicate, chunk in track(chunks, description="Laplace proposals"):
            proposals = self._laplace(rows.take(chunk))
            self._climb(rows, chunk, proposals, part, rung=0, replicate=replicate, users=own)
        found.fill(wanted, part)

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws by resampling the weighted ones, (M, n, K, d)."""
        law = self._surrogate
        out = np.empty((data.n_sets, n, self.prior.n_arms, self.prior.n_features))
        enough = [n_draws for n_draws in _LADDER if n_draws >= 4 * n] or [_LADDER[-1]]
        sited = self._sites_vouch(data)
        for m in range(data.n_sets):
            one = data.take(slice(m, m + 1))
            if sited[m] or not self._climbs:
                assert self._sites is not None  # or nobody would vouch
                values, log_weight = draws_of(self._sites, as_counted(one), n_draws=enough[0], seed=self._seed)
                out[m] = resample(values[0], log_weight[0], law=law, n=n, rng=rng)
                continue
            rows = as_rows(one)
            draws = None
            for draws in self._attempts(rows, replicate=int(rows.fingerprints()[0] % N_REPLICATES)):
                if draws.n_draws >= enough[0] and self._is_vouched(rows, draws):
                    break
            assert draws is not None  # the ladder has rungs
            out[m] = resample(draws.values[0], draws.log_weight[0], law=law, n=n, rng=rng)
        return out

    def _sites_vouch(self, data: Data) -> BoolArray:
        """Which data sets weighted draws under a Gaussian factor do for, (M,)."""
        found = Estimates.empty(data.n_sets, self.prior, n_users=0, covariance=False)
        if self._sites is not None:
            fit_sites(self._sites, as_counted(data), found, users=None, seed=self._seed)
        return found.vouched

    def _attempts(self, data: Rows, *, replicate: int) -> Iterator[_Draws]:
        """The draws of every rung, each from proposals fitted to those of the rung before."""
        proposals = self._laplace(data)
        for n_draws in _LADDER:
            draws = self._weighted_draws(data, proposals, n_draws=n_draws, replicate=replicate)
            yield draws
            proposals = _fitted(proposals, draws)

    def _is_vouched(self, one: Rows, draws: _Draws) -> bool:
        found = Estimates.empty(1, self.prior, n_users=0, covariance=False)
        self._average(draws, np.zeros(1, dtype=int), found, unseen=one.n == 0, users=None)
        return bool(found.vouched[0])

    def _climb(
        self,
        data: Rows,
        chunk: np.ndarray,
        proposals: list[StudentMixture],
        found: Estimates,
        *,
        rung: int,
        replicate: int,
        users: FloatArray | None,
    ) -> None:
        """Answer for the data sets at ``chunk``, and send those that are not vouched for up the ladder."""
        part = data.take(chunk)
        draws = self._weighted_draws(part, proposals, n_draws=_LADDER[rung], replicate=replicate)
        self._average(draws, chunk, found, unseen=part.n == 0, users=users_of(users, chunk))
        still = np.flatnonzero(~found.vouched[chunk])
        if not len(still) or rung + 1 == len(_LADDER):
            return
        proposals = [proposal.take(still) for proposal in _fitted(proposals, draws)]
        del draws
        step = self._step(_LADDER[rung + 1])
        for start in range(0, len(still), step):
            rows = slice(start, start + step)
            few = [proposal.take(rows) for proposal in proposals]
            self._climb(data, chunk[still[rows]], few, found, rung=rung + 1, replicate=replicate, users=users)

    def _step(self, n_draws: int) -> int:
        """Data sets to answer at a time."""
        return max(1, _CHUNK_VALUES // (n_draws * self.prior.n_arms * self.prior.n_features))

    def _laplace(self, data: Rows) -> list[StudentMixture]:
        """Each group's proposals around the modes."""
        out = []
        for block, scores in zip(self._blocks, self._scores, strict=True):
            centre, root = modes(block, signed_design(data, block.arms), scores)
            out.append(StudentMixture.around(centre, root, block))
        return out

    def _weighted_draws(self, data: Rows, proposals: list[StudentMixture], *, n_draws: int, replicate: int) -> _Draws:
        """Draws and the log weights of each group."""
        d = self.prior.n_features
        values = np.empty((data.n_sets, n_draws, self.prior.n_arms * d))
        log_weight = np.empty((data.n_sets, n_draws, len(proposals)))
        coordinates, densities = [], []
        for g, (proposal, scores) in enumerate(zip(proposals, self._scores, strict=True)):
            arms = self._blocks[g].arms
            u = proposal.draw(n_draws, seed=(self._seed, replicate, n_draws, arms[0]))
            log_q = proposal.log_densities(u)
            own = u
            log_weight[:, :, g] = -np.logaddexp.reduce(log_q, axis=0) if len(log_q) > 1 else -log_q[0]
            if scores is not None:
                own, slopes = scores.values_and_slopes(u)
                log_weight[:, :, g] += np.log(slopes).sum(axis=2)
            values[:, :, self._surrogate.flat_index(self._surrogate.blocks[g])] = own
            log_weight[:, :, g] += log_likelihood(own, signed_design(data, arms))
            coordinates.append(u)
            densities.append(log_q)
        log_density = self.prior.group_log_density if self._integrated is None else self._integrated
        log_prior = log_density(values.reshape(-1, self.prior.n_arms, d)).reshape(log_weight.shape)
        log_weight = np.where(np.isfinite(log_prior), log_weight + log_prior, -np.inf)
        return _Draws(values, log_weight, coordinates, densities)

    def _average(
        self,
        draws: _Draws,
        chunk: np.ndarray,
        found: Estimates,
        *,
        unseen: BoolArray,
        users: FloatArray | None,
    ) -> None:
        """Average one chunk of data sets and write the results to their places; ``unseen`` (M, K) arms have no row."""
        worst = None
        for g, block in enumerate(self._surrogate.blocks):
            index = self._surrogate.flat_index(block)
            log_weight = np.ascontiguousarray(draws.log_weight[:, :, g])
            weight = normalised(log_weight)
            part = draws.values[:, :, index]
            mean = (weight[:, None, :] @ part)[:, 0]
            found.mean[np.ix_(chunk, index)] = mean
            centred = part - mean[:, None]
            if found.covariance is not None:
                found.covariance[np.ix_(chunk, index, index)] = (weight[..., None] * centred).swapaxes(1, 2) @ centred
            known = unseen[:, list(block.arms)].all(axis=1)
            checked = check_means(log_weight, weight, centred).of_known_means(known)
            if users is not None:
                checked = self._reward(weight, part, block, chunk, found, checked, users=users)
            self._fill_unseen(chunk[known], index, found)
            worst = checked if worst is None else worst.worse(checked)
        assert worst is not None  # a belief has arms
        found.put(worst, chunk, n_draws=draws.n_draws)

    def _reward(
        self,
        weight: FloatArray,
        part: FloatArray,
        block: Block,
        chunk: np.ndarray,
        found: Estimates,
        checked: Checked,
        *,
        users: FloatArray,
    ) -> Checked:
        """Mean rewards of users by the arms of a group, and what their draws show."""
        d = self.prior.n_features
        for k, arm in enumerate(block.arms):
            reward = logistic(part[:, :, k * d : (k + 1) * d] @ users.swapaxes(-1, -2))  # (M, S, U)
            mean = (weight[:, None] @ reward)[:, 0]
            found.reward[chunk, :, arm] = mean
            if found.reward_variance is not None:
                square = (weight[:, None] @ reward**2)[:, 0]
                found.reward_variance[chunk, :, arm] = np.maximum(square - mean**2, 0.0)
            checked = checked.with_rewards(*check_rewards(weight, reward, mean))
        return checked

    def _fill_unseen(self, rows: np.ndarray, index: list[int], found: Estimates) -> None:
        """A group without any sample keeps its prior moments."""
        if not len(rows):
            return
        found.mean[np.ix_(rows, index)] = self.prior.mean.values.reshape(-1)[index]
        if found.covariance is not None:
            covariance = self.prior.covariance.values.reshape(found.covariance.shape[1:])
            found.covariance[np.ix_(rows, index, index)] = covariance[np.ix_(index, index)]

    @cached_property
    def _surrogate(self) -> GaussianLaw:
        """The belief's closed form, a few values of its one scale, or its moments and the lumps that they hide."""
        if self.prior.law is not None:
            return self.prior.law
        if self._integrated is not None:
            return self._integrated.typical(_N_SCALES)
        if not self.prior.has_density and self.prior.conditional_grid is not None:
            return self.prior.conditional_grid.law
        gaussian = moment_surrogate(self.prior)
        smooth = scale_surrogate(self.prior, gaussian)  # tails are not lumps: the proposal has its own
        full = find_lumps(self.prior, gaussian, smooth, fewest=_LADDER[0], most=_LADDER[-1]).law
        pairs = zip(gaussian.blocks, full.blocks, smooth.blocks, strict=True)
        blocks = tuple(_with_lumps(plain, whole, start=part.n_components) for plain, whole, part in pairs)
        return GaussianLaw(n_arms=gaussian.n_arms, n_features=gaussian.n_features, blocks=blocks)

    @cached_property
    def _scores(self) -> list[NormalScores | None]:
        """Each group's normal scores; None where proposals are made for the coefficients themselves."""
        blocks = self._surrogate.blocks
        is_plain = self.prior.law is not None or self._integrated is not None
        plain = [is_plain or block.n_components > 1 for block in blocks]
        if all(plain):
            return [None] * len(blocks)
        found = normal_scores(self.prior, blocks)
        return [None if own else scores for own, scores in zip(plain, found, strict=True)]

    @cached_property
    def _blocks(self) -> list[Block]:
        """Each group's Gaussian components, in the coordinates of its proposals."""
        pairs = zip(self._surrogate.blocks, self._scores, strict=True)
        return [block if scores is None else _standard(block, scores) for block, scores in pairs]


def _fitted(proposals: list[StudentMixture], draws: _Draws) -> list[StudentMixture]:
    """Each group's proposals, fitted to its weighted draws."""
    parts = enumerate(zip(proposals, draws.u, draws.log_q, strict=True))
    return [proposal.fitted(u, draws.log_weight[:, :, g], log_q) for g, (proposal, u, log_q) in parts]


def _standard(block: Block, scores: NormalScores) -> Block:
    """The belief in its normal scores: standard normal, and correlated as they are."""
    p = len(scores.centre)
    return Block(arms=block.arms, weights=np.ones(1), means=np.zeros((1, p)), covariances=scores.correlation[None])


def _with_lumps(plain: Block, full: Block, *, start: int) -> Block:
    """A Gaussian block with the components that ``full`` has from ``start`` on; all get the same share of the draws."""
    n_components = 1 + full.n_components - start
    return Block(
        arms=plain.arms,
        weights=np.full(n_components, 1.0 / n_components),
        means=np.concatenate([plain.means, full.means[start:]]),
        covariances=np.concatenate([plain.covariances, full.covariances[start:]]),
    )
