"""Populations: exact moments against sampling, coverage of the feature space, and what bad input says."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rcb_bayes.covariates import (
    Ball,
    Covariates,
    Empirical,
    Gaussian,
    Sphere,
    Uniform,
    WeakDirections,
)
from rcb_bayes.errors import DataError

N_SAMPLES = 50_000
WORST_Z = 4.5
COV = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]])
TABLE = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0], [2.0, 2.0]])

POPULATIONS: dict[str, Callable[[], Covariates]] = {
    "sphere": lambda: Sphere(5),
    "sphere, d = 1": lambda: Sphere(1),
    "ball": lambda: Ball(3),
    "ball, d = 1": lambda: Ball(1),
    "gaussian": lambda: Gaussian(COV, mean=[0.5, -1.0, 0.0]),
    "gaussian, variances": lambda: Gaussian([1.0, 0.2]),
    "gaussian, intercept": lambda: Gaussian([0.0, 0.4], mean=[1.0, 0.3]),
    "uniform": lambda: Uniform([-1.0, 0.0, 2.0], [1.0, 0.5, 5.0]),
    "uniform, scalars": lambda: Uniform(-1, 1, n_features=2),
    "empirical": lambda: Empirical(TABLE),
    "empirical, weights": lambda: Empirical(TABLE, weights=[1, 2, 0, 5]),
}


@pytest.fixture(params=POPULATIONS.values(), ids=list(POPULATIONS))
def population(request: pytest.FixtureRequest) -> Covariates:
    return request.param()


def largest_z(draws: np.ndarray, claimed: np.ndarray) -> float:
    """Largest distance of a sample mean from the claimed one, in standard errors of that sample."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return float((np.abs(draws.mean(axis=0) - claimed) / (error + 1e-12)).max())


def outer_products(x: np.ndarray) -> np.ndarray:
    return x[:, :, None] * x[:, None, :]


def dummies_with_intercept(n: int = 60) -> pd.DataFrame:
    sex = np.arange(n) % 2 == 0
    return pd.DataFrame({"intercept": 1.0, "female": sex, "male": ~sex, "age": np.linspace(-1, 1, n)})


# --- moments ---------------------------------------------------------------------------------------------------------


def test_second_moment_is_that_of_the_samples(population: Covariates):
    products = outer_products(population.sample(N_SAMPLES, seed=11))
    assert largest_z(products, population.second_moment) < WORST_Z
    assert largest_z(products, 1.05 * population.second_moment) > WORST_Z  # the same check sees a bias of 5 %


def test_mean_is_that_of_the_samples(population: Covariates):
    x = population.sample(N_SAMPLES, seed=12)
    assert largest_z(x, population.mean) < WORST_Z
    assert largest_z(x, population.mean + 0.05 * x.std(axis=0).max()) > WORST_Z


@pytest.mark.parametrize(
    ("population", "moment", "phi0", "max_norm"),
    [
        (Sphere(4), np.eye(4) / 4, 1 / 4, 1.0),
        (Ball(4), np.eye(4) / 6, 1 / 6, 1.0),
        (Gaussian(COV), COV, np.linalg.eigvalsh(COV)[0], np.inf),
        (Gaussian([0.0, 0.0], mean=[3.0, 4.0]), [[9.0, 12.0], [12.0, 16.0]], 0.0, 5.0),
        (Uniform([0.0, -1.0], [1.0, 1.0]), [[1 / 3, 0.0], [0.0, 1 / 3]], 1 / 3, np.sqrt(2)),
        (Empirical([[1.0, 0.0], [0.0, 2.0]], weights=[3, 1]), [[0.75, 0.0], [0.0, 1.0]], 0.75, 2.0),
        (Empirical([[1.0], [9.0]], weights=[1, 0]), [[1.0]], 1.0, 1.0),
    ],
)
def test_closed_forms(population: Covariates, moment: Any, phi0: float, max_norm: float):
    np.testing.assert_allclose(population.second_moment, moment, atol=1e-15)
    assert population.phi0 == pytest.approx(phi0, abs=1e-15)
    assert population.max_norm == pytest.approx(max_norm)


def test_phi0_is_the_smallest_mean_square_over_directions(population: Covariates):
    directions = Sphere(population.n_features).sample(2000, seed=3)
    squares = np.einsum("id,de,ie->i", directions, population.second_moment, directions)
    assert squares.min() >= population.phi0 - 1e-12


