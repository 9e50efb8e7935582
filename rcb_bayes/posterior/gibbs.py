r"""Posteriors of normal effects with unknown scales by Gibbs sampling, many data sets at a time.

Of beliefs of the form of ``belief.scale_mixture`` every conditional law is at hand: effects are normal given their
variances, mixing variances have closed forms, and a scale is one number with a known density (``sweeps``). Scales of
single effects, as horseshoes have them, are drawn with the effects integrated out (``collapsed``). Eight chains start
from the belief. Means are averages of the effects' means given their variances, not of draws, so that few sweeps
do where the data leave the scales little to say.

Chains run for a round, then for one twice as long, and so on; the last round alone is looked at. Its answer is vouched
for when, in every coefficient and in posterior standard deviations (within chains),

- the Monte Carlo error of the mean, by the spread of the chains' means or of batches of them, whichever is larger, is
  so small that the largest of p such errors stays below .1;
- no two chains are further apart than .3, and the first half of the round no further from the second than .15.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import BeliefError
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior.data import Data, Statistics, as_statistics
from rcb_bayes.posterior.results import PosteriorBatch, linear_rewards
from rcb_bayes.posterior.vouching import LARGEST_GAP, largest_error
from rcb_bayes.schema import DEFAULT_SEED, BoolArray, FloatArray
from rcb_bayes.telling.progress import track

if TYPE_CHECKING:
    from rcb_bayes.belief.scale_mixture import ScaleMixture

N_CHAINS, N_BATCHES = 8, 4
ROUNDS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # sweeps; the first is never looked at
MOST_SHARED = 128  # effects that arms share: their precision is one dense block
LARGEST_MEAN_ERROR = 0.1  # of p coefficients, in posterior sd
LARGEST_DRIFT = 0.15  # between the halves of a round, in posterior sd
_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Effects in the order of ``sweeps``: m of each arm, padded, then r that arms share.

    ``loads`` (K, d, m) and ``shared_loads`` (K, d, r) say what effects do to coefficients; ``belief`` is the rest of
    the mixture in that order, with ``kind`` and ``nu``; ``member`` and ``start`` list the effects of each scale,
    ``spans`` (S, 3) the arms from, the arms up to, and whether any of them is shared; ``rate`` (S,) is its power in
    their variances. ``singles[single_start[i] : single_start[i + 1]]`` are the scales of one effect of arm i each,
    ``shared`` the others.
    """

    loads: FloatArray
    shared_loads: FloatArray
    belief: tuple[np.ndarray, ...]
    kind: np.ndarray
    nu: FloatArray
    member: np.ndarray
    start: np.ndarray
    spans: np.ndarray
    rate: FloatArray
    shared: np.ndarray
    singles: np.ndarray
    single_start: np.ndarray

    @property
    def n_effects(self) -> int:
        """With those that fill places."""
        return len(self.kind)

    @classmethod
    def of(cls, mixture: "ScaleMixture", *, n_arms: int, n_features: int) -> "Layout | None":
        """The layout of a belief's effects; None where one scale has different powers, or arms share too much."""
        root = mixture.root.reshape(n_arms, n_features, -1)
        touched = (root != 0).any(axis=1)  # (K, E)
        is_own = touched.sum(axis=0) == 1
        arm_of = touched.argmax(axis=0)
        m = max((int((is_own & (arm_of == i)).sum()) for i in range(n_arms)), default=0)
        shared = np.flatnonzero(~is_own)
        if len(shared) > MOST_SHARED:
            return None
        n_effects = n_arms * m + len(shared)
        place = np.empty(mixture.n_effects, dtype=np.int64)
        for i in range(n_arms):
            own = np.flatnonzero(is_own & (arm_of == i))
            place[own] = i * m + np.arange(len(own))
        place[shared] = n_arms * m + np.arange(len(shared))
        loads = np.zeros((n_arms, n_features, m))
        for e in np.flatnonzero(is_own):
            loads[arm_of[e], :, place[e] - arm_of[e] * m] = root[arm_of[e], :, e]

        def put(values: np.ndarray, fill: float) -> np.ndarray:
            out = np.full((n_effects, *values.shape[1:]), fill, dtype=values.dtype)
            out[place] = values
            return out

        belief = (
            put(mixture.base, 0.0), put(mixture.term, -1), put(mixture.power, 0.0),
            put(mixture.slab, -1), put(mixture.slab_base, 0.0), put(mixture.slab_power, 0.0),
            mixture.low, mixture.step, mixture.line, mixture.line_of,
        )  # fmt: skip
        members = _members(belief, mixture.n_scales, n_arms=n_arms, m=m)
        return (
            None
            if members is None
            else cls(
                loads=loads,
                shared_loads=np.ascontiguousarray(root[:, :, shared]),
                belief=belief,
                kind=put(mixture.kind, 0),
                nu=put(mixture.nu, 1.0),
                **members,
            )
        )


