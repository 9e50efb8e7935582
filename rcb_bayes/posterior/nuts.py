"""Posteriors of any belief by NUTS (nutpie): compiled once, then fed one data set after another.

Gaussian rewards enter through X'X, X'y, y'y and n, whose shapes never change, so that one compilation serves every data
set of a belief. Bernoulli rewards enter as rows, padded to a multiple of 64, one compilation in all: data may change
length.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.noise import Noise
from rcb_bayes.posterior.data import Rows, Statistics
from rcb_bayes.posterior.results import MIN_BULK_ESS, RHAT_LIMIT, PosteriorBatch
from rcb_bayes.prior import Prior
from rcb_bayes.progress import track
from rcb_bayes.schema import FloatArray

_PREFIX = "rcb_data_"
_PADDING = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NutsSettings:
    """Chains, draws and warm-up of every run; a run that is not vouched for is repeated with four times the draws."""

    chains: int = 2
    draws: int = 500
    tune: int = 400
    target_accept: float = 0.9
    retry: bool = True


class NutsEngine:
    """NUTS for one belief and reward model."""

    name = "nuts"

    def __init__(self, prior: Prior, noise: Noise, *, seed: int = 0, settings: NutsSettings | None = None) -> None:
        if noise.is_gaussian and noise.needs_sigma and not prior.has_sigma:
            raise RcbError("GaussianNoise() leaves sigma to the belief, which has no variable 'sigma': give a number.")
        self.prior = prior
        self.noise = noise
        self.reason = "nuts: any belief, by nutpie"
        self._seed = seed
        self._settings = settings or NutsSettings()

    def fit(
        self, data: Statistics | Rows, *, covariance: bool = False, users: FloatArray | None = None
    ) -> PosteriorBatch:
        """Posterior moments of every data set, with r-hat, bulk effective size and divergences."""
        size = self.prior.n_arms * self.prior.n_features
        mean = np.empty((data.n_sets, self.prior.n_arms, self.prior.n_features))
        joint = np.empty((data.n_sets, size, size)) if covariance else None
        diagnostics = {name: np.full(data.n_sets, np.nan) for name in ("rhat", "ess_bulk", "divergences")}
        vouched = np.zeros(data.n_sets, dtype=bool)
        reward = None if users is None else np.empty((data.n_sets, users.shape[-2], self.prior.n_arms))
        for m in track(range(data.n_sets), description="NUTS, one data set after another"):
            tree = self.sample(data.take(slice(m, m + 1)), position=m)
            draws = tree["posterior"]["beta"].values.reshape(-1, size)
            mean[m] = draws.mean(axis=0).reshape(mean.shape[1:])
            if joint is not None:
                joint[m] = np.cov(draws, rowvar=False).reshape(size, size)
            if reward is not None and users is not None:
                shaped = draws.reshape(-1, *mean.shape[1:])
                reward[m] = self.noise.mean_reward(
                    np.einsum("ud,skd->suk", users if users.ndim == 2 else users[m], shaped)
                ).mean(axis=0)
            found = diagnose(tree)
            for name, value in found.items():
                diagnostics[name][m] = value
            vouched[m] = is_good(found)
        return PosteriorBatch(
            mean=mean,
            covariance=joint,
            vouched=vouched,
            engine=np.full(data.n_sets, self.name, dtype=object),
            diagnostics=diagnostics,
            reason=self.reason,
            reward=reward,
        )

    def draw(self, data: Statistics | Rows, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of every data set, thinned evenly from its chains, (M, n, K, d)."""
        shape = (self.prior.n_arms, self.prior.n_features)
        out = np.empty((data.n_sets, n, *shape))
        for m in range(data.n_sets):
            position = int(rng.integers(2**31))
            draws = self.sample(data.take(slice(m, m + 1)), position=position)["posterior"]["beta"].values
            flat = draws.reshape(-1, *shape)
            out[m] = flat[np.linspace(0, len(flat) - 1, n).round().astype(int)]
        return out

    def sample(self, data: Statistics | Rows, *, position: int = 0) -> Any:
        """The DataTree of one data set, run again with more draws where its diagnostics are poor."""
        tree = self._run(data, position=position, factor=1)
        if self._settings.retry and not is_good(diagnose(tree)):
            tree = self._run(data, position=position, factor=4)
        return tree

    def _run(self, data: Statistics | Rows, *, position: int, factor: int) -> Any:
        import nutpie

        fed = self._compiled.with_data(**self._as_inputs(data))
        seed = np.random.SeedSequence([self._seed, position, factor]).generate_state(1)[0]
        return nutpie.sample(
            fed,
            draws=self._settings.draws * factor,
            tune=self._settings.tune * min(factor, 2),
            chains=self._settings.chains,
            cores=1,
            seed=int(seed),
            target_accept=self._settings.target_accept if factor == 1 else 0.97,
            progress_bar=False,
            save_warmup=False,
        )

    def _as_inputs(self, data: Statistics | Rows) -> dict[str, np.ndarray]:
        if isinstance(data, Statistics):
            parts = {"xtx": data.xtx[0], "xty": data.xty[0], "yty": data.yty[0], "n": data.n[0]}
        else:
            parts = _padded(data)
        return {f"{_PREFIX}{name}": value for name, value in parts.items()}

    @cached_property
    def _compiled(self) -> Any:
        import nutpie

        return nutpie.compile_pymc_model(self._model())

    def _model(self) -> Any:
        """The belief with the likelihood of re-feedable data added."""
        import pymc as pm
        from pymc.model.fgraph import clone_model

        model = clone_model(self.prior.model)
        with model:
            beta = model["beta"]
            if self.noise.is_gaussian:
                sigma = model["sigma"] if self.noise.needs_sigma else self.noise.sigma  # type: ignore[attr-defined]
                term = _gaussian_log_likelihood(beta, sigma, shape=(self.prior.n_arms, self.prior.n_features))
            else:
                term = _bernoulli_log_likelihood(beta, n_features=self.prior.n_features)
            pm.Potential(f"{_PREFIX}likelihood", term)
        return model