def test_permuting_features_permutes_the_second_moment():
    order = [2, 0, 1]
    rows = np.random.default_rng(0).normal(size=(50, 3))
    for build, argument in ((Gaussian, COV), (Empirical, rows)):
        permuted = argument[np.ix_(order, order)] if build is Gaussian else argument[:, order]
        expected = build(argument).second_moment[np.ix_(order, order)]
        np.testing.assert_allclose(build(permuted).second_moment, expected, rtol=1e-13, atol=1e-15)
        assert build(permuted).phi0 == pytest.approx(build(argument).phi0)


def test_integer_weights_are_repeated_rows():
    repeated = Empirical(np.repeat(TABLE, [1, 2, 0, 5], axis=0))
    weighted = Empirical(TABLE, weights=[1, 2, 0, 5])
    np.testing.assert_allclose(weighted.second_moment, repeated.second_moment, rtol=1e-14)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-14)


# --- samples and support ---------------------------------------------------------------------------------------------


def test_samples_have_the_shape_and_lie_in_the_support(population: Covariates):
    x = population.sample(200, seed=1)
    assert x.shape == (200, population.n_features)
    assert x.dtype == np.float64
    assert population.contains(x).all()
    assert np.linalg.norm(x, axis=1).max() <= population.max_norm * (1 + 1e-12)
    assert population.sample(0, seed=1).shape == (0, population.n_features)


def test_sphere_points_have_norm_one():
    np.testing.assert_allclose(np.linalg.norm(Sphere(7).sample(1000, seed=5), axis=1), 1.0, rtol=1e-14)


def test_ball_radius_to_the_power_d_is_uniform():
    radius = np.linalg.norm(Ball(3).sample(20_000, seed=6), axis=1)
    assert stats.kstest(radius**3, "uniform").pvalue > 1e-4
    assert stats.kstest(radius**2.9, "uniform").pvalue < 1e-4  # a volume off by a tenth of a dimension is seen


@pytest.mark.parametrize(
    ("population", "inside", "outside"),
    [
        (Sphere(2), [0.6, 0.8], [0.6, 0.7]),
        (Ball(2), [0.1, 0.2], [0.8, 0.8]),
        (Uniform([0.0, 0.0], [1.0, 2.0]), [1.0, 2.0], [1.1, 2.0]),
        (Gaussian([0.0, 1.0], mean=[1.0, 0.0]), [1.0, 40.0], [1.1, 0.0]),
        (Gaussian([[1.0, 1.0], [1.0, 1.0]]), [3.0, 3.0], [3.0, 2.0]),
        (Empirical(TABLE), [3.0, -1.0], [3.0, 2.0]),
        (Empirical(TABLE, weights=[1, 0, 1, 1]), [1.0, 2.0], [3.0, -1.0]),
    ],
)
def test_contains(population: Covariates, inside: list[float], outside: list[float]):
    assert population.contains([inside, outside]).tolist() == [True, False]
    assert population.contains([[inside], [outside]]).shape == (2, 1)
    assert bool(population.contains(np.array(inside) + 1e-10))
    assert not population.contains(outside)


def test_seeds(population: Covariates):
    first = population.sample(50, seed=7)
    np.testing.assert_array_equal(first, population.sample(50, 7))
    np.testing.assert_array_equal(first, population.sample(50, seed=np.random.SeedSequence(7)))
    np.testing.assert_array_equal(first, population.sample(50, seed=np.random.default_rng(7)))
    assert not np.array_equal(first, population.sample(50, seed=8))
    generator = np.random.default_rng(7)
    assert not np.array_equal(population.sample(50, generator), population.sample(50, generator))


def test_global_random_state_is_left_alone(population: Covariates):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    population.sample(10, seed=1)
    population.sample(10)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


# --- weak directions -------------------------------------------------------------------------------------------------


def test_dummies_beside_an_intercept_leave_a_direction_unvisited():
    population = Empirical(dummies_with_intercept())
    weak = population.weak_directions()
    assert population.phi0 == 0.0
    assert len(weak) == 1
    assert weak.eigenvalues.tolist() == [0.0]
    assert weak.text == ("0.58 intercept - 0.58 female - 0.58 male",)
    np.testing.assert_allclose(population.rows @ weak.directions[0], 0.0, atol=1e-12)
    assert "never visited" in population.describe()
    assert "0.58 intercept" in str(weak)


