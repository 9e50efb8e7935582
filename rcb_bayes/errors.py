"""What can go wrong with an input, as exceptions a caller can tell apart.

Every message says what was expected, what came and what to do, in one or two lines. Findings (a failed check,
an infeasible plan) are results, never exceptions.
"""

__all__ = [
    "BeliefError",
    "BeliefWarning",
    "ConfoundingWarning",
    "DataError",
    "DiagnosticWarning",
    "GuardWarning",
    "MarketError",
    "ModelFileError",
    "RcbError",
    "WorkersError",
]


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


class WorkersError(RcbError):
    """Workers that are none, cannot be reached, have other versions of the packages, or are lost on the way."""


class BeliefWarning(UserWarning):
    """A belief that can be used, but is not quite what it says."""


class DiagnosticWarning(UserWarning):
    """Some posteriors are not vouched for; every result built on them says so too."""


class ConfoundingWarning(UserWarning):
    """Who refuses differs in what she would have got: a posterior from the arms taken is off.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> issubclass(rcb.errors.ConfoundingWarning, UserWarning)
    True
    """


class GuardWarning(UserWarning):
    """A plan is run in another way than its guard was computed for.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> issubclass(rcb.errors.GuardWarning, UserWarning)
    True
    """


class MovesWarning(UserWarning):
    """Arms are missing, come or leave, and what a plan promises does not hold on without more.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> issubclass(rcb.errors.MovesWarning, UserWarning)
    True
    """


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is a Ctrl-C, or came of one.

    Compiled code that is interrupted half-way ends in errors of its own: a SystemError for a result that came with an
    exception set, a Rust panic. The KeyboardInterrupt is then behind it, as its cause or its context.

    Examples
    --------
    >>> from rcb_bayes.errors import is_interrupt
    >>> is_interrupt(KeyboardInterrupt()), is_interrupt(ValueError("no number"))
    (True, False)
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, KeyboardInterrupt):
            return True
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
    return False
