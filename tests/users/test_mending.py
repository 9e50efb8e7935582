"""Tables of real users, met halfway: all faults at once, missing values, scales, an intercept."""

from pathlib import Path

import numpy as np
import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.users import Empirical
from rcb_bayes.users.mending import Mending, drowning_note, read_users

MESSY = "age,sex,weight,smoker,note\n30,f,70,1,a\n41,m,,0,b\n,f,82,1,c\n55,m,inf,0,d\n62,f,64,,e\n"


def write(folder: Path, content: str) -> Path:
    path = folder / "users.csv"
    path.write_text(content, encoding="utf-8")
    return path


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        Empirical.from_csv(write(tmp_path, MESSY))
    words = str(caught.value)
    assert "\n" not in words
    for part in (
        "'age': 1 missing in line 4",
        "'sex': text ('f', 'm')",
        "'weight': 1 missing in line 3, infinite in line 5",
        "'smoker': 1 missing in line 6",
        "'note': text ('a', 'b', 'c', ...)",
        "dummies=True",
        "missing='drop'",
        "Replace infinite values",
    ):
        assert part in words


def test_one_slip_is_told_by_its_line_and_what_may_be_done(tmp_path: Path):
    with pytest.raises(DataError, match=r"Column 'b', line 3 .*missing value\. .*missing='drop', 'mean' or"):
        Empirical.from_csv(write(tmp_path, "a,b\n1,2\n3,\n"))
    with pytest.raises(DataError, match=r"column 'b': text in lines 2, 4 \('x', 'y'\)"):
        Empirical.from_csv(write(tmp_path, "a,b\n1,x\n3,1\n2,y\n1,2\n7,8\n"), missing="mean")


HOLES = "age,dose\n30,1\n,2\n50,\n40,3\n"


def test_missing_values_are_left_out_filled_in_or_marked(tmp_path: Path):
    path = write(tmp_path, HOLES)
    np.testing.assert_array_equal(Empirical.from_csv(path, missing="drop").rows, [[30, 1], [40, 3]])
    np.testing.assert_array_equal(Empirical.from_csv(path, missing="mean").rows, [[30, 1], [40, 2], [50, 2], [40, 3]])
    marked = Empirical.from_csv(path, missing="indicator")
    assert marked.features == ("age", "dose", "age_missing", "dose_missing")
    np.testing.assert_array_equal(marked.rows[:, 2:], [[0, 0], [1, 0], [0, 1], [0, 0]])


def test_scales_are_made_alike_but_for_what_is_plain(tmp_path: Path):
    path = write(tmp_path, "age,smoker,one\n30,1,5\n50,0,5\n40,0,5\n")
    users = Empirical.from_csv(path, standardise=True, intercept=True)
    assert users.features == ("intercept", "age", "smoker", "one")
    np.testing.assert_allclose(users.rows[:, 1], np.array([-1, 1, 0]) * np.sqrt(1.5))
    np.testing.assert_array_equal(users.rows[:, [0, 2, 3]], [[1, 1, 5], [1, 0, 5], [1, 0, 5]])


@pytest.mark.parametrize(
    ("content", "given", "message"),
    [
        (HOLES, {"missing": "men"}, r"missing must be one of .* Did you mean 'mean'\?"),
        ("a,b\n1,\n,2\n", {"missing": "drop"}, "every row misses a value"),
        ("a,b\n1,\n2,\n", {"missing": "mean"}, "column 'b' is empty"),
        ("intercept,b\n1,2\n1,3\n", {"intercept": True}, "a column 'intercept' already"),
    ],
)
def test_what_cannot_be_mended(tmp_path: Path, content: str, given: dict, message: str):
    with pytest.raises(DataError, match=message):
        Empirical.from_csv(write(tmp_path, content), **given)