def test_two_sets_of_dummies_are_named_apart():
    group = np.arange(90) % 3
    side = np.arange(90) % 2
    frame = pd.get_dummies(pd.DataFrame({"group": list("abc"), "k": 0}).loc[group].group, dtype=float)
    frame = frame.reset_index(drop=True).assign(one=1.0, left=side == 0, right=side == 1)
    weak = Empirical(frame).weak_directions()
    assert weak.eigenvalues.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(frame.to_numpy(dtype=float) @ weak.directions.T, 0.0, atol=1e-12)
    assert all(len(text.split()) <= 14 for text in weak.text)  # a handful of equal terms, not six mixed ones each


def test_directions_are_found_at_any_scale_and_size():
    rng = np.random.default_rng(4)
    for scale in (1e-6, 1.0, 1e6):
        a, b = scale * rng.normal(size=(2, 200_000))
        population = Empirical(np.column_stack([a, b, a + b]))
        assert population.phi0 == 0.0
        assert population.weak_directions().text == ("0.58 feature_0 + 0.58 feature_1 - 0.58 feature_2",)


def test_different_units_are_weak_but_not_deficient():
    rng = np.random.default_rng(5)
    rows = np.column_stack([np.ones(500), rng.normal(50_000, 10_000, size=500)])
    population = Empirical(rows, features=["intercept", "income"])
    exact = np.linalg.svd(rows / np.sqrt(500), compute_uv=False)[-1] ** 2
    assert population.phi0 == pytest.approx(exact, rel=1e-4)
    assert population.weak_directions().text[0].startswith("1 intercept - ")


def test_nearly_collinear_directions_and_the_tolerance():
    population = Gaussian([[1.0, 0.999], [0.999, 1.0]], features=["female", "male"])
    assert population.phi0 == pytest.approx(0.001)
    assert len(population.weak_directions()) == 0
    assert str(population.weak_directions()) == "none"
    weak = population.weak_directions(0.01)
    assert weak.text == ("0.71 female - 0.71 male",)
    assert weak.eigenvalues[0] == pytest.approx(0.001)
    np.testing.assert_allclose(weak.directions, [[np.sqrt(0.5), -np.sqrt(0.5)]])
    assert isinstance(weak, WeakDirections)


def test_long_directions_are_cut_short():
    population = Empirical(np.column_stack([np.ones(20), np.eye(20)]))
    text = population.weak_directions().text[0]
    assert text.endswith("...")
    assert text.count("feature_") == 8


# --- bootstrap interval ----------------------------------------------------------------------------------------------


def percentile_interval(population: Empirical, *, n_boot: int, rng: np.random.Generator) -> tuple[float, float]:
    resamples = [Empirical(population.sample(population.n_rows, rng)).phi0 for _ in range(n_boot)]
    lower, upper = np.quantile(resamples, [0.025, 0.975])
    return float(lower), float(upper)


def coverage(population: Covariates, interval: Callable[[Empirical], tuple[float, float]], *, n_draws: int) -> float:
    """Share of samples of 200 users whose interval contains the population's phi0, up to rounding."""
    hits = 0
    for seed in np.random.SeedSequence(20).spawn(n_draws):
        lower, upper = interval(Empirical(population.sample(200, seed)))
        hits += lower * (1 - 1e-9) <= population.phi0 <= upper * (1 + 1e-9)
    return hits / n_draws


LEAST_COVERAGE = 0.95 - WORST_Z * np.sqrt(0.95 * 0.05 / 100)  # of 100 samples


@pytest.mark.parametrize(
    ("population", "widest"),
    [(Gaussian([0.2, 0.6, 1.0]), 0.6), (Gaussian([0.2, 0.2, 0.2]), 0.8), (Sphere(3), 0.8)],
    ids=["distinct eigenvalues", "equal eigenvalues", "sphere"],
)
def test_phi0_interval_covers(population: Covariates, widest: float):
    assert coverage(population, lambda rows: rows.phi0_interval(n_boot=100), n_draws=100) > LEAST_COVERAGE
    lower, upper = Empirical(population.sample(200, seed=1)).phi0_interval()
    assert (upper - lower) / population.phi0 < widest  # it covers without saying nothing


