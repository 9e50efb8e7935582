r"""Users' beliefs: a prior over what each arm gives each user.

A ``Prior`` wraps a PyMC model (or a Gaussian in closed form) and answers what the rest of the package asks: labelled
mean and covariance of :math:`\beta` (arm, feature), draws, a log density where one exists, whether arms are
independent, and whether the belief is Gaussian or a finite mixture of Gaussians, so that posteriors are exact.
"""

from collections.abc import Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.belief.law import SINGULAR, GaussianLaw, gaussian_law, joint_covariance, square_root
from rcb_bayes.belief.travelling import as_bytes, from_bytes
from rcb_bayes.errors import BeliefError
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.schema import ARM, FEATURE, FloatArray, Seed, as_count, as_finite_array, as_labels, as_rng

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from rcb_bayes.belief.conditional import ConditionalLaw
    from rcb_bayes.belief.from_draws import DrawsFit
    from rcb_bayes.belief.model import ModelBelief
    from rcb_bayes.belief.scale_mixture import ScaleMixture

_MOMENT_DRAWS = 65_536


class Prior:
    """A belief about the coefficients ``beta`` of every arm.

    Make one with ``Prior.from_pymc(model)``, ``Prior.gaussian(mean, cov)`` or ``load_prior(name)``; treat it as
    immutable.

    Parameters
    ----------
    arms, features : tuple of str
        Labels, in the order of beta's dims.
    groups : tuple of tuple of int
        Independent groups of arms, as tuples of positions.
    law : GaussianLaw, optional
        The closed form where the belief is a finite mixture of Gaussians, else None.
    source : ModelBelief, optional
        The PyMC model as it was read; None for a belief in closed form.
    name : str
        What to call the belief in tables.
    feature_map : FeatureMap, optional
        From users' x to the features, where the belief brings features of its own; None where features are x.
    fit : DrawsFit, optional
        How well the belief stands for the draws it was fitted to; None where it was not.

    Applicability
    -------------
    The paper factorises its prior over arms; coupled arms are allowed here and found out from the model's graph. A
    belief must have a finite mean, for without one "what users expect" does not exist.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> prior.n_arms, prior.n_features, prior.is_gaussian, prior.arms_independent
    (2, 2, True, True)
    >>> prior.mean.sel(arm="old").values
    array([0.5, 0.2])
    """

    def __init__(
        self,
        *,
        arms: tuple[str, ...],
        features: tuple[str, ...],
        groups: tuple[tuple[int, ...], ...],
        law: GaussianLaw | None,
        source: "ModelBelief | None",
        name: str,
        feature_map: FeatureMap | None = None,
        fit: "DrawsFit | None" = None,
    ) -> None:
        self.arms = arms
        self.features = features
        self.groups = groups
        self.law = law
        self.name = name
        self.feature_map = feature_map
        self.fit = fit
        self._source = source
        self._given: pm.Model | None = None  # the model as it was given, and the words in which it was read
        self._words: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """What is pickled: the model as it was read, or the closed form; nothing that was compiled."""
        if self._source is not None:
            return from_bytes, (self._packed, self.name, self._words)
        parts = {"arms": self.arms, "features": self.features, "groups": self.groups, "law": self.law}
        parts |= {"feature_map": self.feature_map, "fit": self.fit}
        return partial(Prior, **parts, source=None, name=self.name), ()

    @cached_property
    def _packed(self) -> bytes:
        return as_bytes(self.model if self._given is None else self._given, name=self.name)

    @classmethod
    def from_pymc(
        cls,
        model: "pm.Model",
        *,
        coefficients: str = "beta",
        arm: str = ARM,
        feature: str = FEATURE,
        intercept: str | None = None,
        mean: str | None = None,
        inputs: str | None = None,
        name: str = "belief",
    ) -> "Prior":
        r"""Read a PyMC model: its coefficients ``beta`` (arm, feature), or the mean of a regression.

        Coefficients may be random or deterministic, hierarchical, or stacked from one family per arm. A regression has
        a mean (user, arm) of inputs (user, feature), and becomes a belief about the coefficients of its own basis,

        .. math:: \mu(x)_a = \sum_b \phi_b(x) \beta_{ab},

        where :math:`\phi` is read off the model's graph: splines, polynomials, interactions, effects of groups,
        ``pm.gp.HSGP``. Users are then told by x as before, and ``feature_map`` gives their features. A scalar variable
        ``sigma``, where there is one, is the belief about the noise's standard deviation. A model with observed
        variables is sampled by NUTS, once, and its posterior is the belief: a mixture of Gaussians fitted to the draws,
        whose error is in ``fit``.

        Parameters
        ----------
        model : pymc.Model
            The model; it stays as it is.
        coefficients : str
            The variable of the coefficients, with the dims ``arm`` and ``feature`` in either order.
        arm : str
            What the model calls the dimension of the arms.
        feature : str
            What the model calls the dimension of the features.
        intercept : str, optional
            A variable (arm) that is kept apart from the coefficients; it becomes the first of them, of a feature that
            is 1 for everybody and that users' x does not have.
        mean : str, optional
            The mean of a regression, with dims (user, arm).
        inputs : str, optional
            Its inputs, ``pm.Data`` with dims (user, feature).
        name : str
            What to call the belief in tables.

        Returns
        -------
        Prior
            The belief.

        Raises
        ------
        BeliefError
            No such variables or other dims, fewer than two arms, potentials, an improper prior, impossible parameters,
            no finite mean; a regression whose mean is random given the latents, or nonlinear.

        Examples
        --------
        >>> import pymc as pm
        >>> import rcb_bayes as rcb
        >>> with pm.Model(coords={"arm": ["old", "new"], "feature": ["price", "speed"]}) as model:
        ...     beta = pm.Normal("beta", [[0.5], [0.2]], 0.5, dims=("arm", "feature"))
        >>> prior = rcb.Prior.from_pymc(model)
        >>> prior.is_gaussian, prior.arms
        (True, ('old', 'new'))

        A regression, quadratic in age:

        >>> with pm.Model(coords={"arm": ["old", "new"], "feature": ["age"]}) as model:
        ...     x = pm.Data("x", [[0.2], [0.7]], dims=("user", "feature"))
        ...     w = pm.Normal("w", 0.0, 0.5, shape=(2, 2))
        ...     mu = pm.Deterministic("mu", x @ w[:1] + x**2 @ w[1:], dims=("user", "arm"))
        >>> prior = rcb.Prior.from_pymc(model, mean="mu", inputs="x")
        >>> prior.features, prior.feature_map(np.array([[0.5]]))
        (('age', 'basis_1'), array([[0.5 , 0.25]]))
        """
        from rcb_bayes.belief.reading import read_model

        words = {"coefficients": coefficients, "arm": arm, "feature": feature, "intercept": intercept}
        words |= {"mean": mean, "inputs": inputs}
        found = cls(**read_model(model, **words), name=name)
        found._given, found._words = model, words
        return found

    @classmethod
    def from_draws(
        cls,
        draws: Any,
        *,
        coefficients: str = "beta",
        arm: str = ARM,
        feature: str = FEATURE,
        arms: Iterable[object] | None = None,
        features: Iterable[object] | None = None,
        name: str = "draws",
    ) -> "Prior":
        """A belief from draws of its coefficients: a mixture of Gaussians fitted to them, with its error.

        Parameters
        ----------
        draws : array_like, xarray.DataArray, xarray.Dataset or xarray.DataTree
            (draw, K, d) or (chain, draw, K, d); or labelled draws, such as what ``pm.sample`` returns.
        coefficients : str
            The variable of the coefficients, where there are several.
        arm : str
            What the draws call the dimension of the arms.
        feature : str
            What the draws call the dimension of the features.
        arms : iterable, optional
            Labels of the arms; those of the draws unless given.
        features : iterable, optional
            Labels of the features; those of the draws unless given.
        name : str
            What to call the belief in tables.

        Returns
        -------
        Prior
            The belief; ``fit`` says how many draws it rests on, and how well the mixture stands for them.

        Raises
        ------
        BeliefError
            No such variable or dims, or fewer than 100 draws.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> beta = np.random.default_rng(1).normal(0.3, 0.1, size=(4000, 2, 1))
        >>> prior = rcb.Prior.from_draws(beta, arms=["old", "new"], features=["dose"])
        >>> prior.is_gaussian, prior.fit.n_components, prior.fit.fits
        (True, 1, True)
        """
        from rcb_bayes.belief.from_draws import fit_law, read_draws

        words = {"coefficients": coefficients, "arm": arm, "feature": feature}
        found = read_draws(draws, **words, arms=arms, features=features)
        law, fit = fit_law(found.values)
        return cls(
            arms=found.arms,
            features=found.features,
            groups=tuple(block.arms for block in law.blocks),
            law=law,
            source=None,
            name=name,
            fit=fit,
        )

    @classmethod
    def gaussian(
        cls,
        mean: ArrayLike,
        cov: ArrayLike,
        *,
        arms: Iterable[object] | None = None,
        features: Iterable[object] | None = None,
        name: str = "gaussian",
    ) -> "Prior":
        """A Gaussian belief in closed form.

        Parameters
        ----------
        mean : array_like
            (K, d).
        cov : array_like
            The joint (K d, K d), arm-major; (K, d, d) per arm; (d, d) shared by all arms; (K,) variances; or one
            variance. Singular covariances (a known coefficient) are fine.
        arms : iterable, optional
            Labels of the arms; ``arm_0``, ``arm_1``, ... unless given.
        features : iterable, optional
            Labels of the features; ``feature_0``, ``feature_1``, ... unless given.
        name : str
            What to call the belief in tables.

        Returns
        -------
        Prior
            The belief.

        Raises
        ------
        BeliefError
            When a covariance is of no such shape, not symmetric or not positive semi-definite.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], [0.01, 0.25], arms=["old", "new"])
        >>> prior.covariance.sel(arm="new", arm_2="new").values
        array([[0.25, 0.  ],
               [0.  , 0.25]])
        """
        centre = as_finite_array(mean, name="mean", ndim=2)
        n_arms, d = centre.shape
        if n_arms < 2 or d < 1:
            raise BeliefError(f"A belief needs at least two arms and one feature, got mean of shape {centre.shape}.")
        law = gaussian_law(centre, _as_joint(as_finite_array(cov, name="cov"), n_arms=n_arms, d=d))
        return cls(
            arms=as_labels(arms, dim=ARM, size=n_arms),
            features=as_labels(features, dim=FEATURE, size=d),
            groups=tuple(block.arms for block in law.blocks),
            law=law,
            source=None,
            name=name,
        )

    def given(self, data: Any, *, noise: Any = None) -> "Prior":
        """The belief of everybody who has seen the data: public history.

        Exact for Gaussian beliefs and finite mixtures of them with Gaussian rewards of known sigma. Other beliefs are
        sampled as PyMC models with the data observed, and become a mixture fitted to the draws (``fit`` tells how
        well).

        Parameters
        ----------
        data : pandas.DataFrame or mapping of str to object
            A table with a column for each of users' covariates, ``arm`` (labels or positions) and ``reward``; or a dict
            of ``x`` (n, p), ``arm`` and ``reward``.
        noise : Noise
            How the rewards came about: ``GaussianNoise(sigma)`` or ``BernoulliLogit()``.

        Returns
        -------
        Prior

        Raises
        ------
        BeliefError
            A belief with a variable ``sigma``: it would lose what the data say about the noise; no noise given.
        DataError
            Missing columns, unknown arms, values that are not finite.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> prior = rcb.Prior.gaussian([[0.5], [0.2]], 1.0, arms=["old", "new"])
        >>> after = prior.given({"x": [[1.0]], "arm": ["new"], "reward": [1.2]}, noise=rcb.GaussianNoise(1.0))
        >>> after.mean.sel(arm="new").item(), after.covariance.sel(arm="new", arm_2="new").item()
        (0.7, 0.5)
        """
        from importlib import import_module

        # Posteriors are made above this layer, and nothing here rests on them.
        return import_module("rcb_bayes.posterior.conditioned").conditioned(self, data, noise=noise)

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        return len(self.arms)

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.features)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Labels of users' x: the features, or what the belief's own feature map is told of users."""
        return self.features if self.feature_map is None else self.feature_map.inputs

    @property
    def arms_independent(self) -> bool:
        """Whether every arm is independent of the others, as the paper assumes."""
        return len(self.groups) == self.n_arms

    @property
    def is_gaussian(self) -> bool:
        """Whether beta is jointly Gaussian, proved from the model's graph."""
        return self.law is not None and self.law.is_gaussian

    @property
    def is_mixture(self) -> bool:
        """Whether beta is a finite mixture of Gaussians with more than one component."""
        return self.law is not None and not self.law.is_gaussian

    @property
    def has_mixture(self) -> bool:
        """Whether beta may lie in one of several camps, which a chain need not travel between."""
        return self.is_mixture if self._source is None else self._source.has_mixture

    @property
    def is_conditionally_gaussian(self) -> bool:
        """Whether beta is Gaussian given a few other variables: scales, correlations, an unknown noise."""
        if self._source is None:
            return False
        conditioners = self._source.conditioners
        return bool(conditioners) or (conditioners is not None and self.has_sigma)

    def conditional_law(self, n_draws: int, *, replicate: int = 0) -> "ConditionalLaw":
        """The belief as an equally weighted mixture over draws of the variables that it is Gaussian given.

        Every ``replicate`` is a fresh set of draws; the same one is the same set.

        Raises
        ------
        BeliefError
            When the belief is not conditionally Gaussian.
        """
        if self._source is None or not self.is_conditionally_gaussian:
            raise BeliefError(f"The belief '{self.name}' is not Gaussian given a few of its variables.")
        return self._source.conditional_law(n_draws, replicate=replicate)

    @property
    def conditional_grid(self) -> "ConditionalLaw | None":
        """The belief as a mixture over a grid of the one number that it is Gaussian given; None where it is not so."""
        return None if self._source is None else self._source.conditional_grid

    @property
    def scale_mixture(self) -> "ScaleMixture | None":
        """The belief as normal effects with unknown scales: see ``belief.scale_mixture``; None where it is not so."""
        return None if self._source is None else self._source.scale_mixture

    @property
    def conditional_lattices(self) -> "tuple[ConditionalLaw, ...] | None":
        """For each group of arms a mixture over a lattice of the two numbers that it is Gaussian given; or None."""
        return None if self._source is None else self._source.conditional_lattices

    @property
    def noise_line(self) -> "tuple[FloatArray, FloatArray] | None":
        """Logarithms of an unknown noise sd and their log densities, each (n,), where beta is Gaussian; else None."""
        return None if self._source is None else self._source.noise_line

    @cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Classes of arms that may change places, each arm in one: see ``belief.alike``."""
        from rcb_bayes.belief.alike import alike_arms

        return alike_arms(self)

    @property
    def has_sigma(self) -> bool:
        """Whether the belief carries its own ``sigma``, the unknown noise sd."""
        return self._source is not None and self._source.has_sigma

    @property
    def has_density(self) -> bool:
        """Whether beta has a log density that can be evaluated."""
        if self._source is None:
            return self.law is not None and self.law.has_density
        return self._source.density.evaluate is not None

    @property
    def density_reason(self) -> str:
        """How the density is computed, or why there is none."""
        if self._source is not None:
            return self._source.density.reason
        return "closed form" if self.has_density else SINGULAR

    @property
    def has_finite_variance(self) -> bool | None:
        """Whether beta has a finite variance; None where the model's graph does not tell."""
        tail = np.inf if self._source is None else self._source.tail
        return None if tail is None else bool(tail > 2.0)

    @cached_property
    def model(self) -> "pm.Model":
        """The belief as a PyMC model; a closed-form Gaussian is written out as one."""
        return self._source.model if self._source is not None else _as_pymc(self)

    @cached_property
    def moments(self) -> "xr.Dataset":
        """Prior ``mean`` and ``covariance`` of beta, each with its Monte Carlo error (zero where exact).

        Dims (arm, feature) and (arm, feature, arm_2, feature_2). An infinite variance is reported as such.
        """
        import xarray as xr

        mean, mean_mcse, cov, cov_mcse = self._moment_arrays()
        k, d = self.n_arms, self.n_features
        one, two = (ARM, FEATURE), (ARM, FEATURE, f"{ARM}_2", f"{FEATURE}_2")
        return xr.Dataset(
            {
                "mean": (one, mean),
                "mean_mcse": (one, mean_mcse),
                "covariance": (two, cov.reshape(k, d, k, d)),
                "covariance_mcse": (two, cov_mcse.reshape(k, d, k, d)),
            },
            coords={
                ARM: list(self.arms),
                FEATURE: list(self.features),
                f"{ARM}_2": list(self.arms),
                f"{FEATURE}_2": list(self.features),
            },
            attrs={"belief": self.name},
        )

    @property
    def mean(self) -> "xr.DataArray":
        """Prior mean of beta, dims (arm, feature); exact where the model's graph gives it."""
        return self.moments["mean"]

    @property
    def covariance(self) -> "xr.DataArray":
        """Prior covariance of beta, dims (arm, feature, arm_2, feature_2)."""
        return self.moments["covariance"]

    def draw(self, n: int, *, seed: Seed = None) -> "xr.Dataset":
        """Independent draws: ``beta`` (draw, arm, feature) and, where the belief has one, ``sigma`` (draw).

        Parameters
        ----------
        n : int
            How many draws.
        seed : int, SeedSequence, Generator or None
            None draws anew every time.

        Returns
        -------
        xarray.Dataset
            ``beta`` (draw, arm, feature) and, where the belief has one, ``sigma`` (draw).

        Raises
        ------
        RcbError
            When ``n`` is no integer of at least 1, or the seed no seed.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
        >>> dict(prior.draw(1000, seed=1)["beta"].sizes)
        {'draw': 1000, 'arm': 2, 'feature': 2}
        """
        import xarray as xr

        beta, sigma = self.draw_arrays(as_count(n, name="n", least=1), rng=as_rng(seed))
        variables: dict[str, Any] = {"beta": (("draw", ARM, FEATURE), beta)}
        if sigma is not None:
            variables["sigma"] = (("draw",), sigma)
        coords = {ARM: list(self.arms), FEATURE: list(self.features)}
        return xr.Dataset(variables, coords=coords, attrs={"belief": self.name})

    def draw_arrays(self, n: int, *, rng: np.random.Generator) -> tuple[FloatArray, FloatArray | None]:
        """As ``draw``, in plain arrays: beta (n, K, d) and sigma (n,) or None."""
        if self._source is not None:
            return self._source.draw(n, rng)
        assert self.law is not None  # a belief has a source or a law
        return self.law.draw(n, rng=rng), None

    def log_density(self, beta: ArrayLike) -> FloatArray:
        """Log density of beta at each of the given values, (..., K, d) -> (...).

        Parameters
        ----------
        beta : array_like
            Values of beta, (..., K, d).

        Returns
        -------
        ndarray
            (...).

        Raises
        ------
        BeliefError
            When the belief has no density (a hierarchy, a singular covariance).
        """
        values = as_finite_array(beta, name="beta")
        if values.shape[-2:] != (self.n_arms, self.n_features):
            raise BeliefError(f"beta must have shape (..., {self.n_arms}, {self.n_features}), got {values.shape}.")
        flat = values.reshape(-1, self.n_arms, self.n_features)
        return self.group_log_density(flat).sum(axis=1).reshape(values.shape[:-2])

    def group_log_density(self, beta: FloatArray) -> FloatArray:
        """Log density of each independent group of arms, (n, K, d) -> (n, n_groups)."""
        evaluate = self._source.density.evaluate if self._source is not None else None
        if self._source is None and self.law is not None and self.law.has_density:
            evaluate = self.law.log_density
        if evaluate is None:
            raise BeliefError(
                f"The belief '{self.name}' has no density of its own: {self.density_reason}. "
                "Use its draws, or sample it."
            )
        return evaluate(beta)

    def describe(self) -> str:
        """The belief in one line: size, family, independence, density."""
        family = "Gaussian" if self.is_gaussian else "mixture of Gaussians" if self.is_mixture else "non-Gaussian"
        coupled = "coupled arms" if len(self.groups) == 1 else f"{len(self.groups)} independent groups of coupled arms"
        arms = "independent arms" if self.arms_independent else coupled
        noise = ", unknown noise" if self.has_sigma else ""
        rests_on = "" if self.fit is None else f"; {self.fit.describe()}"
        return f"{self.name}: {self.n_arms} arms, {self.n_features} features, {family}, {arms}{noise}{rests_on}"

    def __repr__(self) -> str:
        return f"<Prior {self.describe()}>"

    def _moment_arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Mean (K, d), its error, covariance (K d, K d), its error."""
        size = self.n_arms * self.n_features
        if self.law is not None:
            mean, cov = self.law.mean(), self.law.covariance()
            error = np.zeros_like(mean) if self.fit is None else self.fit.mean_mcse
            return mean, error, cov, np.zeros((size, size))
        assert self._source is not None  # a belief has a source or a law
        beta, _ = self._source.draw(_MOMENT_DRAWS, np.random.default_rng(0))
        flat = beta.reshape(len(beta), size)
        exact = self._source.exact_mean
        mean = flat.mean(axis=0) if exact is None else exact.reshape(-1)
        error = flat.std(axis=0) / np.sqrt(len(flat)) if exact is None else np.zeros(size)
        cov, cov_error = _sampled_covariance(flat - mean, lost=0 if exact is not None else 1)
        if self.has_finite_variance is False:
            cov = np.where(np.eye(size, dtype=bool), np.inf, np.nan)
            cov_error = np.full((size, size), np.nan)
        shape = self.n_arms, self.n_features
        return mean.reshape(shape), error.reshape(shape), cov, cov_error


def _sampled_covariance(centred: FloatArray, *, lost: int) -> tuple[FloatArray, FloatArray]:
    n = len(centred)
    cov = centred.T @ centred / (n - lost)
    second = (centred**2).T @ (centred**2) / n
    return cov, np.sqrt(np.clip(second - cov**2, 0.0, None) / n)


def _as_joint(cov: FloatArray, *, n_arms: int, d: int) -> FloatArray:
    """Any accepted form of a covariance as the joint one, (K d, K d)."""
    size = n_arms * d
    if cov.ndim == 0:
        tiles = np.broadcast_to(cov * np.eye(d), (n_arms, d, d))
    elif cov.shape == (n_arms,):
        tiles = cov[:, None, None] * np.eye(d)
    elif cov.shape == (d, d):
        tiles = np.broadcast_to(cov, (n_arms, d, d))
    elif cov.shape == (n_arms, d, d):
        tiles = cov
    elif cov.shape == (size, size):
        tiles = None
    else:
        raise BeliefError(
            f"cov must be a variance, ({n_arms},), ({d}, {d}), ({n_arms}, {d}, {d}) or ({size}, {size}), "
            f"got shape {cov.shape}."
        )
    joint = cov if tiles is None else joint_covariance(list(tiles))
    if not np.allclose(joint, joint.T, rtol=1e-10, atol=1e-12):
        raise BeliefError("cov must be symmetric; (cov + cov.T) / 2 makes it so.")
    values = np.linalg.eigvalsh(joint)
    if values[0] < -1e-10 * max(values[-1], 1e-300):
        raise BeliefError(
            f"cov must be positive semi-definite, got a smallest eigenvalue of {values[0]:.3g}. "
            "Pass variances (not standard deviations with signs) or a valid covariance."
        )
    return joint


def _as_pymc(prior: Prior) -> "pm.Model":
    """A closed-form Gaussian belief as a PyMC model: standard normals times a root, so that it may be singular."""
    import pymc as pm

    if not prior.is_gaussian or prior.law is None:
        raise BeliefError(f"The belief '{prior.name}' is a mixture in closed form: write it as a PyMC model.")
    root = square_root(prior.law.covariance())
    with pm.Model(coords={ARM: list(prior.arms), FEATURE: list(prior.features)}) as model:
        normal: Any = pm.Normal("z", 0.0, 1.0, shape=len(root))
        beta = prior.law.mean() + (root * normal).sum(axis=1).reshape((prior.n_arms, prior.n_features))
        pm.Deterministic("beta", beta, dims=(ARM, FEATURE))
    return model
