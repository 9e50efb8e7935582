"""Before and after: densities of what a user expects."""

from pathlib import Path

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.errors import DataError
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.plots import plot_prior_posterior
from rcb_bayes.posterior import Statistics, fit_posterior
from tests.plots.drawing import labels_of, save

PRIOR = Prior.gaussian([[0.3, 0.1], [0.0, 0.3]], 0.2, arms=["old", "new"])


def test_densities_are_those_of_the_user_s_rewards(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((40, 2))
    data = Statistics.from_rows(x, arm=np.zeros(40, dtype=int), reward=x @ [1.0, 0.0], n_arms=2)
    tree = fit_posterior(PRIOR, GaussianNoise(0.3), data, seed=1)
    axes = plot_prior_posterior(tree, PRIOR, x=[1.0, 0.0])
    before_old, after_old, before_new, after_new = axes.lines[:4]
    for line in (before_old, after_old, before_new, after_new):
        grid, density = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.03)
    peaks = [np.asarray(line.get_xdata())[np.asarray(line.get_ydata()).argmax()] for line in axes.lines[:4]]
    assert peaks[1] == pytest.approx(1.0, abs=0.1)  # 40 samples say so
    assert peaks[3] == pytest.approx(0.0, abs=0.2)  # no sample of the new arm
    assert labels_of(axes) == ["old", "new", "before the data"]
    save(axes, tmp_path)
    with pytest.raises(DataError, match="x must have 2 features, got 3"):
        plot_prior_posterior(tree, PRIOR, x=[1.0, 0.0, 0.0])
