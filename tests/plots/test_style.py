"""Figures have colours of their own and leave Matplotlib's global state alone."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

from rcb_bayes import plots
from rcb_bayes.plots import PALETTE, plot_frontier, plot_rates
from rcb_bayes.plots.style import arm_styles
from tests.plots.test_gaps import gaps_of
from tests.plots.test_rates import plan_of, users_of

ROOT = Path(__file__).resolve().parents[2]


def test_no_two_arms_look_alike() -> None:
    styles = arm_styles([f"arm_{k}" for k in range(32)])
    assert len(set(styles.values())) == 32
    assert [style.colour for style in styles.values()][:8] == list(PALETTE)


def test_global_state_is_not_touched() -> None:
    before = dict(mpl.rcParams)
    plot_frontier(gaps_of())
    plot_rates(plan_of(2), users_of((3.0, 1.0)))
    assert dict(mpl.rcParams) == before


_DRAW = """
row = (("arm", "tau"), np.array([[0.5, 0.2]]))
one = (("arm",), np.array([0.1]))
data = dict(rho=row, rho_mcse=row, best_tau=one, best_rho=one)
axes = plot_frontier(xr.Dataset(data, coords=dict(arm=["a"], tau=[0.1, 0.2])))
pyplot = sys.modules.get("matplotlib.pyplot")
print(pyplot is not None, bool(pyplot) and pyplot.get_fignums() == [axes.figure.number])
"""


@pytest.mark.parametrize(
    ("session", "seen"),
    [
        ("", "False False"),  # a program: pyplot is not even loaded
        ("import matplotlib.pyplot", "True True"),
        ("import builtins; builtins.__IPYTHON__ = True", "True True"),  # a notebook that never imported pyplot
    ],
    ids=["program", "pyplot", "IPython"],
)
def test_a_figure_is_pyplots_where_somebody_looks(session: str, seen: str) -> None:
    code = f"import sys, numpy as np, xarray as xr\n{session}\nfrom rcb_bayes.plots import plot_frontier\n{_DRAW}"
    here = _here() | {"MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True, env=here)
    assert done.stdout.strip() == seen


@pytest.mark.slow
def test_the_gallery_draws_every_figure_there_is(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "tools/gallery.py", str(tmp_path)], cwd=ROOT, check=True, env=_here())
    assert {path.stem for path in tmp_path.iterdir()} == {name for name in plots.__all__ if name.startswith("plot_")}


def _here() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}