def test_a_percentile_interval_would_not_cover():
    rng = np.random.default_rng(1)
    plain = coverage(Sphere(3), lambda rows: percentile_interval(rows, n_boot=100, rng=rng), n_draws=20)
    assert plain < LEAST_COVERAGE


def test_phi0_interval_is_reproducible_and_scales():
    rows = Gaussian(COV).sample(80, seed=2)
    lower, upper = Empirical(rows).phi0_interval(seed=3, n_boot=200)
    assert (lower, upper) == Empirical(rows).phi0_interval(seed=3, n_boot=200)
    assert (lower, upper) != Empirical(rows).phi0_interval(seed=4, n_boot=200)
    assert Empirical(10 * rows).phi0_interval(seed=3, n_boot=200) == pytest.approx((100 * lower, 100 * upper))
    wider = Empirical(rows).phi0_interval(0.99, seed=3, n_boot=200)
    assert wider[0] <= lower < Empirical(rows).phi0 < upper <= wider[1]


def test_phi0_interval_ignores_rows_without_weight():
    rows = Gaussian(COV).sample(80, seed=2)
    padded = Empirical(np.vstack([rows, 100 * rows]), weights=np.repeat([1.0, 0.0], 80))
    assert padded.phi0_interval(n_boot=200) == pytest.approx(Empirical(rows).phi0_interval(n_boot=200))


def test_phi0_interval_at_the_boundary():
    population = Empirical(dummies_with_intercept(60))
    lower, upper = population.phi0_interval()
    assert lower == 0.0
    assert upper == pytest.approx((1 - 0.025 ** (1 / 57)) * population.max_norm**2)  # 60 rows, rank 3
    assert Empirical(dummies_with_intercept(6000)).phi0_interval(n_boot=100)[1] < upper / 50


def test_phi0_interval_of_fewer_rows_than_features_knows_only_the_trace():
    lower, upper = Empirical(Sphere(5).sample(3, seed=1)).phi0_interval()
    assert (lower, upper) == (0.0, pytest.approx(1 / 5))


def test_phi0_interval_when_a_direction_hangs_on_two_rows():
    rows = np.column_stack([np.ones(100), np.arange(100) < 2])
    population = Empirical(rows)
    lower, upper = population.phi0_interval()
    assert lower == 0.0 < population.phi0 < upper < np.inf


# --- tables and files ------------------------------------------------------------------------------------------------


