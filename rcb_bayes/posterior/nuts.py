"""Posteriors of any belief by NUTS (nutpie): compiled once, then fed one data set after another.

Gaussian rewards enter through X'X, X'y, y'y and n, whose shapes never change, so that one compilation serves every data
set of a belief. Bernoulli rewards enter as rows, padded to a multiple of 64, one compilation in all: data may change
length.
"""

import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import BeliefError, RcbError, is_interrupt
from rcb_bayes.market.noise import Noise
from rcb_bayes.posterior.data import Data, Rows, as_rows, as_statistics
from rcb_bayes.posterior.results import MIN_BULK_ESS, RHAT_LIMIT, PosteriorBatch
from rcb_bayes.posterior.vouching import LARGEST_ERROR, LARGEST_GAP, largest_error
from rcb_bayes.schema import DEFAULT_SEED, FloatArray
from rcb_bayes.telling.progress import duration, say, track

DIAGNOSTICS = ("rhat", "ess_bulk", "divergences", "mean_error", "gap")
_PREFIX = "rcb_data_"
_PADDING = 64
_LONGER, _LONGEST = 2, 4  # times the draws, where a run is not vouched for
_LONG_SECONDS, _MOST_SECONDS = 20.0, 48 * 3600
_NEARLY = 1.02  # r-hat of chains that have but met with bad luck
_compiled: WeakKeyDictionary[Prior, dict[Hashable, Any]] = WeakKeyDictionary()  # samplers, by belief and reward model


@dataclass(frozen=True, slots=True, kw_only=True)
class NutsSettings:
    """Chains, draws and warm-up of every run; a run that is not vouched for is repeated with four times the draws.

    Where nothing but an r-hat of at most 1.02, chains apart, or an error that twice the draws would bring below its
    limit is against it, these are tried first.

    With half as many draws every other run of fifteen coefficients has an r-hat above 1.01 by chance alone, and a
    repeated run costs more than the draws saved. A longer warm-up did not lower the share of runs to repeat (Student-t,
    hierarchical, skewed and horseshoe beliefs).
    """

    chains: int = 2
    draws: int = 1000
    tune: int = 200
    target_accept: float = 0.9
    retry: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """One run: ``draws`` of beta (chain, draw, K, d), its diagnostics, and how many times the usual number of draws it
    took."""

    draws: FloatArray
    diagnostics: dict[str, float]
    factor: int = 1


