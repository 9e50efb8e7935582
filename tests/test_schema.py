"""Labels, checked arrays, covariances, counts, numbers and seeds: what is taken, and what bad ones say."""

import datetime
import subprocess
import sys
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.schema import (
    as_count,
    as_covariance,
    as_finite_array,
    as_labels,
    as_rng,
    frozen,
    is_number,
    seen,
    suggestion,
)

# --- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["a", "b"], ("a", "b"), iter("ab"), pd.Index(["a", "b"]), np.array(["a", "b"])])
def test_labels_of_any_iterable(labels: Iterable[object]):
    assert as_labels(labels, dim="arm", size=2) == ("a", "b")


def test_labels_are_text_and_have_defaults():
    assert as_labels([1, 2.5], dim="arm", size=2) == ("1", "2.5")
    assert as_labels(None, dim="arm", size=2) == ("arm_0", "arm_1")
    assert as_labels([], dim="arm", size=0) == ()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("ab", r"Expected a list of 2 arm labels, got 'ab'\. Put the labels into a list"),
        (b"ab", r"Expected a list of 2 arm labels, got b'ab'"),
        (7, r"Expected a list of 2 arm labels, got 7"),
        (["a"], r"Expected 2 arm labels, got 1: a\. Give one label per arm"),
        (list("abcdefgh"), r"Expected 2 arm labels, got 8: a, b, c, d, e, f, \.\.\."),
        (["a", "a"], r"The arm labels must differ from each other, got a, a"),
        ([1, "1"], r"The arm labels must differ"),
    ],
)
def test_bad_labels(labels: Any, message: str):
    with pytest.raises(RcbError, match=message):
        as_labels(labels, dim="arm", size=2)


def test_suggestions():
    assert suggestion("dosis", ["age", "dose"]) == " Did you mean 'dose'?"
    assert suggestion("weight", ["age", "dose"]) == ""


# --- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (3, 3.0),
        ([1, 2], [1.0, 2.0]),
        ([True, False], [1.0, 0.0]),
        (np.array([1, 2.5, True, Fraction(1, 4), Decimal("0.5")], dtype=object), [1.0, 2.5, 1.0, 0.25, 0.5]),
        (np.array([0.5], dtype=np.float32), [0.5]),
        (np.array([], dtype=object), []),
        (pd.DataFrame({"a": [1], "b": [True]}), [[1.0, 1.0]]),
        (pd.Series(pd.array([1, 2], dtype="Int64")), [1.0, 2.0]),
    ],
)
def test_numbers_of_any_kind_become_floats(values: Any, expected: Any):
    array = as_finite_array(values, name="x")
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, expected)


def test_a_float_array_is_not_copied_unless_asked():
    values = np.arange(3.0)
    assert as_finite_array(values, name="x") is values
    copy = frozen(values)
    values[0] = 9.0
    assert copy[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        copy[0] = 9.0


NOT_NUMERIC = {
    "text": "1.5",
    "texts": ["1", "2"],
    "text among numbers": [1.0, "2"],
    "text among objects": np.array([1.0, "2"], dtype=object),
    "bytes": [b"1"],
    "bytes among objects": np.array([1.0, b"2"], dtype=object),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "dates as objects": [datetime.date(2020, 1, 1)],
    "NumPy dates as objects": np.array([np.datetime64("2020-01-01"), 1.0], dtype=object),
    "pandas dates": pd.Series(pd.to_datetime(["2020-01-01"])),
    "durations": np.array([1], dtype="timedelta64[s]"),
    "NumPy durations as objects": np.array([np.timedelta64(1, "s"), 1.0], dtype=object),
    "complex": np.array([1j]),
    "ragged": [[1.0, 2.0], [3.0]],
    "too large for a float": [10**400],
    "a dict": {"a": 1},
}


@pytest.mark.parametrize("values", NOT_NUMERIC.values(), ids=list(NOT_NUMERIC))
def test_what_is_not_numeric(values: Any):
    with pytest.raises(DataError, match=rf"^x must be numeric, got {type(values).__name__} \(.*Give numbers"):
        as_finite_array(values, name="x")


@pytest.mark.parametrize(
    ("values", "ndim", "message"),
    [
        (
            np.ma.masked_array([1.0, 2.0], mask=np.array([True, False])),
            1,
            r"x has masked entries. Drop them, or fill them in",
        ),
        ([1.0, np.ma.masked], 1, "x has masked entries"),
        ([1.0], 2, r"x must have 2 dimension\(s\), got shape \(1,\)"),
        ([[[1.0]]], (1, 2), r"x must have 1 or 2 dimension\(s\), got shape \(1, 1, 1\)"),
        (
            [[1.0, np.nan], [np.inf, 1.0]],
            None,
            r"x must be finite, got 2 NaN or infinite value\(s\), the first at index \(0, 1\)",
        ),
        ([1.0, None], None, r"x must be finite, got 1 NaN"),
        (np.nan, 0, r"x must be finite, got 1 NaN or infinite value\(s\)\. Fill or drop them"),
    ],
)
def test_other_ranks_and_values_that_are_not_finite(values: Any, ndim: Any, message: str):
    with pytest.raises(DataError, match=message):
        as_finite_array(values, name="x", ndim=ndim)


def test_covariances():
    np.testing.assert_array_equal(as_covariance([1.0, 0.0], name="cov"), [[1.0, 0.0], [0.0, 0.0]])
    nearly = np.array([[1.0, 0.5], [0.5 + 1e-12, 0.25 - 1e-12]])  # symmetric and singular up to rounding
    matrix = as_covariance(nearly, name="cov")
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix, nearly, rtol=1e-11)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [[1.0, 0.5], [0.4, 1.0]],
            r"S must be symmetric, got S\[0, 1\] = 0\.5 but S\[1, 0\] = 0\.4\. Use \(S \+ S",
        ),
        ([[1.0, 2.0], [2.0, 1.0]], r"S must be positive semi-definite, got smallest eigenvalue -1\. Check"),
        ([1.0, -1.0], r"S must be positive semi-definite"),
        ([[1.0, 2.0]], r"S must be a \(d, d\) matrix or d variances, got shape \(1, 2\)"),
        ([], r"S must be a \(d, d\) matrix"),
        (1.0, r"S must have 1 or 2 dimension"),
    ],
)
def test_bad_covariances(values: Any, message: str):
    with pytest.raises(DataError, match=message):
        as_covariance(values, name="S")