def test_a_frame_gives_labels_and_takes_booleans_and_nullable_columns():
    frame = pd.DataFrame(
        {
            "age": [30, 41, 55],
            "smoker": [True, False, True],
            "dose": pd.array([1, 2, 3], dtype="Int64"),
            "mixed": np.array([1, 2.5, True], dtype=object),
        },
        index=["p1", "p2", "p3"],
    )
    population = Empirical(frame)
    assert population.features == ("age", "smoker", "dose", "mixed")
    assert population.n_rows == 3
    np.testing.assert_array_equal(population.rows[:, 1], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(population.rows[:, 3], [1.0, 2.5, 1.0])
    assert Empirical(frame, features=["a", "b", "c", "d"]).features == ("a", "b", "c", "d")


def test_the_population_keeps_its_own_rows():
    rows = TABLE.copy()
    population = Empirical(rows)
    rows[0, 0] = 99.0
    assert population.rows[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        population.rows[0, 0] = 99.0


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "users.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_csv_file_is_read(tmp_path: Path):
    path = write(tmp_path, '\ufeffage, smoker,name\r\n30,True,ann\r\n\r\n41.5,false,"b, c"\r\n')
    population = Empirical.from_csv(path, columns=["smoker", "age"])
    assert population.features == ("smoker", "age")
    np.testing.assert_array_equal(population.rows, [[1.0, 30.0], [0.0, 41.5]])


def test_a_written_frame_comes_back(tmp_path: Path):
    frame = dummies_with_intercept()
    frame.to_csv(tmp_path / "users.csv", index=False)
    population = Empirical.from_csv(str(tmp_path / "users.csv"))
    assert population.features == tuple(frame.columns)
    np.testing.assert_array_equal(population.rows, frame.to_numpy(dtype=float))


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("", None, r"users\.csv is empty\. Expected a line of column names"),
        ("\ufeff\n \n", None, r"users\.csv is empty"),
        ("age,dose\n", None, r"users\.csv has column names but no rows\. Add one line per user"),
        ("1.0,2.0\n3,4\n", None, r"line 1: expected column names, got numbers\. Add a header line"),
        (
            "age,sex\n30,1\n41,f\n",
            None,
            r"Column 'sex', line 3 of .*users\.csv: expected a number, got 'f'.*get_dummies",
        ),
        ("age,sex\n\n30,1\n41,\n", None, r"Column 'sex', line 4 of .*: expected a number, got a missing value\. Fill"),
        ("age\n30\nNaN\n", None, r"Column 'age', line 3 of .*: expected a number, got a missing value \(NaN\)"),
        ("age\n30\ninf\n", None, r"Column 'age', line 3 of .*: expected a number, got an infinite value"),
        ("age\n1_000\n", None, r"Column 'age', line 2 of .*: expected a number, got '1_000'"),
        ('age,note\n1,"a\nb"\nx,c\n', ["age"], r"Column 'age', line 4 of .*: expected a number, got 'x'"),
        ("age,dose\n30,1\n41,1,5\n", None, r"line 3: expected 2 values, got 3\. Separate values by commas"),
        ("age;dose\n30;1\n", None, r"line 1: expected commas, got 'age;dose'\. Save the file comma-separated"),
        (",age\n0,30\n", None, r"line 1: column 1 has no name\. .*index=False"),
        ("age,age\n1,2\n", None, r"column 'age' occurs more than once"),
        ("age,dose\n1,2\n", ["age", "age"], r"column 'age' occurs more than once"),
        ("age,dose\n1,2\n", ["dosis"], r"no column 'dosis', only age, dose\. Did you mean 'dose'\?"),
        ("age,dose\n1,2\n", [], r"columns must name at least one column"),
        ("age,dose\n1,2\n", "age", r"columns must be a list of names, got 'age'\. Write \['age'\]"),
        ("gr\u00f6\u00dfe\n1\n".encode("latin-1"), None, r"users\.csv is not UTF-8 text\. Save it as 'CSV UTF-8'"),
    ],
)
def test_bad_csv_files(tmp_path: Path, content: str | bytes, columns: Any, message: str):
    with pytest.raises(DataError, match=message) as caught:
        Empirical.from_csv(write(tmp_path, content), columns=columns)
    assert str(caught.value).count("\n") <= 1


def test_files_that_cannot_be_opened(tmp_path: Path):
    with pytest.raises(DataError, match=r"No such file: .*none\.csv\. Check the path"):
        Empirical.from_csv(tmp_path / "none.csv")
    with pytest.raises(DataError, match="cannot be read as a CSV file"):
        Empirical.from_csv(tmp_path)


# --- bad input -------------------------------------------------------------------------------------------------------