def _gaussian_log_likelihood(beta: Any, sigma: Any, *, shape: tuple[int, int]) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    k, d = shape
    xtx: Any = pm.Data(f"{_PREFIX}xtx", np.zeros((k, d, d)))
    xty: Any = pm.Data(f"{_PREFIX}xty", np.zeros((k, d)))
    yty: Any = pm.Data(f"{_PREFIX}yty", np.zeros(k))
    n: Any = pm.Data(f"{_PREFIX}n", np.zeros(k))
    predicted = (xtx * beta[:, None, :]).sum(axis=2)  # X'X b, (K, d)
    residual = yty.sum() - 2.0 * (beta * xty).sum() + (beta * predicted).sum()
    return -n.sum() * pt.log(sigma) - 0.5 * residual / sigma**2


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


def diagnose(tree: Any) -> dict[str, float]:
    """Worst r-hat, smallest bulk effective size and number of divergences of one run."""
    from arviz_stats.base import array_stats

    draws = tree["posterior"]["beta"].values  # (chain, draw, arm, feature)
    columns = np.moveaxis(draws.reshape(*draws.shape[:2], -1), -1, 0)  # (K d, chain, draw)
    varying: FloatArray = columns[columns.std(axis=(1, 2)) > 0]
    if not len(varying):
        return {"rhat": 1.0, "ess_bulk": float(draws.shape[0] * draws.shape[1]), "divergences": 0.0}
    return {
        "rhat": float(np.max(array_stats.rhat(varying, chain_axis=-2, draw_axis=-1))),
        "ess_bulk": float(np.min(array_stats.ess(varying, chain_axis=-2, draw_axis=-1))),
        "divergences": float(tree["sample_stats"]["diverging"].values.sum()),
    }


def is_good(found: dict[str, float]) -> bool:
    """Whether a run is vouched for."""
    return found["rhat"] <= RHAT_LIMIT and found["ess_bulk"] >= MIN_BULK_ESS and found["divergences"] == 0
