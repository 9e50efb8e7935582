"""A population given by a table: weights, moments, support."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.users import Empirical

TABLE = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0], [2.0, 2.0]])


@pytest.mark.parametrize(
    ("population", "moment", "phi0", "max_norm"),
    [
        (Empirical([[1.0, 0.0], [0.0, 2.0]], weights=[3, 1]), [[0.75, 0.0], [0.0, 1.0]], 0.75, 2.0),
        (Empirical([[1.0], [9.0]], weights=[1, 0]), [[1.0]], 1.0, 1.0),
    ],
)
def test_closed_forms(population: Empirical, moment: Any, phi0: float, max_norm: float):
    np.testing.assert_allclose(population.second_moment, moment, atol=1e-15)
    assert population.phi0 == pytest.approx(phi0, abs=1e-15)
    assert population.max_norm == pytest.approx(max_norm)


def test_integer_weights_are_repeated_rows():
    repeated = Empirical(np.repeat(TABLE, [1, 2, 0, 5], axis=0))
    weighted = Empirical(TABLE, weights=[1, 2, 0, 5])
    np.testing.assert_allclose(weighted.second_moment, repeated.second_moment, rtol=1e-14)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-14)


def test_permuting_features_permutes_the_second_moment():
    order = [2, 0, 1]
    rows = np.random.default_rng(0).normal(size=(50, 3))
    permuted = Empirical(rows[:, order])
    expected = Empirical(rows).second_moment[np.ix_(order, order)]
    np.testing.assert_allclose(permuted.second_moment, expected, rtol=1e-13, atol=1e-15)
    assert permuted.phi0 == pytest.approx(Empirical(rows).phi0)


@pytest.mark.parametrize(
    ("population", "inside", "outside"),
    [
        (Empirical(TABLE), [3.0, -1.0], [3.0, 2.0]),
        (Empirical(TABLE, weights=[1, 0, 1, 1]), [1.0, 2.0], [3.0, -1.0]),
    ],
)
def test_contains(population: Empirical, inside: list[float], outside: list[float]):
    assert population.contains([inside, outside]).tolist() == [True, False]
    assert population.contains([[inside], [outside]]).shape == (2, 1)
    assert bool(population.contains(np.array(inside) + 1e-10))
    assert not population.contains(outside)


def test_the_population_keeps_its_own_rows():
    rows = TABLE.copy()
    population = Empirical(rows)
    rows[0, 0] = 99.0
    assert population.rows[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        population.rows[0, 0] = 99.0


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        (TABLE, [1, 2], r"Expected one weight per row \(4\), got 2"),
        (TABLE, [1, -1, 1, 1], r"weights must not be negative nor all zero, got a smallest of -1"),
        (TABLE, [0, 0, 0, 0], r"weights must not be negative nor all zero"),
        (TABLE, [1, np.nan, 1, 1], r"weights must be finite"),
        (TABLE, list("1234"), r"weights must be numeric"),
        (1e200 * TABLE, None, r"too large: their second moment"),
        (TABLE, [1e-300, 1e-300, 1e-300, 1], r"weights must be 0 or at least 1e-15 of their sum, got 1e-300 of it"),
        (TABLE, np.ma.masked_array(np.ones(4), mask=np.arange(4) == 0), "weights has masked entries"),
        (np.ma.masked_array(TABLE, mask=TABLE > 2.0), None, "rows has masked entries"),
        (list(np.ma.masked_array(TABLE, mask=TABLE > 2.0)), None, "rows has masked entries"),
    ],
)
def test_bad_weights_and_sizes(rows: Any, weights: Any, message: str):
    with pytest.raises(DataError, match=message):
        Empirical(rows, weights=weights)


def test_huge_weights_do_not_overflow():
    np.testing.assert_array_equal(Empirical(TABLE, weights=np.full(4, 1e308)).weights, np.full(4, 0.25))


def test_one_row_is_a_population():
    assert Empirical([[3.0, 4.0]]).describe().startswith("1 observed row, 2 features, phi0 = 0 ")
