"""How far what a plan rests on may be off: a tornado over directions, and margins over amounts."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.plots.style import PALETTE, check_holds, draw_band, own_axes
from rcb_bayes.telling.wording import brief

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_MARKS = {"pass": "o", "inconclusive": "s", "fail": "X"}


def plot_tornado(found: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """How far each direction can go before a plan fails, the nearest failure on top.

    Each bar reaches from where the plan fails below to where it fails above, as a part of what was looked at on that
    side; a pale bar to where too few users would follow. Numbers are amounts, with a line of two errors each way; an
    arrow says that nothing fails as far as was looked. Kinds have no bar.

    Parameters
    ----------
    found : xarray.Dataset
        The result of ``sensitivity``.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    RcbError
        A result without a direction that has a radius.

    Examples
    --------
    With ``found`` as in ``sensitivity``:

    >>> axes = rcb.plots.plot_tornado(found)
    >>> [tick.get_text() for tick in axes.get_yticklabels()]
    ['scale']
    """
    check_holds(found, "direction status amount verdict base unit", of="sensitivity")
    on_a_line = [str(name) for name in found["direction"].values if _has_radius(found.sel(direction=name))]
    if not on_a_line:
        raise RcbError("No direction has a radius: the plan fails as it is, or all of them are kinds.")
    rows = sorted(on_a_line, key=lambda name: _nearest(found.sel(direction=name)), reverse=True)
    axes = own_axes(axes, size=(6.8, 0.9 + 0.55 * len(rows)))
    for place, name in enumerate(rows):
        one = found.sel(direction=name)
        for side, sign in (("below", -1), ("above", 1)):
            _bar(axes, one, side, sign, place)
    axes.axvline(0.0, color="0.2", linewidth=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlim(-1.32, 1.32)
    axes.set_xticks([-1, 0, 1], ["as far as\nwas looked", "as written", "as far as\nwas looked"])
    share = found.attrs.get("least_share", 0.9)
    axes.set_title(f"How wrong may it be? (dark: the plan holds; pale: {100 * share:g} % of users follow)", fontsize=10)
    return axes


def _has_radius(one: "xr.Dataset") -> bool:
    return str(one["status"].item()) in ("crosses", "holds")


def _looked(one: "xr.Dataset", sign: int) -> float:
    """The furthest amount that was looked at on a side."""
    amounts = one["amount"].values[one["verdict"].values != ""]
    return float(amounts.max() if sign > 0 else amounts.min())


def _share(one: "xr.Dataset", amount: float, sign: int) -> float:
    """An amount as a part of what was looked at on its side; along factors by their logarithms."""
    base, end = float(one["base"]), _looked(one, sign)
    if end == base:
        return 0.0
    if not np.isfinite(amount):
        return 1.0
    if str(one["unit"].item()) == "times":
        return float(np.clip(np.log(amount / base) / np.log(end / base), 0.0, 1.0))
    return float(np.clip((amount - base) / (end - base), 0.0, 1.0))


def _nearest(one: "xr.Dataset") -> float:
    return min(_share(one, float(one[f"fails_{side}"]), sign) or 1.0 for side, sign in (("below", -1), ("above", 1)))


def _bar(axes: "Axes", one: "xr.Dataset", side: str, sign: int, place: int) -> None:
    if _looked(one, sign) == float(one["base"]):
        return
    fails, error = float(one[f"fails_{side}"]), float(one[f"fails_{side}_mcse"])
    far, wide = _share(one, fails, sign), _share(one, float(one[f"leave_{side}"]), sign)
    axes.barh(place, sign * max(far, wide), height=0.62, color=PALETTE[0], alpha=0.25)
    axes.barh(place, sign * far, height=0.62, color=PALETTE[0])
    if np.isfinite(fails):
        ends = [_share(one, fails + step * error, sign) for step in (-2, 2)]
        axes.plot([sign * end for end in ends], [place, place], color="0.2", linewidth=1.5)
    told = brief(fails) if np.isfinite(fails) else f"{brief(_looked(one, sign))} {'>' if sign > 0 else '<'}"
    at = sign * (max(far, wide) + 0.03)
    axes.text(at, place, told, va="center", ha="left" if sign > 0 else "right", fontsize=9)


def plot_sensitivity(
    found: "xr.Dataset", *, direction: str | None = None, figure: str = "margin", axes: "Axes | None" = None
) -> "Axes":
    """A figure over the amounts of one direction, with two errors each way and the verdict of each as its mark.

    Parameters
    ----------
    found : xarray.Dataset
        The result of ``sensitivity``.
    direction : str, optional
        Which; the first unless given.
    figure : {"margin", "compliance", "cold_start", "regret"}
        What is drawn.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    RcbError
        A direction that was not looked at, or another figure.

    Examples
    --------
    With ``found`` as in ``sensitivity``:

    >>> rcb.plots.plot_sensitivity(found, figure="compliance").get_xlabel()
    'scale'
    """
    check_holds(found, "direction amount verdict unit epsilon label", of="sensitivity")
    names = [str(name) for name in found["direction"].values]
    direction = names[0] if direction is None else direction
    if direction not in names:
        raise RcbError(f"'{direction}' was not looked at. Use one of {', '.join(names)}.")
    if f"{figure}_mcse" not in found or "amount" not in found[figure].dims:
        raise RcbError(f"There is no figure '{figure}'. Use margin, compliance, cold_start or regret.")
    one = found.sel(direction=direction)
    one = one.isel(amount=one["verdict"].values != "")
    axes = own_axes(axes, size=(6.0, 3.6))
    is_kind = str(one["unit"].item()) == "kind"
    x = np.arange(one.sizes["amount"]) if is_kind else one["amount"].values
    _curve(axes, one, x, figure)
    if is_kind:
        axes.set_xticks(x, [str(label) for label in one["label"].values])
    elif str(one["unit"].item()) == "times":
        axes.set_xscale("log")
        axes.set_xticks(x, [f"{amount:g}" for amount in x])
        axes.minorticks_off()
    if figure == "margin":
        axes.plot(x, -one["epsilon"].values, color="0.3", linestyle="--", linewidth=1, label="-epsilon")
        _ends(axes, one)
    axes.set_xlabel(direction)
    axes.set_ylabel(figure.replace("_", " "))
    axes.legend(frameon=False, fontsize=8)
    return axes


def _curve(axes: "Axes", one: "xr.Dataset", x: Any, figure: str) -> None:
    y, error = one[figure].values, np.nan_to_num(one[f"{figure}_mcse"].values)
    axes.plot(x, y, color=PALETTE[0], linewidth=1)
    draw_band(axes, x, y - 2 * error, y + 2 * error, colour=PALETTE[0])
    for verdict, mark in _MARKS.items():
        some = one["verdict"].values == verdict
        if some.any():
            axes.plot(x[some], y[some], mark, color=PALETTE[0], label=verdict)


def _ends(axes: "Axes", one: "xr.Dataset") -> None:
    """Where the plan fails, with two errors each way."""
    for side in ("below", "above"):
        at, error = float(one[f"fails_{side}"]), float(one[f"fails_{side}_mcse"])
        if np.isfinite(at):
            axes.axvspan(at - 2 * error, at + 2 * error, color=PALETTE[1], alpha=0.3, linewidth=0)
            axes.axvline(at, color=PALETTE[1], linewidth=1)
