"""Beliefs that are stated: a Gaussian in closed form, its like of other families, what people tell, several as one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from rcb_bayes.belief.closed_form import as_joint, as_tiles
from rcb_bayes.belief.constructors import made
from rcb_bayes.belief.law import gaussian_law, of_tiles
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import ARM, FEATURE, as_finite_array, as_labels

if TYPE_CHECKING:
    from rcb_bayes.belief.prior import Prior


class StatedSources:
    """The ways to make a ``Prior`` of statements; ``Prior`` has them all."""

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
        known = as_finite_array(cov, name="cov")
        tiles = as_tiles(known, n_arms=n_arms, d=d)
        law = gaussian_law(centre, as_joint(known, n_arms=n_arms, d=d)) if tiles is None else of_tiles(centre, tiles)
        return made(
            arms=as_labels(arms, dim=ARM, size=n_arms),
            features=as_labels(features, dim=FEATURE, size=d),
            groups=tuple(block.arms for block in law.blocks),
            law=law,
            source=None,
            name=name,
        )

    @classmethod
    def matched(
        cls,
        family: str,
        mean: ArrayLike,
        variance: ArrayLike,
        *,
        arms: Iterable[object] | None = None,
        features: Iterable[object] | None = None,
    ) -> "Prior":
        """A belief of a family with these means and variances, so that families differ in their shape only.

        Parameters
        ----------
        family : str
            "gaussian", "student_t" (5 degrees of freedom), "laplace", "mixture" (two camps .8 standard deviations
            above and below the mean, one for all features of an arm) or "skewed" (skew-normal, its long tail above).
        mean : array_like
            (K, d).
        variance : array_like
            Of every coefficient, (K, d), or one for all; coefficients are uncorrelated.
        arms : iterable, optional
            Labels of the arms; ``arm_0``, ``arm_1``, ... unless given.
        features : iterable, optional
            Labels of the features; ``feature_0``, ``feature_1``, ... unless given.

        Returns
        -------
        Prior
            The belief.

        Raises
        ------
        RcbError
            An unknown family.
        BeliefError
            Fewer than two arms, or a variance that is not above 0.

        Applicability
        -------------
        The ``scale`` of a gallery belief is that of its own family: at one scale a Student-t belief has a larger
        variance than a Gaussian one. Compare families here.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> for family in ("gaussian", "laplace"):
        ...     prior = rcb.Prior.matched(family, [[0.2, 0.0], [0.0, 0.0]], 0.05)
        ...     print(prior.name, prior.is_gaussian, prior.covariance.values[0, 0, 0, 0].round(6))
        gaussian True 0.05
        laplace False 0.05
        """
        from rcb_bayes.belief.families import matched_belief

        centre = as_finite_array(mean, name="mean", ndim=2)
        if len(centre) < 2 or not centre.shape[1]:
            raise BeliefError(f"A belief needs at least two arms and one feature, got mean of shape {centre.shape}.")
        spread = as_finite_array(variance, name="variance")
        if not (spread > 0).all():
            raise BeliefError(f"variance must be above 0, got {spread.min():g}.")
        return matched_belief(family, centre, spread, arms=arms, features=features)

    @classmethod
    def from_quantiles(
        cls,
        table: Any,
        *,
        intercept: bool = True,
        link: str = "identity",
        expert: str | None = None,
        weights: Mapping[str, float] | None = None,
        name: str = "elicited",
    ) -> "Prior":
        r"""A belief from what people say: quantiles of what arms give to users of some kinds.

        The Gaussian whose quantiles :math:`x'm_a + z_p \sqrt{x'V_a x}` are nearest to those told, by least squares.
        Rows with a ``rival`` tell how much more the arm gives than the rival, which is taken to be independent of what
        the rival gives. Several experts are pooled into a mixture; ``expert`` picks one of them.

        Parameters
        ----------
        table : DataFrame, dict of columns, list of dict, or path of a CSV file
            A column for each covariate, ``arm``, quantiles (``q10``, ``q50``, ``q90``, or ``level`` and ``value``), and
            perhaps ``rival`` and ``expert``.
        intercept : bool
            Whether there is a coefficient of 1 for everybody, which users' x does not have.
        link : {"identity", "logit"}
            "logit" where quantiles are chances and rewards 0/1.
        expert : str, optional
            Whose answers to take; all experts' unless given.
        weights : dict of str to float, optional
            Weights of the experts in the mixture; equal unless given.
        name : str
            What to call the belief in tables.

        Returns
        -------
        Prior
            The belief; ``fit`` says how far it is from what was told.

        Raises
        ------
        BeliefError
            Quantiles that cross, too few kinds of users, arms nobody speaks of.

        Warns
        -----
        BeliefWarning
            A belief that is off by more than .3 standard deviations somewhere: skewed or contradictory answers.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> prior = rcb.Prior.from_quantiles(
        ...     {
        ...         "arm": ["old", "old", "new", "new"],
        ...         "rival": ["", "", "old", "old"],
        ...         "age": [0.2, 0.8, 0.2, 0.8],
        ...         "q10": [0.4, 0.3, -0.4, -0.3],
        ...         "q50": [0.5, 0.5, -0.1, 0.1],
        ...         "q90": [0.6, 0.7, 0.2, 0.5],
        ...     }
        ... )
        >>> prior.arms, prior.features, prior.arms_independent
        (('old', 'new'), ('intercept', 'age'), False)
        >>> (prior.mean.values @ [1.0, 0.2]).round(3)
        array([0.5, 0.4])
        """
        from rcb_bayes.belief.elicited import elicited_parts

        return made(**elicited_parts(table, intercept=intercept, link=link, expert=expert, weights=weights), name=name)

    @classmethod
    def pool(cls, priors: "Sequence[Prior]", *, weights: ArrayLike | None = None, name: str = "pooled") -> "Prior":
        """Several beliefs as one: a mixture in which each is right with its weight.

        Keep them apart instead, as types of users, with ``UserType(prior=...)`` and ``audit_types``.

        Parameters
        ----------
        priors : sequence of Prior
            Beliefs about the same arms and features.
        weights : array_like, optional
            One for each; equal unless given.
        name : str
            What to call the belief in tables.

        Returns
        -------
        Prior
            A mixture of Gaussians, exact where all of them are in closed form, else fitted to draws, with its error in
            ``fit``.

        Raises
        ------
        BeliefError
            Fewer than two, other labels or features, weights that are no weights.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> ann = rcb.Prior.gaussian([[0.5], [0.2]], 0.04, name="ann")
        >>> bob = rcb.Prior.gaussian([[0.5], [0.8]], 0.04, name="bob")
        >>> both = rcb.Prior.pool([ann, bob], weights=[3, 1])
        >>> both.is_mixture, both.mean.values.ravel().round(2)
        (True, array([0.5 , 0.35]))
        """
        from rcb_bayes.belief.pooling import pooled_parts

        return made(**pooled_parts(list(priors), weights), name=name)
