"""One posterior as an ArviZ DataTree, and the means that the exploitation stage reads from its summary."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.market.noise import Noise
from rcb_bayes.posterior.data import Data, Statistics, as_rows
from rcb_bayes.posterior.engines import CheckedEngine, Engine, check_data, make_engine
from rcb_bayes.posterior.moving import MovedEngine
from rcb_bayes.posterior.nuts import NutsEngine, diagnose
from rcb_bayes.posterior.results import PosteriorBatch, warn_if_not_vouched
from rcb_bayes.schema import ARM, DEFAULT_SEED, FEATURE, FloatArray

if TYPE_CHECKING:
    import xarray as xr

_CHAINS, _DRAWS = 2, 1000
_OBSERVED_DIMS = {
    "xtx": [ARM, FEATURE, f"{FEATURE}_2"],
    "xty": [ARM, FEATURE],
    "yty": [ARM],
    "n": [ARM],
    "x": ["sample", FEATURE],
    "arm_position": ["sample"],
    "reward": ["sample"],
}


def fit_posterior(
    prior: Prior, noise: Noise, data: Data, *, engine: str = "auto", seed: int = DEFAULT_SEED
) -> "xr.DataTree":
    """The posterior of one data set, as ArviZ knows it.

    Groups: ``posterior`` (beta with dims chain, draw, arm, feature), ``sample_stats`` (the engine's diagnostics) and
    ``observed_data``; attrs ``engine`` (which engines, in their order), ``answered_by`` (which of them did),
    ``vouched``, ``n_samples`` and ``seed``. The draws are shifted, by less than
    their Monte Carlo error, so that their mean is the engine's own, which is exact or nearly so: a summary of the tree
    repeats it to the last digit.

    Parameters
    ----------
    prior : Prior
        The belief.
    noise : Noise
        How rewards come about.
    data : Statistics or Rows
        One data set.
    engine : str
        What computes posterior means; see ``posterior.make_engine``.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    xarray.DataTree
        The posterior, ``sample_stats`` and ``observed_data``.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> data = rcb.posterior.Statistics.from_rows([[1.0, 0.0], [0.0, 1.0]], arm=[0, 1], reward=[1.0, 0.0], n_arms=2)
    >>> tree = rcb.posterior.fit_posterior(market.prior, market.noise, data)
    >>> dict(tree["posterior"]["beta"].sizes)
    {'chain': 2, 'draw': 1000, 'arm': 2, 'feature': 2}
    """
    check_data(prior, noise, data, n_sets=1)
    return posterior_tree(make_engine(prior, noise, engine=engine, seed=seed), data, seed=seed)


def posterior_tree(engine: Engine, data: Data, *, seed: int = DEFAULT_SEED, quiet: bool = False) -> "xr.DataTree":
    """The same from an engine that is kept for many data sets; ``quiet`` leaves ``vouched`` to the caller to read."""
    if isinstance(engine, MovedEngine):
        tree = posterior_tree(engine.inner, engine.inner_data(data), seed=seed, quiet=quiet)
        mean = np.asarray(tree["posterior"]["beta"].mean(("chain", "draw")))
        return moved(tree, mean=engine.moved(mean), stretch=engine.scale)
    if isinstance(engine, NutsEngine):
        return _from_nuts(engine, data, reason=engine.reason, seed=seed, quiet=quiet)
    batch = engine.fit(data)
    if isinstance(engine, CheckedEngine) and batch.engine[0] == NutsEngine.name:
        return _from_nuts(engine.nuts, data, reason=engine.reason, seed=seed, quiet=quiet)
    return _from_draws(engine, batch if quiet else warn_if_not_vouched(batch), data, seed=seed)


def tree_of_draws(
    prior: Prior, draws: FloatArray, data: Data, *, vouched: bool, reason: str, seed: int
) -> "xr.DataTree":
    """The same from draws of beta (S, K, d), S even, that are at hand already."""
    shape = (_CHAINS, len(draws) // _CHAINS)
    stats = {"diverging": np.zeros(shape, dtype=bool), "vouched": np.full(shape, vouched)}
    return _tree(prior, draws.reshape(*shape, prior.n_arms, prior.n_features), stats, data, reason=reason, seed=seed)


def read_means(engine: Engine, data: Data, batch: PosteriorBatch, *, seed: int = DEFAULT_SEED) -> FloatArray:
    """Posterior means (K, d) from the ArviZ summary of one data set's posterior, whose ``batch`` the engine gave."""
    import xarray as xr

    if batch.engine[0] == NutsEngine.name:
        return summary_means(posterior_tree(engine, data, seed=seed, quiet=True)).values
    coords = {ARM: list(engine.prior.arms), FEATURE: list(engine.prior.features)}
    beta = xr.DataArray(_draws(engine, batch, data, seed=seed), dims=("chain", "draw", ARM, FEATURE), coords=coords)
    return summary_means(xr.DataTree.from_dict({"posterior": xr.Dataset({"beta": beta})})).values


def moved(tree: "xr.DataTree", *, mean: FloatArray, stretch: float = 1.0) -> "xr.DataTree":
    """The tree with its draws of beta stretched about their mean, and with another mean (K, d)."""
    beta = tree["posterior"]["beta"]
    deviations = beta - beta.mean(("chain", "draw"))
    copy = tree.copy()
    copy["posterior"] = copy["posterior"].to_dataset().assign(beta=stretch * deviations + mean)
    return copy


def summary_means(tree: "xr.DataTree") -> "xr.DataArray":
    """Posterior means (arm, feature), read from ``az.summary(kind="stats", round_to="none")``.

    Parameters
    ----------
    tree : xarray.DataTree
        What ``fit_posterior`` returns.

    Returns
    -------
    xarray.DataArray
        Posterior means, dims (arm, feature).

    Examples
    --------
    With ``tree`` as in ``fit_posterior``:

    >>> rcb.posterior.summary_means(tree).sel(arm="old").values.round(2)
    array([0.87, 0.2 ])
    """
    import arviz as az
    import xarray as xr

    beta = tree["posterior"]["beta"]
    table = az.summary(tree, var_names=["beta"], kind="stats", round_to="none")
    values = np.asarray(table["mean"], dtype=float).reshape(beta.sizes[ARM], beta.sizes[FEATURE])
    coords = {dim: list(beta.coords[dim].values) for dim in (ARM, FEATURE)}
    return xr.DataArray(values, dims=(ARM, FEATURE), coords=coords, name="mean")


def _draws(engine: Engine, batch: PosteriorBatch, data: Data, *, seed: int) -> FloatArray:
    """Draws (chain, draw, K, d) whose mean is the engine's own."""
    draws = engine.draw(data, _CHAINS * _DRAWS, rng=np.random.default_rng(seed))[0]
    draws = draws - draws.mean(axis=0) + batch.mean[0]
    return draws.reshape(_CHAINS, _DRAWS, engine.prior.n_arms, engine.prior.n_features)


def _from_draws(engine: Engine, batch: PosteriorBatch, data: Data, *, seed: int) -> "xr.DataTree":
    shape = (_CHAINS, _DRAWS)
    draws = _draws(engine, batch, data, seed=seed)
    by = str(batch.engine[0])
    told = batch.diagnostics.items()  # without those of an engine that it was sent on from
    stats: dict[str, Any] = {name: np.full(shape, v[0]) for name, v in told if by == engine.name or not np.isnan(v[0])}
    stats["diverging"] = np.zeros(shape, dtype=bool)
    stats["vouched"] = np.full(shape, bool(batch.vouched[0]))
    return _tree(engine.prior, draws, stats, data, reason=batch.reason, seed=seed, by=by)


def _from_nuts(engine: NutsEngine, data: Data, *, reason: str, seed: int, quiet: bool) -> "xr.DataTree":
    sampled = engine.sample(data)
    draws = sampled["posterior"]["beta"].values
    stats = {name: values.values for name, values in sampled["sample_stats"].data_vars.items() if values.ndim == 2}
    found = diagnose(draws, int(sampled["sample_stats"]["diverging"].values.sum()))
    stats |= {name: np.full(draws.shape[:2], value) for name, value in found.items()}
    stats["vouched"] = np.full(draws.shape[:2], engine.vouches(found))
    if not quiet:
        warn_if_not_vouched(
            PosteriorBatch(
                mean=draws.mean(axis=(0, 1))[None],
                covariance=None,
                vouched=np.array([engine.vouches(found)]),
                engine=np.array([engine.name], dtype=object),
                diagnostics={name: np.array([value]) for name, value in found.items()},
            )
        )
    return _tree(engine.prior, draws, stats, data, reason=reason, seed=seed, by=engine.name)


def _tree(
    prior: Prior, draws: FloatArray, stats: dict[str, Any], data: Data, *, reason: str, seed: int, by: str = ""
) -> "xr.DataTree":
    import arviz as az

    tree = az.from_dict(
        {
            "posterior": {"beta": draws},
            "sample_stats": stats,
            "observed_data": _observed(data),
        },
        coords={ARM: list(prior.arms), FEATURE: list(prior.features), f"{FEATURE}_2": list(prior.features)},
        dims={"beta": [ARM, FEATURE]} | _OBSERVED_DIMS,
    )
    n = int(data.n.sum())
    vouched = int(stats["vouched"].all())  # files have no truth values
    tree.attrs.update(
        {
            "engine": reason,
            "answered_by": by or reason,
            "belief": prior.name,
            "vouched": vouched,
            "n_samples": n,
            "seed": seed,
        }
    )
    return tree


def _observed(data: Data) -> dict[str, np.ndarray]:
    if isinstance(data, Statistics):
        return {"xtx": data.xtx[0], "xty": data.xty[0], "yty": data.yty[0], "n": data.n[0]}
    data = as_rows(data)
    used = data.arm[0] >= 0
    return {"x": data.x[0][used], "arm_position": data.arm[0][used], "reward": data.reward[0][used]}