def test_what_is_done_is_said(tmp_path: Path):
    mending = Mending(missing="indicator", intercept="intercept", standardise=True, leave_text=True)
    content = MESSY.replace("inf", "64")
    rows, names, notes = read_users(write(tmp_path, content), columns=None, mending=mending)
    assert names == ["intercept", "age", "weight", "smoker", "age_missing", "weight_missing", "smoker_missing"]
    assert rows.shape == (5, 7)
    told = "\n".join(notes)
    for part in (
        "left out, text and not numbers: sex (f, m: --dummies makes 0/1 columns of it), note",
        "age: 1 missing",
        "1 where a value",
        "standardised: age",
    ):
        assert part in told
    assert read_users(write(tmp_path, "a\n1\n2\n"), columns=None, mending=Mending())[2] == ()


def test_text_becomes_0_1_columns_where_asked(tmp_path: Path):
    path = write(tmp_path, "ward,sex,age\n1b,f,30\n2,m,40\nicu,,50\n2,f,60\n1b,m,35\nicu,f,45\n")
    users = Empirical.from_csv(path, dummies=True, missing="drop")
    assert users.features == ("ward_2", "ward_icu", "sex_m", "age")
    np.testing.assert_array_equal(users.rows[:, 0], [0, 1, 1, 0, 0])
    np.testing.assert_array_equal(users.rows[:, 2], [0, 1, 0, 1, 0])
    marked = Empirical.from_csv(path, columns=["ward", "sex"], dummies=True, missing="indicator", standardise=True)
    assert marked.features == ("ward_2", "ward_icu", "sex_m", "sex_missing")
    np.testing.assert_array_equal(marked.rows[:, 2], [0, 1, 0.4, 0, 1, 0])  # the share of what is known, not scaled
    _, names, notes = read_users(path, columns=["sex"], mending=Mending(dummies=True, missing="mean"), wanted=["sex_f"])
    assert names == ["sex_f"]  # the belief says which value it is about
    assert notes[0] == "sex: text as 0/1 column sex_f; 0 is m"


def test_more_values_than_categories_stay_text(tmp_path: Path):
    path = write(tmp_path, "name,age\n" + "".join(f"n{k % 13},{k}\n" for k in range(40)))
    with pytest.raises(DataError, match=r"text .*Replace what should be a number, or choose other columns"):
        Empirical.from_csv(path, dummies=True)


def test_a_0_1_column_with_holes_keeps_its_scale(tmp_path: Path):
    rows = Empirical.from_csv(
        write(tmp_path, "smoker,age\n1,20\n0,30\n,40\n0,55\n"), missing="mean", standardise=True
    ).rows
    np.testing.assert_allclose(rows[:, 0], [1, 0, 1 / 3, 0])
    assert abs(rows[:, 1].mean()) < 1e-12


def test_large_figures_are_written_out(tmp_path: Path):
    mending = Mending(standardise=True)
    _, _, notes = read_users(write(tmp_path, "income,age\n41000,20\n46180,30\n"), columns=None, mending=mending)
    assert "income (x - 43,590) / 2590" in notes[0]


def test_row_numbers_are_left_out_where_text_is(tmp_path: Path):
    lines = ["patient_id,visit,age", *(f"{1000 + 7 * k},{k},{20 + k % 7}" for k in range(12))]
    path = write(tmp_path, "\n".join(lines) + "\n")
    _, names, notes = read_users(path, columns=None, mending=Mending(leave_text=True))
    assert names == ["visit", "age"]  # the name does not say that it numbers rows
    assert notes == ("columns left out, they only number the rows: patient_id",)
    assert read_users(path, columns=None, mending=Mending())[1] == ["patient_id", "visit", "age"]


def test_a_column_that_outweighs_all_others_is_named():
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(50), rng.uniform(20, 80, 50), rng.uniform(0, 1, 50)])
    names, spread = ["intercept", "age", "dose"], np.full(3, 0.5)
    note = drowning_note(rows, names, spread)
    assert note is not None
    assert "'age'" in note
    assert drowning_note(rows, names, np.array([0.5, 0.01, 0.5])) is None  # the belief knows of the scale
    assert drowning_note(rows[:, [0, 2]], ["intercept", "dose"], np.array([50.0, 0.5])) is None  # an intercept may
