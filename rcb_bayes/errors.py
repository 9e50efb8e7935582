"""What can go wrong with an input, as exceptions a caller can tell apart.

Every message says what was expected, what came and what to do, in one or two lines. Findings (a failed check,
an infeasible plan) are results, never exceptions.
"""


class RcbError(ValueError):
    """An input that cannot be used; raised before any sampling starts.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> try:
    ...     rcb.Prior.gaussian([[0.5, 0.2]], 0.25)
    ... except rcb.RcbError as error:
    ...     print(error)
    A belief needs at least two arms and one feature, got mean of shape (1, 2).
    """


class BeliefError(RcbError):
    """A belief (prior) that cannot serve: no ``beta``, wrong dims, no finite mean, ..."""


class ModelFileError(BeliefError):
    """A model file that is missing, fails, lacks ``build_model`` or takes other parameters."""


class DataError(RcbError):
    """Covariates, rewards or a table with the wrong shape, type or values."""


class MarketError(RcbError):
    """Parts of a market (beliefs, covariates, noise) that do not fit together."""


class BeliefWarning(UserWarning):
    """A belief that can be used, but is not quite what it says."""
