"""Bands for many cells of which few can matter: they cover at their level, and lose nothing where it matters."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.mechanism.bands import FEW_CELLS, Reach, bands_within, reach_of
from rcb_bayes.mechanism.margins import Bands, simultaneous_bands

N_WORLDS, LEVEL = 300, 0.05
NEAR, FAR = 40, 760


def sample(seed: int, *, n_near: int = NEAR, n_far: int = FAR) -> tuple[np.ndarray, np.ndarray]:
    """Values (W, C) of cells that depend on each other, and their means: zero, or ten to twenty errors above it."""
    rng = np.random.default_rng([seed, 11])
    mixing = np.random.default_rng(12).normal(size=(8, n_near + n_far))
    common = rng.standard_normal((N_WORLDS, 8)) @ (mixing / np.sqrt((mixing**2).sum(axis=0)))
    values = 0.8 * common + 0.6 * rng.standard_normal(common.shape)
    mean = np.concatenate([np.zeros(n_near), np.linspace(10.0, 20.0, n_far) / np.sqrt(N_WORLDS)])
    return values + mean, mean


def judged(values: np.ndarray, *, level: float = LEVEL, holds: np.ndarray | None = None) -> tuple[Reach, Bands]:
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
    facts: dict[str, Any] = {"is_thin": np.zeros(len(mean), dtype=bool)}
    facts["holds"] = np.zeros(len(mean), dtype=bool) if holds is None else holds
    reach = reach_of(mean, error, deviations=lambda places: (values - mean)[:, places].T, **facts)
    return reach, bands_within(reach, mean, error, level=level, **facts)


@cache
def misses(seeds: range, *, far_too: bool = False) -> dict[str, int]:
    """Samples in which some lower, or upper, bound misses its mean; planted: the few cells' critical for all."""
    found = {"lower": 0, "upper": 0, "planted": 0}
    for seed in seeds:
        values, mean = sample(seed, n_near=300 if far_too else NEAR)
        _, bands = judged(values)
        found["lower"] += bool((bands.lower > mean).any())
        found["upper"] += bool((bands.upper < mean).any())
        found["planted"] += bool((bands.estimate - stats.norm.ppf(1 - LEVEL) * bands.mcse > mean).any())
    return found


@pytest.mark.parametrize("n_seeds", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_bands_cover_all_cells_at_their_level(n_seeds: int):
    found = misses(range(n_seeds))
    for side in ("lower", "upper"):
        assert found[side] <= stats.binom.ppf(0.999, n_seeds, LEVEL)
    assert found["planted"] > 0.5 * n_seeds


@pytest.mark.slow
def test_bands_are_no_wider_than_they_need_be():
    """Where all cells are near the bootstrap has all of them, and misses about as often as it says."""
    values = [sample(seed, n_near=400, n_far=0) for seed in range(200)]
    missed = sum(bool((judged(part)[1].lower > mean).any()) for part, mean in values)
    assert 1 <= missed <= stats.binom.ppf(0.999, 200, LEVEL)


def test_near_cells_have_the_bootstrap_s_band_and_far_ones_bonferroni_s():
    values, _ = sample(1)
    reach, bands = judged(values)
    assert np.isfinite(reach.limit)
    alone = simultaneous_bands(values[:, :NEAR], level=0.95 * LEVEL)
    assert bands.critical[:NEAR].max() == pytest.approx(alone.critical.max(), abs=0.2)
    assert bands.critical[:NEAR].max() < simultaneous_bands(values, level=LEVEL).critical.max() + 0.05
    assert bands.critical[-1] == pytest.approx(stats.norm.ppf(1 - 0.05 * LEVEL / values.shape[1]))


@pytest.mark.parametrize("level", [0.05, 0.05 / 20, 0.05 / 60])
def test_no_cell_is_left_open_for_having_been_left_out(level: float):
    """A cell that only Bonferroni speaks for passes: whatever might not has the bootstrap's band."""
    rng = np.random.default_rng(5)
    values = rng.standard_normal((N_WORLDS, 1000)) + np.linspace(-8.0, 20.0, 1000) / np.sqrt(N_WORLDS)
    _, bands = judged(values, level=level)
    wide = bands.critical == bands.critical.max()
    assert (bands.lower[wide] > 0).all()
    assert 0 < wide.sum() < 1000
    assert (bands.upper >= bands.estimate).all()


def test_few_cells_all_have_the_bootstrap_s_band():
    values, _ = sample(2, n_near=FEW_CELLS, n_far=0)
    reach, bands = judged(values)
    assert np.isinf(reach.limit)
    plain = simultaneous_bands(values, level=LEVEL)
    np.testing.assert_allclose(bands.critical, plain.critical.max(), atol=0.15)
    np.testing.assert_allclose(bands.mcse, plain.mcse)


def test_cells_that_hold_in_every_world_cost_nothing():
    values, _ = sample(3)
    reach, bands = judged(values, holds=np.ones(values.shape[1], dtype=bool))
    assert len(reach.largest) == 0
    assert bands.critical.min() == pytest.approx(stats.norm.ppf(1 - 0.05 * LEVEL / values.shape[1]))


def test_too_many_near_cells_are_bounded_and_still_covered():
    """The bootstrap takes the lowest of them; the others have Bonferroni's band, which is wider and as valid."""
    rng = np.random.default_rng(6)
    values = rng.standard_normal((100, 6000)).astype(float)
    reach, bands = judged(values)
    assert np.isfinite(reach.limit)
    assert set(np.unique(bands.critical).round(6)) <= {
        round(float(stats.norm.ppf(1 - 0.05 * LEVEL / 6000)), 6),
        *np.unique(bands.critical[bands.estimate <= 0]).round(6),
    }