class NutsEngine:
    """NUTS for one belief and reward model.

    Applicability
    -------------
    Chains see the camp they are in: where all of them sit in the same one of a mixture's, diagnostics are good and the
    mean is wrong. So a belief with a mixture behind it is sampled, but never vouched for.
    """

    name = "nuts"

    def __init__(
        self, prior: Prior, noise: Noise, *, seed: int = DEFAULT_SEED, settings: NutsSettings | None = None
    ) -> None:
        if noise.is_gaussian and noise.needs_sigma and not prior.has_sigma:
            raise RcbError("GaussianNoise() leaves sigma to the belief, which has no variable 'sigma': give a number.")
        self.prior = prior
        self.noise = noise
        self.reason = "nuts: any belief, by nutpie" + (", not vouched for on mixtures" if prior.has_mixture else "")
        self._seed = seed
        self._settings = settings or NutsSettings()
        self._own: dict[Hashable, Any] = {}

    @property
    def discrete(self) -> tuple[str, ...]:
        """The belief's discrete variables, which NUTS cannot sample; none for a belief that it serves."""
        return tuple(str(variable.name) for variable in self.prior.model.discrete_value_vars)

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set, with the diagnostics of ``diagnose``."""
        size = self.prior.n_arms * self.prior.n_features
        mean = np.empty((data.n_sets, self.prior.n_arms, self.prior.n_features))
        joint = np.empty((data.n_sets, size, size)) if covariance else None
        diagnostics = {name: np.full(data.n_sets, np.nan) for name in DIAGNOSTICS}
        vouched = np.zeros(data.n_sets, dtype=bool)
        reward = None if users is None else np.empty((data.n_sets, users.shape[-2], self.prior.n_arms))
        spread = np.empty(reward.shape) if reward is not None and covariance else None
        for m in track(range(data.n_sets), description="NUTS, one data set after another"):
            one = data.take(slice(m, m + 1))
            chains, seconds = self._timed(one)
            if m == 0:
                foretell(data.n_sets - 1, seconds)
            draws = chains.draws.reshape(-1, *mean.shape[1:])  # (S, K, d)
            mean[m] = draws.mean(axis=0)
            if joint is not None:
                joint[m] = np.cov(draws.reshape(-1, size), rowvar=False).reshape(size, size)
            if reward is not None and users is not None:
                eta = np.einsum("ud,skd->suk", users if users.ndim == 2 else users[m], draws)
                given = self.noise.mean_reward(eta)
                reward[m] = given.mean(axis=0)
                if spread is not None:
                    spread[m] = given.var(axis=0)
            for name, value in chains.diagnostics.items():
                diagnostics[name][m] = value
            vouched[m] = self.vouches(chains.diagnostics)
        return PosteriorBatch(
            mean=mean,
            covariance=joint,
            vouched=vouched,
            engine=np.full(data.n_sets, self.name, dtype=object),
            diagnostics=diagnostics,
            reason=self.reason,
            reward=reward,
            reward_variance=spread,
        )

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of every data set, spread evenly over its chains, (M, n, K, d)."""
        shape = (self.prior.n_arms, self.prior.n_features)
        out = np.empty((data.n_sets, n, *shape))
        for m in range(data.n_sets):
            flat = self._chains(data.take(slice(m, m + 1)), seed=int(rng.integers(2**31))).draws.reshape(-1, *shape)
            out[m] = flat[np.linspace(0, len(flat) - 1, n).round().astype(int)]
        return out

    def _timed(self, data: Data) -> tuple[Chains, float]:
        """The chains of one data set, and the seconds that they took; compiling is no part of it."""
        assert self._compiled is not None
        started = time.monotonic()
        chains = self._chains(data, seed=_seed_of(data))
        return chains, time.monotonic() - started

    def vouches(self, diagnostics: dict[str, float]) -> bool:
        """Whether a run with these diagnostics is vouched for."""
        return is_good(diagnostics) and not self.prior.has_mixture

    def sample(self, data: Data) -> Any:
        """The DataTree of one data set, run again with more draws where its diagnostics are poor."""
        tree, factor = None, 1
        while factor:
            tree = self._run(data, seed=_seed_of(data), factor=factor, raw=False)
            factor = self._next_factor(diagnose(*_of_tree(tree)), factor)
        return tree

    def _chains(self, data: Data, *, seed: int) -> Chains:
        """As ``sample``, without the labels, which cost as much as the draws."""
        chains = self._read(self._run(data, seed=seed, factor=1, raw=True))
        while factor := self._next_factor(chains.diagnostics, chains.factor):
            chains = self._read(self._run(data, seed=seed, factor=factor, raw=True), factor=factor)
        return chains

    def _next_factor(self, diagnostics: dict[str, float], factor: int) -> int:
        """How many times the draws to try after a run with ``factor`` times them; 0 where it is good, or the last."""
        if not self._settings.retry or is_good(diagnostics) or factor == _LONGEST:
            return 0
        lucky = diagnostics | {"rhat": 1.0, "mean_error": 0.0, "gap": 0.0}
        few = diagnostics["mean_error"] <= np.sqrt(_LONGER) * LARGEST_ERROR  # twice the draws would do
        nearly = is_good(lucky) and diagnostics["rhat"] <= _NEARLY and few
        return _LONGER if nearly and factor < _LONGER else _LONGEST

    def _read(self, raw: Any, *, factor: int = 1) -> Chains:
        """Draws and diagnostics of nutpie's raw trace: one Arrow table of draws and one of statistics per chain."""
        import pyarrow

        draws, diverging = [], 0
        for table, stats in zip(*raw.get_arrow_trace(), strict=True):
            kept = ~np.asarray(pyarrow.array(stats.column("tuning")))
            values = np.asarray(pyarrow.array(table.column("beta")).flatten())
            draws.append(values.reshape(len(kept), self.prior.n_arms, self.prior.n_features)[kept])
            diverging += int(np.asarray(pyarrow.array(stats.column("diverging")))[kept].sum())
        together = np.stack(draws)
        return Chains(together, diagnose(together, diverging), factor)

    def _run(self, data: Data, *, seed: int, factor: int, raw: bool) -> Any:
        import nutpie

        inputs = self._as_inputs(data)
        fed = self._compiled.with_data(**inputs)
        state = np.random.SeedSequence([self._seed, seed, factor]).generate_state(1)[0]
        sampler = nutpie.sample(
            fed,
            draws=self._settings.draws * factor,
            tune=self._settings.tune * min(factor, 2),
            chains=self._settings.chains,
            cores=1,
            seed=int(state),
            target_accept=self._settings.target_accept if factor < _LONGEST else 0.97,
            progress_bar=False,
            save_warmup=False,
            return_raw_trace=raw,
            blocking=False,
        )
        return _finished(sampler)

    def _as_inputs(self, data: Data) -> dict[str, np.ndarray]:
        if self.noise.is_gaussian:
            data = as_statistics(data)
            parts = {"xtx": data.xtx[0], "xty": data.xty[0]}
            if self.noise.needs_sigma:
                parts |= {"yty": data.yty[0], "n": data.n[0]}
        else:
            parts = _padded(as_rows(data))
        return {f"{_PREFIX}{name}": value for name, value in parts.items()}

    @property
    def _compiled(self) -> Any:
        """The sampler of the belief and the reward model, compiled once for as long as the belief is there."""
        is_known = isinstance(self.noise, Hashable)  # else it is the user's own, and this engine's sampler alone
        known = _compiled.setdefault(self.prior, {}) if is_known else self._own
        name = self.noise if is_known else None
        if name not in known:
            known[name] = self._compile()
        return known[name]

    def seconds(self, data: Data) -> float:
        """How long the posterior of the first data set takes, after all is compiled."""
        one = data.take(slice(0, 1))
        assert self._compiled is not None
        started = time.monotonic()
        self._run(one, seed=_seed_of(one), factor=1, raw=True)
        return time.monotonic() - started

    def _compile(self) -> Any:
        import nutpie

        if self.discrete:
            raise BeliefError(
                f"The nuts engine cannot sample the discrete variables of '{self.prior.name}' "
                f"({', '.join(self.discrete)}). Write them as a pm.Mixture, or use engine='auto'."
            )
        return nutpie.compile_pymc_model(self._model(), var_names=["beta"])

    def _model(self) -> Any:
        """The belief with the likelihood of re-feedable data added."""
        import pymc as pm
        from pymc.model.fgraph import clone_model

        model = clone_model(self.prior.model)
        with model:
            beta = model["beta"]
            if self.noise.is_gaussian:
                shape = self.prior.n_arms, self.prior.n_features
                if self.noise.needs_sigma:
                    term = _unknown_noise_log_likelihood(beta, model["sigma"], shape=shape)
                else:
                    term = _linear_log_likelihood(beta, shape=shape) / self.noise.sigma**2  # type: ignore[attr-defined]
            else:
                term = _bernoulli_log_likelihood(beta, n_features=self.prior.n_features)
            pm.Potential(f"{_PREFIX}likelihood", term)
        return model


