"""Numbers in words: a figure with its Monte Carlo error, a share in per cent; the same digits wherever they stand."""

import math

_ZERO = 1e-12  # what rounding leaves of a figure that is zero
_ROUNDING = 1e-9  # and of a share that is none, or all
_LARGE = 999.5  # rounds to a thousand
_UNSEEN = 5e-5  # of a figure: an error below what three digits show
_PLACES = 6  # of a figure that is not written in powers of ten
_BOUND = 3.0  # errors between a share at its limit and what it may be


def figure(value: float, mcse: float) -> str:
    """A figure and its Monte Carlo error, to two digits of the error.

    Examples
    --------
    >>> from rcb_bayes.telling.wording import figure
    >>> figure(0.5284, 0.0112), figure(36124.0, 0.0)
    ('0.528 ± 0.011', '36,124')
    """
    if not math.isfinite(value):
        return "no end" if value > 0 else "unknown"
    if abs(value) < _ZERO and not mcse > _ZERO:
        return "0"
    if not (math.isfinite(mcse) and mcse > _UNSEEN * abs(value)):
        return brief(value)
    digits = max(0, 1 - math.floor(math.log10(mcse)))
    if digits > _PLACES:
        return f"{value:.2g} ± {mcse:.1g}"
    return f"{value:,.{digits}f} ± {mcse:,.{digits}f}"


def brief(value: float, digits: int = 3) -> str:
    """A figure to three digits, whole from a thousand on, and 0 for what is 0 but for rounding.

    Examples
    --------
    >>> from rcb_bayes.telling.wording import brief
    >>> brief(-0.04873), brief(999.7), brief(-7e-16)
    ('-0.0487', '1,000', '0')
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "no end" if value > 0 else "no lower end"
    size = abs(value)
    if size < _ZERO:
        return "0"
    if size >= _LARGE:
        return f"{value:,.0f}"
    places = digits - 1 - math.floor(math.log10(size))
    if places > _PLACES + 2:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float, mcse: float | None = None) -> str:
    """A share in per cent to one decimal, between 0 and 100, with its error if it has one.

    What is too small to be seen at one decimal is "under 0.1 %", and 0.0 % is none at all but for rounding. A share at
    its limit can be off to one side only: it is told as a bound, three errors away (of n without an exception about 3/n
    to 6/n, by the rule of three).

    Examples
    --------
    >>> from rcb_bayes.telling.wording import percent
    >>> percent(0.52149), percent(3.3e-16), percent(0.0002), percent(0.9, 0.03)
    ('52.1 %', '0.0 %', 'under 0.1 %', '90.0 ± 3.0 %')
    >>> percent(1.0, 0.01), percent(0.0, 0.006)
    ('at least 97.0 %', 'at most 1.8 %')
    """
    if math.isnan(share):
        return "unknown"
    share = min(max(share, 0.0), 1.0)
    if mcse is not None and math.isfinite(mcse) and 100 * mcse >= 0.05:
        bound = min(_BOUND * mcse, 1.0)
        if share <= _ROUNDING:
            return f"at most {100 * bound:.1f} %"
        if share >= 1 - _ROUNDING:
            return f"at least {100 * (1 - bound):.1f} %"
        return f"{100 * share:.1f} ± {min(100 * mcse, 100.0):.1f} %"
    if _ROUNDING < share < 5e-4:
        return "under 0.1 %"
    if 1 - 5e-4 < share < 1 - _ROUNDING:
        return "over 99.9 %"
    return f"{100 * share:.1f} %"


def how_often(rate: float, mcse: float = 0.0) -> str:
    """How often something happens in a round, in words, with the error of the rate if it has one.

    Examples
    --------
    >>> from rcb_bayes.telling.wording import how_often
    >>> how_often(1.0), how_often(0.256, 0.002), how_often(0.0)
    ('always', 'once in 3.906 ± 0.031 rounds', 'never')
    """
    if rate >= 1 - _ROUNDING:
        return "always"
    return f"once in {figure(1 / rate, mcse / rate**2)} rounds" if rate > _ROUNDING else "never"


def times(ratio: float) -> str:
    """A ratio that may exceed one, in per cent: a cold start of the horizon, say.

    Examples
    --------
    >>> from rcb_bayes.telling.wording import times
    >>> times(0.0193), times(12.5)
    ('1.9 %', '1,250 %')
    """
    return percent(ratio) if not ratio > 1 else f"{brief(100 * ratio)} %" if math.isfinite(ratio) else "no share"
