"""The trial's file: read as it ships, and refused in one line where it is not that."""

from pathlib import Path

import numpy as np
import pytest

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.studies.actg import Trial, load_actg, packaged_file
from rcb_bayes.studies.actg import table as reading
from rcb_bayes.studies.actg.table import AFTER, BASELINE
from tests.studies.actg.files import made_up_table, write_table


def test_a_trial_is_what_its_table_says(tmp_path: Path) -> None:
    table = made_up_table()
    trial = load_actg(write_table(tmp_path / "t.csv", table))
    assert len(trial) == len(table)
    np.testing.assert_allclose(trial.reward, (table["cd420"] - table["cd40"]) / 100.0)
    np.testing.assert_array_equal(trial.arm, table["arms"])
    np.testing.assert_allclose(trial.features[:, 0], 1.0)
    np.testing.assert_allclose(trial.features[:, 1:].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(trial.features[:, 1:].std(axis=0), 1.0)
    np.testing.assert_allclose(np.corrcoef(trial.features[:, 1], table["cd40"])[0, 1], 1.0)
    event = load_actg(tmp_path / "t.csv", outcome="event")
    np.testing.assert_array_equal(event.reward, 1 - table["cens"])


def test_no_feature_comes_after_treatment(tmp_path: Path) -> None:
    assert not set(BASELINE) & set(AFTER)
    path = write_table(tmp_path / "t.csv")
    for name in AFTER:
        with pytest.raises(RcbError, match="comes with or after treatment"):
            load_actg(path, features=["cd40", name])


def test_the_real_file_is_the_trial(real_file: Path, real: Trial) -> None:
    counts = np.bincount(real.arm)
    np.testing.assert_array_equal(counts, [532, 522, 524, 561])
    means = [100 * real.reward[real.arm == k].mean() for k in range(4)]
    np.testing.assert_allclose(means, [-17.1, 54.4, 19.3, 26.9], atol=0.05)
    events = load_actg(real_file, outcome="event")
    np.testing.assert_allclose(
        [1 - events.reward[events.arm == k].mean() for k in range(4)], [0.340, 0.197, 0.208, 0.228], atol=5e-4
    )


def test_the_package_has_the_same_rows(real_file: Path) -> None:
    packaged = packaged_file()
    if packaged is None:
        pytest.skip("lifelines is not installed: pip install --no-deps lifelines")
    one, other = load_actg(real_file), load_actg()
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.reward, other.reward)
    np.testing.assert_array_equal(one.arm, other.arm)


def test_without_file_and_package_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PACKAGE", "no_such_package_at_all")
    with pytest.raises(DataError, match="pip install --no-deps lifelines"):
        load_actg()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns=["cd420", "arms"]), r"not the ACTG 175 file, the column 'cd420' and 1 more"),
        (lambda t: t.assign(arms=5), r"line 2, column 'arms': expected one of 0, 1, 2, 3, got '5'"),
        (lambda t: t.assign(cd40="many"), r"line 2, column 'cd40': expected a number of at least 0, got 'many'"),
        (lambda t: t.assign(cd420=np.nan), r"column 'cd420': expected a number"),
        (lambda t: t.assign(pidnum=7), r"line 3, column 'pidnum': patient 7 is there already, in line 2"),
        (lambda t: t.assign(age=40), r"feature 'age' is the same for all"),
        (lambda t: t[:0], r"column names but no rows"),
    ],
)
def test_what_is_no_trial_is_refused_in_a_line(change, message: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", change(made_up_table(20)))
    with pytest.raises(DataError, match=message) as caught:
        load_actg(path)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warfarin.csv").write_text("PharmGKB Subject ID,Gender\nPA1,male\n", encoding="utf-8")
    with pytest.raises(DataError, match="not the ACTG 175 file"):
        load_actg(tmp_path / "warfarin.csv")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"outcome": "cd8"}, "no outcome 'cd8'"),
        ({"features": ["cd04"]}, "no feature 'cd04'"),
        ({"features": []}, "No features"),
        ({"features": ["age", "age"]}, "must be distinct"),
    ],
)
def test_other_requests_are_refused(words: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(RcbError, match=message):
        load_actg(write_table(tmp_path / "t.csv"), **words)
