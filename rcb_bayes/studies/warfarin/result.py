"""What the warfarin experiment found: labelled data, a summary, netCDF both ways."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, read_netcdf, refused, write_netcdf
from rcb_bayes.schema import no_such, plain
from rcb_bayes.studies.warfarin.telling import RESTS_ON, audit_lines
from rcb_bayes.telling.wording import figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_FORM = Format(name="warfarin result", version=1, remedy="`rcb reproduce warfarin --out DIR` writes one.")
_FIGURES = ("error", "error_mcse", "error_least", "error_most", "n_plans", "score", "macro_recall", "extreme")
_FIGURES += ("explored", "cold_start", "cold_start_mcse", "ended")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarfarinResult:
    """The experiment.

    The datasets' attributes are ``seed``, ``version``, ``cohort``, ``rule``, ``synthetic``, ``n_plans`` and
    ``n_permutations``.

    Parameters
    ----------
    runs : xarray.Dataset
        Dims (policy, permutation, t): ``regret`` (1 for a wrong bucket), ``gain``; averages over sampled plans.
    figures : xarray.Dataset
        Over policy: ``error``, ``score``, ``macro_recall``, ``extreme``, ``explored``, ``cold_start``, ``ended``,
        ``recall`` (arm), ``confusion`` (right, assigned), with ``*_mcse`` over plans and permutations together;
        ``error_least`` and ``error_most`` over plans; ``kind`` tells RCB from the others. See ``replay_metrics``.
    groups : xarray.Dataset
        Dims (policy, group): ``error``, ``extreme``, ``burden`` of exploration, ``n``, ``always_medium``.
    grid : xarray.Dataset
        Dims (oracle, epsilon, variance[, plan, permutation, t]): sampled ``proof`` plans of the physician's belief.
    plans : xarray.Dataset
        Over plan: what notion and epsilon allow, on average over ``n_plans``, and whether that is feasible.
    audits : xarray.Dataset
        Over audit: verdicts on a part of the run under a notion, with the worst margin.
    cohort : str
        The cohort in a line.

    Examples
    --------
    With ``result`` as in ``run_warfarin``:

    >>> result.figures["policy"].values[:3].tolist()
    ['physician', 'clinical formula', 'pharmacogenetic formula']
    >>> dict(result.runs["regret"].sizes)
    {'policy': 12, 'permutation': 2, 't': 289}
    """

    runs: "xr.Dataset"
    figures: "xr.Dataset"
    groups: "xr.Dataset"
    grid: "xr.Dataset"
    plans: "xr.Dataset"
    audits: "xr.Dataset"
    cohort: str

    def summary(self) -> str:
        """Cohort, plans, audits and one line per policy, with what the errors cover and what the figures rest on."""
        lines = [self.cohort, "", *_errors_told(self.grid.attrs), "", "plans"]
        lines += ["  " + _plan_line(self.plans.isel(plan=k)) for k in range(self.plans.sizes["plan"])]
        if self.audits.sizes["audit"]:
            lines += ["", *audit_lines(self.audits)]
        lines += ["", _POLICY_HEAD]
        lines += [
            "  " + _policy_line(str(name), self.figures.sel(policy=name)) for name in self.figures["policy"].values
        ]
        lines += ["", "error of sampled plans for proof, by epsilon and prior variance"]
        for oracle in self.grid["oracle"].values:
            for epsilon in self.grid["epsilon"].values:
                own = self.grid.sel(oracle=oracle, epsilon=epsilon)
                cells = "   ".join(_grid_cell(own.sel(variance=variance)) for variance in own["variance"].values)
                lines.append(f"  {oracle!s:<16} epsilon {float(epsilon):g}   {cells}")
        return "\n".join([*lines, "", *RESTS_ON])

    def confusion(self, policy: str) -> str:
        """The paper's table for one policy: right buckets down, assigned across, in per cent of each row.

        Examples
        --------
        With ``result`` as in ``run_warfarin``:

        >>> print(result.confusion("physician"))
        physician: assigned
        right         low   medium     high
        low           0 %    100 %      0 %
        medium        0 %    100 %      0 %
        high          0 %    100 %      0 %
        """
        table = self.figures["confusion"].sel(policy=_known(policy, self.figures["policy"].values))
        header = f"{'right':<8}" + "".join(f"{arm!s:>9}" for arm in table["assigned"].values)
        rows = [
            f"{arm!s:<8}" + "".join(f"{100 * float(v):>7.0f} %" for v in table.sel(right=arm))
            for arm in table["right"].values
        ]
        return "\n".join([f"{policy}: assigned", header, *rows])

    def to_dict(self) -> dict[str, Any]:
        """The cohort, the figures of every policy, the plans and the audits, as plain values."""
        figures = self.figures[[name for name in _FIGURES if name in self.figures]]
        policies = {
            str(name): {str(key): figures[key].sel(policy=name).item() for key in figures}
            for name in figures["policy"].values
        }
        plans, audits = (
            [{str(name): table[name].values[k].item() for name in table} for k in range(table.sizes.get(dim, 0))]
            for table, dim in ((self.plans, "plan"), (self.audits, "audit"))
        )
        return plain({"cohort": self.cohort, "policies": policies, "plans": plans, "audits": audits})

    def plot(self, *, figure: str = "incorrect", axes: "Axes | None" = None) -> "Axes":
        """A figure over patients: share "incorrect" so far, "regret", or "gain".

        Parameters
        ----------
        figure : str
            Which: "incorrect", "regret" or "gain".
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        RcbError
            Another figure.
        """
        from rcb_bayes.studies.warfarin import plots

        drawn = {
            "incorrect": plots.plot_fraction_incorrect,
            "regret": plots.plot_warfarin_regret,
            "gain": plots.plot_warfarin_gain,
        }
        if figure not in drawn:
            raise no_such("figure", figure, drawn, told="Use")
        return drawn[figure](self, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Examples
        --------
        With ``result`` as in ``run_warfarin``:

        >>> result.save("warfarin.nc")
        >>> rcb.studies.WarfarinResult.load("warfarin.nc").figures.equals(result.figures)
        True
        """
        import xarray as xr

        parts = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "cohort"}
        tree = xr.DataTree.from_dict({f"/{name}": part for name, part in parts.items()})
        tree.attrs["cohort"] = self.cohort
        write_netcdf(_FORM, tree, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        WarfarinResult

        Raises
        ------
        RcbError
            Another file.
        """
        tree = read_netcdf(_FORM, path)
        try:
            parts: dict[str, Any] = {
                item.name: tree[item.name].to_dataset() for item in fields(cls) if item.name != "cohort"
            }
            return cls(cohort=str(tree.attrs["cohort"]), **parts)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise refused(_FORM, path, error) from None


def _known(name: str, names: np.ndarray) -> str:
    if name not in names:
        raise RcbError(f"There is no policy '{name}'. Use one of {', '.join(str(one) for one in names)}.")
    return name


def _errors_told(attrs: dict[Any, Any]) -> list[str]:
    plans, orders = int(attrs.get("n_plans", 1)), int(attrs.get("n_permutations", 1))
    if plans > 1:
        return [f"{plans} plans of each sampled kind, {orders} orders of patients; ± is one standard error over both"]
    return [f"one plan of each kind, {orders} orders of patients; ± is over orders alone: it leaves out the plan"]


def _grid_cell(cell: "xr.Dataset") -> str:
    error = float(cell["error_mcse"])
    return f"{float(cell['variance']):g}: {float(cell['error']):.4f}" + (f" ± {error:.4f}" if error > _NO_ERROR else "")


def _plan_line(row: "xr.Dataset") -> str:
    n, feasible = int(row["n_plans"]), int(row["n_feasible"])
    what = (
        f"{row['kind'].item()}, {row['notion'].item()}, epsilon {float(row['epsilon']):g}, "
        f"variance {float(row['variance']):g}, N = {int(row['n_per_arm']):,}"
    )
    if not bool(row["feasible"]):
        return f"{what}: out of reach. {row['reason'].item()}"
    length, error = float(row["expected_cold_start"]), float(row["expected_cold_start_mcse"])
    rate = figure(float(row["exploration_rate"]), float(row["exploration_rate_mcse"]))
    text = f"{what}: rate {rate}, cold start {figure(length, error)} rounds"
    if n > 1:
        least, most, own = (float(row[f"cold_start_{name}"]) for name in ("least", "most", "own_mcse"))
        text += f" (plans {least:,.0f} to {most:,.0f}, a plan's own error up to {own:,.0f})"
    return text + (f"; {n - feasible} of {n} plans not feasible" if feasible < n else "")


_NO_ERROR = 1e-9  # what rounding leaves where all runs are alike
_POLICY_HEAD = (
    f"{'policy':<53}{'error':>15}{'of plans':>18}{'score':>8}{'recall low/medium/high':>25}{'extreme':>10}"
    f"{'cold start':>16}"
)


def _policy_line(name: str, row: "xr.Dataset") -> str:
    recall = "/".join(f"{100 * float(v):.1f}" for v in row["recall"])
    error, n = float(row["error_mcse"]), int(row["n_plans"])
    spread = f" ± {error:.4f}" if error > _NO_ERROR else " " * 9
    reach = f"{float(row['error_least']):.4f} to {float(row['error_most']):.4f}" if n > 1 else ""
    length = figure(float(row["cold_start"]), float(row["cold_start_mcse"]))
    if row["kind"].item() != "rcb":
        length = ""
    elif float(row["ended"]) < 1.0:
        length = f"{100 * float(row['ended']):.0f} % end" if float(row["ended"]) > 0 else "does not end"
    line = (
        f"{name:<51}{float(row['error']):>6.4f}{spread}{reach:>18}{float(row['score']):>8.3f}{recall:>25}"
        f"{100 * float(row['extreme']):>8.2f} %{length:>16}"
    )
    return line.rstrip()