# --- numbers and seeds -----------------------------------------------------------------------------------------------


def test_counts():
    assert as_count(3, name="n") == 3
    assert type(as_count(np.int64(3), name="n")) is int
    assert as_count(0, name="n") == 0


@pytest.mark.parametrize("value", [-1, 2.0, "3", None, True, np.True_, [1]], ids=repr)
def test_bad_counts(value: Any):
    with pytest.raises(RcbError, match=r"n must be an integer of at least 0, got "):
        as_count(value, name="n")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, True),
        (0.5, True),
        (np.float32(0.5), True),
        (Fraction(1, 2), True),
        (True, False),
        (np.True_, False),
        (float("nan"), False),
        (float("inf"), False),
        ("1", False),
        (1j, False),
        (None, False),
        (np.array(1.0), False),
    ],
)
def test_what_a_number_is(value: object, expected: bool):
    assert is_number(value) is expected


def test_seeds_of_every_kind_give_the_same_numbers():
    expected = np.random.default_rng(7).random(3)
    for seed in (7, np.int64(7), np.random.SeedSequence(7), np.random.default_rng(7)):
        np.testing.assert_array_equal(as_rng(seed).random(3), expected)  # pyright: ignore[reportArgumentType]
    assert not np.array_equal(as_rng(None).random(3), as_rng(None).random(3))


def test_a_generator_is_used_as_it_stands():
    generator = np.random.default_rng(7)
    assert as_rng(generator) is generator


@pytest.mark.parametrize(
    "seed",
    [-1, 1.0, 1.5, True, False, np.True_, "one", [1, 2], np.random.RandomState(1)],
    ids=lambda seed: repr(seed)[:12],
)
def test_bad_seeds(seed: Any):
    message = r"seed must be a non-negative integer, a SeedSequence, a Generator or None, got .*\. Write seed=1"
    with pytest.raises(RcbError, match=message):
        as_rng(seed)


# --- imports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["schema", "users", "market.noise"])
def test_import_stays_light(module: str):
    heavy = ("pandas", "scipy", "xarray", "pymc", "arviz")
    program = f"import sys, rcb_bayes.{module}; print([name for name in {heavy} if name in sys.modules])"
    root = Path(__file__).parents[1]
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("label", ["\x1b[31mred", "a\nb", "\x9b2J", "\u202egnp", "\ud800"])
def test_labels_can_be_seen(label: str):
    with pytest.raises(RcbError, match=r"text that can be seen, got '.*\\.*'. Rename it.") as caught:
        as_labels(["old", label], dim="arm", size=2)
    assert str(caught.value).isprintable()


def test_text_as_it_can_be_seen():
    assert seen("a\x1b[2J\nb\ud800é") == "a\\x1b[2J\\nb\\ud800é"
    assert seen("a\nb", but="\n") == "a\nb"
