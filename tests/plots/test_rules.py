"""Figures of rules: what is kept, over leaves."""

from pathlib import Path

import numpy as np

from rcb_bayes.plots import plot_kept
from tests.planning.test_distilling import table_plan
from tests.plots.drawing import save


def test_what_is_kept_rises_with_leaves_and_ends_at_the_estimate(tmp_path: Path) -> None:
    rule = table_plan().distil(16)
    axes = plot_kept(rule)
    line = axes.get_lines()[0]
    kept = np.asarray(line.get_ydata())
    assert (np.diff(kept) >= 0.0).all()
    assert np.asarray(line.get_xdata())[[0, -1]].tolist() == [1, rule.n_leaves]
    assert kept[-1] == rule.kept or abs(kept[-1] - rule.kept) < 1e-9
    save(axes, tmp_path)
