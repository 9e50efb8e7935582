"""The IWPC table: read as it circulates, refused with line and column where something is wrong."""

from pathlib import Path

import pandas as pd
import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.studies.warfarin.synthetic import synthetic_patients
from rcb_bayes.studies.warfarin.table import read_patients
from tests.studies.warfarin.files import cells, write_csv


@pytest.fixture
def grid() -> tuple[list[str], list[list[str]]]:
    return cells(synthetic_patients(30, seed=1))


def test_a_table_as_it_circulates_is_read_back(tmp_path: Path) -> None:
    table = synthetic_patients(200, seed=2)
    found = read_patients(write_csv(tmp_path / "w.csv", *cells(table)))
    pd.testing.assert_frame_equal(found, table)


def test_the_real_file_has_5700_patients(real_file: Path) -> None:
    table = read_patients(real_file)
    assert len(table) == 5700
    dosed = table["dose"].notna().to_numpy()
    assert int(dosed.sum()) == 5528
    assert int((table["stable"].to_numpy()[dosed] == 0).sum()) == 118


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("Age", "19-Oct", "line 4, column 'Age'.*'19-Oct'. Excel makes a date of '10 - 19'"),
        ("Age", "Oct-19", "Excel makes a date"),
        ("Age", "2019-10-01 00:00:00", "Excel makes a date"),
        ("Age", "60-69", "line 4, column 'Age': expected one of .*Did you mean '60 - 69'"),
        ("Therapeutic Dose of Warfarin", "0", "line 4, column 'Therapeutic Dose of Warfarin'.*above 0, or NA, got '0'"),
        ("Therapeutic Dose of Warfarin", "-7", "weekly dose in mg, a number above 0"),
        ("Therapeutic Dose of Warfarin", "nine", "got 'nine'"),
        ("Weight (kg)", "inf", "line 4, column 'Weight"),
        ("Aspirin", "2", "line 4, column 'Aspirin': expected 0, 1 or NA, got '2'"),
        ("Race", "Martian", "line 4, column 'Race'"),
        ("CYP2C9 consensus", "*1/*4", "column 'CYP2C9 consensus'"),
        ("Indication for Warfarin Treatment", "9", "numbers from 1 to 8"),
        ("PharmGKB Subject ID", "NA", "a patient needs an identifier"),
        ("PharmGKB Subject ID", "SYNTHETIC00000", "line 4.*SYNTHETIC00000 is there already, in line 2"),
    ],
)
def test_a_bad_cell_is_named(
    tmp_path: Path, grid: tuple[list[str], list[list[str]]], column: str, value: str, message: str
) -> None:
    header, rows = grid
    rows[2][header.index(column)] = value
    with pytest.raises(DataError, match=message):
        read_patients(write_csv(tmp_path / "w.csv", header, rows))


def test_a_file_cut_off_within_a_line_is_named(tmp_path: Path, grid: tuple[list[str], list[list[str]]]) -> None:
    path = write_csv(tmp_path / "w.csv", *grid)
    text = path.read_bytes()
    path.write_bytes(text[: int(0.6 * len(text))])
    with pytest.raises(DataError, match=r"line \d+, column '.*The file is cut off"):
        read_patients(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "not the IWPC file, the column 'PharmGKB Subject ID' and 28 more is not there"),
        ("\x00\x01", "not the IWPC file"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_patients(path)


def test_a_missing_file_and_a_header_alone_are_refused(tmp_path: Path, grid: tuple[list[str], list[list[str]]]) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_patients(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="no patients"):
        read_patients(write_csv(tmp_path / "w.csv", grid[0], []))


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, grid: tuple[list[str], list[list[str]]]) -> None:
    header, rows = grid
    with pytest.raises(DataError, match="'Age' is there twice"):
        read_patients(write_csv(tmp_path / "w.csv", [*header, "Age"], [[*row, "NA"] for row in rows]))


def test_excel_without_its_reader_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("no openpyxl")

    monkeypatch.setattr(pd, "read_excel", missing)
    with pytest.raises(DataError, match="needs the package openpyxl: pip install openpyxl"):
        read_patients(tmp_path / "w.xlsx")
    with pytest.raises(DataError, match="needs the package xlrd"):
        read_patients(tmp_path / "w.xls")


def test_excel_sheets_are_searched_for_the_patients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grid: tuple[list[str], list[list[str]]]
) -> None:
    header, rows = grid
    sheets = {"Metadata": pd.DataFrame([["about"], ["this file"]]), "Subject Data": pd.DataFrame([header, *rows])}
    monkeypatch.setattr(pd, "read_excel", lambda *_, **__: sheets)
    found = read_patients(tmp_path / "w.xlsx")
    pd.testing.assert_frame_equal(found, read_patients(write_csv(tmp_path / "w.csv", header, rows)))
    rows[0][header.index("Therapeutic Dose of Warfarin")] = "0"
    sheets["Subject Data"] = pd.DataFrame([header, *rows])
    with pytest.raises(DataError, match="line 2, column 'Therapeutic"):
        read_patients(tmp_path / "w.xlsx")
    monkeypatch.setattr(pd, "read_excel", lambda *_, **__: {"one": pd.DataFrame([["a"]])})
    with pytest.raises(DataError, match="no sheet has a column"):
        read_patients(tmp_path / "w.xlsx")
