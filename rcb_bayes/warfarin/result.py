"""What the warfarin experiment found: labelled data, a summary, netCDF both ways."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, read_netcdf, refused, write_netcdf

if TYPE_CHECKING:
    import xarray as xr

_FORM = Format(name="warfarin result", version=1, remedy="`rcb reproduce warfarin --out DIR` writes one.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarfarinResult:
    """The experiment.

    Attributes
    ----------
    runs : dims (policy, permutation, t): ``regret`` (1 for a wrong bucket), ``gain``
    figures : over policy: ``error``, ``score``, ``macro_recall``, ``extreme``, ``explored``, ``cold_start``, ``recall``
        (arm), ``confusion`` (right, assigned), with ``*_mcse`` over permutations; ``kind`` tells RCB from the others
    groups : dims (policy, group): ``error``, ``extreme``, ``burden`` of exploration, ``n``, ``always_medium``
    grid : dims (oracle, epsilon, variance[, permutation, t]): sampled ``proof`` plans of the physician's belief
    plans : over plan: what notion and epsilon allow, and whether that is feasible
    audits : over audit: verdicts, with the worst margin
    cohort : the cohort in a line

    The datasets' attributes are ``seed``, ``version``, ``cohort``, ``rule`` and ``synthetic``.

    Examples
    --------
    With ``result`` as in ``run_warfarin``:

    >>> result.figures["policy"].values[:3].tolist()
    ['physician', 'clinical formula', 'pharmacogenetic formula']
    >>> dict(result.runs["regret"].sizes)
    {'policy': 11, 'permutation': 2, 't': 289}
    """

    runs: "xr.Dataset"
    figures: "xr.Dataset"
    groups: "xr.Dataset"
    grid: "xr.Dataset"
    plans: "xr.Dataset"
    audits: "xr.Dataset"
    cohort: str

    def summary(self) -> str:
        """Cohort, plans, audits and one line per policy."""
        lines = [self.cohort, "", "plans"]
        for k in range(self.plans.sizes["plan"]):
            lines.append("  " + _plan_line(self.plans.isel(plan=k)))
        if self.audits.sizes["audit"]:
            lines += ["", "audits under the physician's belief"]
            lines += ["  " + _audit_line(self.audits.isel(audit=k)) for k in range(self.audits.sizes["audit"])]
        lines += ["", f"{'policy':<44}{'error':>15}{'score':>8}{'recall low/medium/high':>25}{'extreme':>9}"]
        for name in self.figures["policy"].values:
            lines.append("  " + _policy_line(str(name), self.figures.sel(policy=name)))
        lines += ["", "error of sampled plans, by epsilon and prior variance"]
        for oracle in self.grid["oracle"].values:
            for epsilon in self.grid["epsilon"].values:
                own = self.grid["error"].sel(oracle=oracle, epsilon=epsilon)
                cells = "   ".join(f"{float(v['variance']):g}: {float(v):.4f}" for v in own)
                lines.append(f"  {oracle!s:<20} epsilon {float(epsilon):g}   {cells}")
        return "\n".join(lines)

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

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file.

        Examples
        --------
        With ``result`` as in ``run_warfarin``:

        >>> result.save("warfarin.nc")
        >>> rcb.WarfarinResult.load("warfarin.nc").figures.equals(result.figures)
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


def _plan_line(row: "xr.Dataset") -> str:
    what = (
        f"{row['kind'].item()}, {row['notion'].item()}, epsilon {float(row['epsilon']):g}, "
        f"variance {float(row['variance']):g}, N = {int(row['n_per_arm']):,}"
    )
    if not bool(row["feasible"]):
        return f"{what}: out of reach. {row['reason'].item()}"
    return (
        f"{what}: rate {float(row['exploration_rate']):.3g}, cold start {float(row['expected_cold_start']):,.0f} rounds"
    )


def _audit_line(row: "xr.Dataset") -> str:
    worst, error = float(row["worst"]), float(row["worst_mcse"])
    spread = f" ± {error:.2g}" if error > 0 else ""
    margin = f"worst margin {worst:.3g}{spread}" if math.isfinite(worst) else "not reached before the last patient"
    return (
        f"{row['verdict'].item()}: {row['subject'].item()}, {row['notion'].item()}, epsilon {float(row['epsilon']):g}; "
        f"{margin} in {int(row['n_worlds']):,} worlds"
    )


def _policy_line(name: str, row: "xr.Dataset") -> str:
    recall = "/".join(f"{100 * float(v):.1f}" for v in row["recall"])
    error = float(row["error_mcse"])
    spread = f" ± {error:.4f}" if error > 0 else " " * 9
    return (
        f"{name:<42}{float(row['error']):>6.4f}{spread}{float(row['score']):>8.3f}{recall:>25}"
        f"{100 * float(row['extreme']):>8.2f} %"
    )
