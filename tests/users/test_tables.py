"""Tables and comma-separated files: what is read, and what bad ones say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.users import Empirical


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


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "users.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_csv_file_is_read(tmp_path: Path):
    path = write(tmp_path, '\ufeffage, smoker,name\r\n30,True,ann\r\n\r\n41.5,false,"b, c"\r\n')
    population = Empirical.from_csv(path, columns=["smoker", "age"])
    assert population.features == ("smoker", "age")
    np.testing.assert_array_equal(population.rows, [[1.0, 30.0], [0.0, 41.5]])


def test_a_written_frame_comes_back(tmp_path: Path, dummies_with_intercept: Callable[[int], pd.DataFrame]):
    frame = dummies_with_intercept(60)
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
        (
            "age,dose\n30,1\n41,1,5\n",
            None,
            r"line 3, column 'dose': expected 2 values, got 3\. Separate values by commas",
        ),
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


@pytest.mark.parametrize(
    ("rows", "features", "message"),
    [
        ([], None, r"rows must be an \(n, d\) table, got list of shape \(0,\)"),
        (np.empty((0, 3)), None, r"at least one row and one column, got shape \(0, 3\)"),
        (pd.DataFrame({"a": []}), None, r"at least one row and one column, got shape \(0, 1\)"),
        (pd.DataFrame(index=[0, 1]), None, r"at least one row and one column, got shape \(2, 0\)"),
        ([1.0, 2.0], None, r"got list of shape \(2,\)\. For one user give \[\[\.\.\.\]\]"),
        (pd.Series([1.0, 2.0]), None, r"got Series of shape \(2,\)"),
        (np.ones((2, 2, 2)), None, r"\(n, d\) table, got ndarray of shape \(2, 2, 2\)"),
        ("rows", None, r"\(n, d\) table, got str of shape \(\)"),
        (None, None, r"\(n, d\) table, got NoneType"),
        ([[1.0, 2.0], [3.0]], None, r"rows of different lengths"),
        ([[1.0, 2.0], [3.0, "x"]], None, r"Column 'feature_1', row 1: expected a number, got 'x'"),
        ([["1", "2"]], None, r"Column 'feature_0', row 0: expected a number, got '1'"),
        ([[1.0, 2.0], [np.nan, 1.0]], None, r"Column 'feature_0', row 1: .* missing value \(NaN\)\. Fill"),
        ([[1.0, None]], ["a", "b"], r"Column 'b', row 0: .* missing value"),
        ([[1.0, -np.inf]], None, r"Column 'feature_1', row 0: .* infinite value"),
        ([[1.0, 1j]], None, r"Column 'feature_1', row 0: expected a number, got '1j'"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), None, r"Column 'b', row 0 \(index 0\): .* got 'x'"),
        (pd.DataFrame({"a": [1, None]}, index=["p", "q"]), None, r"Column 'a', row 1 \(index 'q'\): .* missing"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), None, r"Column 'a', row 1 .* missing value"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), None, r"Column 'a', row 0 .* got '2020-01-01"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, r"feature labels must differ"),
        (np.array([["2020-01-01"]], dtype="datetime64[ns]"), None, r"Column 'feature_0', row 0: .* got '2020-01-01"),
        (pd.DataFrame({"a": pd.to_timedelta([1], unit="D")}), None, r"Column 'a', row 0 .* got '86400"),
    ],
)
def test_bad_tables(rows: Any, features: Any, message: str):
    with pytest.raises(RcbError, match=message):
        Empirical(rows, features=features)
