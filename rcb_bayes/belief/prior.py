r"""Users' beliefs: a prior over what each arm gives each user.

A ``Prior`` wraps a PyMC model (or a Gaussian in closed form) and answers what the rest of the package asks: labelled
mean and covariance of :math:`\beta` (arm, feature), draws, a log density where one exists, whether arms are
independent, and whether the belief is Gaussian or a finite mixture of Gaussians, so that posteriors are exact.
"""

from collections.abc import Iterable
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.belief.closed_form import as_pymc
from rcb_bayes.belief.constructors import ModelSources
from rcb_bayes.belief.law import SINGULAR, GaussianLaw
from rcb_bayes.belief.moments import moment_arrays
from rcb_bayes.belief.stated import StatedSources
from rcb_bayes.belief.travelling import as_bytes, from_bytes
from rcb_bayes.errors import BeliefError
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.schema import ARM, FEATURE, FloatArray, Seed, as_count, as_finite_array, as_rng

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from rcb_bayes.belief.anchors import Expansion
    from rcb_bayes.belief.conditional import ConditionalLaw
    from rcb_bayes.belief.model import ModelBelief
    from rcb_bayes.belief.scale_mixture import ScaleMixture


class Prior(ModelSources, StatedSources):
    """A belief about the coefficients ``beta`` of every arm.

    Make one with ``Prior.from_pymc(model)``, ``Prior.gaussian(mean, cov)`` or ``load_prior(name)``, from a formula
    (``from_bambi``), from yesterday's posterior (``from_posterior``), from what people say (``from_quantiles``) or of
    several others (``pool``); treat it as immutable.

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
    fit : DrawsFit or QuantilesFit, optional
        How well the belief stands for what it was fitted to; None where it was not.
    expansion : Expansion, optional
        How a nonlinear mean is told by its values at some users; None where the mean is linear in the coefficients.

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
        fit: Any = None,
        expansion: "Expansion | None" = None,
    ) -> None:
        self.arms = arms
        self.features = features
        self.groups = groups
        self.law = law
        self.name = name
        self.feature_map = feature_map
        self.fit = fit
        self.expansion = expansion
        self._source = source
        self._given: Any = None  # the model as it was given, and the words in which it was read
        self._words: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """What is pickled: the model as it was read, or the closed form; nothing that was compiled."""
        if self._source is not None:
            return from_bytes, (self._packed, self.name, self._words)
        parts = {"arms": self.arms, "features": self.features, "groups": self.groups, "law": self.law}
        parts |= {"feature_map": self.feature_map, "fit": self.fit, "expansion": self.expansion}
        return partial(Prior, **parts, source=None, name=self.name), ()

    @cached_property
    def _packed(self) -> bytes:
        return as_bytes(self.model if self._given is None else self._given, name=self.name)

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
        >>> after.mean.sel(arm="new").item(), round(after.covariance.sel(arm="new", arm_2="new").item(), 12)
        (0.7, 0.5)
        """
        from importlib import import_module

        # Posteriors are made above this layer, and nothing here rests on them.
        return import_module("rcb_bayes.posterior.conditioned").conditioned(self, data, noise=noise)

    def with_arm(self, label: str, belief: Any) -> "Prior":
        """The belief with one more arm, the last.

        Parameters
        ----------
        label : str
            The new arm.
        belief : tuple of array_like, or Prior
            ``(mean, cov)`` of its coefficients, independent of the other arms: (d,) and a variance, (d,) variances or
            (d, d); or a belief about all arms, the new one last, in which it may be coupled with them.

        Returns
        -------
        Prior

        Raises
        ------
        BeliefError
            An arm that is there already; another form, other arms or features, or something else about the arms there
            are; a belief without a closed form, where ``(mean, cov)`` is given.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
        >>> prior.with_arm("newest", ([0.1, 0.3], 0.5)).arms
        ('old', 'new', 'newest')
        """
        from rcb_bayes.belief.joining import with_arm

        return with_arm(self, label, belief)

    def among(self, arms: Iterable[str]) -> "Prior":
        """The belief about some of its arms alone, of a belief in closed form.

        Parameters
        ----------
        arms : iterable of str
            Two arms or more, in the order wanted.

        Returns
        -------
        Prior

        Raises
        ------
        BeliefError
            Arms that are not there; a belief without a closed form.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> prior = rcb.Prior.gaussian([[0.5], [0.2], [0.1]], 0.25, arms=["a", "b", "c"])
        >>> prior.among(["c", "a"]).mean.values[:, 0]
        array([0.1, 0.5])
        """
        from rcb_bayes.belief.joining import among

        return among(self, tuple(islice(arms, self.n_arms + 1)))

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
        """The belief as a PyMC model; a closed form is written out as one."""
        return self._source.model if self._source is not None else as_pymc(self)

    @cached_property
    def moments(self) -> "xr.Dataset":
        """Prior ``mean`` and ``covariance`` of beta, each with its Monte Carlo error (zero where exact).

        Dims (arm, feature) and (arm, feature, arm_2, feature_2). An infinite variance is reported as such.
        """
        import xarray as xr

        mean, mean_mcse, cov, cov_mcse = moment_arrays(self, self._source)
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
        return self.moments["mean"] if self._source is not None or self.law is None else self._mean_of_law

    @cached_property
    def _mean_of_law(self) -> "xr.DataArray":
        """The same without a joint covariance, which is large for many arms; asked for all the time."""
        import xarray as xr

        assert self.law is not None  # asked for where it is
        coords = {ARM: list(self.arms), FEATURE: list(self.features)}
        return xr.DataArray(self.law.mean(), dims=(ARM, FEATURE), coords=coords, name="mean")

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

    def renamed(self, name: str) -> "Prior":
        """The same belief under another name.

        Parameters
        ----------
        name : str
            What to call it in tables.

        Returns
        -------
        Prior
            The belief.
        """
        from copy import copy

        found = copy(self)
        found.name = name
        return found

    def describe(self) -> str:
        """The belief in one line: size, family, independence, density."""
        family = "Gaussian" if self.is_gaussian else "mixture of Gaussians" if self.is_mixture else "non-Gaussian"
        coupled = "coupled arms" if len(self.groups) == 1 else f"{len(self.groups)} independent groups of coupled arms"
        arms = "independent arms" if self.arms_independent else coupled
        noise = ", unknown noise" if self.has_sigma else ""
        notes = [part.describe() for part in (self.expansion, self.fit) if part is not None]
        rests_on = "".join(f"; {note}" for note in notes)
        return f"{self.name}: {self.n_arms} arms, {self.n_features} features, {family}, {arms}{noise}{rests_on}"

    def __repr__(self) -> str:
        return f"<Prior {self.describe()}>"