def _members(belief: tuple[np.ndarray, ...], n_scales: int, *, n_arms: int, m: int) -> dict[str, np.ndarray] | None:
    """The effects of each scale, and what is the same in all of them: see ``Layout``; None where powers differ."""
    _, term, power, slab, _, slab_power = belief[:6]
    member: list[np.ndarray] = []
    spans = np.zeros((n_scales, 3), dtype=np.int64)
    rate = np.ones(n_scales)
    for s in range(n_scales):
        in_term, in_slab = (term == s).any(axis=1), slab == s
        own = np.flatnonzero(in_term | in_slab)
        powers = np.concatenate([power[in_term][term[in_term] == s], slab_power[in_slab]])
        if len(np.unique(powers)) > 1 or len(powers) > len(own):
            return None
        rate[s] = powers[0] if len(powers) else 1.0
        is_shared = bool((own >= n_arms * m).any())
        arms = own[own < n_arms * m] // max(m, 1)
        spans[s] = (0, n_arms, 1) if is_shared or not len(arms) else (arms.min(), arms.max() + 1, 0)
        member.append(own)
    start = np.cumsum([0, *(len(own) for own in member)]).astype(np.int64)
    flat = np.concatenate([*member, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    return {"member": flat, "start": start, "spans": spans, "rate": rate} | _singles(member, n_arms=n_arms, m=m)


def _singles(member: list[np.ndarray], *, n_arms: int, m: int) -> dict[str, np.ndarray]:
    """Scales of one effect of one arm each, arm by arm, and those that effects share."""
    is_single = np.array([len(own) == 1 and own[0] < n_arms * m for own in member], dtype=bool)
    singles = np.flatnonzero(is_single)
    arm = np.array([member[s][0] // m for s in singles], dtype=np.int64)
    order = np.argsort(arm, kind="stable")
    is_used = np.array([len(own) > 0 for own in member], dtype=bool)
    return {
        "shared": np.flatnonzero(is_used & ~is_single),
        "singles": singles[order],
        "single_start": np.searchsorted(arm[order], np.arange(n_arms + 1)),
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Chains:
    """Where the chains of M data sets are: log scales (M, C, S) and log mixing variances (M, C, E)."""

    x: FloatArray
    mixing: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """What a round of M data sets gave: means of batches (M, C, batches, p), second moments of each chain (M, C, p),
    both less the centre, the joint ones (M, p, p) or none, and kept draws (M, C, n, p)."""

    means: FloatArray
    squares: FloatArray
    joint: FloatArray
    kept: FloatArray

    def mean(self) -> FloatArray:
        """Over all chains, (M, p)."""
        return self.means.mean(axis=(1, 2))

    def sd(self) -> FloatArray:
        """Posterior standard deviations within chains, (M, p)."""
        variance = (self.squares - self.means.mean(axis=2) ** 2).mean(axis=1)
        return np.sqrt(np.maximum(variance, np.finfo(float).tiny))

    def judged(self) -> tuple[dict[str, FloatArray], BoolArray]:
        """Errors and gaps of the worst coefficient, each (M,), and whether the answers are vouched for."""
        n_chains, n_batches, p = self.means.shape[1:]
        sd = self.sd()
        chains = self.means.mean(axis=2)  # (M, C, p)
        batches = self.means.reshape(len(self.means), -1, p)
        error = np.maximum(
            chains.std(axis=1, ddof=1) / np.sqrt(n_chains), batches.std(axis=1, ddof=1) / np.sqrt(batches.shape[1])
        )
        halves = self.means.mean(axis=1)  # (M, batches, p)
        drift = halves[:, : n_batches // 2].mean(axis=1) - halves[:, n_batches // 2 :].mean(axis=1)
        found = {
            "mean_error": (error / sd).max(axis=1),
            "gap": ((chains.max(axis=1) - chains.min(axis=1)) / sd).max(axis=1),
            "drift": (np.abs(drift) / sd).max(axis=1),
        }
        vouched = found["mean_error"] * largest_error(1.0, p) <= LARGEST_MEAN_ERROR
        vouched &= (found["gap"] <= LARGEST_GAP) & (found["drift"] <= LARGEST_DRIFT)
        return found, vouched


class GibbsEngine:
    """Gibbs sampling of effects and their scales, with the chains' own errors as the voucher."""

    name = "gibbs"

    def __init__(self, prior: Prior, noise: GaussianNoise, *, seed: int = DEFAULT_SEED) -> None:
        mixture = None if noise.sigma is None else prior.scale_mixture
        layout = layout_of(prior)
        if mixture is None or layout is None or noise.sigma is None:
            raise BeliefError(
                f"The gibbs engine needs normal effects with unknown scales and a known sigma, '{prior.name}' is not "
                "that. Use engine='auto' or engine='nuts'."
            )
        self.prior = prior
        self.reason = "gibbs: the belief is normal effects with unknown scales"
        self._sigma, self._seed = noise.sigma, seed
        self._mixture, self._layout = mixture, layout

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set, with the error, the gap and the drift of the chains' means."""
        data = as_statistics(data)
        p = self.prior.n_arms * self.prior.n_features
        mean, joint = np.empty((data.n_sets, p)), np.empty((data.n_sets, p, p)) if covariance else None
        diagnostics = {name: np.full(data.n_sets, np.nan) for name in ("mean_error", "gap", "drift", "sweeps")}
        vouched = np.zeros(data.n_sets, dtype=bool)
        for chunk in track(self._chunks(data.n_sets, covariance=covariance), description="Gibbs sampling"):
            for rows, found, n_sweeps in self._rounds(data, chunk, covariance=covariance):
                figures, fine = found.judged()
                mean[rows], vouched[rows] = found.mean(), fine
                for name, values in (*figures.items(), ("sweeps", np.full(len(rows), float(n_sweeps)))):
                    diagnostics[name][rows] = values
                if joint is not None:
                    joint[rows] = found.joint - mean[rows][:, :, None] * mean[rows][:, None]
        mean = (mean + self._mixture.centre).reshape(-1, self.prior.n_arms, self.prior.n_features)
        return PosteriorBatch(
            mean=mean,
            covariance=joint,
            vouched=vouched,
            engine=np.full(data.n_sets, self.name, dtype=object),
            diagnostics=diagnostics,
            reason=self.reason,
            reward=linear_rewards(mean, users),
        )

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Draws of the chains, evenly spread over their last round, (M, n, K, d)."""
        data = as_statistics(data)
        per_chain = -(-n // N_CHAINS)
        out = np.empty((data.n_sets, n, self.prior.n_arms * self.prior.n_features))
        for chunk in self._chunks(data.n_sets, covariance=False):
            for rows, found, _ in self._rounds(data, chunk, covariance=False, n_kept=per_chain):
                flat = found.kept.reshape(len(rows), -1, out.shape[2])
                out[rows] = flat[:, rng.permutation(flat.shape[1])[:n]]
        return (out + self._mixture.centre).reshape(data.n_sets, n, self.prior.n_arms, self.prior.n_features)

    def _rounds(self, data: Statistics, rows: np.ndarray, *, covariance: bool, n_kept: int = 0) -> Any:
        """The rounds of some data sets: those still open, what they gave, and the sweeps of the round."""
        prints = data.fingerprints()
        part = data.take(rows)
        chains = self._started(part, prints[rows])
        for number, n_sweeps in enumerate(ROUNDS):
            last = number == len(ROUNDS) - 1
            seeds = _seeds(prints[rows], self._seed, number)
            wanted = covariance and number > 0
            n_sweeps = max(n_sweeps, N_BATCHES * -(-n_kept // N_BATCHES))
            found = self._run(part, chains, seeds, n_sweeps, covariance=wanted, n_kept=n_kept)
            if number == 0:
                continue
            yield rows, found, n_sweeps
            still = np.flatnonzero(~found.judged()[1])
            if last or not len(still):
                return
            rows, part = rows[still], part.take(still)
            chains = _Chains(chains.x[still], chains.mixing[still])

    def _started(self, data: Statistics, prints: np.ndarray) -> _Chains:
        """Chains at draws of the scales from the belief: the same for all data sets that take turns with them."""
        layout = self._layout
        x = np.empty((data.n_sets, N_CHAINS, self._mixture.n_scales))
        mixing = np.zeros((data.n_sets, N_CHAINS, layout.n_effects))
        for turn in range(_TURNS):
            rows = np.flatnonzero(prints % _TURNS == turn)
            rng = np.random.default_rng([self._seed, turn, 17])
            x[rows] = self._mixture.draw_scales(N_CHAINS, rng=rng)
            mixing[rows] = _drawn_mixing(layout, rng)
        return _Chains(x, mixing)

    def _run(
        self, data: Statistics, chains: _Chains, seeds: np.ndarray, n_sweeps: int, *, covariance: bool, n_kept: int
    ) -> _Round:
        """One round; the chains are moved."""
        from rcb_bayes.posterior.sweeps import run_chains  # brings Numba

        layout, precision = self._layout, 1.0 / self._sigma**2
        n_sets, p = data.n_sets, self.prior.n_arms * self.prior.n_features
        turned = layout.loads.swapaxes(1, 2)  # (K, m, d)
        shared = layout.shared_loads.swapaxes(1, 2)  # (K, r, d)
        centre = self._mixture.centre.reshape(self.prior.n_arms, -1)
        residual = precision * (data.xty - (data.xtx @ centre[..., None])[..., 0])[..., None]  # (M, K, d, 1)
        means = np.zeros((n_sets, N_CHAINS, N_BATCHES, layout.n_effects))
        squares = np.zeros((n_sets, N_CHAINS, p))
        joint = np.zeros((n_sets if covariance else 0, p, p))
        kept = np.zeros((n_sets, N_CHAINS, n_kept, p))
        run: Any = run_chains
        run(
            layout.belief, layout.kind, layout.nu, layout.member, layout.start, layout.spans, layout.rate,
            layout.shared, layout.singles, layout.single_start,
            layout.loads, layout.shared_loads,
            precision * (turned @ data.xtx @ layout.loads), precision * (turned @ data.xtx @ layout.shared_loads),
            precision * (shared @ data.xtx @ layout.shared_loads).sum(axis=1),
            (turned @ residual)[..., 0], (shared @ residual)[..., 0].sum(axis=1),
            seeds, n_sweeps, N_BATCHES, chains.x, chains.mixing, means, squares, joint, kept,
        )  # fmt: skip
        means = self._of_effects(means / (n_sweeps // N_BATCHES))
        joint = joint + np.tril(joint, -1).swapaxes(1, 2)
        return _Round(means, squares / n_sweeps, joint / (n_sweeps * N_CHAINS), kept)

    def _of_effects(self, effects: FloatArray) -> FloatArray:
        """What effects (..., E) do to the coefficients, (..., K d)."""
        layout = self._layout
        k, d, m = layout.loads.shape
        own = effects[..., : k * m].reshape(*effects.shape[:-1], k, m)
        out = (layout.loads @ own[..., None])[..., 0]  # (..., K, d)
        out = out + (layout.shared_loads @ effects[..., None, k * m :, None])[..., 0]
        return out.reshape(*effects.shape[:-1], k * d)

    def _chunks(self, n_sets: int, *, covariance: bool) -> list[np.ndarray]:
        """Data sets to run at a time, so that memory stays bounded."""
        p = self.prior.n_arms * self.prior.n_features
        size = N_CHAINS * (N_BATCHES + 2) * (self._layout.n_effects + p) + (p * p if covariance else 0)
        step = max(1, _CHUNK_VALUES // size)
        return [np.arange(start, min(start + step, n_sets)) for start in range(0, n_sets, step)]


def layout_of(prior: Prior) -> Layout | None:
    """How ``sweeps`` sees a belief; None where it is not for this engine."""
    mixture = prior.scale_mixture
    return None if mixture is None else Layout.of(mixture, n_arms=prior.n_arms, n_features=prior.n_features)


_TURNS = 64


def _drawn_mixing(layout: Layout, rng: np.random.Generator) -> FloatArray:
    """Log mixing variances from the belief, (C, E)."""
    from rcb_bayes.belief.scale_mixture import LAPLACE, STUDENT

    out = np.zeros((N_CHAINS, layout.n_effects))
    student, double = layout.kind == STUDENT, layout.kind == LAPLACE
    nu = layout.nu[student]
    out[:, student] = np.log(nu / rng.chisquare(nu, size=(N_CHAINS, len(nu))))
    out[:, double] = np.log(2.0 * rng.standard_exponential((N_CHAINS, int(double.sum()))))
    return out


def _seeds(prints: np.ndarray, seed: int, number: int) -> np.ndarray:
    """Seeds of the chains of each data set, (M, C): by what is in it, not by where it stands."""
    base = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]
    mixed = prints.astype(np.uint64)[:, None] * np.uint64(N_CHAINS) + np.arange(N_CHAINS, dtype=np.uint64) + base
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) & np.uint64(0xFFFFFFFF)).astype(np.int64)
