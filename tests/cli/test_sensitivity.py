"""``rcb sensitivity``: the figures of the Python interface, files that load, bad input."""

import json
from pathlib import Path

import pytest

import rcb_bayes
from tests.cli.command_line import Run, runner

rcb = runner("sensitivity")

SETTINGS = ("--set", "n_arms=2", "--set", "n_features=1", "--set", "mean=[0.3, 0.1]")
WORDS = ("gaussian", *SETTINGS, "--covariates", "ones.csv")
SMALL = ("--n-per-arm", "5", "--horizon", "20", "--worlds", "100", "--runs", "0", "--noise", "0.5")


@pytest.fixture(autouse=True)
def ones(tmp_path: Path) -> None:
    """Users who are alike."""
    (tmp_path / "ones.csv").write_text("feature_0\n1.0\n", encoding="utf-8")


def test_it_is_told_written_and_read_back(rcb: Run, tmp_path: Path) -> None:
    done = rcb(
        *WORDS, *SMALL, "--along", "shift:arm_0=0,2", "--along", "knows", "--out", "found", "--json", "told.json"
    )
    assert done.code in (0, 3), done.err
    found = rcb_bayes.load_sensitivity(tmp_path / "found" / "sensitivity.nc")
    assert found.summary() in done.out
    assert found["direction"].values.tolist() == ["shift:arm_0", "knows"]
    assert found["amount"].sel(amount=[0.0, 2.0]).size == 2
    assert (tmp_path / "found" / "tornado.png").exists()
    assert json.loads((tmp_path / "told.json").read_text(encoding="utf-8")) == found.figures()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--along", "shfit:arm_0"), "Did you mean 'shift:arm_0'"),
        (("--along", "noise=much"), "Amounts are numbers"),
        (("--along", "noise=-1"), "between 0 and inf"),
        (("--plan", "nowhere.json"), "nowhere.json"),
    ],
)
def test_bad_words_are_refused(rcb: Run, words: tuple[str, ...], message: str) -> None:
    done = rcb(*WORDS, *SMALL[2:], *words) if words[0] == "--plan" else rcb(*WORDS, *SMALL, *words)
    assert done.code == 2
    assert message in done.err