BAD_INPUT: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (Sphere, (0,), {}, r"n_features must be an integer of at least 1, got 0"),
    (Sphere, (-2,), {}, r"at least 1, got -2"),
    (Sphere, (2.0,), {}, r"at least 1, got 2\.0"),
    (Sphere, ("3",), {}, r"at least 1, got '3'"),
    (Sphere, (True,), {}, r"at least 1, got True"),
    (Sphere, (None,), {}, r"at least 1, got None"),
    (Ball, (0,), {}, r"n_features must be an integer of at least 1, got 0"),
    (Ball, (1.5,), {}, r"at least 1, got 1\.5"),
    (Sphere, (2,), {"features": ["a"]}, r"Expected 2 feature labels, got 1"),
    (Sphere, (2,), {"features": ["a", "a"]}, r"feature labels must differ"),
    (Sphere, (2,), {"features": "ab"}, r"features must be a list of 2 labels, got 'ab'"),
    (Sphere, (2,), {"features": 7}, r"features must be a list of 2 labels, got 7"),
    (
        Gaussian,
        ([[1.0, 0.5], [0.4, 1.0]],),
        {},
        r"cov must be symmetric, got cov\[0, 1\] = 0\.5 but cov\[1, 0\] = 0\.4",
    ),
    (Gaussian, ([[1.0, 2.0], [2.0, 1.0]],), {}, r"positive semi-definite, got smallest eigenvalue -1"),
    (Gaussian, ([1.0, -1.0],), {}, r"positive semi-definite"),
    (Gaussian, ([[1.0, 2.0]],), {}, r"cov must be a \(d, d\) matrix or d variances, got shape \(1, 2\)"),
    (Gaussian, (1.0,), {}, r"cov must have 1 or 2 dimension"),
    (Gaussian, ([],), {}, r"cov must be a \(d, d\) matrix"),
    (Gaussian, ([[1.0, np.nan], [np.nan, 1.0]],), {}, r"cov must be finite"),
    (Gaussian, ("one",), {}, r"cov must be numeric, got str"),
    (Gaussian, ([["1", "0"], ["0", "1"]],), {}, r"cov must be numeric"),
    (Gaussian, ([[1.0, 0.0], [0.0]],), {}, r"cov must be numeric"),
    (Gaussian, ([1.0, 1.0],), {"mean": [1.0]}, r"mean must have one entry per row of cov \(2\), got shape \(1,\)"),
    (Gaussian, ([1.0, 1.0],), {"mean": [1.0, np.inf]}, r"mean must be finite"),
    (Gaussian, ([1.0],), {"mean": [1e200]}, r"too large: their second moment"),
    (Uniform, (0, 1), {}, r"give n_features as well"),
    (Uniform, ([0.0, 1.0], [1.0, 1.0]), {}, r"low must be below high, got low\[1\] = 1, high\[1\] = 1"),
    (Uniform, (2, 1), {"n_features": 3}, r"low must be below high"),
    (Uniform, ([0.0, 0.0], [1.0, 1.0, 1.0]), {}, r"must agree on a size of at least 1, got \[2, 3\]"),
    (Uniform, ([0.0, 0.0], 1.0), {"n_features": 3}, r"must agree on a size"),
    (Uniform, (0, 1), {"n_features": 0}, r"n_features must be an integer of at least 1"),
    (Uniform, ([], []), {}, r"must agree on a size of at least 1, got \[0\]"),
    (Uniform, ([0.0], [np.inf]), {}, r"high must be finite"),
    (Uniform, ([-1e200], [1e200]), {}, r"too large: their second moment"),
    (Uniform, ("low", "high"), {}, r"low must be numeric"),
    (Empirical, ([],), {}, r"rows must be an \(n, d\) table, got list of shape \(0,\)"),
    (Empirical, (np.empty((0, 3)),), {}, r"at least one row and one column, got shape \(0, 3\)"),
    (Empirical, (pd.DataFrame({"a": []}),), {}, r"at least one row and one column, got shape \(0, 1\)"),
    (Empirical, (pd.DataFrame(index=[0, 1]),), {}, r"at least one row and one column, got shape \(2, 0\)"),
    (Empirical, ([1.0, 2.0],), {}, r"got list of shape \(2,\)\. For one user give \[\[\.\.\.\]\]"),
    (Empirical, (pd.Series([1.0, 2.0]),), {}, r"got Series of shape \(2,\)"),
    (Empirical, (np.ones((2, 2, 2)),), {}, r"\(n, d\) table, got ndarray of shape \(2, 2, 2\)"),
    (Empirical, ("rows",), {}, r"\(n, d\) table, got str of shape \(\)"),
    (Empirical, (None,), {}, r"\(n, d\) table, got NoneType"),
    (Empirical, ([[1.0, 2.0], [3.0]],), {}, r"rows of different lengths"),
    (Empirical, ([[1.0, 2.0], [3.0, "x"]],), {}, r"Column 'feature_1', row 1: expected a number, got 'x'"),
    (Empirical, ([["1", "2"]],), {}, r"Column 'feature_0', row 0: expected a number, got '1'"),
    (Empirical, ([[1.0, 2.0], [np.nan, 1.0]],), {}, r"Column 'feature_0', row 1: .* missing value \(NaN\)\. Fill"),
    (Empirical, ([[1.0, None]],), {"features": ["a", "b"]}, r"Column 'b', row 0: .* missing value"),
    (Empirical, ([[1.0, -np.inf]],), {}, r"Column 'feature_1', row 0: .* infinite value"),
    (Empirical, ([[1.0, 1j]],), {}, r"Column 'feature_1', row 0: expected a number, got '1j'"),
    (Empirical, (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),), {}, r"Column 'b', row 0 \(index 0\): .* got 'x'"),
    (
        Empirical,
        (pd.DataFrame({"a": [1, None]}, index=["p", "q"]),),
        {},
        r"Column 'a', row 1 \(index 'q'\): .* missing",
    ),
    (Empirical, (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),), {}, r"Column 'a', row 1 .* missing value"),
    (Empirical, (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}),), {}, r"Column 'a', row 0 .* got '2020-01-01"),
    (Empirical, (pd.DataFrame([[1, 2]], columns=["a", "a"]),), {}, r"feature labels must differ"),
    (Empirical, (TABLE,), {"weights": [1, 2]}, r"Expected one weight per row \(4\), got 2"),
    (
        Empirical,
        (TABLE,),
        {"weights": [1, -1, 1, 1]},
        r"weights must not be negative nor all zero, got a smallest of -1",
    ),
    (Empirical, (TABLE,), {"weights": [0, 0, 0, 0]}, r"weights must not be negative nor all zero"),
    (Empirical, (TABLE,), {"weights": [1, np.nan, 1, 1]}, r"weights must be finite"),
    (Empirical, (1e200 * TABLE,), {}, r"too large: their second moment"),
]


