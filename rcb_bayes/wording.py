"""Numbers in words: a figure with its Monte Carlo error, a share in per cent."""

import math

_ZERO = 1e-12  # what rounding leaves of a figure that is zero


def figure(value: float, mcse: float) -> str:
    """A figure and its Monte Carlo error, to two digits of the error."""
    if not math.isfinite(value):
        return "no end" if value > 0 else "unknown"
    if abs(value) < _ZERO and not mcse > _ZERO:
        return "0"
    if not (math.isfinite(mcse) and mcse > 1e-6 * abs(value)):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    digits = max(0, 1 - math.floor(math.log10(mcse)))
    if digits > 6:
        return f"{value:.2g} ± {mcse:.1g}"
    return f"{value:,.{digits}f} ± {mcse:,.{digits}f}"


def brief(value: float) -> str:
    """A figure to three digits, and 0 for what is 0 but for rounding."""
    return "0" if abs(value) < _ZERO else f"{value:.3g}"


def percent(share: float) -> str:
    """A share to three digits."""
    return f"{100 * share:.3g} %"
