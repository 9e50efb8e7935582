"""``Sensitivity``: what ``sensitivity`` found, a Dataset that can be told, drawn, saved and read back."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from rcb_bayes.errors import RcbError
from rcb_bayes.files.envelope import Format, refused
from rcb_bayes.files.netcdf import read_netcdf, write_netcdf
from rcb_bayes.schema import is_number, no_such, plain, suggestion
from rcb_bayes.telling.wording import brief, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = Format(name="sensitivity", version=1, remedy="Compute it again with sensitivity().")
FIGURES = ("tornado", "curves")
_KNOWN = {
    "verdict": ("pass", "fail", "inconclusive", ""),
    "unit": ("add", "times", "kind"),
    "status": ("crosses", "holds", "fails already", "no radius"),
}
_ENDS = ("radius", "share_radius", "fails_below", "fails_above", "leave_below", "leave_above")
_SEEN = ("margin", "compliance", "cold_start", "regret")
_SHAPES = (
    (("verdict", "label"), "OU", ("direction", "amount")),
    (("epsilon", *_SEEN, *(f"{name}_mcse" for name in _SEEN)), "f", ("direction", "amount")),
    (("base", *_ENDS, *(f"{name}_mcse" for name in _ENDS)), "f", ("direction",)),
    (("unit", "status", "words", "direction"), "OU", ("direction",)),
    (("amount",), "f", ("amount",)),
)


class Sensitivity(xr.Dataset):
    """What ``sensitivity`` returns: an ``xarray.Dataset`` over (direction, amount), with words and figures of its own.

    Examples
    --------
    With ``found`` as in ``sensitivity``:

    >>> print(found.summary())
    user notion, epsilon 0.1, gaussian: how wrong may what the plan rests on be?
    scale  holds if users are up to 1.... times as sure; ...; radius a factor of 1.... ± ...
    """

    __slots__ = ()

    def summary(self) -> str:
        """How far each direction can go, a line for each; of kinds the verdict of each.

        Returns
        -------
        str
        """
        attrs = self.attrs
        lines = [
            f"{attrs['notion']} notion, epsilon {attrs['epsilon']:g}, {attrs['belief']}: how wrong may what the plan "
            "rests on be?"
        ]
        names = [str(name) for name in self["direction"].values]
        width = max(len(name) for name in names)
        lines += [f"{name:<{width}}  {self._line(name)}" for name in names]
        return "\n".join(lines)

    def _line(self, name: str) -> str:
        one = self.sel(direction=name)
        if str(one["unit"].item()) == "kind":
            looked = [k for k, verdict in enumerate(one["verdict"].values) if verdict]
            cells = [
                f"{one['label'].values[k]} {one['verdict'].values[k]} ({brief(float(one['margin'].values[k]))})"
                for k in looked
            ]
            return ", ".join(cells)
        radius = float(one["radius"])
        if not np.isfinite(radius):
            return str(one["words"].item())
        told = figure(radius, float(one["radius_mcse"]))
        return f"{one['words'].item()}; radius {'a factor of ' if one['unit'].item() == 'times' else ''}{told}"

    def sentence(self, name: str) -> str:
        """What is said of a direction, as on the first screen of a report.

        Parameters
        ----------
        name : str
            The direction.

        Returns
        -------
        str

        Raises
        ------
        RcbError
            A direction that was not looked at.
        """
        known = [str(each) for each in self["direction"].values]
        if name not in known:
            raise RcbError(f"'{name}' was not looked at.{suggestion(name, known)} Use one of {', '.join(known)}.")
        return str(self["words"].sel(direction=name).item())

    @property
    def as_written(self) -> str:
        """The verdict of the plan with everything as written down."""
        one = self.isel(direction=0)
        return str(one["verdict"].sel(amount=float(one["base"])).item())

    def draw(self, *, figure: str = "tornado", direction: str | None = None, axes: "Axes | None" = None) -> "Axes":
        """A figure: "tornado", how far each direction can go, or "curves", the margin over amounts.

        Parameters
        ----------
        figure : {"tornado", "curves"}
            Which; see ``plots.plot_tornado`` and ``plots.plot_sensitivity``.
        direction : str, optional
            Of curves; the first unless given.
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        RcbError
            Any other figure.
        """
        from rcb_bayes import plots

        if figure not in FIGURES:
            raise no_such("figure", figure, FIGURES, told="Use")
        if figure == "tornado":
            return plots.plot_tornado(self, axes=axes)
        return plots.plot_sensitivity(self, direction=direction, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file with a digest of its content; ``load_sensitivity`` reads it back.

        Parameters
        ----------
        path : str or path-like
            The file.

        Examples
        --------
        With ``found`` as in ``sensitivity``:

        >>> found.save("sensitivity.nc")
        >>> rcb.load_sensitivity("sensitivity.nc").identical(found)
        True
        """
        write_netcdf(FORMAT, self, path)

    def figures(self) -> dict[str, Any]:
        """All of it in plain values, for JSON: a list of directions, each with its amounts."""
        rows = []
        for name in self["direction"].values:
            one = self.sel(direction=name)
            looked = [k for k, verdict in enumerate(one["verdict"].values) if verdict]
            two = [key for key in self if self[key].dims == ("direction", "amount")]
            cells = [
                {"amount": float(self["amount"].values[k]), **{str(key): one[key].values[k] for key in two}}
                for k in looked
            ]
            single = {str(key): one[key].item() for key in self if self[key].dims == ("direction",)}
            rows.append({"direction": str(name), **single, "amounts": cells})
        return plain({**self.attrs, "directions": rows})


def read_sensitivity(path: str | Path) -> Sensitivity:
    """What ``Sensitivity.save`` wrote; see ``load_sensitivity``."""
    found = read_netcdf(FORMAT, path).to_dataset()
    for fault in _faults(found):
        raise refused(FORMAT, path, fault)
    variables: dict[Any, Any] = {name: found[name] for name in found}
    return Sensitivity(variables, coords=found.coords, attrs=found.attrs)


def _faults(found: xr.Dataset) -> Iterator[str]:
    """What keeps a dataset from being told and drawn."""
    for names, kinds, dims in _SHAPES:
        for name in names:
            part = found.get(name)
            if part is None or part.dims != dims or part.dtype.kind not in kinds:
                yield f"it has no {name} over {' and '.join(dims)}, or of another kind"
            elif name in _KNOWN and not np.isin(part.values.astype(str), _KNOWN[name]).all():
                yield f"its {name} are {', '.join(_KNOWN[name])}"
    amounts, directions = found["amount"].values, found["direction"].values.tolist()
    if not np.isfinite(amounts).all() or (np.diff(amounts) <= 0).any() or len(set(directions)) < len(directions):
        yield "its directions differ, and its amounts increase"
    is_base = amounts == found["base"].values[:, None]
    if not directions or not (is_base & (found["verdict"].values != "")).any(axis=1).all():
        yield "a direction was not looked at as the plan is"
    if any((found[name].values < 0).any() for name in found if str(name).endswith("_mcse")):
        yield "an error is negative"
    epsilon, share = found.attrs.get("epsilon"), found.attrs.get("least_share")
    if not (is_number(epsilon) and epsilon >= 0 and is_number(share) and 0 < share <= 1):
        yield "its epsilon is not negative, and its share is a share"
    if not all(isinstance(found.attrs.get(name), str) for name in ("notion", "belief")):
        yield "it does not say its notion and belief"