def foretell(n_sets: int, seconds: float) -> None:
    """Say how long so many data sets will take where that is long, as the first one took these seconds.

    Raises
    ------
    RcbError
        Longer than two days.
    """
    total = n_sets * seconds
    if total > _MOST_SECONDS:
        raise RcbError(
            f"NUTS takes {seconds:.1f} s for each data set here. {n_sets:,} of them take some {total / 3600.0:,.0f} "
            f"hours, more than the {_MOST_SECONDS // 3600} that are allowed. Ask for fewer worlds, or expand the mean "
            "in a basis (splines, pm.gp.HSGP)."
        )
    if total > _LONG_SECONDS:
        say(f"NUTS: {n_sets:,} more posteriors at about {seconds:.2f} s each, some {duration(total)}")


def _finished(sampler: Any) -> Any:
    """The trace of a run, whole; left to wait by itself, nutpie takes Ctrl-C for an early end, and half a trace comes.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C, also where the sampler ends in an error of its own for it.
    """
    try:
        return sampler.wait()
    except BaseException as error:
        with suppress(Exception):
            sampler.cancel()
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def _linear_log_likelihood(beta: Any, *, shape: tuple[int, int]) -> Any:
    """b'X'y - b'X'Xb/2, which a known sigma only scales: what does not depend on beta is left out."""
    import pymc as pm

    k, d = shape
    xtx: Any = pm.Data(f"{_PREFIX}xtx", np.zeros((k, d, d)))
    xty: Any = pm.Data(f"{_PREFIX}xty", np.zeros((k, d)))
    predicted = (xtx * beta[:, None, :]).sum(axis=2)  # X'X b, (K, d)
    return (beta * (xty - 0.5 * predicted)).sum()


def _unknown_noise_log_likelihood(beta: Any, sigma: Any, *, shape: tuple[int, int]) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    yty: Any = pm.Data(f"{_PREFIX}yty", np.zeros(shape[0]))
    n: Any = pm.Data(f"{_PREFIX}n", np.zeros(shape[0]))
    explained = _linear_log_likelihood(beta, shape=shape)
    return (explained - 0.5 * yty.sum()) / sigma**2 - n.sum() * pt.log(sigma)


def _bernoulli_log_likelihood(beta: Any, *, n_features: int) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    x: Any = pm.Data(f"{_PREFIX}x", np.zeros((_PADDING, n_features)))
    arm: Any = pm.Data(f"{_PREFIX}arm", np.zeros(_PADDING, dtype=np.int64))
    sign: Any = pm.Data(f"{_PREFIX}sign", np.zeros(_PADDING))  # 1 for a success, -1 for a failure, 0 for padding
    eta = (x * beta[arm]).sum(axis=1)
    weight: Any = pt.abs(sign)
    return -(weight * pt.softplus(-sign * eta)).sum()


