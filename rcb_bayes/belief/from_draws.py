"""Draws as a belief: a mixture of Gaussians fitted to them, with what the fit leaves open.

Yesterday's posterior is today's belief. Draws have no density and a finite number, so they become a finite mixture of
Gaussians: posteriors are exact then, whatever comes after. The number of components is the one that predicts the half
of the draws best that it was not fitted to, and the misfit is measured on that half: the largest distance of
distribution functions along the coefficients and along random directions, beside the distance that chance alone gives
to draws of the fit itself.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.belief.spelling import own_dim
from rcb_bayes.errors import BeliefError, BeliefWarning
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.schema import ARM, FEATURE, FloatArray, as_finite_array, as_labels, suggestion

_COMPONENTS = (1, 2, 3, 4, 6, 8, 12)
_DRAWS_PER_NUMBER = 4.0  # of draws, for each number of a component
_N_DIRECTIONS = 64
_CHANCE = 0.01
_DRAWS_PER_COEFFICIENT = 10.0  # with fewer, spreads in some direction are off by a third, in the fit and in what it has
_FEWEST = 100
_RHAT_LIMIT = 1.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawsFit:
    """How well a mixture stands for the draws it was fitted to.

    Attributes
    ----------
    n_draws, effective_size : how many, and how many independent ones the least certain coefficient's are worth
    rhat : the largest of the coefficients'; NaN for draws without chains
    mean_mcse : Monte Carlo errors of the means, (K, d)
    n_components : of the mixture
    misfit, misfit_limit : the largest distance of distribution functions, and what chance allows
    """

    n_draws: int
    effective_size: float
    rhat: float
    mean_mcse: FloatArray
    n_components: int
    misfit: float
    misfit_limit: float

    @property
    def fits(self) -> bool:
        """Whether the misfit is within chance."""
        return self.misfit <= self.misfit_limit

    @property
    def tells(self) -> bool:
        """Whether there are draws enough for a misfit to show."""
        return self.effective_size >= _DRAWS_PER_COEFFICIENT * self.mean_mcse.size

    def describe(self) -> str:
        """The fit in one line."""
        few = f"too few draws for {self.mean_mcse.size} coefficients to tell"
        verdict = "MORE than chance" if not self.fits else "within chance" if self.tells else few
        parts = "1 component" if self.n_components == 1 else f"{self.n_components} components"
        return (
            f"{parts} fitted to {self.n_draws:,} draws (worth {self.effective_size:,.0f}), misfit {self.misfit:.3f} "
            f"({verdict}, {self.misfit_limit:.3f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledDraws:
    """``values`` (chain, draw, K, d) with labels."""

    values: FloatArray
    arms: tuple[str, ...]
    features: tuple[str, ...]


def read_draws(
    draws: Any, *, coefficients: str, arm: str, feature: str, arms: Any = None, features: Any = None
) -> LabelledDraws:
    """Draws of coefficients from an array, a DataArray, a Dataset or an ArviZ tree.

    Raises
    ------
    BeliefError
        No such variable or dims, values that are not finite, too few draws.
    """
    array = draws
    if hasattr(draws, "children") or hasattr(draws, "data_vars"):
        array = _variable(draws, coefficients)
    if hasattr(array, "dims") and hasattr(array, "coords"):
        arm, feature = (own_dim(dim) if own_dim(dim) in array.dims else dim for dim in (arm, feature))
        missing = [dim for dim in (arm, feature) if dim not in array.dims]
        if missing:
            raise BeliefError(
                f"The draws must have the dims '{arm}' and '{feature}', got {tuple(array.dims)}. "
                "Name them with arm= and feature=."
            )
        arms = list(array.coords[arm].values) if arms is None and arm in array.coords else arms
        features = list(array.coords[feature].values) if features is None and feature in array.coords else features
        leading = [dim for dim in ("chain", "draw") if dim in array.dims]
        array = array.transpose(*leading, ..., arm, feature).values
    values = as_finite_array(array, name="draws", ndim=(3, 4))
    values = values[None] if values.ndim == 3 else values
    if values.shape[0] * values.shape[1] < _FEWEST:
        raise BeliefError(
            f"A belief needs at least {_FEWEST} draws, got {values.shape[0] * values.shape[1]} "
            f"(an array of shape (draw, arm, feature) or (chain, draw, arm, feature))."
        )
    if values.shape[2] < 2 or values.shape[3] < 1:
        raise BeliefError(f"A belief needs at least two arms and one feature, got draws of shape {values.shape}.")
    return LabelledDraws(
        values=values,
        arms=as_labels(arms, dim=ARM, size=values.shape[2]),
        features=as_labels(features, dim=FEATURE, size=values.shape[3]),
    )


def _variable(tree: Any, name: str) -> Any:
    group = next((tree[part] for part in ("posterior", "prior") if part in tree), tree)
    known = [str(key) for key in group.data_vars]
    if name not in known:
        raise BeliefError(
            f"The draws have no variable '{name}' (variables: {', '.join(known) or 'none'}).{suggestion(name, known)} "
            "Name the coefficients with coefficients=."
        )
    return group[name]


def fit_law(draws: FloatArray, *, floor: float = 0.0) -> tuple[GaussianLaw, DrawsFit]:
    """The mixture that stands for draws (chain, draw, K, d), and how well it does.

    Directions in which draws vary by less than ``floor`` of their spread are taken to be known.
    """
    k, d = draws.shape[2:]
    flat = draws.reshape(-1, k * d)
    centre, root = _whitening(flat, floor=floor)
    z = (flat - centre) @ np.linalg.pinv(root).T if root.shape[1] else np.zeros((len(flat), 0))
    rhat, size = _diagnostics(draws)
    n_components, misfit, limit = _chosen(z, effective=size)
    weights, means, covariances = _fitted(z, n_components)
    block = Block(
        arms=tuple(range(k)),
        weights=weights,
        means=centre + means @ root.T,
        covariances=root @ covariances @ root.T,
    )
    fit = DrawsFit(
        n_draws=len(flat),
        effective_size=size,
        rhat=rhat,
        mean_mcse=(flat.std(axis=0) / np.sqrt(size)).reshape(k, d),
        n_components=n_components,
        misfit=misfit,
        misfit_limit=limit,
    )
    _warn(fit)
    return GaussianLaw(n_arms=k, n_features=d, blocks=(block,)), fit


def fitted_parts(
    draws: FloatArray,
    *,
    arms: tuple[str, ...],
    features: tuple[str, ...],
    feature_map: FeatureMap | None = None,
    expansion: Any = None,
) -> dict[str, Any]:
    """What a ``Prior`` is made of that stands for draws (chain, draw, K, d)."""
    law, fit = fit_law(draws, floor=0.0 if expansion is None else expansion.error)
    return {
        "arms": arms,
        "features": features,
        "groups": tuple(block.arms for block in law.blocks),
        "law": law,
        "source": None,
        "feature_map": feature_map,
        "fit": fit,
        "expansion": expansion,
    }


def _warn(fit: DrawsFit) -> None:
    apart = fit.rhat > _RHAT_LIMIT
    if apart:
        warnings.warn(
            f"The chains behind this belief have not met (r-hat {fit.rhat:.3f}): sample longer, or write the model "
            "without what keeps them apart.",
            BeliefWarning,
            stacklevel=6,
        )
    if not (fit.fits and (fit.tells or apart)):
        wrong = "spreads may be off by a third" if fit.fits else "its tails or camps are not quite those of the draws"
        warnings.warn(
            f"The belief is {fit.describe()}: {wrong}.",
            BeliefWarning,
            stacklevel=6,
        )


def _whitening(flat: FloatArray, *, floor: float) -> tuple[FloatArray, FloatArray]:
    """Mean (P,) and a root (P, r) of the covariance; directions in which nothing varies are left out."""
    centre = flat.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(flat, rowvar=False).reshape(flat.shape[1], -1))
    there = values > max(1e-12, floor**2) * max(values[-1], 1e-300)
    return centre, vectors[:, there] * np.sqrt(values[there])


def _diagnostics(draws: FloatArray) -> tuple[float, float]:
    """The largest r-hat and the smallest effective size of the means."""
    from arviz_stats.base import array_stats

    n_chains, n = draws.shape[:2]
    columns = np.moveaxis(draws.reshape(n_chains, n, -1), -1, 0)  # (P, chain, draw)
    moving = columns[np.ptp(columns, axis=(1, 2)) > 0]
    if not len(moving):
        return 1.0, float(n_chains * n)
    size: Any = array_stats.ess(moving, chain_axis=-2, draw_axis=-1, method="mean")
    rhat: Any = array_stats.rhat(moving, chain_axis=-2, draw_axis=-1) if n_chains > 1 else np.nan
    return float(np.max(rhat)), float(np.clip(np.min(size), 1.0, n_chains * n))


def _chosen(z: FloatArray, *, effective: float) -> tuple[int, float, float]:
    """The number of components by held-out prediction, the misfit of that many there, and what chance allows."""
    if not z.shape[1]:
        return 1, 0.0, 1.0
    order = np.random.default_rng(0).permutation(len(z))
    one, other = z[order[: len(z) // 2]], z[order[len(z) // 2 :]]
    numbers = z.shape[1] * (z.shape[1] + 3) / 2
    most = max(1.0, len(one) / (_DRAWS_PER_NUMBER * numbers))
    found = {n: _mixture(one, n) for n in _COMPONENTS if n <= most or n == 1}
    best = max(found, key=lambda n: found[n].score(other))
    share = min(1.0, effective / len(z))
    return best, *_misfit(found[best], other, effective=share * len(other), fitted=share * len(one))


def _mixture(z: FloatArray, n_components: int) -> Any:
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an iteration that has not quite ended
        return GaussianMixture(n_components, reg_covar=1e-9, max_iter=500, tol=1e-5, random_state=0).fit(z)


def _fitted(z: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    if n_components == 1:
        r = z.shape[1]
        return np.ones(1), np.zeros((1, r)), np.eye(r)[None]
    found = _mixture(z, n_components)
    return found.weights_ / found.weights_.sum(), found.means_, found.covariances_


def _misfit(mixture: Any, z: FloatArray, *, effective: float, fitted: float) -> tuple[float, float]:
    """The largest Kolmogorov distance along the axes and random directions, and its limit by chance."""
    from scipy.special import ndtr

    r = z.shape[1]
    random = np.random.default_rng(1).standard_normal((_N_DIRECTIONS, r))
    directions = np.concatenate([np.eye(r), random / np.linalg.norm(random, axis=1, keepdims=True)])
    steps = np.arange(1, len(z) + 1) / len(z)
    largest = 0.0
    for direction in directions:
        ordered = np.sort(z @ direction)
        centres = mixture.means_ @ direction
        spreads = np.sqrt(np.einsum("r,crs,s->c", direction, mixture.covariances_, direction))
        expected = ndtr((ordered[:, None] - centres) / spreads) @ mixture.weights_
        gap = max(np.abs(expected - steps).max(), np.abs(expected - steps + 1.0 / len(z)).max())
        largest = max(largest, float(gap))
    independent = 1.0 / (1.0 / effective + 1.0 / fitted)  # the fit has seen draws of its own, and errs with them
    return largest, float(np.sqrt(-0.5 * np.log(_CHANCE / (2 * len(directions))) / independent))
