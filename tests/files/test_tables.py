"""Comma-separated files: cells with the numbers of their lines, and faults with line and column."""

import os
from pathlib import Path

import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.files.tables import parse_cell, read_cells


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode("utf-8"))
    return path


def test_cells_come_with_their_lines(tmp_path: Path):
    table = read_cells(write(tmp_path, '\ufeffa, b\r\n\r\n1,"x\ny"\r\n2,"z, z"\r\n'))
    assert table.header == ["a", "b"]
    assert table.lines == [4, 5]  # where a record ends
    assert table.records == [["1", "x\ny"], ["2", "z, z"]]


def test_a_header_alone_is_a_table_where_none_is_asked_for(tmp_path: Path):
    assert read_cells(write(tmp_path, "a,b\n"), least=0).records == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty. Expected a line of column names, then one line per patient"),
        ("a,b\n", "no rows. Add one line per patient"),
        ("a,b\n1,2\n3\n", "line 3, column 'a': expected 2 values, got 1. The file is cut off"),
        ("a,b\n1\n3,4\n", "line 2, column 'a': expected 2 values, got 1. Separate values by commas"),
        ("a,b\n1,2,3\n", "line 2, column 'b': expected 2 values, got 3. Separate values by commas"),
        ('a,b\n1,2\n3,"4\n', "line 3: cut off, or not CSV"),
        ('a,b\n1,"2"3\n', "line 2: cut off, or not CSV"),
        ("1,2\n3,4\n", "line 1: expected column names, got numbers"),
        ("a;b\n3;4\n", "line 1: expected commas"),
        (",".join("abc"[k % 3] for k in range(10_001)) + "\n", "line 1: 10,001 columns"),
    ],
)
def test_faults_are_named_by_line_and_column(tmp_path: Path, text: str, message: str):
    with pytest.raises(DataError, match=message) as caught:
        read_cells(write(tmp_path, text), row="patient")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "value"),
    [(" 1.5 ", 1.5), ("TRUE", True), ("", None), ("NA", None), ("1_000", "1_000"), ("x y", "x y")],
)
def test_cells_are_numbers_truth_values_nothing_or_text(cell: str, value: object):
    assert parse_cell(cell) == value


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "users.csv")
    with pytest.raises(DataError, match="no regular file"):
        read_cells(tmp_path / "users.csv")


def test_names_of_columns_are_told_as_they_can_be_seen(tmp_path: Path):
    path = tmp_path / "users.csv"
    path.write_bytes(b'"age\n(years)",\x1b[31mred\n1,2\n')
    assert read_cells(path).header == ["age (years)", "\\x1b[31mred"]