@pytest.mark.parametrize(("build", "args", "kwargs", "message"), BAD_INPUT)
def test_bad_input(build: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        build(*args, **kwargs)


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "message"),
    [
        ("sample", (-1,), {}, r"n must be an integer of at least 0, got -1"),
        ("sample", (2.5,), {}, r"n must be an integer of at least 0, got 2\.5"),
        ("sample", (2,), {"seed": "one"}, r"seed must be a non-negative integer, .* got 'one'"),
        ("sample", (2,), {"seed": -1}, r"seed must be a non-negative integer, .* got -1"),
        ("contains", ([1.0, 2.0, 3.0],), {}, r"x must have 2 features in its last dimension, got shape \(3,\)"),
        ("contains", (1.0,), {}, r"x must have 2 features"),
        ("contains", ([np.nan, 1.0],), {}, r"x must be finite"),
        ("contains", (["a", "b"],), {}, r"x must be numeric"),
        ("weak_directions", (-0.1,), {}, r"tolerance must be a share .* got -0\.1"),
        ("weak_directions", ("no",), {}, r"tolerance must be a share .* got 'no'"),
        ("phi0_interval", (95,), {}, r"level must lie strictly between 0 and 1, got 95"),
        ("phi0_interval", (float("nan"),), {}, r"level must lie strictly between 0 and 1, got nan"),
        ("phi0_interval", (), {"n_boot": 10}, r"n_boot must be an integer of at least 100, got 10"),
    ],
)
def test_bad_calls(method: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        getattr(Empirical(TABLE), method)(*args, **kwargs)


# --- as objects ------------------------------------------------------------------------------------------------------


def test_populations_are_frozen_values(population: Covariates):
    assert isinstance(population, Covariates)
    assert len(population.features) == population.n_features
    assert population == population
    assert population != copy.deepcopy(population)  # by identity: arrays have no single truth value
    assert len({population, population}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        population.n_features = 3  # pyright: ignore[reportAttributeAccessIssue]
    for array in (population.second_moment, population.mean):
        assert not array.flags.writeable
    assert "\n" not in population.describe()
    assert population.describe() in repr(population)


def test_populations_survive_pickling_and_replacing(population: Covariates):
    for twin in (pickle.loads(pickle.dumps(population)), dataclasses.replace(population)):  # pyright: ignore[reportArgumentType, reportCallIssue]
        np.testing.assert_array_equal(twin.sample(5, seed=1), population.sample(5, seed=1))
        assert twin.features == population.features


def test_labels():
    assert Sphere(2).features == ("feature_0", "feature_1")
    assert Ball(2, features=["a", "b"]).features == ("a", "b")
    assert Uniform(0, [1, 2], features=iter("ab")).features == ("a", "b")
    assert dataclasses.replace(Gaussian([1.0, 2.0]), features=("a", "b")).features == ("a", "b")


@pytest.mark.parametrize("module", ["covariates", "noise"])
def test_import_stays_light(module: str):
    heavy = ("pandas", "scipy", "xarray", "pymc", "arviz")
    program = f"import sys, rcb_bayes.{module}; print([name for name in {heavy} if name in sys.modules])"
    root = Path(__file__).parents[1]
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