def _padded(data: Rows) -> dict[str, np.ndarray]:
    used = data.arm[0] >= 0
    n = int(used.sum())
    length = max(-(-n // _PADDING), 1) * _PADDING
    x = np.zeros((length, data.x.shape[2]))
    arm = np.zeros(length, dtype=np.int64)
    sign = np.zeros(length)
    x[:n], arm[:n], sign[:n] = data.x[0][used], data.arm[0][used], 2.0 * data.reward[0][used] - 1.0
    return {"x": x, "arm": arm, "sign": sign}


def diagnose(draws: FloatArray, divergences: int) -> dict[str, float]:
    """What is known about one run (chain, draw, K, d).

    ``rhat`` and ``ess_bulk`` are the worst coefficient's, ranked. Ranks do not see how far out a tail reaches, and
    means do: ``mean_error`` is about the largest Monte Carlo error of the P means, and ``gap`` the largest distance of
    a chain's mean from another's, both in posterior standard deviations.
    """
    columns = np.moveaxis(draws.reshape(*draws.shape[:2], -1), -1, 0)  # (K d, chain, draw)
    varying: FloatArray = columns[np.ptp(columns, axis=(1, 2)) > 0]  # a known coefficient does not move
    found = dict.fromkeys(DIAGNOSTICS, np.nan) | {"divergences": float(divergences)}
    if not np.isfinite(columns).all():
        return found
    if not len(varying):
        n_draws = float(draws.shape[0] * draws.shape[1])
        return found | {"rhat": 1.0, "ess_bulk": n_draws, "mean_error": 0.0, "gap": 0.0}
    rhat, size = rhat_and_bulk_size(varying)
    error, gap = error_and_gap(varying)
    return found | {"rhat": float(rhat.max()), "ess_bulk": float(size.min()), "mean_error": error, "gap": gap}


def error_and_gap(draws: FloatArray) -> tuple[float, float]:
    """About the largest error of the means of draws (P, chain, draw), and the largest gap between chains, both in
    posterior standard deviations."""
    from arviz_stats.base import array_stats

    sizes: Any = array_stats.ess(_halves(draws), chain_axis=-2, draw_axis=-1, method="identity")
    means = draws.mean(axis=2)
    gap = np.ptp(means, axis=1) / draws.std(axis=(1, 2))
    return largest_error(float(np.min(sizes)), len(draws)), float(gap.max())


def _halves(draws: FloatArray) -> FloatArray:
    """Chains (P, chain, draw) cut in two, (P, 2 chain, draw // 2)."""
    half = draws.shape[2] // 2
    return np.concatenate([draws[:, :, :half], draws[:, :, -half:]], axis=1)


def rhat_and_bulk_size(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rank-normalised split r-hat (P,) and bulk effective size (P,) of draws (P, chain, draw) (Vehtari et al. 2021).

    All coefficients are ranked in one pass, and once for both figures. ArviZ, which does the rest, would rank each of
    them three times on its own, and that takes half as long as sampling them does.
    """
    from arviz_stats.base import array_stats

    halves = _halves(draws)
    scores = _normal_scores(halves)
    folded = _normal_scores(np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True)))
    rhat = np.maximum(_scale_reduction(scores), _scale_reduction(folded))
    size: Any = array_stats.ess(scores, chain_axis=-2, draw_axis=-1, method="identity")
    return rhat, size


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Normal scores of the ranks over all chains together (Blom 1958)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    flat = draws.reshape(len(draws), -1)
    return ndtri((rankdata(flat, axis=1) - 0.375) / (flat.shape[1] + 0.25)).reshape(draws.shape)


def _scale_reduction(chains: FloatArray) -> FloatArray:
    """The root of the pooled variance over the average one, of chains (P, chain, draw): (P,)."""
    n = chains.shape[2]
    between = n * chains.mean(axis=2).var(axis=1, ddof=1)
    within = chains.var(axis=2, ddof=1).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((between / within + n - 1) / n)


def _seed_of(data: Data) -> int:
    """The seed of a single data set's chains, a matter of its data alone."""
    return int(data.fingerprints()[0])


def _of_tree(tree: Any) -> tuple[FloatArray, int]:
    return tree["posterior"]["beta"].values, int(tree["sample_stats"]["diverging"].values.sum())


def is_good(found: dict[str, float]) -> bool:
    """Whether a run's diagnostics are good."""
    return (
        found["rhat"] <= RHAT_LIMIT
        and found["ess_bulk"] >= MIN_BULK_ESS
        and found["divergences"] == 0
        and found["mean_error"] <= LARGEST_ERROR
        and found["gap"] <= LARGEST_GAP
    )
