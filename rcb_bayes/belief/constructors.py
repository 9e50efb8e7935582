"""Beliefs from models: PyMC regressions, formulas, and draws of their posteriors.

Each way reads what it is given with the module of its own, and hands the parts to ``Prior``.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import ARM, FEATURE

if TYPE_CHECKING:
    import pymc as pm

    from rcb_bayes.belief.prior import Prior


def of_model(model: Any, *, words: dict[str, Any], name: str) -> "Prior":
    """The belief of a PyMC model, read in these words, or of one that was read already.

    It remembers the model and the words, so that it can be sent to other processes and read there.
    """
    from rcb_bayes.belief.reading import Spelt, model_parts, read_model

    parts = model_parts(model) if isinstance(model, Spelt) else read_model(model, words)
    found = made(**parts, name=name)
    found._given, found._words = model, words
    return found


def made(**parts: Any) -> "Prior":
    """A belief of its parts."""
    from rcb_bayes.belief.prior import Prior

    return Prior(**parts)


def _alike(found: "Prior", like: "Prior | None") -> "Prior":
    """The belief with the feature map of another about the same coefficients."""
    if like is None:
        return found
    if (found.arms, found.features) != (like.arms, like.features):
        raise BeliefError(
            f"The posterior is about other arms or features than '{like.name}': pass the belief that it came from."
        )
    found.feature_map, found.expansion = like.feature_map, like.expansion
    return found


class ModelSources:
    """The ways to make a ``Prior`` of a model or of draws; ``Prior`` has them all."""

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

        where :math:`\phi` is read off the model's graph: splines, polynomials, interactions, effects of groups, random
        walks, ``pm.gp.HSGP``. Users are then told by x as before, and ``feature_map`` gives their features. A scalar
        variable ``sigma``, where there is one, is the belief about the noise's standard deviation. A model with
        observed variables is sampled by NUTS, once, and its posterior is the belief: a mixture of Gaussians fitted to
        the draws, whose error is in ``fit``.

        A mean that is not linear in any functions of the latents (a neural net) is told by its values at some of the
        users in its inputs, the anchors, and everybody else's follows from theirs by weights that depend on x:
        ``expansion`` has both, and the error of it. Posteriors then take NUTS, some tenths of a second a data set.
        Fill the inputs with users of the population, a few hundred of them: for these it is read.

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
            no finite mean; a regression whose mean is random given the latents, or so rough that what it gives a few
            users does not tell the rest.

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
        words = {"coefficients": coefficients, "arm": arm, "feature": feature, "intercept": intercept}
        words |= {"mean": mean, "inputs": inputs}
        return of_model(model, words=words, name=name)

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
        from rcb_bayes.belief.from_draws import fitted_parts, read_draws

        words = {"coefficients": coefficients, "arm": arm, "feature": feature}
        found = read_draws(draws, **words, arms=arms, features=features)
        return made(**fitted_parts(found.values, arms=found.arms, features=found.features), name=name)

    @classmethod
    def from_posterior(
        cls,
        tree: Any,
        *,
        model: "pm.Model | None" = None,
        like: "Prior | None" = None,
        coefficients: str = "beta",
        arm: str = ARM,
        feature: str = FEATURE,
        intercept: str | None = None,
        mean: str | None = None,
        inputs: str | None = None,
        name: str = "posterior",
    ) -> "Prior":
        """Yesterday's posterior as today's belief: a mixture of Gaussians fitted to its draws, with its error.

        Parameters
        ----------
        tree : xarray.DataTree or xarray.Dataset
            What ``pm.sample`` or ``agent.posterior()`` returned.
        model : pymc.Model, optional
            The model that was sampled, where the tree has its latents only and not the coefficients: for a regression
            (``mean`` and ``inputs``), nonlinear ones included, and for an intercept that is kept apart.
        like : Prior, optional
            A belief about the same coefficients, yesterday's: its map from users' x to features is kept.
        coefficients : str
            The variable of the coefficients, of the tree or of the model.
        arm : str
            What they call the dimension of the arms.
        feature : str
            What they call the dimension of the features.
        intercept : str, optional
            As in ``from_pymc``; takes the model.
        mean : str, optional
            As in ``from_pymc``; takes the model.
        inputs : str, optional
            As in ``from_pymc``; takes the model.
        name : str
            What to call the belief in tables.

        Returns
        -------
        Prior
            The belief; ``fit`` says how many draws it rests on, and how well the mixture stands for them. A posterior
            of the noise's standard deviation is no part of it: pass ``GaussianNoise(sigma)`` to the market.

        Raises
        ------
        BeliefError
            No such variables or dims, fewer than 100 draws, draws that are not this model's.

        Examples
        --------
        >>> import pymc as pm
        >>> import rcb_bayes as rcb
        >>> yesterday = rcb.Prior.gaussian([[0.5], [0.2]], 0.25, arms=["old", "new"], features=["dose"])
        >>> tree = rcb.posterior.fit_posterior(
        ...     yesterday,
        ...     rcb.GaussianNoise(0.3),
        ...     rcb.posterior.Statistics.from_rows([[1.0], [1.0]], arm=[0, 1], reward=[0.6, 0.1], n_arms=2),
        ... )
        >>> today = rcb.Prior.from_posterior(tree)
        >>> today.arms, today.features, today.is_gaussian
        (('old', 'new'), ('dose',), True)
        """
        from rcb_bayes.belief.from_posterior import posterior_of, read_posterior

        words = {"coefficients": coefficients, "arm": arm, "feature": feature}
        if model is None:
            if intercept is not None or mean is not None or inputs is not None:
                raise BeliefError("intercept, mean and inputs are a model's: pass model=, the one that was sampled.")
            return _alike(cls.from_draws(posterior_of(tree), **words, name=name), like)
        if like is not None:
            raise BeliefError(
                "like= says what a tree's coefficients are of; with model= the model does. Leave one out."
            )
        words |= {"intercept": intercept, "mean": mean, "inputs": inputs}
        return made(**read_posterior(tree, model, words), name=name)

    @classmethod
    def from_bambi(
        cls, model: Any, *, arm: str = ARM, posterior: Any = None, sigma: bool = True, name: str = "formula"
    ) -> "Prior":
        """A belief from a formula: a Bambi model that has the arms as a factor.

        ``bmb.Model("y ~ 0 + arm + arm:bs(age, df=4) + (1|segment)", data, priors={...})``: the data give covariates,
        levels and knots, the priors the belief. Rewards are Gaussian, or 0/1 with the logit link. Takes the extra
        ``bambi``.

        Parameters
        ----------
        model : bambi.Model
            The model, fitted or not.
        arm : str
            The column of the arms.
        posterior : xarray.DataTree, optional
            What ``model.fit()`` returned: the belief is the posterior then, fitted as in ``from_posterior``.
        sigma : bool
            Whether the formula's own ``sigma`` is the belief about the noise; else pass ``GaussianNoise(sigma)`` to
            the market.
        name : str
            What to call the belief in tables.

        Returns
        -------
        Prior
            The belief, with a map from the formula's covariates to its features. Users' x has the covariates in the
            order of the data's columns; of a factor it has the position of the level.

        Raises
        ------
        BeliefError
            No Bambi model, another family or link, no such column, offsets or ``hsgp`` terms.

        Warns
        -----
        BeliefWarning
            Default priors, which Bambi scales by the rewards in its data.

        Examples
        --------
        >>> import bambi as bmb
        >>> import pandas as pd
        >>> import rcb_bayes as rcb
        >>> data = pd.DataFrame({"arm": ["old", "new"] * 4, "age": np.arange(8) / 8, "y": np.zeros(8)})
        >>> half = bmb.Prior("Normal", mu=0, sigma=0.5)
        >>> model = bmb.Model("y ~ 0 + arm + arm:age", data, priors={"arm": half, "arm:age": half})
        >>> prior = rcb.Prior.from_bambi(model, sigma=False)
        >>> prior.arms, prior.features, prior.is_gaussian
        (('new', 'old'), ('intercept', 'age'), True)
        """
        from rcb_bayes.belief.from_bambi import read_fitted, read_formula

        if posterior is None:
            return of_model(read_formula(model, arm=arm, sigma=sigma), words={}, name=name)
        return made(**read_fitted(model, posterior, arm=arm), name=name)
